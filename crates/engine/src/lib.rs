//! What moves and measures: ranks meeting (`launch`), memory and kernels (`device`), bytes between two ranks (`transport`),
//! schedules and their execution (`collective`), orders, samples and losses (`measure`). All FFI lives here.

pub mod collective;
pub mod device;
pub mod launch;
pub mod measure;
mod sync;
pub mod transport;

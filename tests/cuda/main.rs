//! The GPU's driver, memory and kernels, through the CPU shim: what a user would lose if they did not work.

mod data;
mod layout;
mod memory;
mod missing;
mod order;
#[path = "../common/shim.rs"]
mod shim;

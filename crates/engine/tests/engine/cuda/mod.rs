//! The GPU's driver, memory and kernels, through the CPU shim: what a user would lose if they did not work.

mod collective;
mod data;
mod direct;
mod layout;
mod memory;
mod missing;
mod order;
mod race;

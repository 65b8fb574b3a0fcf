//! What the hardware reports: hosts and their interfaces, RDMA ports, counters, drivers, transceivers, inventories of
//! nodes and of switches. Readers take a root path, so a tree recorded on another machine is read the same way.

pub mod command;
pub mod counters;
pub mod dcb;
pub mod devlink;
pub mod discover;
pub mod ethtool;
pub mod host;
pub mod inventory;
pub mod management;
mod netlink;
mod priorities;
pub mod rails;
pub mod rdma;
pub mod subnet;
pub mod switches;
pub mod sysfs;
pub mod transceiver;

//! The fabric in a box: hosts, rails, routers and cables as network namespaces of one machine, with faults on demand.
//!
//! What holds true: every address exists only inside namespaces that carry the lab's prefix, so the machine's own network
//! is never touched. What the lab should look like is a pure function of its shape and the faults in force (`config`);
//! a fault is applied, and healed, by computing that twice and applying the difference. `lab down` needs the prefix only.

mod apply;
mod config;
mod counters;
mod demo;
mod disturb;
mod down;
mod error;
mod exec;
mod fault;
mod fault_text;
mod faults;
mod flap;
mod folder;
mod guest;
mod inject;
mod inventory;
mod keeper;
mod mpi;
mod name;
mod neighbour_table;
mod node;
mod packets;
mod processes;
mod rank_processes;
mod routes;
mod run;
mod shape;
mod stall;
mod state;
mod status;
mod suggest;
mod switches;
mod tools;
mod up;
mod wiring;

pub use counters::{PortCounters, counters, counters_file};
pub use demo::demo;
pub use disturb::disturb;
pub use down::{down, down_all};
pub use error::LabError;
pub use exec::{Command, exec};
pub use fault::{Fault, HELP as FAULT_HELP};
pub use flap::flap;
pub use guest::{
    init as guest_init, kernel as guest_kernel, serve as guest_serve, supervise as guest_supervise,
};
pub use inject::{fault, heal, heal_all};
pub use name::LabName;
pub use node::Node;
pub use run::{Launch, Run, run};
pub use shape::Shape;
pub use stall::stall;
pub use state::Lab;
pub use status::Status;
pub use switches::switch_inventory;
pub use up::up;
pub use wiring::{Cable, Port, Wiring};

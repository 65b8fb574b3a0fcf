//! RDMA between lab hosts: real queue pairs and real RoCEv2 packets over shaped cables and ECMP routers, without any RDMA
//! hardware.
//!
//! Needs what the lab needs, the cargo feature `rdma`, and the kernel that `ci/rdma-kernel` builds; where they are missing
//! every test says so and passes.
mod faults;
mod gpus;
mod guests;
mod harness;
mod link;
mod paths;
mod runs;

//! Tables in the layout of the tools people know.

pub mod nccl_tests;
pub mod perftest;

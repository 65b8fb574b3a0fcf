//! Recorded runs judged and rendered again: kept examples, runs with known faults, damaged folders.

mod damaged_folders;
mod examples;
mod verdicts;

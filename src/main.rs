//! The `railgauge` command.

mod cli;
mod notify;

fn main() -> std::process::ExitCode {
    cli::main()
}

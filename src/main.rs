//! The `railgauge` command.

fn main() -> std::process::ExitCode {
    railgauge::cli::main()
}

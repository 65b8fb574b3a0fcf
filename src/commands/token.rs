//! `railgauge token`: a new secret for a run whose processes are started by a launcher or by hand.

use std::path::PathBuf;

use clap::Args;

use crate::error::CliError;
use engine::launch::{Token, token_source};

/// Where the token goes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  export RAILGAUGE_TOKEN=$(railgauge token)\n  railgauge token --out ~/run.token   (then: \
--token-file ~/run.token)"
)]
pub struct Arguments {
    /// Write to a new file that only its owner can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Generates a token.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let token = Token::generate().map_err(CliError::system("cannot generate a token"))?;
    match &arguments.out {
        Some(path) => {
            let cannot = CliError::system(format!("cannot write {}", path.display()));
            token_source::write(path, &token).map_err(cannot)?;
        }
        None => println!("{}", token.to_hex()),
    }
    Ok(0)
}

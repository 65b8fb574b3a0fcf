//! The decision of a burn-in for people and for the asset system: `certificate.json`, `certificate.html`, `certificate.md`, and a terminal.

mod page;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use std::io;
use std::path::Path;

use crate::{figures, replace};
use record::{Certificate, Night, burn_in_files};

/// Writes the certificate in every format into the folder of the burn-in, each file atomically. `cycles` are what courses are drawn from.
pub fn write_all(folder: &Path, certificate: &Certificate, cycles: &[Night]) -> io::Result<()> {
    let drawn = figures::cycle_chart::of_rejected(certificate, cycles)?;
    let files = [
        (burn_in_files::CERTIFICATE, json(certificate)?),
        (burn_in_files::CERTIFICATE_PAGE, page::html(certificate, &drawn)),
        (
            burn_in_files::CERTIFICATE_TEXT,
            text::markdown(certificate).map_err(io::Error::other)?,
        ),
    ];
    for (file, content) in files {
        replace(&folder.join(file), content.as_bytes())?;
    }
    Ok(())
}

/// What a terminal shows, in 24 lines or fewer.
pub fn terminal(certificate: &Certificate) -> String {
    text::terminal(certificate)
}

fn json(certificate: &Certificate) -> io::Result<String> {
    crate::json::pretty(certificate)
}

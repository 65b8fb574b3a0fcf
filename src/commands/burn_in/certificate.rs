//! The decision of a burn-in: computed from its journal and cycles, written as a certificate, and printed.

use std::path::Path;

use crate::error::CliError;
use judge::burn_in::{self, BurnInFolder, BurnInProgress, CycleStore};
use record::{BurnIn, Certificate, Night, PartReading, Readings, Ruling, burn_in_files};
use report::escape;

/// The decision so far. Cycles that finished since the last call are added to the ledger.
pub fn decide(
    folder: &BurnInFolder,
    request: &BurnIn,
    ledger: &mut CycleStore,
) -> Result<Certificate, CliError> {
    let journal = folder.read_journal()?;
    for (cycle, took) in BurnInProgress::of(&journal).finished {
        if !ledger.has(cycle) {
            ledger.add(&folder.night(cycle, took)?);
        }
    }
    let known = folder.known()?;
    Ok(burn_in::decide_on(request, &journal, ledger, &known))
}

/// Decides and writes the certificate.
pub fn write(
    folder: &BurnInFolder,
    request: &BurnIn,
    ledger: &mut CycleStore,
) -> Result<Certificate, CliError> {
    let certificate = decide(folder, request, ledger)?;
    let mut drawn: Vec<Night> = Vec::new();
    for (cycle, took) in BurnInProgress::of(&folder.read_journal()?).finished {
        let mut night = folder.night(cycle, took)?;
        keep_rejected(&mut night.readings, &certificate);
        drawn.push(night);
    }
    report::certificate::write_all(folder.path(), &certificate, &drawn)
        .map_err(CliError::system("cannot write the certificate"))?;
    Ok(certificate)
}

/// Keeps the readings of rejected parts: only those are drawn, and a day's cycles would not fit in memory otherwise.
fn keep_rejected(readings: &mut Readings, certificate: &Certificate) {
    let all = [&certificate.nodes, &certificate.links, &certificate.gpus];
    let is_rejected = |reading: &PartReading| {
        let mut parts = all.into_iter().flatten();
        parts.any(|part| {
            part.ruling == Ruling::Reject && (part.kind, &part.part) == (reading.kind, &reading.part)
        })
    };
    readings.parts.retain(is_rejected);
    readings.parts.shrink_to_fit();
    (readings.loads, readings.findings, readings.untested) = Default::default();
    readings.counters = Vec::new();
    readings.probes = None;
}

/// Whether a folder is that of a burn-in.
pub fn is_burn_in(folder: &Path) -> bool {
    folder.join(burn_in_files::BURN_IN).exists()
}

/// Decides again on a recorded burn-in and prints the decision; the exit code.
pub fn write_and_print(path: &Path, json: bool, quiet: bool) -> Result<u8, CliError> {
    let (folder, request) = BurnInFolder::open(path)?;
    let certificate = write(&folder, &request, &mut CycleStore::default())?;
    print(&certificate, &folder, json, quiet)?;
    Ok(certificate.exit_code)
}

/// Prints the decision: as JSON, as one line, or in full.
pub fn print(
    certificate: &Certificate,
    folder: &BurnInFolder,
    json: bool,
    quiet: bool,
) -> Result<(), CliError> {
    if json {
        let text = std::fs::read_to_string(folder.path().join(burn_in_files::CERTIFICATE));
        print!(
            "{}",
            text.map_err(CliError::system("cannot read the certificate"))?
        );
    } else if quiet {
        println!("{}", escape::line(&certificate.summary));
    } else {
        print!("{}", report::certificate::terminal(certificate));
        println!(
            "\n{}",
            folder.path().join(burn_in_files::CERTIFICATE_PAGE).display()
        );
    }
    Ok(())
}

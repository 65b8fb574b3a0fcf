//! Making room while a burn-in goes on: cycles older than the window are condensed.

use std::collections::BTreeSet;

use super::Burning;
use crate::cli::CliError;
use judge::burn_in::{SoFar, condense};
use judge::findings::judge;
use record::{FindingKind, Journal, Recorded, files};

impl Burning<'_> {
    /// Condenses every finished cycle that is older than the window of raw samples and was not condensed before.
    pub(super) fn make_room(&self) -> Result<(), CliError> {
        let so_far = SoFar::of(&self.folder.read_journal()?);
        let window = self.asked.criteria.raw_cycles.value as usize;
        let old = so_far.finished.len().saturating_sub(window);
        let old = so_far.finished[..old].iter().map(|(cycle, _)| *cycle);
        for cycle in old.filter(|cycle| !so_far.condensed.contains(cycle)) {
            let folder = self.folder.cycle(cycle);
            if !folder.join(files::RUN).exists() {
                continue;
            }
            let recorded = Recorded::read(&folder)?;
            let failed = CliError::system(format!("cannot condense cycle {cycle}"));
            let done = condense(&folder, &recorded, &suspects(&recorded)).map_err(failed)?;
            self.write(Journal::Condensed {
                cycle,
                samples: done.samples,
                before: done.before,
                after: done.after,
            })?;
        }
        Ok(())
    }
}

/// Cells that a finding rests on.
fn suspects(recorded: &Recorded) -> BTreeSet<u32> {
    let findings = judge(recorded).findings.into_iter();
    let counting = findings.filter(|finding| finding.kind != FindingKind::IncompleteCoverage);
    counting.flat_map(|finding| finding.cells).collect()
}

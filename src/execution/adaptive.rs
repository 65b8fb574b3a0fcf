//! Adaptive tests: the steps that `plan::diagnose` asks for, measured by the ranks of a session.

use std::sync::Arc;

use super::connection_paths::record_crossed;
use crate::error::CliError;
use engine::measure::{MeasureContext, RunFolder, Session};
use plan::FabricKnowledge;
use plan::diagnose::{DiagnosisContext, Measurer, Step, narrow};
use record::{Cell, EndReason, Event, Recorded, TestRecord};

/// Measures with the ranks of a session.
pub(super) struct SessionMeasurer<'a, 'm> {
    pub(super) session: &'a mut Session,
    pub(super) tests: &'a [TestRecord],
    pub(super) folder: &'a RunFolder,
    pub(super) known: &'a mut FabricKnowledge,
    pub(super) measuring: &'a mut MeasureContext<'m>,
}

impl Measurer for SessionMeasurer<'_, '_> {
    type Error = CliError;

    fn measure(&mut self, why: &str, cells: &[Cell]) -> Result<EndReason, CliError> {
        let added = Event::Added {
            why: why.to_string(),
            cells: cells.to_vec(),
        };
        self.measuring.sink.write(&added)?;
        self.measuring.sink.flush()?;
        self.measuring.progress.plan(cells.len());
        let of_step: Vec<&Cell> = cells.iter().collect();
        let end = self.session.measure(&of_step, self.tests, 0, self.measuring)?;
        if end == EndReason::Finished {
            let flows = cells.iter().filter(|cell| cell.probes.is_none());
            record_crossed(self.session, self.known, flows, self.measuring)?;
        }
        Ok(end)
    }

    fn recorded(&mut self) -> Result<Recorded, CliError> {
        self.measuring.sink.flush()?;
        Ok(Recorded::read(self.folder.path())?)
    }
}

/// Narrows down the suspects of each adaptive test in turn, and returns why that ended. `on_step` gets what is known before each
/// step.
pub fn narrow_adaptive_tests(
    session: &mut Session,
    tests: &[TestRecord],
    folder: &RunFolder,
    known: &mut FabricKnowledge,
    seed: u64,
    measuring: &mut MeasureContext<'_>,
    on_step: &dyn Fn(&Step),
) -> Result<EndReason, CliError> {
    for test in tests.iter().filter(|test| test.adaptive) {
        let graph = known.graph_or_inferred(&session.fabric().ranks);
        let table = Arc::clone(&known.paths);
        let setting = DiagnosisContext {
            graph: &graph,
            table: &table,
            test: &test.name,
            seed,
        };
        let mut measurer = SessionMeasurer {
            session,
            tests,
            folder,
            known,
            measuring,
        };
        let outcome = narrow(&mut measurer, &setting, &mut |step| on_step(step))?;
        if outcome.end != EndReason::Finished {
            return Ok(outcome.end);
        }
    }
    Ok(EndReason::Finished)
}

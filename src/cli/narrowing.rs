//! The narrowing of a run: what `diagnose` asks for, measured by the ranks of this session.

use super::CliError;
use engine::measure::{MeasureContext, RunFolder, Session};
use plan::Known;
use plan::diagnose::{Bench, Setting, Step, narrow};
use record::{Cell, EndReason, Event, Recorded, TestRecord};

/// Hears what is known before every step.
pub type Told<'a> = &'a dyn Fn(&Step);

/// The ranks of a session, and where their record is kept.
struct RanksAtWork<'a, 'm> {
    session: &'a mut Session,
    tests: &'a [TestRecord],
    folder: &'a RunFolder,
    measuring: &'a mut MeasureContext<'m>,
}

impl Bench for RanksAtWork<'_, '_> {
    type Error = CliError;

    fn measure(&mut self, why: &str, cells: &[Cell]) -> Result<EndReason, CliError> {
        let added = Event::Added {
            why: why.to_string(),
            cells: cells.to_vec(),
        };
        self.measuring.sink.write(&added)?;
        self.measuring.sink.flush()?;
        self.measuring.progress.plan(cells.len());
        let cells: Vec<&Cell> = cells.iter().collect();
        Ok(self.session.measure(&cells, self.tests, 0, self.measuring)?)
    }

    fn recorded(&mut self) -> Result<Recorded, CliError> {
        self.measuring.sink.flush()?;
        Ok(Recorded::read(self.folder.path())?)
    }
}

/// Tells suspects of the adaptive tests apart, one test after another. Returns why it ended.
pub fn narrow_all(
    session: &mut Session,
    tests: &[TestRecord],
    folder: &RunFolder,
    known: &Known,
    seed: u64,
    measuring: &mut MeasureContext<'_>,
    told: Told<'_>,
) -> Result<EndReason, CliError> {
    for test in tests.iter().filter(|test| test.adaptive) {
        let inferred;
        let graph = match &known.graph {
            Some(graph) => graph.as_ref(),
            None => {
                inferred = topology::graph::Graph::inferred(&session.fabric().ranks);
                &inferred
            }
        };
        let setting = Setting {
            graph,
            table: &known.paths,
            test: &test.name,
            seed,
        };
        let mut bench = RanksAtWork {
            session,
            tests,
            folder,
            measuring,
        };
        let outcome = narrow(&mut bench, &setting, &mut |step| told(step))?;
        if outcome.end != EndReason::Finished {
            return Ok(outcome.end);
        }
    }
    Ok(EndReason::Finished)
}

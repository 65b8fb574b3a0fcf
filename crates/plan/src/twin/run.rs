//! A run measured by the twin: cells in, record out, nothing on disk.

use std::convert::Infallible;

use super::Twin;
use crate::diagnose::Measurer;
use crate::probes::ProbeMeasurer;
use record::{Cell, EndReason, Event, ProbeFlow, Recorded, Run};

/// A run on the twin, and what is recorded of it so far.
pub struct TwinRun<'g> {
    twin: Twin<'g>,
    recorded: Recorded,
    log: Option<Vec<Event>>,
}

impl<'g> TwinRun<'g> {
    /// A run that is about to begin. `topology` is the text of its topology file.
    pub fn new(twin: Twin<'g>, run: Run, topology: Option<String>) -> TwinRun<'g> {
        let recorded = Recorded {
            topology,
            ..Recorded::new(run)
        };
        TwinRun {
            twin,
            recorded,
            log: None,
        }
    }

    /// Keeps every event in the order in which it happened, too, so that it can be written down.
    pub fn with_log(mut self) -> TwinRun<'g> {
        self.log = Some(Vec::new());
        self
    }

    /// Measures cells of the record, or some of them again.
    pub fn measure_round(&mut self, cells: &[Cell], round: u16) {
        for of_test in cells.chunk_by(|a, b| a.test == b.test) {
            let name = &of_test[0].test;
            let Some(test) = self.recorded.run.tests.iter().find(|test| test.name == *name) else {
                continue;
            };
            let cells: Vec<&Cell> = of_test.iter().collect();
            let events = self.twin.measure(&cells, test, round);
            events.into_iter().for_each(|event| self.record_event(event));
        }
    }

    /// Everything recorded so far.
    pub fn recorded_so_far(&self) -> &Recorded {
        &self.recorded
    }

    /// The whole record, and every event in order when it kept them.
    pub fn end(mut self, at: String) -> (Recorded, Vec<Event>) {
        let reason = EndReason::Finished;
        self.record_event(Event::End { reason, at });
        (self.recorded, self.log.unwrap_or_default())
    }

    fn record_event(&mut self, event: Event) {
        if let Some(log) = &mut self.log {
            log.push(event.clone());
        }
        match event {
            Event::Sample(sample) => self.recorded.samples.push(sample),
            other => self.recorded.events.push(other),
        }
    }
}

impl Measurer for TwinRun<'_> {
    type Error = Infallible;

    fn measure(&mut self, why: &str, cells: &[Cell]) -> Result<EndReason, Infallible> {
        self.record_event(Event::Added {
            why: why.to_string(),
            cells: cells.to_vec(),
        });
        self.recorded.run.cells.extend_from_slice(cells);
        self.measure_round(cells, 0);
        Ok(EndReason::Finished)
    }

    fn recorded(&mut self) -> Result<Recorded, Infallible> {
        Ok(self.recorded.clone())
    }
}

impl ProbeMeasurer for TwinRun<'_> {
    fn trace(&mut self, mut flows: Vec<ProbeFlow>) -> Result<Vec<ProbeFlow>, Infallible> {
        self.twin.tell_paths(&mut flows);
        Ok(flows)
    }

    fn can_send(&self, _: &ProbeFlow) -> bool {
        true
    }
}

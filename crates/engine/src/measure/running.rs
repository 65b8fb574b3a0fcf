//! One cell while it is measured: what its ranks have answered so far.

use record::stats::{Sorted, median_of_sorted};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, CellDone, FlowRecord, LinkTraffic, StopReason, StreamRecord};

/// What one cell came to.
pub(super) struct Outcome {
    pub times: Sorted,
    pub wrong: Option<u64>,
    pub rate: Option<Rate>,
}

/// One cell while it is measured.
pub(super) struct Running<'a> {
    pub cell: &'a Cell,
    pub planned: Vec<LinkTraffic>,
    pub moved: Vec<LinkTraffic>,
    pub flows: Vec<FlowRecord>,
    pub streams: Vec<StreamRecord>,
    pub times: Sorted,
    /// Slowest rank of the current iteration.
    pub slowest: Nanos,
    pub starts: Vec<Nanos>,
    pub max_skew: Nanos,
    pub iterations: u32,
    pub verified: u32,
    pub all_checked: bool,
    pub wrong: u64,
}

impl<'a> Running<'a> {
    /// Nothing measured yet; `planned` is what the schedule puts on each link.
    pub fn new(cell: &'a Cell, planned: Vec<LinkTraffic>) -> Running<'a> {
        Running {
            cell,
            planned,
            moved: Vec::new(),
            flows: Vec::new(),
            streams: Vec::new(),
            times: Sorted::default(),
            slowest: Nanos(0),
            starts: Vec::new(),
            max_skew: Nanos(0),
            iterations: 0,
            verified: 0,
            all_checked: true,
            wrong: 0,
        }
    }

    /// Every rank has answered: the slowest one's time is the collective's.
    pub fn close_iteration(&mut self) {
        self.times.insert(self.slowest.0);
        let (first, last) = (self.starts.iter().min(), self.starts.iter().max());
        if let (Some(first), Some(last)) = (first, last) {
            self.max_skew = self.max_skew.max(last.since(*first));
        }
        self.iterations += 1;
        self.verified += u32::from(self.all_checked);
        self.all_checked = true;
        self.slowest = Nanos(0);
        self.starts.clear();
    }

    /// Puts together what the two ends know of the cell's streams: the sender why one could not be made, the receiver what arrived.
    pub fn merge_streams(&mut self, said: &[StreamRecord]) {
        for record in said {
            match self
                .streams
                .iter_mut()
                .find(|known| known.stream == record.stream)
            {
                None => self.streams.push(record.clone()),
                Some(known) => {
                    known.port = known.port.or(record.port);
                    let from_receiver = !record.bytes.is_empty();
                    if from_receiver {
                        known.bytes.clone_from(&record.bytes);
                    }
                    match (&known.problem, &record.problem) {
                        // That it never came is what the receiver sees of whatever the sender says.
                        (Some(_), Some(problem)) if !from_receiver => known.problem = Some(problem.clone()),
                        (None, Some(problem)) => known.problem = Some(problem.clone()),
                        _ => {}
                    }
                }
            }
        }
        self.streams.sort_by_key(|record| record.stream);
    }

    /// What is recorded when its iterations are complete.
    pub fn done(&self, round: u16, stop: StopReason) -> CellDone {
        let sorted = |moved: &[LinkTraffic]| {
            let mut moved = moved.to_vec();
            moved.sort_by(|a, b| (a.from, a.to, &a.rail).cmp(&(b.from, b.to, &b.rail)));
            moved
        };
        let mut flows = self.flows.clone();
        flows.sort_by(|a, b| (a.from, a.to, &a.rail, a.flow).cmp(&(b.from, b.to, &b.rail, b.flow)));
        CellDone {
            cell: self.cell.id,
            round,
            iterations: self.iterations,
            verified: self.verified,
            stop,
            max_skew_ns: self.max_skew,
            planned: sorted(&self.planned),
            moved: sorted(&self.moved),
            flows,
            streams: self.streams.clone(),
        }
    }

    /// What the busiest link carried per iteration, over the median time.
    fn rate(&self) -> Option<Rate> {
        if let Some(terms) = &self.cell.streams {
            let bytes: u64 = self.streams.iter().flat_map(|stream| &stream.bytes).sum();
            let watched = Nanos(terms.window.0 * u64::from(self.iterations));
            return Rate::of(Bytes(bytes), watched);
        }
        let busiest = self.planned.iter().map(|moved| moved.bytes).max()?;
        let median = median_of_sorted(self.times.as_slice())?;
        Rate::of(busiest, Nanos(median as u64))
    }

    /// What whoever watches is told.
    pub fn outcome(self) -> Outcome {
        let wrong = (self.verified > 0).then_some(self.wrong);
        Outcome {
            wrong,
            rate: self.rate(),
            times: self.times,
        }
    }

    /// Where it stands, in words.
    pub fn doing(&self) -> String {
        format!("iteration {} of {}", self.iterations, self.cell.describe())
    }
}

//! One cell while it is measured, as the coordinator sees it.

use record::stats::{Sorted, median_of_sorted};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, CellDone, FlowRecord, LinkTraffic, StopReason, StreamRecord, TcpFlow};

/// The result of one cell.
pub(super) struct CellSummary {
    pub times: Sorted,
    pub wrong: Option<u64>,
    pub rate: Option<Rate>,
}

/// A cell while it is measured.
pub(super) struct CellProgress<'a> {
    pub cell: &'a Cell,
    pub planned: Vec<LinkTraffic>,
    pub moved: Vec<LinkTraffic>,
    pub flows: Vec<FlowRecord>,
    pub tcp: Vec<TcpFlow>,
    pub streams: Vec<StreamRecord>,
    pub times: Sorted,
    /// Slowest rank of the current iteration.
    pub slowest: Nanos,
    pub starts: Vec<Nanos>,
    pub max_skew: Nanos,
    /// By how much that may really have been more.
    pub unseen_skew: Nanos,
    pub iterations: u32,
    pub verified: u32,
    pub all_checked: bool,
    pub wrong: u64,
}

impl<'a> CellProgress<'a> {
    /// Nothing measured yet; `planned` is what the schedule puts on each link.
    pub fn new(cell: &'a Cell, planned: Vec<LinkTraffic>) -> CellProgress<'a> {
        CellProgress {
            cell,
            planned,
            moved: Vec::new(),
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: Vec::new(),
            times: Sorted::default(),
            slowest: Nanos(0),
            starts: Vec::new(),
            max_skew: Nanos(0),
            unseen_skew: Nanos(0),
            iterations: 0,
            verified: 0,
            all_checked: true,
            wrong: 0,
        }
    }

    /// Every rank has answered: the slowest one's time is the collective's. `unseen_skew` is how much further apart than known they
    /// may have started.
    pub fn close_iteration(&mut self, unseen_skew: Nanos) {
        self.unseen_skew = self.unseen_skew.max(unseen_skew);
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

    /// Merges what the two ends of the cell's streams report: the sender why one could not connect, the receiver what arrived.
    pub fn merge_streams(&mut self, reported: &[StreamRecord]) {
        for record in reported {
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
                        // The receiver sees only that it never came; the sender knows why.
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
        let mut tcp = self.tcp.clone();
        tcp.sort_by(|a, b| (a.from, a.to, &a.rail, a.flow).cmp(&(b.from, b.to, &b.rail, b.flow)));
        CellDone {
            cell: self.cell.id,
            round,
            iterations: self.iterations,
            verified: self.verified,
            stop,
            max_skew_ns: self.max_skew,
            unseen_skew_ns: Some(self.unseen_skew),
            planned: sorted(&self.planned),
            moved: sorted(&self.moved),
            flows,
            tcp,
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
        let busiest = LinkTraffic::busiest(&self.planned)?;
        let median = median_of_sorted(self.times.as_slice())?;
        Rate::of(busiest, Nanos(median as u64))
    }

    /// The result, for progress output.
    pub fn summary(self) -> CellSummary {
        let wrong = (self.verified > 0).then_some(self.wrong);
        CellSummary {
            wrong,
            rate: self.rate(),
            times: self.times,
        }
    }

    /// The current iteration, as text.
    pub fn describe(&self) -> String {
        format!("iteration {} of {}", self.iterations, self.cell.describe())
    }
}

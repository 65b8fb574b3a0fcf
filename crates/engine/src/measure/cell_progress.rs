//! One cell while it is measured, as the coordinator sees it.

use std::collections::HashMap;

use crate::collective::ProbeReport;
use record::stats::{Sorted, median_of_sorted};
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, CellDone, FlowRecord, LinkTraffic, ProbeCounts, StopReason, StreamRecord, TcpFlow};

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
    /// What both ends of its probes report.
    pub probes: Vec<ProbeReport>,
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
            probes: Vec::new(),
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
            probes: probe_counts(&self.probes),
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

/// What became of probes, by what both ends of each flow report; in the order of flows. A flow of which one end said nothing is left out.
fn probe_counts(reports: &[ProbeReport]) -> Vec<ProbeCounts> {
    let mut sent: HashMap<u32, &ProbeReport> = HashMap::new();
    sent.extend(
        reports
            .iter()
            .filter(|report| report.arrived.is_none())
            .map(|report| (report.flow, report)),
    );
    let counts = |report: &ProbeReport| {
        let arrived = report.arrived.as_ref()?;
        let sent = &sent.get(&report.flow)?.sent;
        let iterations = sent.len().min(arrived.missing.len());
        let mut counts = ProbeCounts {
            flow: report.flow,
            sent: sent[..iterations].to_vec(),
            duplicated: arrived.duplicated,
            reordered: arrived.reordered,
            dropped_at_receiver: arrived.dropped.iter().copied().map(u64::from).sum(),
            typical_ns: arrived.typical_ns.clone(),
            worst_ns: arrived.worst_ns.clone(),
            ..ProbeCounts::default()
        };
        for (number, sent) in counts.sent.iter().enumerate() {
            let (missing, in_queue) = (arrived.missing[number], arrived.in_queue[number]);
            let unsent = arrived.expected.saturating_sub(*sent);
            let known = unsent
                .saturating_add(in_queue)
                .saturating_add(arrived.dropped[number]);
            counts.lost.push(missing.saturating_sub(known).min(*sent));
            // What was not sent is missing, too, and may lie beside packets that waited.
            let lost = missing.saturating_sub(unsent).min(*sent);
            counts.lost_in_queue.push(in_queue.min(lost));
        }
        if counts.lost_in_queue.iter().all(|lost| *lost == 0) {
            counts.lost_in_queue.clear();
        }
        Some(counts)
    };
    let mut found: Vec<ProbeCounts> = reports.iter().filter_map(counts).collect();
    found.sort_by_key(|counts| counts.flow);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::ProbeArrivals;

    #[test]
    fn a_probe_is_lost_when_it_was_sent_and_neither_a_queue_nor_a_socket_explains_it() {
        let sender = ProbeReport {
            flow: 4,
            sent: vec![10, 8, 10],
            arrived: None,
        };
        let arrived = ProbeArrivals {
            expected: 10,
            missing: vec![3, 3, 5],
            in_queue: vec![0, 3, 0],
            dropped: vec![0, 0, 4],
            typical_ns: vec![1, 1, 1],
            worst_ns: vec![5, 6, 7],
            ..ProbeArrivals::default()
        };
        let receiver = ProbeReport {
            flow: 4,
            sent: Vec::new(),
            arrived: Some(arrived),
        };
        let alone = ProbeReport {
            flow: 1,
            ..receiver.clone()
        };
        let counts = probe_counts(&[receiver, alone, sender]);
        assert_eq!(counts.len(), 1, "of flow 1 the sender said nothing");
        assert_eq!((counts[0].flow, counts[0].lost.as_slice()), (4, &[3, 0, 1][..]));
        assert_eq!(counts[0].lost_in_queue, [0, 1, 0]);
        assert_eq!((counts[0].packets(), counts[0].losses()), (28, 4));
    }
}

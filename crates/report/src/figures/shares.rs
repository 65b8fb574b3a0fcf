//! What share of what it should reach a cell reached: what heat map, pair matrix and timeline are made of.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::stats::median;
use record::units::Bytes;
use record::{CellVerdict, Collective, FindingKind, Judgement, Load, Recorded, Reference, Verdict};

/// The share of every cell of a judgement, in its order: of what a spec or an earlier run demands, else of the median of all cells that
/// measure the same on any part and did not fail. None where neither is known, or nothing was measured.
///
/// A verdict compares a cell with its peers without itself; here it counts as one of them, and what failed does not: one slow part among
/// few would make the others look better than they can be.
pub(super) fn of_cells(recorded: &Recorded, judgement: &Judgement) -> Vec<Option<f64>> {
    let is_absolute = |reference: &Reference| !matches!(reference, Reference::Peers { .. });
    let absolute: BTreeSet<&str> = recorded
        .run
        .tests
        .iter()
        .filter(|test| test.references.iter().any(is_absolute))
        .map(|test| test.name.as_str())
        .collect();
    let mut peers = BTreeMap::new();
    for cell in &judgement.cells {
        if let Some(rate) = cell.wire_rate {
            let rates: &mut [Vec<f64>; 2] = peers.entry(cell.cell.peer_key()).or_default();
            rates[usize::from(failed(cell))].push(rate.median.0);
        }
    }
    let middle: BTreeMap<_, f64> = peers
        .into_iter()
        .filter(|(_, [good, bad])| good.len() + bad.len() > 1)
        .filter_map(|(key, [good, bad])| Some((key, median(if good.is_empty() { &bad } else { &good })?)))
        .collect();
    let cells = judgement.cells.iter();
    cells
        .map(|cell| {
            let measured = cell.wire_rate?.median.0;
            let demanded = cell.expected.map(|rate| rate.0);
            let of_peers = middle.get(&cell.cell.peer_key()).copied();
            let expected = match absolute.contains(cell.cell.test.as_str()) {
                true => demanded.or(of_peers),
                false => of_peers.or(demanded),
            }?;
            let share = measured / expected;
            (expected > 0.0 && share.is_finite()).then_some(share)
        })
        .collect()
}

/// Positions of the cells with a share that tell about throughput: the largest message of every test and kind of measurement, without
/// others on the wire, and round trips only where there is nothing else.
pub(super) fn telling(judgement: &Judgement, shares: &[Option<f64>]) -> Vec<usize> {
    let measured = || (0..judgement.cells.len()).filter(|at| shares.get(*at).copied().flatten().is_some());
    let of = |at: usize| &judgement.cells[at].cell;
    let mut largest: BTreeMap<(&str, Collective), Bytes> = BTreeMap::new();
    for cell in measured().map(of) {
        let known = largest.entry((&cell.test, cell.collective)).or_insert(cell.size);
        *known = cell.size.max(*known);
    }
    let is_largest = |at: &usize| {
        let cell = of(*at);
        largest.get(&(cell.test.as_str(), cell.collective)) == Some(&cell.size)
            && cell.collective.is_scheduled()
    };
    let alone: BTreeSet<&str> = measured()
        .map(of)
        .filter(|cell| cell.load == Load::Alone)
        .map(|cell| cell.test.as_str())
        .collect();
    let is_clear = |at: &usize| of(*at).load == Load::Alone || !alone.contains(of(*at).test.as_str());
    let all: Vec<usize> = measured().filter(is_largest).filter(is_clear).collect();
    let is_rate = |at: &&usize| of(**at).collective != Collective::RoundTrip;
    let rates: Vec<usize> = all.iter().filter(is_rate).copied().collect();
    if rates.is_empty() { all } else { rates }
}

/// The hosts of a run in their order, and where each rank is.
pub(super) struct Hosts<'a> {
    /// Names.
    pub(super) names: Vec<&'a str>,
    of_rank: HashMap<u32, usize>,
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Hosts<'a> {
    /// Those of a run.
    pub(super) fn of(recorded: &'a Recorded) -> Hosts<'a> {
        let mut hosts = Hosts {
            names: Vec::new(),
            of_rank: HashMap::new(),
            by_name: HashMap::new(),
        };
        let listed = recorded.run.hosts.iter().map(|host| host.name.as_str());
        for name in listed {
            hosts.number(name);
        }
        for rank in &recorded.run.ranks {
            let number = hosts.number(&rank.host);
            hosts.of_rank.entry(rank.rank).or_insert(number);
        }
        hosts
    }

    fn number(&mut self, name: &'a str) -> usize {
        let next = self.names.len();
        let number = *self.by_name.entry(name).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }

    /// The host of a rank.
    pub(super) fn of_rank(&self, rank: u32) -> Option<usize> {
        self.of_rank.get(&rank).copied()
    }

    /// The host of that name.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Hosts that findings accuse by name, worst first, each once. A finding about most of a fabric accuses none of its hosts.
    pub(super) fn accused(&self, judgement: &Judgement) -> Vec<usize> {
        let mut accused = Vec::new();
        let mut known = vec![false; self.names.len()];
        let about_parts = judgement.findings.iter().filter(|finding| {
            !matches!(
                finding.kind,
                FindingKind::Drift
                    | FindingKind::Changed
                    | FindingKind::UnclearDrift
                    | FindingKind::IncompleteCoverage
            )
        });
        for finding in about_parts {
            let hosts = &finding.place.hosts;
            let few = hosts.len() <= 2 || hosts.len() * 4 <= self.names.len();
            for host in hosts.iter().filter(|_| few).filter_map(|host| self.named(host)) {
                if !std::mem::replace(&mut known[host], true) {
                    accused.push(host);
                }
            }
        }
        accused
    }
}

/// Whether a cell failed.
pub(super) fn failed(cell: &CellVerdict) -> bool {
    matches!(cell.verdict, Verdict::Fail(_))
}

//! Links and ends of rails, from flows between two ranks; GPUs, from flows over the memory that they share.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::identity::Identities;
use super::{ReadingSet, reading};
use record::units::Bytes;
use record::{
    Cell, CellVerdict, Collective, EndDirection, Interval, Judgement, Load, PartKind, PartReading, Quantity,
    RailEndName, Recorded, TransportKind,
};

/// Messages up to here are about latency.
const SMALL: Bytes = Bytes(8192);

/// Adds what flows say.
pub(super) fn read(
    recorded: &Recorded,
    judgement: &Judgement,
    identities: &Identities<'_>,
    kept: &mut ReadingSet,
) {
    let hosts: HashMap<u32, &str> = recorded
        .run
        .ranks
        .iter()
        .map(|rank| (rank.rank, rank.host.as_str()))
        .collect();
    let gpus: HashMap<u32, &str> = recorded
        .run
        .ranks
        .iter()
        .filter_map(|rank| Some((rank.rank, rank.gpu.as_ref()?.uuid.as_str())))
        .collect();
    let rates: HashMap<&str, f64> = judgement
        .coverage
        .links
        .iter()
        .filter(|link| link.rate.0 > 0.0)
        .map(|link| (link.link.as_str(), link.rate.0))
        .collect();
    let slots = Slots::of(judgement, &hosts);
    for verdict in &judgement.cells {
        let cell = &verdict.cell;
        let [from, to] = cell.ranks[..] else { continue };
        if let (TransportKind::Peer | TransportKind::Shm, Some(rate)) = (cell.transport, large_rate(verdict))
        {
            let uuids = [gpus.get(&from), gpus.get(&to)];
            let alone = cell.load == Load::Alone || slots.cells(cell.slot) == 1;
            for uuid in uuids.into_iter().flatten().filter(|_| alone) {
                kept.add(reading(
                    PartKind::Gpu,
                    uuid.to_string(),
                    Quantity::Bandwidth,
                    rate,
                ));
            }
        }
        let ([rail], None) = (cell.rails.as_slice(), &cell.to_rail) else {
            continue;
        };
        let (Some(out), Some(into)) = (hosts.get(&from), hosts.get(&to)) else {
            continue;
        };
        if out == into || slots.disturbed.contains(&cell.slot) {
            continue;
        }
        if let Some(latency) = latency(verdict) {
            for host in [out, into] {
                let of = reading(
                    PartKind::RailEnd,
                    RailEndName::both(host, rail).to_string(),
                    Quantity::Latency,
                    latency,
                );
                kept.add(PartReading {
                    identity: identities.rail_end(host, rail),
                    ..of
                });
            }
        }
        let Some(rate) = large_rate(verdict) else { continue };
        for end in ends_of(cell, &hosts) {
            if slots.is_alone_at(cell, end) {
                let of = reading(PartKind::RailEnd, end.to_string(), Quantity::Bandwidth, rate);
                // The link of a rail end is the first or the last of the path, of which only one direction is known.
                let link = match end.direction {
                    Some(EndDirection::Out) if end.host == *out => cell.path.first(),
                    Some(EndDirection::In) if end.host == *into => cell.path.last(),
                    _ => None,
                };
                kept.add(PartReading {
                    expected: link.and_then(|link| rates.get(link.as_str()).copied()),
                    identity: identities.rail_end(end.host, end.rail),
                    ..of
                });
            }
        }
        let last = cell.path.len().saturating_sub(1);
        for (at, link) in cell.path.iter().enumerate() {
            if !slots.is_alone_on(cell, link) {
                continue;
            }
            let host = match at {
                0 => Some(*out),
                at if at == last => Some(*into),
                _ => None,
            };
            kept.add(PartReading {
                expected: rates.get(link.as_str()).copied(),
                identity: identities.link(link, host.map(|host| (host, rail.as_str()))),
                ..reading(PartKind::Link, link.clone(), Quantity::Bandwidth, rate)
            });
        }
    }
}

/// What a flow of a size at which bandwidth matters reached.
fn large_rate(verdict: &CellVerdict) -> Option<Interval<f64>> {
    let is_flow = matches!(
        verdict.cell.collective,
        Collective::PointToPoint | Collective::Bidirectional
    );
    let rate = verdict
        .wire_rate
        .filter(|_| is_flow && verdict.cell.size > SMALL)?;
    Some(Interval {
        median: rate.median.0,
        lower: rate.lower.0,
        upper: rate.upper.0,
    })
}

/// How long a small message took there and back.
fn latency(verdict: &CellVerdict) -> Option<Interval<f64>> {
    let is_small = verdict.cell.collective == Collective::RoundTrip && verdict.cell.size <= SMALL;
    let time = verdict.time.filter(|_| is_small)?;
    Some(Interval {
        median: time.median.0 as f64,
        lower: time.lower.0 as f64,
        upper: time.upper.0 as f64,
    })
}

/// The ends of rails that a cell of two ranks sends from or receives at.
fn ends_of<'a>(cell: &'a Cell, hosts: &HashMap<u32, &'a str>) -> Vec<RailEndName<'a>> {
    let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
        return Vec::new();
    };
    let (Some(from), Some(to)) = (hosts.get(from), hosts.get(to)) else {
        return Vec::new();
    };
    let mut ends = vec![RailEndName::out(from, rail), RailEndName::into(to, rail)];
    if matches!(cell.collective, Collective::Bidirectional | Collective::RoundTrip) {
        ends.extend([RailEndName::out(to, rail), RailEndName::into(from, rail)]);
    }
    ends
}

/// Which cells shared which ends and links: cells of one slot ran at the same time.
struct Slots<'a> {
    cells: HashMap<u32, u32>,
    /// Slots in which something ran that is not a flow: what flows reach beside it says nothing.
    disturbed: HashSet<u32>,
    at_end: HashMap<(u32, RailEndName<'a>), u32>,
    on_link: HashMap<(u32, &'a str), u32>,
}

impl<'a> Slots<'a> {
    fn of(judgement: &'a Judgement, hosts: &HashMap<u32, &'a str>) -> Slots<'a> {
        let mut slots = Slots {
            cells: HashMap::new(),
            disturbed: HashSet::new(),
            at_end: HashMap::new(),
            on_link: HashMap::new(),
        };
        // A slot may be numbered anew after a loss: what ran alone is alone whatever its number.
        let together: BTreeMap<u32, &Cell> = judgement
            .cells
            .iter()
            .map(|verdict| &verdict.cell)
            .filter(|cell| cell.load == Load::Together)
            .map(|cell| (cell.id, cell))
            .collect();
        for cell in together.into_values() {
            *slots.cells.entry(cell.slot).or_default() += 1;
            let is_flow = cell.collective.is_pairwise() && cell.rails.len() <= 1 && cell.to_rail.is_none();
            if !is_flow || !cell.collective.is_scheduled() {
                slots.disturbed.insert(cell.slot);
            }
            for end in ends_of(cell, hosts) {
                *slots.at_end.entry((cell.slot, end)).or_default() += 1;
            }
            for link in &cell.path {
                *slots.on_link.entry((cell.slot, link)).or_default() += 1;
            }
        }
        slots
    }

    fn cells(&self, slot: u32) -> u32 {
        self.cells.get(&slot).copied().unwrap_or(1)
    }

    fn is_alone_at(&self, cell: &Cell, end: RailEndName<'_>) -> bool {
        cell.load == Load::Alone || self.at_end.get(&(cell.slot, end)).is_none_or(|users| *users <= 1)
    }

    fn is_alone_on(&self, cell: &Cell, link: &str) -> bool {
        cell.load == Load::Alone
            || self
                .on_link
                .get(&(cell.slot, link))
                .is_none_or(|users| *users <= 1)
    }
}

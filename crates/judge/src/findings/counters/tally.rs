//! What the counters of rail ends did over some cells.
//!
//! A rail end is one host's connection to one rail, however many ranks read it: per slot and round the largest
//! movement that any rank read counts once. Whether a counter is known is decided over the whole run, because one
//! that stands still is written only once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::findings::run_index::RunIndex;
use record::counters::{COUNTERS, CounterKind, CounterSource, CounterUnit, named};
use record::units::Nanos;
use record::{CounterDelta, CounterState, Event, Movement};

/// By how much one counter moved in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::findings) struct CounterIncrease {
    /// This much.
    pub(in crate::findings) by: u64,
    /// Or more: the counter is saturated.
    pub(in crate::findings) or_more: bool,
    /// Cells in which it moved.
    pub(in crate::findings) cells: BTreeSet<u32>,
}

impl CounterIncrease {
    /// `+17`, `at least +17`.
    pub(in crate::findings) fn words(&self) -> String {
        match self.or_more {
            true => format!("at least +{}", self.by),
            false => format!("+{}", self.by),
        }
    }
}

/// One end of a rail.
#[derive(Debug, Default)]
pub(in crate::findings) struct EndCounters<'a> {
    /// Ranks that read it.
    pub(in crate::findings) ranks: BTreeSet<u32>,
    /// Counters that moved, and by how much. Traffic is among them.
    pub(in crate::findings) moved: BTreeMap<&'a str, CounterIncrease>,
    /// Counters that exist.
    pub(in crate::findings) known: BTreeSet<&'a str>,
    /// Counters that do not, and why.
    pub(in crate::findings) missing: BTreeMap<&'a str, &'a CounterState>,
    /// How long it was watched; zero in runs that did not record it.
    pub(in crate::findings) watched: Nanos,
    /// Speed of its link.
    pub(in crate::findings) speed_mbit: Option<u64>,
}

/// The ends of rails, by rail and host.
pub(in crate::findings) type CountersByEnd<'a> = BTreeMap<(&'a str, &'a str), EndCounters<'a>>;

/// Which counters to look at.
pub(in crate::findings) struct CounterQuery<'q> {
    /// Of this rail only.
    pub(in crate::findings) rail: Option<&'q str>,
    /// Movements in these cells only.
    pub(in crate::findings) cells: Option<&'q [u32]>,
    /// Of hosts with these ranks.
    pub(in crate::findings) concerns: &'q dyn Fn(u32) -> bool,
}

impl CounterQuery<'_> {
    /// Everything.
    pub(in crate::findings) const ALL: CounterQuery<'static> = CounterQuery {
        rail: None,
        cells: None,
        concerns: &|_| true,
    };
}

/// The counters of the ends that match a query.
pub(in crate::findings) fn ends<'a>(index: &RunIndex<'a>, query: &CounterQuery<'_>) -> CountersByEnd<'a> {
    let run = index.run();
    let hosts: HashMap<u32, &str> = run
        .ranks
        .iter()
        .map(|record| (record.rank, record.host.as_str()))
        .collect();
    let cells: Option<HashSet<u32>> = query.cells.map(|cells| cells.iter().copied().collect());
    let mut ends: Vec<((&str, &str), EndCounters<'a>)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    // By end, counter, slot and round: all ranks that read it then read the same counter.
    let mut largest: HashMap<(usize, &str, u32, u16), CounterIncrease> = HashMap::new();
    let mut longest: HashMap<(usize, u32, u16), Nanos> = HashMap::new();
    for event in &index.recorded.events {
        let Event::Counter(delta) = event else { continue };
        let is_asked = query.rail.is_none_or(|rail| rail == delta.rail) && (query.concerns)(delta.rank);
        let Some(host) = hosts.get(&delta.rank).filter(|_| is_asked) else {
            continue;
        };
        let name = (delta.rail.as_str(), *host);
        let place = *places.entry(name).or_insert_with(|| {
            ends.push((name, EndCounters::default()));
            ends.len() - 1
        });
        ends[place].1.note(delta);
        if cells.as_ref().is_some_and(|cells| !cells.contains(&delta.cell)) {
            continue;
        }
        let slot = index.slot(delta.cell);
        let time = longest.entry((place, slot, delta.round)).or_default();
        *time = delta.ns.unwrap_or_default().max(*time);
        let movement = delta.movement();
        let Some(by) = movement.at_least().filter(|by| *by > 0) else {
            continue;
        };
        let moved = largest
            .entry((place, &delta.name, slot, delta.round))
            .or_default();
        moved.by = moved.by.max(by);
        moved.or_more |= matches!(movement, Movement::AtLeast(_));
        moved.cells.insert(delta.cell);
    }
    for ((place, name, ..), moved) in largest {
        let sum = ends[place].1.moved.entry(name).or_default();
        sum.by = sum.by.saturating_add(moved.by);
        sum.or_more |= moved.or_more;
        sum.cells.extend(moved.cells);
    }
    for ((place, ..), time) in longest {
        let watched = &mut ends[place].1.watched;
        *watched = *watched + time;
    }
    for record in &run.ranks {
        for rail in &record.rails {
            if let Some(place) = places.get(&(rail.rail.as_str(), record.host.as_str())) {
                let speed = &mut ends[*place].1.speed_mbit;
                *speed = speed.or(rail.speed_mbit);
            }
        }
    }
    ends.into_iter().collect()
}

impl<'a> EndCounters<'a> {
    /// Notes who read the counter and whether it exists.
    fn note(&mut self, delta: &'a CounterDelta) {
        let name = delta.name.as_str();
        self.ranks.insert(delta.rank);
        if delta.state == CounterState::Present {
            if delta.before.is_some() && delta.after.is_some() {
                self.known.insert(name);
                self.missing.remove(name);
            }
        } else {
            self.known.remove(name);
            self.missing.insert(name, &delta.state);
        }
    }

    /// Counters other than traffic that moved, by name.
    pub(in crate::findings) fn trouble(&self) -> impl Iterator<Item = (&'a str, &CounterIncrease)> {
        let moved = self.moved.iter().filter(|(_, moved)| moved.by > 0);
        moved
            .filter(|(name, _)| !record::counters::is_traffic(name))
            .map(|(name, moved)| (*name, moved))
    }

    /// Whether a counter of that kind exists.
    pub(in crate::findings) fn knows(&self, kind: CounterKind) -> bool {
        let mut known = self.known.iter().filter_map(|name| named(name));
        known.any(|counter| counter.kind == kind)
    }

    /// Bits that its link could carry while it was watched, or did carry where its speed is not known.
    pub(in crate::findings) fn bits(&self) -> Option<f64> {
        let could = self
            .speed_mbit
            .map(|speed| speed as f64 * 1e6 * self.watched.as_secs_f64());
        let did = self.moved.iter().filter_map(|(name, moved)| {
            let counter = named(name).filter(|counter| counter.kind == CounterKind::Traffic)?;
            let bits = match counter.unit {
                CounterUnit::Bytes => 8.0,
                CounterUnit::Words => 32.0,
                _ => return None,
            };
            Some(moved.by as f64 * bits)
        });
        let most = could.into_iter().chain(did).fold(0.0, f64::max);
        Some(most).filter(|bits| *bits > 0.0)
    }

    /// Packets that it sent and received.
    pub(in crate::findings) fn packets(&self) -> Option<f64> {
        let of_source = |source: CounterSource| {
            let of_packets = COUNTERS.iter().filter(|counter| {
                let is_traffic = counter.kind == CounterKind::Traffic && counter.unit == CounterUnit::Packets;
                is_traffic && counter.source == source
            });
            let moved = of_packets.filter_map(|counter| self.moved.get(counter.name));
            moved.map(|moved| moved.by as f64).sum::<f64>()
        };
        let sources = [
            CounterSource::Interface,
            CounterSource::Port,
            CounterSource::Hardware,
            CounterSource::Ethtool,
        ];
        let most = sources.into_iter().map(of_source).fold(0.0, f64::max);
        Some(most).filter(|packets| *packets > 0.0)
    }
}

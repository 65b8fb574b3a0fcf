//! From readings before, during and after a cell to what is recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::{CounterSnapshot, Unreadable};
use record::units::Nanos;
use record::{ClockLimit, GpuCounter, GpuDuring, GpuLinks, GpuMoment, GpuReading};

/// Everything the sensors said at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FullReading {
    pub moment: GpuMoment,
    pub snapshot: CounterSnapshot,
}

/// Whose reading it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadingKey {
    pub cell: u32,
    pub round: u16,
    pub rank: u32,
    pub uuid: String,
}

/// What is recorded when nothing could be read.
pub(super) fn nothing(key: ReadingKey, elapsed: Nanos, missing: Unreadable) -> GpuReading {
    GpuReading {
        cell: key.cell,
        round: key.round,
        rank: key.rank,
        uuid: key.uuid,
        elapsed_ns: elapsed,
        limits: Default::default(),
        before: GpuMoment::default(),
        during: GpuDuring::default(),
        after: GpuMoment::default(),
        held_ns: BTreeMap::new(),
        counters: BTreeMap::new(),
        nvlinks: None,
        unavailable: missing,
    }
}

/// What is recorded of readings before, during and after a cell.
pub(super) fn reading(
    key: ReadingKey,
    elapsed: Nanos,
    before: FullReading,
    during: GpuDuring,
    after: FullReading,
    missing: Unreadable,
) -> GpuReading {
    let (first, last) = (before.snapshot, after.snapshot);
    GpuReading {
        nvlinks: links(&first.links, &last.links),
        counters: counters(&first.counters, &last.counters),
        held_ns: held(&first.held_ns, &last.held_ns),
        // The power limit that counts is the one that stood at the end.
        limits: last.limits,
        before: before.moment,
        during,
        after: after.moment,
        ..nothing(key, elapsed, missing)
    }
}

/// Only limits that were counted both times: a time that is half known is not known.
fn held(
    before: &BTreeMap<ClockLimit, u64>,
    after: &BTreeMap<ClockLimit, u64>,
) -> BTreeMap<ClockLimit, Nanos> {
    let moved = |(limit, after): (&ClockLimit, &u64)| {
        let counter = GpuCounter {
            before: before.get(limit).copied(),
            after: Some(*after),
        };
        Some((*limit, Nanos(counter.moved()?)))
    };
    after.iter().filter_map(moved).collect()
}

fn counters(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, GpuCounter> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut counters: BTreeMap<String, GpuCounter> = BTreeMap::new();
    for name in names {
        let counter = GpuCounter {
            before: before.get(name).copied(),
            after: after.get(name).copied(),
        };
        let Some((of_all_links, _)) = name.split_once('/') else {
            counters.insert(name.clone(), counter);
            continue;
        };
        // A link that went down takes its counters with it: the sum is over those known both times.
        let Some(moved) = counter.moved() else { continue };
        let sum = counters.entry(of_all_links.to_string()).or_default();
        let add = |sum: Option<u64>, value: Option<u64>| Some(sum.unwrap_or(0).saturating_add(value?));
        sum.before = add(sum.before, counter.before);
        sum.after = add(sum.after, counter.after);
        // Eighteen links with four counters each: only those that have something to say.
        if moved > 0 {
            counters.insert(name.clone(), counter);
        }
    }
    counters
}

fn links(before: &BTreeMap<u32, bool>, after: &BTreeMap<u32, bool>) -> Option<GpuLinks> {
    // One that could not be read afterwards did not go down, as far as anybody knows.
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let that_are = |links: &BTreeMap<u32, bool>, wanted: bool| -> Vec<u32> {
        let chosen = links.iter().filter(|(_, up)| **up == wanted);
        chosen.map(|(link, _)| *link).collect()
    };
    let known = |link: &u32| after.contains_key(link);
    let mut up_before = that_are(before, true);
    up_before.retain(known);
    Some(GpuLinks {
        up_before,
        up_after: that_are(after, true),
        down_after: that_are(after, false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> ReadingKey {
        ReadingKey {
            cell: 7,
            round: 1,
            rank: 3,
            uuid: "GPU-1".into(),
        }
    }

    fn full(counters: &[(&str, u64)], held: &[(ClockLimit, u64)], links: &[(u32, bool)]) -> FullReading {
        FullReading {
            snapshot: CounterSnapshot {
                counters: counters
                    .iter()
                    .map(|(name, value)| (name.to_string(), *value))
                    .collect(),
                held_ns: held.iter().copied().collect(),
                links: links.iter().copied().collect(),
                ..CounterSnapshot::default()
            },
            ..FullReading::default()
        }
    }

    fn between(before: FullReading, after: FullReading) -> GpuReading {
        let during = GpuDuring::default();
        reading(key(), Nanos(5), before, during, after, Unreadable::new())
    }

    #[test]
    fn a_link_that_moved_is_named_and_its_quiet_neighbours_are_only_in_the_sum() {
        let before = [("replays/link0", 4), ("replays/link2", 900), ("replays/link3", 1)];
        let after = [("replays/link0", 4), ("replays/link3", 10)];
        let reading = between(full(&before, &[], &[]), full(&after, &[], &[]));
        let names: Vec<&str> = reading.counters.keys().map(String::as_str).collect();
        assert_eq!(names, ["replays", "replays/link3"]);
        assert_eq!(
            reading.counters["replays"],
            GpuCounter {
                before: Some(5),
                after: Some(14)
            },
            "link 2 vanished, and its 900 with it"
        );
        assert_eq!(reading.counters["replays/link3"].moved(), Some(9));
    }

    #[test]
    fn a_counter_known_only_once_did_not_move_by_its_whole_value() {
        let reading = between(
            full(&[], &[], &[]),
            full(
                &[("ecc-corrected", 17)],
                &[(ClockLimit::SoftwarePowerCap, 900)],
                &[],
            ),
        );
        assert_eq!(reading.counters["ecc-corrected"].moved(), None);
        assert!(reading.held_ns.is_empty(), "{:?}", reading.held_ns);
    }

    #[test]
    fn a_link_that_goes_down_is_told_from_one_that_was_never_up_and_from_one_that_cannot_be_read() {
        let before = [(0, true), (1, true), (2, false), (3, true)];
        let after = [(0, true), (1, false), (2, false)];
        let links = between(full(&[], &[], &before), full(&[], &[], &after))
            .nvlinks
            .unwrap();
        assert_eq!(links.went_down(), [1]);
        assert_eq!((links.up_after, links.down_after), (vec![0], vec![1, 2]));
        assert_eq!(
            between(full(&[], &[], &before), full(&[], &[], &[])).nvlinks,
            None
        );
    }

    proptest! {
        /// Whatever the counters say, what is recorded never claims more than the differences of known values.
        #[test]
        fn deltas_come_from_two_known_values(
            before in proptest::collection::btree_map("[ab]|[cd]/link[0-3]", any::<u64>(), 0..8),
            after in proptest::collection::btree_map("[ab]|[cd]/link[0-3]", any::<u64>(), 0..8),
        ) {
            let with = |counters: &BTreeMap<String, u64>| FullReading {
                snapshot: CounterSnapshot { counters: counters.clone(), ..CounterSnapshot::default() },
                ..FullReading::default()
            };
            let reading = between(with(&before), with(&after));
            let delta = |name: &String| after.get(name)?.checked_sub(*before.get(name)?);
            for (name, counter) in &reading.counters {
                let of_links = before.keys().filter(|link| link.starts_with(&format!("{name}/")));
                let sum = of_links.filter_map(delta).fold(0u64, u64::saturating_add);
                match name.as_str() {
                    "c" | "d" => prop_assert!(counter.moved().is_some_and(|moved| moved <= sum)),
                    _ => prop_assert_eq!(counter.moved(), delta(name)),
                }
            }
            for name in before.keys().filter(|name| !name.contains('/')) {
                prop_assert!(reading.counters.contains_key(name));
            }
            let text = serde_json::to_string(&reading).unwrap();
            prop_assert_eq!(serde_json::from_str::<GpuReading>(&text).unwrap(), reading);
        }
    }
}

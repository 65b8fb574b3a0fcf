//! Is a value associated with what was slow? Fisher's exact test over parts, corrected for all values tried.
//!
//! Every value that deviates, every value of a disagreement, and every value of a few traits that may differ within a
//! healthy fleet (vendor of the optics, board) is tried on the parts that were measured: are those with it slow more
//! often than those without? It *explains* what is slow only when the corrected p-value is below the run's
//! false-positive budget and nearly all that is slow has it.
//!
//! Ends of one host share everything else of that host, and so do ends of one rail. Where a value is the same for all
//! ends of each host, hosts are counted as well, likewise rails, and the least significant count decides: one host on
//! other firmware whose eight rails are slow is one coincidence, not eight.

use std::collections::{BTreeMap, BTreeSet};

use super::measured::{MeasuredPart, MeasuredParts};
use crate::findings::analysis::RunAnalysis;
use record::stats::{holm, more_often};
use record::{Drift, DriftEffect, EffectUnit, PartAt, PartClass, Trait};

/// At least this fraction of what is slow has the value.
const NEARLY_ALL: f64 = 0.9;

/// Facts that may differ in a healthy fleet and are tried nevertheless.
const TRAITS: &[(PartClass, &str)] = &[
    (PartClass::Module, "vendor"),
    (PartClass::Module, "part-number"),
    (PartClass::Module, "kind"),
    (PartClass::Nic, "board"),
    (PartClass::Nic, "type"),
    (PartClass::Pci, "numa-node"),
    (PartClass::Host, "product"),
];

/// What the tried value belongs to.
#[derive(Clone, Copy)]
enum Target {
    Deviation(usize),
    Disagreement(usize),
    Trait,
}

/// A value that is tried.
struct TriedValue {
    target: Target,
    class: PartClass,
    fact: String,
    value: String,
    table: ContingencyTable,
    by: EffectUnit,
    p_value: f64,
}

/// How many of those with and without it are slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ContingencyTable {
    slow_with: u32,
    with: u32,
    slow_without: u32,
    without: u32,
}

impl ContingencyTable {
    fn of(units: impl Iterator<Item = (bool, bool)>) -> ContingencyTable {
        let mut table = ContingencyTable::default();
        for (with, slow) in units {
            let (all, slow_ones) = match with {
                true => (&mut table.with, &mut table.slow_with),
                false => (&mut table.without, &mut table.slow_without),
            };
            *all += 1;
            *slow_ones += u32::from(slow);
        }
        table
    }

    fn p_value(&self) -> f64 {
        more_often(
            self.slow_with.into(),
            self.with.into(),
            self.slow_without.into(),
            self.without.into(),
        )
    }
}

/// Fills in how every value is associated with what was slow.
pub(super) fn fill(analysis: &RunAnalysis<'_>, drift: &mut Drift) {
    let Some(inventory) = &analysis.recorded.inventory else {
        return;
    };
    let measured = MeasuredParts::of(analysis, inventory);
    let candidates = candidates(drift, &measured);
    let tried: Vec<usize> = (0..candidates.len())
        .filter(|place| {
            let table = candidates[*place].table;
            table.with > 0 && table.without > 0 && table.slow_with + table.slow_without > 0
        })
        .collect();
    let raw: Vec<f64> = tried.iter().map(|place| candidates[*place].p_value).collect();
    let corrected: BTreeMap<usize, f64> = tried.iter().copied().zip(holm(&raw)).collect();
    let budget = analysis.run().rule.false_positive_budget;
    for (place, candidate) in candidates.into_iter().enumerate() {
        let ContingencyTable {
            slow_with,
            with,
            slow_without,
            without,
        } = candidate.table;
        let p_value = corrected.get(&place).copied().unwrap_or(1.0);
        let slow = f64::from(slow_with + slow_without);
        let effect = DriftEffect {
            slow_with,
            with,
            slow_without,
            without,
            p_value,
            by: candidate.by,
            comparisons: tried.len() as u32,
            explains: p_value < budget && f64::from(slow_with) >= NEARLY_ALL * slow,
        };
        match candidate.target {
            Target::Deviation(number) => drift.deviations[number].effect = Some(effect),
            Target::Disagreement(number) => {
                let effects = &mut drift.disagreements[number].effects;
                effects.insert(candidate.value, effect);
            }
            Target::Trait if effect.explains => drift.traits.push(Trait {
                class: candidate.class,
                fact: candidate.fact,
                value: candidate.value,
                effect,
            }),
            Target::Trait => {}
        }
    }
}

fn candidates(drift: &Drift, measured: &MeasuredParts<'_>) -> Vec<TriedValue> {
    let mut candidates = Vec::new();
    for (number, deviation) in drift.deviations.iter().enumerate() {
        let parts: BTreeSet<&PartAt> = deviation.parts.iter().collect();
        let value = deviation.value.clone().unwrap_or_default();
        let target = Target::Deviation(number);
        candidates.extend(of_parts(
            target,
            deviation.class,
            &deviation.fact,
            value,
            &parts,
            measured,
        ));
    }
    for (number, split) in drift.disagreements.iter().enumerate() {
        for (value, parts) in &split.values {
            let parts: BTreeSet<&PartAt> = parts.iter().collect();
            let target = Target::Disagreement(number);
            let value = value.clone();
            candidates.extend(of_parts(
                target,
                split.class,
                &split.fact,
                value,
                &parts,
                measured,
            ));
        }
    }
    for (class, fact) in TRAITS.iter().filter(|(class, _)| measured.has_slow(*class)) {
        let values: BTreeSet<&str> = measured
            .of_class(*class)
            .filter_map(|unit| unit.part.value(fact))
            .collect();
        if values.len() > 1 {
            for value in values {
                let is_with = |unit: &MeasuredPart<'_>| unit.part.value(fact) == Some(value);
                let units = measured.of_class(*class);
                let units: Vec<&MeasuredPart<'_>> =
                    units.filter(|unit| unit.part.value(fact).is_some()).collect();
                let value = value.to_string();
                candidates.push(candidate(Target::Trait, *class, fact, value, &units, is_with));
            }
        }
    }
    candidates
}

/// A value that these parts have; none where none of them was measured.
fn of_parts(
    target: Target,
    class: PartClass,
    fact: &str,
    value: String,
    parts: &BTreeSet<&PartAt>,
    measured: &MeasuredParts<'_>,
) -> Option<TriedValue> {
    let is_with = |unit: &MeasuredPart<'_>| parts.contains(&unit.at());
    // Others count when their value is known; parts without a wanted fact are among `parts` anyway.
    let knows = |unit: &&MeasuredPart<'_>| unit.part.value(fact).is_some() || is_with(unit);
    let units: Vec<&MeasuredPart<'_>> = measured.of_class(class).filter(knows).collect();
    let candidate = candidate(target, class, fact, value, &units, is_with);
    (candidate.table.with > 0).then_some(candidate)
}

fn candidate(
    target: Target,
    class: PartClass,
    fact: &str,
    value: String,
    units: &[&MeasuredPart<'_>],
    is_with: impl Fn(&MeasuredPart<'_>) -> bool,
) -> TriedValue {
    let marked: Vec<(&MeasuredPart<'_>, bool)> = units.iter().map(|unit| (*unit, is_with(unit))).collect();
    let table = ContingencyTable::of(marked.iter().map(|(unit, with)| (*with, unit.slow)));
    let (mut p_value, mut by) = (table.p_value(), EffectUnit::Part);
    let hosts = together(&marked, |unit| Some(unit.node));
    let rails = together(&marked, |unit| unit.rail);
    for (clusters, unit) in [(hosts, EffectUnit::Host), (rails, EffectUnit::Rail)] {
        let chance = clusters.map_or(0.0, |clusters| clusters.p_value());
        if chance > p_value {
            (p_value, by) = (chance, unit);
        }
    }
    TriedValue {
        target,
        class,
        fact: fact.to_string(),
        value,
        table,
        by,
        p_value,
    }
}

/// The same counted by clusters of parts, where each cluster has the value as a whole or not at all; one is slow when a part of it is.
fn together<'u>(
    marked: &[(&MeasuredPart<'u>, bool)],
    cluster: impl Fn(&MeasuredPart<'u>) -> Option<&'u str>,
) -> Option<ContingencyTable> {
    let mut clusters: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for (unit, with) in marked {
        let entry = clusters.entry(cluster(unit)?).or_insert((*with, false));
        if entry.0 != *with {
            return None;
        }
        entry.1 |= unit.slow;
    }
    Some(ContingencyTable::of(clusters.into_values()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::InventoryPart;

    fn chance(marked: &[(&str, &str, bool, bool)]) -> (f64, EffectUnit) {
        let part = InventoryPart::new(PartClass::Nic, "x");
        let units: Vec<(MeasuredPart<'_>, bool)> = marked
            .iter()
            .map(|(node, rail, with, slow)| {
                let unit = MeasuredPart {
                    node,
                    rail: Some(rail),
                    part: &part,
                    slow: *slow,
                };
                (unit, *with)
            })
            .collect();
        let all: Vec<&MeasuredPart<'_>> = units.iter().map(|(unit, _)| unit).collect();
        let is_with = |unit: &MeasuredPart<'_>| {
            let found = units
                .iter()
                .find(|(other, _)| other.node == unit.node && other.rail == unit.rail);
            found.is_some_and(|(_, with)| *with)
        };
        let candidate = candidate(
            Target::Trait,
            PartClass::Nic,
            "firmware",
            "1".into(),
            &all,
            is_with,
        );
        (candidate.p_value, candidate.by)
    }

    const HOSTS: [&str; 8] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"];
    const RAILS: [&str; 4] = ["rail0", "rail1", "rail2", "rail3"];

    /// All ends of eight hosts with four rails; whether each has the value and is slow.
    fn ends(is: impl Fn(usize, usize) -> (bool, bool)) -> Vec<(&'static str, &'static str, bool, bool)> {
        let mut ends = Vec::new();
        for (host, host_name) in HOSTS.iter().enumerate() {
            for (rail, rail_name) in RAILS.iter().enumerate() {
                let (with, slow) = is(host, rail);
                ends.push((*host_name, *rail_name, with, slow));
            }
        }
        ends
    }

    #[test]
    fn four_slow_rails_of_one_host_are_one_coincidence_and_not_four() {
        let (p, by) = chance(&ends(|host, _| (host == 3, host == 3)));
        assert!((p - 1.0 / 8.0).abs() < 1e-9, "{p}");
        assert_eq!(by, EffectUnit::Host);
        let (p, by) = chance(&ends(|_, rail| (rail == 1, rail == 1)));
        assert!((p - 1.0 / 4.0).abs() < 1e-9, "{p}");
        assert_eq!(by, EffectUnit::Rail);
    }

    #[test]
    fn ends_that_are_scattered_count_each_for_itself() {
        let odd = |host: usize, rail: usize| (host + rail).is_multiple_of(8);
        let (p, by) = chance(&ends(|host, rail| (odd(host, rail), odd(host, rail))));
        // 4 of 32 in one draw: 1 in 35,960.
        assert!((p - 1.0 / 35_960.0).abs() < 1e-9, "{p}");
        assert_eq!(by, EffectUnit::Part);
    }

    #[test]
    fn tables_of_the_textbooks_come_out_as_printed() {
        // Fisher's lady tasting tea, and the convictions of twins of his 1935 lecture: 619 in 1,330,665.
        let table = |slow_with, with, slow_without, without| ContingencyTable {
            slow_with,
            with,
            slow_without,
            without,
        };
        assert!((table(3, 4, 1, 4).p_value() - 17.0 / 70.0).abs() < 1e-12);
        assert!((table(10, 13, 2, 17).p_value() - 619.0 / 1_330_665.0).abs() < 1e-9);
        assert_eq!(table(0, 5, 3, 5).p_value(), 1.0);
    }

    #[test]
    fn values_that_have_nothing_to_do_with_speed_are_joined_no_more_often_than_chance_allows() {
        use rand_chacha::ChaCha8Rng;
        use rand_chacha::rand_core::{Rng, SeedableRng};
        let mut random = ChaCha8Rng::seed_from_u64(8);
        // Whole hosts and whole rails are slow or of another make as often as single ends are.
        let mut some = |share: u64| {
            let bits: Vec<Vec<bool>> = (0..8)
                .map(|_| (0..4).map(|_| random.next_u64().is_multiple_of(share)).collect())
                .collect();
            let by = random.next_u64() % 3;
            move |host: usize, rail: usize| match by {
                0 => bits[host][rail],
                1 => bits[host][0],
                _ => bits[0][rail],
            }
        };
        let (trials, mut explained) = (2000, 0);
        for _ in 0..trials {
            let (with, slow) = (some(4), some(6));
            let (p, _) = chance(&ends(|host, rail| (with(host, rail), slow(host, rail))));
            explained += u32::from(p < 0.05);
        }
        assert!(
            f64::from(explained) / f64::from(trials) < 0.05,
            "{explained} of {trials}"
        );
    }
}

//! Which congestion settings of an accused part differ from the others' (docs/method.md, "Settings").
//!
//! Findings under load and of unfair senders say one of three things: which settings differ at the accused part, that those that were read do not
//! differ, or that they were not read. A difference is evidence, with the probability that it falls on accused parts by chance (Fisher's exact test,
//! corrected for the settings that vary); it makes no finding and takes none away.

mod units;

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::drift::{CONGESTION_OF_HOST, CONGESTION_OF_INTERFACE, CONGESTION_OF_PORT, CONGESTION_OF_SWITCH};
use record::stats::more_often;
use record::text;
use record::{Finding, FindingKind, Place};
pub(super) use units::{Places, Unit};

/// Settings of a switch's port that are compared with those of ports beside it that other hosts are plugged into.
const OF_SWITCH_PORT: &[&str] = &[
    "pfc",
    "pfc-watchdog",
    "dscp-map",
    "class-queues",
    "ecn",
    "ecn-thresholds",
    "headroom",
];
/// Thresholds may differ between tiers, not within one where somebody is accused.
const THRESHOLDS: &[&str] = &["ecn-thresholds"];

/// Findings that settings may explain.
const ABOUT: [FindingKind; 5] = [
    FindingKind::LossyClass,
    FindingKind::LateMarks,
    FindingKind::SpreadingPauses,
    FindingKind::MeetingRails,
    FindingKind::UnfairSender,
];

/// Adds to every finding under load what the inventory says of settings there.
pub(super) fn add(analysis: &RunAnalysis<'_>, findings: &mut [Finding]) {
    let about = |finding: &&mut Finding| ABOUT.contains(&finding.kind);
    let mut findings = findings.iter_mut().filter(about).peekable();
    if findings.peek().is_none() {
        return;
    }
    let Some(places) = Places::of(analysis) else {
        findings.for_each(|finding| {
            let said = "congestion settings were not read: the run has no inventory";
            finding.evidence.push(said.to_string());
        });
        return;
    };
    let budget = analysis.run().rule.false_positive_budget;
    for finding in findings {
        let comparison = compare_at(&places, &finding.place);
        if let Some(first) = comparison.differences.iter().find(|one| one.p_value < budget) {
            let first = format!("bring {} of {} to that of the others", first.fact, first.at);
            finding.next_step = format!(
                "first {first}, and measure again; if it is still so then: {}",
                finding.next_step
            );
        }
        finding.evidence.extend(comparison.in_words());
    }
}

/// What differs at accused parts.
#[derive(Debug, Default)]
struct Comparison {
    differences: Vec<Difference>,
    /// Settings that were compared, and the parts that were: `h3/rail0`.
    compared: usize,
    /// Those of them that are not the same everywhere: one that is cannot fall on anybody.
    varied: usize,
    at: Vec<String>,
    /// Settings that could not be read at an accused part, by reason.
    unread: BTreeMap<String, usize>,
}

/// One setting that differs.
#[derive(Debug, PartialEq)]
struct Difference {
    fact: String,
    at: String,
    /// What it is there.
    here: String,
    /// What most others have, how many of them, and of how many; none where they do not agree.
    others: Option<(String, usize, usize)>,
    /// How often it would fall on the accused by chance.
    p_value: f64,
}

/// Compares whatever the place names with what is beside it.
fn compare_at(places: &Places<'_>, place: &Place) -> Comparison {
    let of_ends: Vec<&str> = CONGESTION_OF_INTERFACE
        .iter()
        .chain(CONGESTION_OF_PORT)
        .copied()
        .collect();
    let rail = place.rail.as_deref();
    let mut all = Comparison::default();
    let is_accused = |host: &str| place.hosts.iter().any(|name| name == host);
    let ends = match place.hosts.is_empty() {
        // A whole rail, beside other rails.
        true => places.ends(&|of, _| rail.map(|rail| of == rail)),
        false => places.ends(&|of, host| (rail.is_none_or(|rail| of == rail)).then(|| is_accused(host))),
    };
    all.add(&ends, &of_ends);
    if !place.hosts.is_empty() && place.switch.is_none() {
        all.add(&places.hosts(&place.hosts), CONGESTION_OF_HOST);
    }
    if let Some(switch) = &place.switch {
        let facts: Vec<&str> = CONGESTION_OF_SWITCH.iter().chain(THRESHOLDS).copied().collect();
        all.add(&places.switches(switch), &facts);
    } else if let ([host], Some(rail)) = (place.hosts.as_slice(), rail) {
        all.add(&places.switch_ports(rail, host), OF_SWITCH_PORT);
    }
    all.correct();
    all
}

impl Comparison {
    /// Compares accused parts with the others, setting by setting.
    fn add(&mut self, [accused, others]: &[Vec<Unit<'_>>; 2], facts: &[&str]) {
        if accused.is_empty() {
            return;
        }
        let at = text::list_up_to(
            &accused
                .iter()
                .map(|unit| unit.name.clone())
                .collect::<Vec<String>>(),
            3,
        );
        let mut is_compared = false;
        for fact in facts {
            let unread = accused.iter().filter(|unit| unit.value(fact).is_none());
            for why in unread.filter_map(|unit| unit.unreadable(fact)).take(1) {
                *self.unread.entry(why.to_string()).or_default() += 1;
            }
            let here = values(accused, fact);
            let there = values(others, fact);
            if here.is_empty() || there.is_empty() {
                continue;
            }
            is_compared = true;
            self.compared += 1;
            let both: BTreeSet<&&str> = here.keys().chain(there.keys()).collect();
            self.varied += usize::from(both.len() > 1);
            self.differences.extend(difference(fact, &at, &here, &there));
        }
        if is_compared {
            self.at.push(at);
        }
    }

    /// Corrects for all settings that vary.
    fn correct(&mut self) {
        for one in &mut self.differences {
            one.p_value = (one.p_value * self.varied as f64).min(1.0);
        }
        self.differences
            .sort_by(|a, b| a.p_value.total_cmp(&b.p_value).then_with(|| a.fact.cmp(&b.fact)));
    }

    fn in_words(&self) -> Vec<String> {
        let mut said: Vec<String> = self.differences.iter().map(Difference::in_words).collect();
        if self.compared > 0 {
            let at = text::list(&self.at);
            let of = text::counted(self.compared, "congestion setting");
            said.push(match self.differences.is_empty() {
                true => format!("{of} of {at} compared: none differs from the others'"),
                false => format!("{of} of {at} compared, {} differ", self.differences.len()),
            });
        }
        let unread: usize = self.unread.values().sum();
        if unread > 0 {
            let why: Vec<String> = self.unread.keys().cloned().collect();
            let of = text::counted(unread, "congestion setting");
            said.push(format!(
                "{of} could not be read there: {}",
                text::list_up_to(&why, 3)
            ));
        } else if self.compared == 0 {
            said.push(
                "congestion settings there were not read, or nothing is there to compare them with"
                    .to_string(),
            );
        }
        said
    }
}

impl Difference {
    fn in_words(&self) -> String {
        let others = match &self.others {
            Some((value, _, 1)) => format!("{value} at the only other"),
            Some((value, agree, of)) if agree == of => format!("{value} at all {of} others"),
            Some((value, agree, of)) => format!("{value} at {agree} of {of} others"),
            None => "not the same at the others".to_string(),
        };
        let chance = match self.p_value {
            p if p >= 0.75 => "by chance more often than not".to_string(),
            p if p >= 0.001 => format!("by chance in 1 of {:.0} cases", 1.0 / p),
            p => text::p_value(p),
        };
        format!(
            "{} of {} is {}, and {others} ({chance})",
            self.fact, self.at, self.here
        )
    }
}

/// How many of these parts have which value.
fn values<'a>(units: &[Unit<'a>], fact: &str) -> BTreeMap<&'a str, usize> {
    let mut values: BTreeMap<&str, usize> = BTreeMap::new();
    for value in units.iter().filter_map(|unit| unit.value(fact)) {
        *values.entry(value).or_default() += 1;
    }
    values
}

/// What is different about one setting: the accused have a value that most of the others do not have.
fn difference(
    fact: &str,
    at: &str,
    here: &BTreeMap<&str, usize>,
    there: &BTreeMap<&str, usize>,
) -> Option<Difference> {
    let (accused, others) = (here.values().sum::<usize>(), there.values().sum::<usize>());
    let usual = there.iter().find(|(_, count)| 2 * **count > others);
    let is_unusual = |value: &&str| match usual {
        Some((usual, _)) => value != usual,
        None => !there.contains_key(*value),
    };
    let chance = |value: &str, count: usize| {
        let elsewhere = there.get(value).copied().unwrap_or(0);
        let with = count + elsewhere;
        let without = accused + others - with;
        more_often(
            count as u64,
            with as u64,
            (accused - count) as u64,
            without as u64,
        )
    };
    let unusual = here.iter().filter(|(value, _)| is_unusual(value));
    let (value, count) = unusual.max_by_key(|(_, count)| **count)?;
    Some(Difference {
        fact: fact.to_string(),
        at: match *count == accused {
            true => at.to_string(),
            false => format!("{count} of {accused} of {at}"),
        },
        here: value.to_string(),
        others: usual.map(|(value, agree)| (value.to_string(), *agree, others)),
        p_value: chance(value, *count),
    })
}

#[cfg(test)]
mod tests;

//! Who is accused when hosts or cables wander from night to night, and how soon a step is found all the same.

use std::hash::{DefaultHasher, Hash, Hasher};

use judge::history::{Rule, alarms};
use plan::twin::nights::{Incident, Nights, Wander};
use rayon::prelude::*;

use crate::oracle::{self, Oracle};

/// Standard deviation of what wanders.
const DEVIATION: f64 = 0.015;
/// Correlations of one night with the next.
const CORRELATIONS: [f64; 5] = [0.0, 0.3, 0.5, 0.8, 0.9];
/// What two parts lose, each in a night of its own.
const STEPS: [f64; 2] = [0.05, 0.08];

/// What became of many histories.
#[derive(Default)]
struct Count {
    nights: usize,
    /// Changes for the worse of parts, or of the whole fleet, that nothing had happened to by then.
    wrong: usize,
    /// Histories with any of them.
    histories: usize,
    /// For each step the nights from its first to the one that proved it, both counted; `usize::MAX` when none did.
    delays: [Vec<usize>; 2],
}

impl Count {
    fn and(mut self, other: Count) -> Count {
        self.nights += other.nights;
        self.wrong += other.wrong;
        self.histories += other.histories;
        for (delays, more) in self.delays.iter_mut().zip(other.delays) {
            delays.extend(more);
        }
        self
    }
}

/// Which rows are counted: all that nothing speaks against.
#[derive(Default)]
pub struct Rows<'a> {
    /// Of one fleet (`4x2`).
    pub fleet: Option<&'a str>,
    /// With wandering `hosts`, or `cables`.
    pub wanders: Option<&'a str>,
    pub correlation: Option<f64>,
}

/// Prints what was alarmed and found, by fleet and by what wanders. `series` chooses the seeds. Histories are judged on all cores.
pub fn table(histories: usize, series: &str, asked: &Rows) {
    println!(
        "| fleet | wanders | correlation | alarms in 30 nights | histories with any | {} | who knows all but levels: {} |",
        STEPS.map(heading).join(" | "),
        STEPS.map(|share| format!("{} %", 100.0 * share)).join(", ")
    );
    println!("|---|---|--:|--:|--:|---|---|---|");
    let error = oracle::error();
    let is_asked = |(hosts, rails): &(usize, usize)| {
        asked
            .fleet
            .is_none_or(|fleet| fleet == format!("{hosts}x{rails}"))
    };
    for (hosts, rails) in [(4, 2), (16, 4), (128, 8)].into_iter().filter(is_asked) {
        for what in ["hosts", "cables"] {
            if asked.wanders.is_some_and(|wanders| wanders != what) {
                continue;
            }
            for correlation in CORRELATIONS {
                if asked.correlation.is_some_and(|asked| asked != correlation) {
                    continue;
                }
                let of = |history| {
                    let seed = seed((series, hosts, rails, what, correlation.to_bits(), history));
                    let mut nights = Nights {
                        hosts,
                        rails,
                        ..Nights::healthy(seed)
                    };
                    let wander = Wander {
                        deviation: DEVIATION,
                        correlation,
                    };
                    match what {
                        "hosts" => nights.host_wander = wander,
                        _ => nights.cable_wander = wander,
                    }
                    one(nights, history)
                };
                let counts = (0..histories).into_par_iter().map(of);
                let mut count = counts.reduce(Count::default, Count::and);
                let ways = 2;
                let oracle = Oracle {
                    parts: ways * hosts * rails,
                    together: if what == "hosts" { ways * rails } else { ways },
                    deviation: DEVIATION,
                    correlation,
                    error,
                };
                let best = STEPS.map(|share| night_or_not(oracle.median_night(share)));
                print(
                    &format!("{hosts} x {rails} | {what} | {correlation}"),
                    histories,
                    &mut count,
                    &best.join(", "),
                );
            }
        }
    }
}

fn heading(share: f64) -> String {
    format!(
        "{} % step: found in its 2nd, 3rd, 4th, 5th night, later, not; median",
        100.0 * share
    )
}

fn seed(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn one(mut nights: Nights, history: usize) -> Count {
    let mut count = Count::default();
    let parts = nights.parts();
    // Parts of two hosts, the second some nights after the first.
    let steps = [0, 1].map(|step| {
        let part = parts[(2 * step + 1) * parts.len() / 4].clone();
        (part, 22 + history % 10 + 5 * step)
    });
    for ((part, from), share) in steps.iter().zip(STEPS) {
        nights.incidents.push(Incident::Step {
            part: part.clone(),
            from: *from,
            share,
        });
    }
    let rule = Rule::default();
    let worse: Vec<_> = alarms(&nights.nights(), &rule)
        .into_iter()
        .filter(|alarm| alarm.change.is_worse)
        .collect();
    for ((part, from), delays) in steps.iter().zip(&mut count.delays) {
        let found = worse
            .iter()
            .find(|alarm| &alarm.change.part == part && alarm.proved >= *from);
        delays.push(found.map_or(usize::MAX, |alarm| alarm.proved - from + 1));
    }
    let is_right = |part: &String, proved: usize| {
        steps
            .iter()
            .any(|(stepped, from)| stepped == part && proved >= *from)
    };
    let wrong = worse
        .iter()
        .filter(|alarm| !is_right(&alarm.change.part, alarm.proved))
        .count();
    count.wrong += wrong;
    count.histories += usize::from(wrong > 0);
    count.nights += nights.count - rule.least_runs;
    count
}

fn night_or_not(night: Option<usize>) -> String {
    night.map_or("not".to_string(), |night| night.to_string())
}

fn print(row: &str, histories: usize, count: &mut Count, best: &str) {
    let steps = count.delays.each_mut().map(|delays| {
        delays.sort_unstable();
        let among =
            |nights: std::ops::Range<usize>| delays.iter().filter(|delay| nights.contains(delay)).count();
        let median = delays.get(delays.len() / 2).copied();
        let median = night_or_not(median.filter(|nights| *nights < usize::MAX));
        let nights = [0..3, 3..4, 4..5, 5..6];
        let each = nights.map(|night| among(night).to_string());
        let missed = delays.iter().filter(|delay| **delay == usize::MAX).count();
        format!(
            "{}, {}, {missed}; {median}",
            each.join(", "),
            among(6..usize::MAX)
        )
    });
    println!(
        "| {row} | {:.2} | {} of {histories} | {} | {best} |",
        count.wrong as f64 * 30.0 / count.nights as f64,
        count.histories,
        steps.join(" | ")
    );
}

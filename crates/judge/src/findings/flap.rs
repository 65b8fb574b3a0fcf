//! A link that went down during the run and came back: the measurement continued, but the cable is suspect.
//!
//! Interfaces count how often their carrier changed (down and up are two), RDMA ports how often their link went down.
//! Readings are compared over the whole run, so that a flap between two cells counts too. The suite sets how many are
//! allowed (`flaps_allowed`), and counter rules may set a limit per time window. Where no link of a host went down
//! and something further along the path did, packets are retransmitted until they get through: see `interruption`.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::interruption::{self, Interruption};
use super::repeat;
use record::text;
use record::units::Nanos;
use record::{CounterDelta, Event, Finding, FindingKind, Place, PortName};
use topology::suite::counters::{Bound, CounterRule};

/// Counters of link-down events, with the increments per flap.
const LINK: &[(&str, u64)] = &[
    ("carrier_changes", 2),
    ("link_downed", 1),
    ("link_down_events_phy", 1),
];

/// One finding per host and rail whose link flapped, and one per rail and place that was interrupted otherwise.
pub(super) struct Flap;

/// One end of a rail.
#[derive(Default)]
struct LinkFlaps<'a> {
    /// Counters of its link.
    link: BTreeMap<&'a str, RunningCounter>,
    /// Cells around or before which one moved.
    cells: BTreeSet<u32>,
    ranks: BTreeSet<u32>,
}

/// A counter over the run. A decrease between readings is a reset, or an earlier reading by another rank: neither is
/// a movement. A decrease during a cell is a reset, and counting continues from there.
#[derive(Clone, Copy)]
struct RunningCounter {
    highest: u64,
    by: u64,
}

impl Detector for Flap {
    fn question(&self) -> &'static str {
        "Did a link go down during the run and come back?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let allowed = u64::from(analysis.run().rule.flaps_allowed);
        let ends = ends(analysis);
        let windows = FlapRules::of(analysis);
        let flapped = ends.iter().filter(|(_, end)| end.flaps() > 0);
        let explained: BTreeSet<(&str, u32)> = flapped
            .clone()
            .flat_map(|((rail, _), end)| end.cells.iter().map(|cell| (*rail, *cell)))
            .collect();
        let silent = |rail: &str, host: &str| {
            let mut rails = analysis.silent_rails.iter();
            rails.any(|silence| silence.rail == rail && silence.hosts.iter().any(|guilty| guilty == host))
        };
        let mut findings: Vec<Finding> = flapped
            .filter(|((rail, host), _)| !silent(rail, host))
            .filter_map(|((rail, host), end)| {
                let broken = windows.broken(rail, host, end.flaps());
                (end.flaps() > allowed || broken.is_some())
                    .then(|| of_link(analysis, rail, host, end, broken))
            })
            .collect();
        let interruptions = interruption::all(analysis, &explained).into_iter();
        findings.extend(
            interruptions
                .filter(|interruption| interruption.cells.len() as u64 > allowed)
                .map(|interruption| of_interrupted_path(analysis, &interruption)),
        );
        findings
    }
}

/// Rules that limit flaps per time window.
struct FlapRules<'s> {
    rules: Vec<&'s CounterRule>,
    watched: BTreeMap<(String, String), Nanos>,
}

impl<'s> FlapRules<'s> {
    fn of(analysis: &'s RunAnalysis<'_>) -> FlapRules<'s> {
        let rules: Vec<&CounterRule> = analysis.counter_rules.of_flaps().collect();
        let mut watched = BTreeMap::new();
        if !rules.is_empty() {
            for ((rail, host), end) in analysis.ends() {
                watched.insert((rail.to_string(), host.to_string()), end.watched);
            }
        }
        FlapRules { rules, watched }
    }

    /// The rule that this many flaps of an end break. Over a time longer than the window, flaps count as if spread
    /// evenly.
    fn broken(&self, rail: &str, host: &str, flaps: u64) -> Option<&'s CounterRule> {
        let watched = self.watched.get(&(rail.to_string(), host.to_string()));
        let watched = watched.copied().unwrap_or_default();
        let is_broken = |rule: &&&CounterRule| match rule.bound {
            Bound::Within { count, window } => {
                let share = window.0 as f64 / watched.max(window).0.max(1) as f64;
                flaps as f64 * share >= count as f64
            }
            _ => false,
        };
        self.rules.iter().find(is_broken).copied()
    }
}

/// How often the link of a host's end of a rail went down and came back.
pub(super) fn downs(analysis: &RunAnalysis<'_>, host: &str, rail: &str) -> u64 {
    let ends = ends(analysis);
    ends.get(&(rail, host)).map_or(0, LinkFlaps::flaps)
}

/// Every rail end whose counters were read.
fn ends<'a>(analysis: &RunAnalysis<'a>) -> BTreeMap<(&'a str, &'a str), LinkFlaps<'a>> {
    let mut ends: BTreeMap<(&str, &str), LinkFlaps<'_>> = BTreeMap::new();
    for event in &analysis.recorded.events {
        if let Event::Counter(counter) = event
            && let Some(host) = analysis.host(counter.rank)
        {
            ends.entry((&counter.rail, host)).or_default().add(counter);
        }
    }
    ends
}

impl<'a> LinkFlaps<'a> {
    fn add(&mut self, counter: &'a CounterDelta) {
        let name = counter.name.as_str();
        let (Some(before), Some(after)) = (counter.before, counter.after) else {
            return;
        };
        if LINK.iter().all(|(known, _)| *known != name) {
            return;
        }
        self.ranks.insert(counter.rank);
        let moving = self.link.entry(name).or_insert(RunningCounter {
            highest: before,
            by: 0,
        });
        if counter.moved().is_none() && after < before {
            moving.highest = after;
            return;
        }
        let above = before.max(after).saturating_sub(moving.highest);
        if above > 0 {
            self.cells.insert(counter.cell);
            moving.highest += above;
            moving.by = moving.by.saturating_add(above);
        }
    }

    /// How often the link went down.
    fn flaps(&self) -> u64 {
        let moved = |name: &str| self.link.get(name).map_or(0, |moving| moving.by);
        let of = |(name, steps): &(&str, u64)| moved(name).div_ceil(*steps);
        LINK.iter().map(of).max().unwrap_or(0)
    }
}

fn of_link(
    analysis: &RunAnalysis<'_>,
    rail: &str,
    host: &str,
    flaps: &LinkFlaps<'_>,
    broken: Option<&CounterRule>,
) -> Finding {
    let moved = flaps.link.iter().filter(|(_, counter)| counter.by > 0);
    let port = PortName {
        node: host,
        port: rail,
    };
    let evidence: Vec<String> = moved
        .map(|(name, counter)| format!("{name} +{} on {port}", counter.by))
        .collect();
    let times = match flaps.flaps() {
        1 => String::new(),
        count => format!(" {count} times"),
    };
    let by_window = broken.map(|rule| format!("; {}: {} ({})", rule.name, rule.bound, rule.source));
    let rule = format!("{}{}", rule(analysis), by_window.unwrap_or_default());
    let sentence = format!(
        "{rail} at {host} went down and came back{times}{}: {}",
        during(analysis, &flaps.cells),
        text::list(&evidence)
    );
    let place = Place {
        hosts: vec![host.to_string()],
        ranks: flaps.ranks.iter().copied().collect(),
        rail: Some(rail.to_string()),
        ..Place::default()
    };
    Finding::new(FindingKind::Flap, place)
        .with_sentence(sentence)
        .with_rule(rule)
        .ambiguous_with(vec!["the port at the other end of that cable".to_string()])
        .with_evidence(evidence)
        .with_cells(flaps.cells.iter().copied())
        .with_next_step(next_step(rail, &format!("at {host}")))
        .with_repeat(repeat::command(analysis.run(), &[("rail", rail)]))
}

fn of_interrupted_path(analysis: &RunAnalysis<'_>, interruption: &Interruption) -> Finding {
    let rail = &interruption.rail;
    let at = match interruption.hosts.as_slice() {
        [one] => format!("at {one}"),
        hosts => format!("between {}", text::list(hosts)),
    };
    let sentence = format!(
        "{rail} {at} forwarded nothing for {} and recovered{}: {}",
        interruption.stood,
        during(analysis, &interruption.cells),
        text::list(&interruption.evidence)
    );
    let place = Place {
        hosts: interruption.hosts.clone(),
        ranks: interruption.ranks.iter().copied().collect(),
        rail: Some(rail.clone()),
        ..Place::default()
    };
    Finding::new(FindingKind::Flap, place)
        .with_sentence(sentence)
        .with_rule(rule(analysis))
        .ambiguous_with(vec!["anything on the path from there to its peers".to_string()])
        .with_evidence(interruption.evidence.clone())
        .with_cells(interruption.cells.iter().copied())
        .with_next_step(next_step(rail, &at))
        .with_repeat(repeat::command(analysis.run(), &[("rail", rail)]))
}

fn during(analysis: &RunAnalysis<'_>, cells: &BTreeSet<u32>) -> String {
    let cell = cells.first().and_then(|cell| analysis.cell(*cell));
    cell.map_or_else(String::new, |cell| format!(" during {}", cell.describe()))
}

fn rule(analysis: &RunAnalysis<'_>) -> String {
    let allowed = analysis.run().rule.flaps_allowed;
    format!(
        "flap: down more than {allowed} time{} during the run, by \
         carrier_changes or link_downed; or packets retransmitted for lack of an \
         acknowledgement in a cell with an iteration at least {} longer than its \
         median",
        text::plural(allowed as usize),
        interruption::SHORTEST
    )
}

fn next_step(rail: &str, at: &str) -> String {
    format!(
        "look at {rail} {at}: kernel log for link messages, seat and clean \
         cable and transceiver, log of the switch port; then repeat"
    )
}

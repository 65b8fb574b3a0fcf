//! Sporadic stalls: single iterations that take much longer than the others, on one part more often than on the rest. Medians
//! do not show them; a job that waits for the slowest of a thousand links does.
//!
//! *Long* stalls take tens of milliseconds more, whatever the message: timeouts and retransmissions. *Slow* iterations take twice the
//! median or more, and count where they cost much of the goodput: of short messages many do, on every fabric, and cost little of it.
//!
//! A group of many hosts waits for each of them: what looks like a stalling ring may be hosts that delay pairs as well, each now and then. Such stalls
//! are suspected, and no part is accused.
//!
//! Iterations are counted per end of a rail, per pair and per rail. The part with the smallest p-value is named; then
//! the rest is tested again.

use std::collections::{BTreeMap, BTreeSet};

use super::candidate::{Candidate, RoundTally};
use crate::findings::held_up;
use crate::findings::summary::CellSummary;
use record::stats::{at_least_of, median_of_sorted, more_often};
use record::text;
use record::units::Nanos;
use record::{Cell, DecisionRule, FindingKind, Question};

/// Fewer stalls than this say nothing.
const FEWEST: u64 = 3;
/// A part stalls this many times as often as the others at least.
const TIMES: f64 = 3.0;
/// What is usual where there is nothing to compare with: stalls, of iterations.
const USUAL: (u64, u64) = (2, 1000);

/// Where there is nothing to compare with, slow iterations count from this median on: shorter messages feel every hiccup of a host.
const LONG_MESSAGE: f64 = 1e6;

/// What counts as a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StallKind {
    /// An iteration that takes `stall` longer than the median, and twice as long.
    Long,
    /// An iteration that takes twice as long as the median.
    Slow,
}

/// Stalls and iterations of one cell in one round.
#[derive(Debug, Clone, Copy, Default)]
struct StallCount {
    stalls: u64,
    iterations: u64,
    longest: u64,
    /// What stalls took beyond the median, and what all iterations took, in nanoseconds.
    lost: f64,
    spent: f64,
}

impl StallCount {
    fn add(&mut self, other: StallCount) {
        self.stalls += other.stalls;
        self.iterations += other.iterations;
        self.longest = self.longest.max(other.longest);
        self.lost += other.lost;
        self.spent += other.spent;
    }

    /// The share of the goodput that stalls cost.
    fn cost(self) -> f64 {
        self.lost / self.spent.max(1.0)
    }

    fn share(self) -> f64 {
        self.stalls as f64 / self.iterations.max(1) as f64
    }
}

/// A group of cells that share a part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StallGroup<'a> {
    /// One path between two ranks.
    Pair(&'a [String], &'a [u32]),
    /// One rank's end of a rail.
    End(&'a [String], u32),
    /// A rail.
    Rail(&'a [String]),
}

/// How many iterations of a round stalled.
pub(super) fn stalls_of(times: &[u64], rule: &DecisionRule) -> u64 {
    StallKind::Long.tally(times, rule).stalls
}

impl StallKind {
    /// By how much an iteration must be later than the median to count.
    fn least_delay(self, times: &[u64], rule: &DecisionRule) -> Option<f64> {
        let median = median_of_sorted(times)?;
        Some(match self {
            StallKind::Long => median.max(rule.shapes.stall.0 as f64),
            StallKind::Slow => median,
        })
    }

    fn tally(self, times: &[u64], rule: &DecisionRule) -> StallCount {
        let median = median_of_sorted(times).unwrap_or(0.0);
        let bound = median + self.least_delay(times, rule).unwrap_or(0.0);
        let stalled = times.iter().rev().take_while(|time| **time as f64 > bound);
        let (stalls, lost) = stalled.fold((0, 0.0), |(stalls, lost), time| {
            (stalls + 1, lost + *time as f64 - median)
        });
        StallCount {
            stalls,
            iterations: times.len() as u64,
            longest: times.last().copied().unwrap_or(0),
            lost,
            spent: times.iter().map(|time| *time as f64).sum(),
        }
    }

    /// Stalls of a cell over all rounds.
    fn of_cell(self, summary: &CellSummary<'_>, rule: &DecisionRule) -> StallCount {
        let mut sum = StallCount::default();
        for round in &summary.rounds {
            sum.add(self.tally(&round.times, rule));
        }
        sum
    }

    /// Whether stalls cost enough to be worth a finding.
    fn matters(self, own: StallCount, elsewhere: f64, rule: &DecisionRule) -> bool {
        self == StallKind::Long || own.cost() >= rule.shapes.lost && own.cost() >= TIMES * elsewhere
    }

    /// What was seen, in words.
    fn sentence(self, own: StallCount, elsewhere: &str) -> String {
        let longest = Nanos(own.longest);
        let (stalls, all) = (own.stalls, own.iterations);
        match self {
            StallKind::Long => {
                format!("{stalls} of {all} iterations stall, the longest takes {longest}; {elsewhere}")
            }
            StallKind::Slow => format!(
                "{stalls} of {all} iterations take twice the median or longer, up to {longest}, which costs {} of the goodput; {elsewhere}",
                text::percent(own.cost())
            ),
        }
    }

    fn rule_in_words(self, rule: &DecisionRule) -> String {
        match self {
            StallKind::Long => format!(
                "intermittent: iterations that take {} longer than the median of their \
                 cell, and twice as long, more often than elsewhere in every round",
                rule.shapes.stall
            ),
            StallKind::Slow => format!(
                "intermittent: iterations that take twice the median of their cell or longer cost {} of the goodput or more, and \
                 {TIMES} times as much as elsewhere, in every round",
                text::percent(rule.shapes.lost)
            ),
        }
    }
}

/// The parts on which stalls gather, among cells of one test.
pub(super) fn of(summaries: &[CellSummary<'_>], rule: &DecisionRule, places: &[usize]) -> Vec<Candidate> {
    let mut left: BTreeSet<usize> = places.iter().copied().collect();
    let mut found = of_kind(StallKind::Long, summaries, rule, &mut left);
    found.extend(of_kind(StallKind::Slow, summaries, rule, &mut left));
    found
}

/// The same for one kind of stalls, among the cells that are left; those of parts that are found leave.
fn of_kind(
    kind: StallKind,
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
    left: &mut BTreeSet<usize>,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    loop {
        let tallies: BTreeMap<usize, StallCount> = left
            .iter()
            .map(|place| (*place, kind.of_cell(&summaries[*place], rule)))
            .collect();
        let all = tallies.values().fold(StallCount::default(), |mut sum, tally| {
            sum.add(*tally);
            sum
        });
        if all.stalls < FEWEST {
            return found;
        }
        let parts = parts(summaries, left);
        // Both kinds are looked for.
        let considered = 2.0 * parts.len() as f64;
        let judged = parts.into_iter().filter_map(|(part, cells)| {
            let own = cells.iter().fold(StallCount::default(), |mut sum, place| {
                sum.add(tallies[place]);
                sum
            });
            let others = (all.stalls - own.stalls, all.iterations - own.iterations);
            let stands_out = own.stalls >= FEWEST
                && others.1 > 0
                && own.share() >= TIMES * others.0 as f64 / others.1 as f64
                && kind.matters(
                    own,
                    (all.lost - own.lost) / (all.spent - own.spent).max(1.0),
                    rule,
                );
            let p_value = more_often(own.stalls, own.iterations, others.0, others.1);
            stands_out.then_some((p_value, part, cells, own, others))
        });
        let best = judged.min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((p_value, part, cells, own, others)) =
            best.filter(|(p_value, ..)| p_value * considered < rule.budget_of(Question::Shapes))
        else {
            found.extend(everywhere(kind, summaries, rule, left));
            return found;
        };
        let elsewhere = format!("{} of {} elsewhere", others.0, others.1);
        let outside: Vec<usize> = left.iter().copied().filter(|p| !cells.contains(p)).collect();
        let mut candidate = candidate(kind, summaries, rule, &cells, &outside, own, &elsewhere);
        candidate.p_value = (p_value * considered).min(1.0);
        candidate.rails = match part {
            StallGroup::Pair(rails, ranks) => {
                candidate.ranks = ranks.to_vec();
                rails.to_vec()
            }
            StallGroup::End(rails, rank) => {
                candidate.ranks = vec![rank];
                rails.to_vec()
            }
            StallGroup::Rail(rails) => rails.to_vec(),
        };
        left.retain(|place| !cells.contains(place));
        found.push(candidate);
    }
}

/// Stalls that gather nowhere, and are more than usual.
fn everywhere(
    kind: StallKind,
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
    left: &BTreeSet<usize>,
) -> Option<Candidate> {
    let is_long = |place: &usize| {
        let median = median_of_sorted(&summaries[*place].times);
        kind == StallKind::Long || median.is_some_and(|median| median >= LONG_MESSAGE)
    };
    let cells: Vec<usize> = left.iter().copied().filter(is_long).collect();
    let mut all = StallCount::default();
    for place in &cells {
        all.add(kind.of_cell(&summaries[*place], rule));
    }
    if all.stalls < FEWEST || !kind.matters(all, 0.0, rule) {
        return None;
    }
    let p_value = more_often(all.stalls, all.iterations, USUAL.0, USUAL.1);
    let usual = format!("{} of {} would be usual", USUAL.0, USUAL.1);
    let mut candidate = candidate(kind, summaries, rule, &cells, &[], all, &usual);
    candidate.p_value = p_value;
    if as_hosts_delay_pairs(kind, summaries, rule, &cells, all) >= rule.budget_of(Question::Shapes) {
        candidate.doubt = Some(format!(
            "{}; hosts that hold up as many iterations as they do in pairs of this run would cause as much: no part is accused",
            candidate.sentence
        ));
    }
    (p_value < rule.budget_of(Question::Shapes)).then_some(candidate)
}

/// The probability of so many stalls of groups, if every host of a group delays as many iterations by as much as hosts do in the pairs of this run; 0
/// where there are no groups, or no pairs. A group waits for the slowest of its hosts.
fn as_hosts_delay_pairs(
    kind: StallKind,
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
    cells: &[usize],
    own: StallCount,
) -> f64 {
    let groups = cells.iter().map(|place| &summaries[*place]);
    let hosts = groups
        .clone()
        .map(|group| group.cell.ranks.len())
        .min()
        .unwrap_or(0);
    if hosts <= 2 {
        return 0.0;
    }
    // By how much an iteration must be late to be a stall of one of these groups.
    let late = groups.filter_map(|group| kind.least_delay(&group.times, rule));
    let Some(late) = late.reduce(f64::min) else {
        return 0.0;
    };
    let of_group = held_up::share_of_group(summaries, hosts, late, f64::INFINITY);
    of_group.map_or(0.0, |of_group| at_least_of(own.stalls, own.iterations, of_group))
}

fn candidate(
    kind: StallKind,
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
    cells: &[usize],
    outside: &[usize],
    own: StallCount,
    elsewhere: &str,
) -> Candidate {
    let in_round = |places: &[usize], number: u16| {
        let rounds = places.iter().flat_map(|place| &summaries[*place].rounds);
        let mut sum = StallCount::default();
        for round in rounds.filter(|round| round.number == number) {
            sum.add(kind.tally(&round.times, rule));
        }
        sum
    };
    let stalled: Vec<usize> = cells
        .iter()
        .copied()
        .filter(|place| kind.of_cell(&summaries[*place], rule).stalls > 0)
        .collect();
    let rounds: BTreeSet<u16> = stalled
        .iter()
        .flat_map(|place| summaries[*place].rounds.iter().map(|round| round.number))
        .collect();
    let mut candidate = Candidate::of_part(FindingKind::Intermittent, stalled);
    candidate.rounds_shown = RoundTally::at(&rounds.into_iter().collect::<Vec<u16>>(), |number| {
        let (here, there) = (in_round(cells, number), in_round(outside, number));
        here.stalls > 0 && here.share() >= TIMES * there.share() && kind.matters(here, there.cost(), rule)
    });
    let ranks: BTreeSet<u32> = cells
        .iter()
        .flat_map(|place| summaries[*place].cell.ranks.iter().copied())
        .collect();
    candidate.ranks = ranks.into_iter().collect();
    candidate.sentence = kind.sentence(own, elsewhere);
    candidate.rule = kind.rule_in_words(rule);
    candidate
}

/// Every part, with its cells.
fn parts<'a>(
    summaries: &[CellSummary<'a>],
    places: &BTreeSet<usize>,
) -> BTreeMap<StallGroup<'a>, Vec<usize>> {
    let mut parts: BTreeMap<StallGroup<'a>, Vec<usize>> = BTreeMap::new();
    for place in places {
        let cell: &'a Cell = summaries[*place].cell;
        let mut add = |part| parts.entry(part).or_default().push(*place);
        add(StallGroup::Rail(&cell.rails));
        if let [first, second] = cell.ranks.as_slice() {
            add(StallGroup::End(&cell.rails, *first));
            add(StallGroup::End(&cell.rails, *second));
            add(StallGroup::Pair(&cell.rails, &cell.ranks));
        }
    }
    parts
}

//! Is a cell as fast as expected? Each measured cell against each reference of its test.
//!
//! A spec row applies to transports with links, from its size on, and to the algorithm it was published for. A
//! baseline is what the same cell reached in a recorded run, as absolute as a spec. Peers are the cells that measure
//! the same on other parts; their reference is the median of their medians. The threshold is the reference less its
//! tolerance or margin. A cell is *slow* only when all of this holds:
//!
//! 1. its median is below the threshold, over all rounds together and in every single round, where a round is compared with what its peers reached in the same round (machines drift, and common drift is
//!    not a fault), and it is further below what is expected than healthy measurements of its kind are (`variation`);
//! 2. it was measured `1 + remeasure` times or more;
//! 3. its p-value, corrected by Holm for every comparison of the run, is below the false-positive budget: it is neither the
//!    slow end of what varies between healthy measurements of its kind, nor was it disturbed in every round (`variation`).
//!
//! With only the first it is *suspected*: inconclusive until measured again. A cell that is below the threshold only if its ranks
//! started together as exactly as it seems is neither: it is unclear (`start_skew`). Comparisons that fail the first
//! condition enter the correction with a p-value of 1, which is never smaller than the true one: so the budget holds,
//! and the test need not be computed for healthy cells.

use rayon::prelude::*;

use super::iterations::Round;
use super::peers::{PeerGroups, peer_noun};
use super::start_skew::without_skew;
use super::summary::{CellSummary, rate_interval};
use super::variation::Disturbances;
use super::wire::Wire;
use record::stats::{holm, median_of_sorted, samples_needed};
use record::text;
use record::units::{Bytes, Nanos, Rate};
use record::{
    Collective, DecisionRule, Interval, Load, Question, Recorded, Reference, SpecRow, TestKind, TransportKind,
};

/// Kinds of tests that measure a victim alone and beside a load.
pub(super) const CONGESTION_TESTS: [TestKind; 2] = [TestKind::Incast, TestKind::AllToAll];

/// Fewer pairs do not show how slow collectives over them usually are.
const FEWEST_PAIRS: usize = 20;

/// One cell against one reference.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    /// The cell's wire rate.
    pub(super) measured: Interval<Rate>,
    /// The reference itself.
    pub(super) expected: Rate,
    /// What the rate must reach.
    pub(super) threshold: Rate,
    /// Where the reference comes from, in words, with its margin.
    pub(super) from: String,
    /// Whether it is an absolute figure, not the peers'.
    pub(super) is_spec: bool,
    /// Rounds measured, and how many of them are below the threshold.
    pub(super) rounds: (u16, u16),
    /// P-value corrected for all comparisons of the run.
    pub(super) p_value: f64,
    /// Whether the interval over all rounds is below the threshold.
    looks_slow: bool,
    /// Why it may only look slow, where its ranks may have started so far apart that nothing else is wrong.
    doubt: Option<Box<str>>,
}

impl Comparison {
    /// How far the threshold is missed: measured over threshold, smaller is worse.
    pub(super) fn ratio(&self) -> f64 {
        self.measured.median.0 / self.threshold.0
    }

    /// The share of what is expected that was measured.
    fn reached(&self) -> f64 {
        self.measured.median.0 / self.expected.0
    }

    /// `0.61 GB/s [0.60, 0.62] of 1.02 expected (median of 1 peer rail, margin 25 %)`.
    pub(super) fn in_words(&self) -> String {
        let (measured, expected) = (self.measured.to_string(), self.expected.to_string());
        // The unit is not repeated.
        let expected = match expected.split_once(' ') {
            Some((number, unit)) if measured.contains(unit) => number,
            _ => &expected,
        };
        format!("{measured} of {expected} expected ({})", self.from)
    }

    /// The rule that a slow cell broke, with its numbers.
    pub(super) fn rule_in_words(&self, rule: &DecisionRule) -> String {
        format!(
            "slow: the median is below {} in each of {} rounds (at least {}), and the corrected probability that healthy \
             measurements are that slow or that disturbed is below {}",
            self.threshold,
            self.rounds.0,
            u32::from(rule.remeasure) + 1,
            rule.budget_of(Question::Cells)
        )
    }

    fn is_confirmed(&self, rule: &DecisionRule) -> bool {
        let (measured, slow) = self.rounds;
        self.looks_slow
            && slow == measured
            && measured > rule.remeasure
            && self.p_value < rule.budget_of(Question::Cells)
    }
}

/// What can be said about a cell's speed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Speed {
    /// Not measured, and why.
    NotRun(String),
    /// Measured, but cannot be judged, and why.
    Unclear(String),
    /// Smaller than the sizes its spec applies to, and no other reference applies.
    BelowSpec(String),
    /// Meets every reference; this is the most demanding.
    Good(Comparison),
    /// Looks slow, not confirmed, and why not.
    Suspected(Comparison, String),
    /// Slow, confirmed; this is the reference missed most.
    Slow(Comparison),
}

impl Speed {
    /// The comparison the verdict rests on.
    pub(super) fn comparison(&self) -> Option<&Comparison> {
        match self {
            Speed::Good(comparison) | Speed::Slow(comparison) | Speed::Suspected(comparison, _) => {
                Some(comparison)
            }
            _ => None,
        }
    }

    /// Suspected or confirmed.
    pub(super) fn looks_slow(&self) -> bool {
        matches!(self, Speed::Suspected(..) | Speed::Slow(_))
    }

    /// Whether it was slow in every round, and another one may rule out that it was disturbed in all of them.
    pub(super) fn may_be_disturbed(&self, rule: &DecisionRule) -> bool {
        let Speed::Suspected(comparison, _) = self else {
            return false;
        };
        let (measured, slow) = comparison.rounds;
        slow == measured
            && measured <= rule.most_rounds_again()
            && comparison.p_value >= rule.budget_of(Question::Cells)
    }
}

/// The speed of every cell, and how many comparisons that took.
pub(super) fn speeds(recorded: &Recorded, summaries: &[CellSummary<'_>]) -> (Vec<Speed>, u32) {
    let rule = &recorded.run.rule;
    let peers = PeerGroups::of(summaries, rule.confidence);
    let mut answers: Vec<Result<Applied, Speed>> = (0..summaries.len())
        .into_par_iter()
        .map(|place| compare(recorded, summaries, &peers, place))
        .collect();
    let disturbances = disturbances(&answers);
    // Further rounds are asked for until it shows: each of them is another look.
    let looks = f64::from(1 + rule.most_rounds_again() - rule.remeasure);
    let pairs = ReachedByPairs::of(&answers);
    for applied in answers.iter_mut().flatten() {
        let of_cell = disturbances.of_any(applied.pairs);
        for comparison in applied.comparisons.iter_mut().filter(|one| one.looks_slow) {
            let (measured, slow) = comparison.rounds;
            let as_slow = pairs.as_slow_as(comparison).filter(|_| applied.pairs > 1);
            let as_slow = as_slow.map(|pairs| pairs.of_any(applied.pairs));
            let (slow, measured) = (usize::from(slow), usize::from(measured));
            let chances = [Some(of_cell), as_slow].into_iter().flatten();
            let every_time = chances
                .map(|chance| looks * chance.at_least(slow, measured))
                .fold(0.0, f64::max);
            comparison.p_value = comparison.p_value.max(every_time.min(1.0));
        }
    }
    let mut compared: Vec<&mut Comparison> = answers
        .iter_mut()
        .flatten()
        .flat_map(|applied| applied.comparisons.iter_mut())
        .collect();
    let p_values: Vec<f64> = compared.iter().map(|comparison| comparison.p_value).collect();
    for (comparison, adjusted) in compared.iter_mut().zip(holm(&p_values)) {
        comparison.p_value = adjusted;
    }
    let speed =
        |answer: Result<Applied, Speed>| answer.map_or_else(|speed| speed, |applied| applied.conclude(rule));
    (answers.into_iter().map(speed).collect(), p_values.len() as u32)
}

/// How often a pair was slow in some of its rounds and not in others. A ring is disturbed where one of its pairs is.
fn disturbances(answers: &[Result<Applied, Speed>]) -> Disturbances {
    let (mut disturbed, mut all, mut pairs) = (0, 0, 0);
    for applied in answers.iter().flatten() {
        let rounds = applied.comparisons.iter().map(|comparison| comparison.rounds);
        // A cell that misses one reference every time is not disturbed, whatever the other says.
        let Some((measured, slow)) = rounds.max_by_key(|(_, slow)| *slow) else {
            continue;
        };
        all += usize::from(measured);
        pairs += usize::from(measured) * applied.pairs;
        disturbed += usize::from(if slow < measured { slow } else { 0 });
    }
    Disturbances::of_pairs(disturbed, all, pairs)
}

/// What pairs reached of what is expected of them, ascending: of an absolute figure, and of their peers. A collective is as slow as the slowest pair it
/// crosses, so how often pairs are that slow says how often it is.
struct ReachedByPairs {
    of_spec: Vec<f64>,
    of_peers: Vec<f64>,
}

impl ReachedByPairs {
    fn of(answers: &[Result<Applied, Speed>]) -> ReachedByPairs {
        let of = |is_spec: bool| {
            let pairs = answers.iter().flatten().filter(|applied| applied.pairs == 1);
            let comparisons = pairs.flat_map(|applied| &applied.comparisons);
            let alike = comparisons.filter(|comparison| comparison.is_spec == is_spec);
            let mut reached: Vec<f64> = alike.map(Comparison::reached).collect();
            reached.sort_by(f64::total_cmp);
            reached
        };
        ReachedByPairs {
            of_spec: of(true),
            of_peers: of(false),
        }
    }

    /// How often a pair reaches as little as this; none where too few were measured to say.
    fn as_slow_as(&self, comparison: &Comparison) -> Option<Disturbances> {
        let reached = match comparison.is_spec {
            true => &self.of_spec,
            false => &self.of_peers,
        };
        let as_slow = reached.partition_point(|share| *share <= comparison.reached());
        (reached.len() >= FEWEST_PAIRS).then(|| Disturbances::seen(as_slow, reached.len()))
    }
}

/// The references that apply to a cell, and why others do not.
struct Applied {
    /// Pairs of ranks that the cell's data goes between: each of them may be disturbed.
    pairs: usize,
    comparisons: Vec<Comparison>,
    reasons: Vec<String>,
    is_below_spec: bool,
}

impl Applied {
    fn conclude(self, rule: &DecisionRule) -> Speed {
        let worst = |list: &mut dyn Iterator<Item = &Comparison>| {
            list.min_by(|a, b| a.ratio().total_cmp(&b.ratio())).cloned()
        };
        if let Some(slow) = worst(&mut self.comparisons.iter().filter(|c| c.is_confirmed(rule))) {
            return Speed::Slow(slow);
        }
        if let Some(suspect) = worst(&mut self.comparisons.iter().filter(|c| c.looks_slow)) {
            let why = suspicion(&suspect, rule);
            return Speed::Suspected(suspect, why);
        }
        if let Some(doubt) = self
            .comparisons
            .iter()
            .find_map(|comparison| comparison.doubt.clone())
        {
            return Speed::Unclear(doubt.into());
        }
        if let Some(demanding) = worst(&mut self.comparisons.iter()) {
            return Speed::Good(demanding);
        }
        let reasons = self.reasons.join("; ");
        if self.is_below_spec {
            Speed::BelowSpec(reasons)
        } else {
            Speed::Unclear(format!("no expectation: {reasons}"))
        }
    }
}

/// Why a suspect is not accused.
fn suspicion(suspect: &Comparison, rule: &DecisionRule) -> String {
    let (measured, slow) = suspect.rounds;
    let why = if measured <= rule.remeasure {
        format!(
            "not re-measured ({measured} of {} rounds)",
            u32::from(rule.remeasure) + 1
        )
    } else if slow < measured {
        format!("slow in {slow} of {measured} rounds only")
    } else {
        format!("not significant: {}", text::p_value(suspect.p_value))
    };
    format!("suspected slow, {}; {why}", suspect.in_words())
}

fn compare(
    recorded: &Recorded,
    summaries: &[CellSummary<'_>],
    peers: &PeerGroups,
    place: usize,
) -> Result<Applied, Speed> {
    let summary = &summaries[place];
    let rule = &recorded.run.rule;
    // Streams run for a fixed time: they are judged by how they are spread.
    if summary.cell.collective == Collective::Streams {
        return Err(match summary.done {
            true => Speed::Unclear("streams have no speed of their own".into()),
            false => Speed::NotRun(summary.why_not_measured(recorded)),
        });
    }
    let (bytes, measured) = measurable(recorded, summary)?;
    let test = recorded.run.test_of(summary.cell);
    let references = test.map_or(&[][..], |test| &test.references);
    let is_congested = test.is_some_and(|test| CONGESTION_TESTS.contains(&test.kind))
        && (summary.cell.load == Load::Together || !summary.cell.collective.is_pairwise());
    let mut applied = Applied {
        pairs: match summary.cell.ranks.len() {
            0..=2 => 1,
            ranks => ranks,
        },
        comparisons: Vec::new(),
        reasons: Vec::new(),
        is_below_spec: false,
    };
    for reference in references {
        let comparison = match reference {
            Reference::Spec(row) if is_congested => {
                Err(format!("spec {} applies to links without other load", row.id))
            }
            Reference::Spec(row) => {
                against_spec(summary, row, bytes, measured, rule, &mut applied.is_below_spec)
            }
            Reference::Baseline { run, margin, rates } => {
                match rates.binary_search_by_key(&summary.cell.id, |known| known.cell) {
                    Ok(at) => against_baseline(summary, run, *margin, rates[at].rate, bytes, measured, rule),
                    Err(_) => Err(format!("baseline {run} has no such cell")),
                }
            }
            Reference::Peers { margin } => {
                against_peers(summaries, peers, place, *margin, bytes, measured, rule)
            }
        };
        match comparison {
            Ok(comparison) => applied.comparisons.push(comparison),
            Err(reason) => applied.reasons.push(reason),
        }
    }
    applied.reasons.extend(
        test.into_iter()
            .flat_map(|test| test.missing_references.iter().cloned()),
    );
    if applied.reasons.is_empty() {
        applied.reasons.push("the suite states none for this test".into());
    }
    Ok(applied)
}

/// The busiest link's bytes and the wire rate of a cell that can be judged; otherwise why it cannot.
fn measurable(recorded: &Recorded, summary: &CellSummary<'_>) -> Result<(Bytes, Interval<Rate>), Speed> {
    let confidence = recorded.run.rule.confidence;
    let iterations = summary.times.len();
    if let Wire::Contradiction(text) = &summary.wire {
        return Err(Speed::Unclear(text.clone()));
    }
    if iterations == 0 {
        return Err(Speed::NotRun(summary.why_not_measured(recorded)));
    }
    if !summary.done {
        return Err(Speed::Unclear(summary.why_not_measured(recorded)));
    }
    let needed = samples_needed(confidence);
    if needed.is_none_or(|needed| iterations < needed) {
        let needed = needed.map_or("more".into(), |needed| needed.to_string());
        return Err(Speed::Unclear(format!(
            "{iterations} complete iterations; an interval needs {needed}"
        )));
    }
    let bytes = summary
        .wire
        .bytes()
        .ok_or_else(|| Speed::Unclear("nothing crosses a link".into()))?;
    match summary.wire_rate(confidence) {
        Some(rate) => Ok((bytes, rate)),
        None => Err(Speed::Unclear("recorded times of zero give no rate".into())),
    }
}

fn against_spec(
    summary: &CellSummary<'_>,
    row: &SpecRow,
    bytes: Bytes,
    measured: Interval<Rate>,
    rule: &DecisionRule,
    is_below_spec: &mut bool,
) -> Result<Comparison, String> {
    let cell = summary.cell;
    if cell.transport == TransportKind::Shm {
        return Err(format!(
            "spec {} applies to links, and shared memory is not a link",
            row.id
        ));
    }
    if let Some(algorithm) = row.algorithm.filter(|algorithm| *algorithm != cell.algorithm) {
        return Err(format!(
            "spec {} applies to {algorithm}, not {}",
            row.id, cell.algorithm
        ));
    }
    if let Some(mbit) = row.line_mbit
        && cell.line_mbit != Some(mbit)
    {
        return Err(format!("spec {} applies to links of {mbit} Mbit/s", row.id));
    }
    if cell.size < row.from_size {
        *is_below_spec = true;
        return Err(format!("spec {} applies to {} and above", row.id, row.from_size));
    }
    let threshold = checked_threshold(row.rate, row.tolerance, &format!("spec {}", row.id))?;
    let from = format!("spec {}, tolerance {}", row.id, text::percent(row.tolerance));
    let mut comparison = compare_rates(
        summary,
        bytes,
        measured,
        row.rate,
        threshold,
        None,
        from,
        rule,
        |_| None,
    );
    comparison.is_spec = true;
    Ok(comparison)
}

fn against_baseline(
    summary: &CellSummary<'_>,
    run: &str,
    margin: f64,
    then: Rate,
    bytes: Bytes,
    measured: Interval<Rate>,
    rule: &DecisionRule,
) -> Result<Comparison, String> {
    let threshold = checked_threshold(then, margin, &format!("baseline {run}"))?;
    let from = format!("baseline {run}, margin {}", text::percent(margin));
    let mut comparison = compare_rates(
        summary,
        bytes,
        measured,
        then,
        threshold,
        None,
        from,
        rule,
        |_| None,
    );
    comparison.is_spec = true;
    Ok(comparison)
}

fn against_peers(
    summaries: &[CellSummary<'_>],
    peers: &PeerGroups,
    place: usize,
    margin: f64,
    bytes: Bytes,
    measured: Interval<Rate>,
    rule: &DecisionRule,
) -> Result<Comparison, String> {
    let summary = &summaries[place];
    let reference = peers
        .reference(place)
        .ok_or_else(|| "no measured peer to compare with".to_string())?;
    let (expected, count) = (reference.rate, reference.count);
    let threshold = checked_threshold(expected, margin, "the peers' median")?;
    let noun = peer_noun(
        summary.cell,
        peers.others(place).map(|peer| summaries[peer.place].cell),
    );
    let from = format!(
        "median of {} peer {noun}{}, margin {}",
        count,
        text::plural(count),
        text::percent(margin)
    );
    let of_round = |number: u16| Some(peers.rate_in_round(summaries, place, number)? * (1.0 - margin));
    Ok(compare_rates(
        summary,
        bytes,
        measured,
        expected,
        threshold,
        Some(count),
        from,
        rule,
        of_round,
    ))
}

/// The rate that must be reached; an error text when the reference is unusable.
fn checked_threshold(expected: Rate, slack: f64, what: &str) -> Result<Rate, String> {
    let threshold = expected * (1.0 - slack);
    let makes_sense = threshold.0.is_finite() && threshold.0 > 0.0 && slack >= 0.0;
    makes_sense
        .then_some(threshold)
        .ok_or_else(|| format!("{what} gives no usable threshold"))
}

/// `of_round` is the threshold of one round, where rounds have one of their own; `peers` is how many the threshold comes from, where it does.
#[allow(clippy::too_many_arguments)]
fn compare_rates(
    summary: &CellSummary<'_>,
    bytes: Bytes,
    measured: Interval<Rate>,
    expected: Rate,
    threshold: Rate,
    peers: Option<usize>,
    from: String,
    rule: &DecisionRule,
    of_round: impl Fn(u16) -> Option<Rate>,
) -> Comparison {
    let variation = &summary.variation;
    let p_of = |own: Interval<Rate>| {
        let p_of_cell = variation.p_of_rate(&own, expected, peers, rule.confidence);
        // Where all of them miss an absolute figure, none is unusual.
        match peers {
            Some(_) => p_of_cell,
            None => (2.0 * p_of_cell.min(variation.p_of_crowd(&own, threshold))).min(1.0),
        }
    };
    let seen = summary.seen_rate(rule.confidence);
    let below = seen.filter(|seen| seen.median < threshold);
    let is_unusual = below.is_some_and(|seen| variation.is_unusual(p_of(seen)));
    let doubt = start_doubt(summary, bytes, threshold).filter(|_| is_unusual);
    let looks_slow = is_unusual && doubt.is_none();
    let p_value = match doubt {
        None => below
            .and_then(|_| summary.own_rate(rule.confidence))
            .map_or(1.0, p_of),
        Some(_) => 1.0,
    };
    let is_slow_round = |round: &Round| {
        let Some(own) = rate_interval(&round.times, bytes, rule.confidence) else {
            return false;
        };
        match looks_slow {
            // Rounds are compared with their own peers only for suspects: a healthy tournament has thousands of peers.
            true => own.median < of_round(round.number).unwrap_or(threshold),
            false => {
                let p_value = variation.p_of_rate(&own, expected, peers, rule.confidence);
                own.median < threshold && variation.is_unusual(p_value)
            }
        }
    };
    let slow_rounds = match looks_slow || summary.rounds.len() > 1 {
        true => summary.rounds.iter().filter(|round| is_slow_round(round)).count(),
        false => 0,
    };
    let count = |rounds: usize| u16::try_from(rounds).unwrap_or(u16::MAX);
    Comparison {
        measured,
        expected,
        threshold,
        from,
        is_spec: false,
        rounds: (count(summary.rounds.len()), count(slow_rounds)),
        p_value,
        looks_slow,
        doubt,
    }
}

/// Why a cell below `threshold` may only look slow: without what is not known of its ranks' starts, its time would do.
fn start_doubt(summary: &CellSummary<'_>, bytes: Bytes, threshold: Rate) -> Option<Box<str>> {
    let (skew, median) = (summary.unseen_skew, median_of_sorted(&summary.times)?);
    let would_reach = Rate(bytes.0 as f64 * 1e9 / without_skew(median, skew));
    if skew == Nanos(0) || would_reach < threshold {
        return None;
    }
    let why = format!(
        "below {threshold}, but its ranks may have started {skew} apart ({} of its time): their clocks are not known better, \
         and that alone explains it",
        text::percent(skew.0 as f64 / median)
    );
    Some(why.into())
}

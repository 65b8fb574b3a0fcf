//! Does a sender get its share where many send to one (docs/method.md, "Fair shares")?

use std::collections::{BTreeMap, HashMap, HashSet};

use topology::Topology;
use topology::graph::Graph;

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use record::stats::{EFFICIENCY, Scale, median, normal_score, student_above, student_score};
use record::text;
use record::{
    Cell, Confirmation, Event, FairShares, Finding, FindingKind, Place, Question, Recorded, ShareOf, files,
};

/// A sender that gets so much less or more than others is accused, as a factor.
const UNFAIR: f64 = 2.0;
/// Others as far from a receiver that one is compared with, at least.
const FEWEST_OTHERS: usize = 2;
/// How often a sender must have met a receiver.
const FEWEST_RECEIVERS: usize = 3;
/// How much healthy senders differ for good, as a logarithm, before anything is measured, and how many senders that is worth.
const ASSUMED: f64 = 0.1;
const WORTH: f64 = 8.0;
/// Variance of the median of normal values, times their number.
const ERROR_OF_MEDIAN: f64 = std::f64::consts::FRAC_PI_2;
/// What would have shown is what is found with this probability.
const POWER: f64 = 0.9;
/// Where only a larger factor than this would show, nothing is said.
const MOST_SHOWN: f64 = 10.0;
/// A sender that differs by this factor already, and is improbable at this level by itself, may be unfair once it is better known.
const MAYBE_UNFAIR: f64 = 1.5;
const SUSPECT: f64 = 0.05;
/// Receivers that are listed as evidence.
const MOST_LISTED: usize = 8;

/// What senders got, by test and rail.
#[derive(Debug, Default)]
pub(super) struct Fairness<'a> {
    rails: Vec<RailShares<'a>>,
    /// Senders that were judged.
    judged: usize,
    /// Each of so many looks at the same senders has its share of the budget: what is open is measured on.
    looks: usize,
}

/// The senders of a rail.
#[derive(Debug)]
struct RailShares<'a> {
    test: &'a str,
    rail: &'a str,
    receivers: usize,
    /// What each sender gets of what others get, whoever they are.
    effects: Vec<(u32, f64)>,
    /// Those that can be judged.
    senders: Vec<Sender>,
    /// The factor that would have shown; none where nobody could be judged.
    shown: Option<f64>,
}

/// One sender over all receivers that it met.
#[derive(Debug)]
struct Sender {
    rank: u32,
    /// The receivers and the logarithms of its shares.
    met: Vec<(u32, f64)>,
    /// The median of them.
    effect: f64,
    /// How far that is from what others get, and how well it is known.
    beside: f64,
    deviation: f64,
    freedom: f64,
    cells: Vec<u32>,
}

/// What one sender got in one slot.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    cell: u32,
    from: u32,
    to: u32,
    bytes: f64,
}

/// What is to be said of a cell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// Its sender gets its share.
    Fairly,
    /// Its sender is accused.
    Unfairly(String),
    /// It cannot be said, and why.
    Unclear(String),
}

impl<'a> Fairness<'a> {
    /// Judges who got how much; empty where no cells send to one rank.
    pub(super) fn of(recorded: &'a Recorded) -> Fairness<'a> {
        let is_of_many = |cell: &&Cell| cell.streams.as_ref().is_some_and(|terms| terms.into_one);
        let cells: HashMap<u32, &Cell> = recorded
            .run
            .cells
            .iter()
            .filter(is_of_many)
            .map(|cell| (cell.id, cell))
            .collect();
        if cells.is_empty() {
            return Fairness::default();
        }
        let graph = recorded.topology.as_ref().and_then(|text| {
            let topology = Topology::parse(files::TOPOLOGY, text).ok()?;
            Graph::of(&topology, &recorded.run.ranks).ok()
        });
        let mut slots: BTreeMap<(&str, &str, u32), Vec<Arrived>> = BTreeMap::new();
        for event in &recorded.events {
            let Event::CellDone(done) = event else { continue };
            let Some(cell) = cells.get(&done.cell) else {
                continue;
            };
            let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
                continue;
            };
            let windows = done.streams.iter().map(|stream| stream.bytes.len()).max();
            let of_window = |window: usize| -> u64 {
                let bytes = done.streams.iter().filter_map(|stream| stream.bytes.get(window));
                bytes.sum()
            };
            let of_windows: Vec<u64> = (0..windows.unwrap_or(0)).map(of_window).collect();
            let Some(bytes) = median(&of_windows) else {
                continue;
            };
            slots
                .entry((&cell.test, rail, cell.slot))
                .or_default()
                .push(Arrived {
                    cell: cell.id,
                    from: *from,
                    to: *to,
                    // Less than a message is not counted.
                    bytes: bytes + cell.size.0.max(1) as f64 / 2.0,
                });
        }
        let mut rails: BTreeMap<(&str, &str), Vec<Vec<Arrived>>> = BTreeMap::new();
        for ((test, rail, _), arrived) in slots {
            rails.entry((test, rail)).or_default().push(arrived);
        }
        let slots_of = rails;
        let leaf = |rank: u32, rail: &str| graph.as_ref()?.leaf_of(rank, rail);
        let mut rails: Vec<RailShares<'a>> = slots_of
            .iter()
            .map(|((test, rail), slots)| RailShares::of(test, rail, slots, &|rank| leaf(rank, rail)))
            .collect();
        let judged = rails.iter().map(|rail| rail.senders.len()).sum();
        let rule = &recorded.run.rule;
        let looks = 1 + usize::from(rule.most_rounds_again());
        let accepted = rule.budget_of(Question::Fairness) / (usize::max(judged, 1) * looks) as f64;
        for (rail, slots) in rails.iter_mut().zip(slots_of.values()) {
            rail.shown = rail.shown(accepted);
            rail.set_unfair_apart(slots, &|rank| leaf(rank, rail.rail), accepted);
        }
        Fairness { rails, judged, looks }
    }

    /// The planned cells of the rails on which a sender is suspected and neither accused nor cleared, or too little would show: repeated from other
    /// ports they may tell.
    pub(super) fn suspected(&self, recorded: &Recorded) -> HashSet<u32> {
        let budget = recorded.run.rule.budget_of(Question::Fairness);
        let open = |rail: &&RailShares<'_>| {
            let is_known = rail.shown.is_some_and(|shown| shown <= MOST_SHOWN);
            let mut senders = rail.senders.iter();
            let may_be_open = !rail.senders.is_empty() && !rail.has_accused(self, budget);
            may_be_open && (!is_known || senders.any(Sender::may_be_far))
        };
        let open: Vec<&RailShares<'_>> = self.rails.iter().filter(open).collect();
        let is_planned_there = |cell: &&Cell| {
            let terms = cell.streams.as_ref();
            let is_planned = terms.is_some_and(|terms| terms.into_one && terms.round == 0);
            is_planned
                && open
                    .iter()
                    .any(|rail| rail.test == cell.test && cell.rails == [rail.rail])
        };
        let cells = recorded.run.cells.iter().filter(is_planned_there);
        cells.map(|cell| cell.id).collect()
    }

    /// The probability of a sender's effect where nothing is wrong, corrected for all that were judged and for all looks at them.
    fn p_value(&self, sender: &Sender) -> f64 {
        (sender.p_value() * (self.judged * self.looks) as f64).min(1.0)
    }

    fn is_accused(&self, sender: &Sender, budget: f64) -> bool {
        sender.is_far() && self.p_value(sender) < budget
    }

    /// What is to be said of a cell; none of one that does not send to a rank beside others.
    pub(super) fn says(&self, cell: &Cell, budget: f64) -> Option<Shared> {
        cell.streams.as_ref().filter(|terms| terms.into_one)?;
        let from = *cell.ranks.first()?;
        let rail = |known: &&RailShares<'_>| known.test == cell.test && cell.rails == [known.rail];
        let Some(rail) = self.rails.iter().find(rail) else {
            return Some(Shared::Unclear("what arrived was not recorded".into()));
        };
        let Some(sender) = rail.senders.iter().find(|sender| sender.rank == from) else {
            return Some(Shared::Unclear(format!(
                "what its sender gets was not compared: it takes {FEWEST_RECEIVERS} slots or more without a sender that takes too much, and {FEWEST_OTHERS} others as far from the receiver"
            )));
        };
        if self.is_accused(sender, budget) {
            return Some(Shared::Unfairly(format!(
                "its sender gets {} of what others get",
                times(sender.effect)
            )));
        }
        if sender.is_far() {
            return Some(Shared::Unclear(format!(
                "its sender gets {} of what others get; not significant: {}",
                times(sender.effect),
                text::p_value(self.p_value(sender))
            )));
        }
        Some(match rail.shown {
            Some(shown) if shown <= MOST_SHOWN => Shared::Fairly,
            _ => Shared::Unclear(
                "what senders get differs so much from receiver to receiver that one which gets a tenth would not stand out".into(),
            ),
        })
    }

    /// A row for every test and rail.
    pub(super) fn summaries(&self, recorded: &Recorded) -> Vec<FairShares> {
        let host = |(rank, effect): &(u32, f64)| {
            let mut ranks = recorded.run.ranks.iter();
            let host = ranks.find(|record| record.rank == *rank);
            ShareOf {
                host: host.map_or_else(|| format!("rank {rank}"), |record| record.host.clone()),
                share: effect.exp(),
            }
        };
        let row = |rail: &RailShares<'_>| {
            let by_effect = |a: &&(u32, f64), b: &&(u32, f64)| a.1.total_cmp(&b.1);
            Some(FairShares {
                test: rail.test.to_string(),
                rail: rail.rail.to_string(),
                senders: rail.effects.len() as u32,
                receivers: rail.receivers as u32,
                least: rail.effects.iter().min_by(by_effect).map(host)?,
                most: rail.effects.iter().max_by(by_effect).map(host)?,
                shown: rail.shown,
            })
        };
        self.rails.iter().filter_map(row).collect()
    }
}

impl<'a> RailShares<'a> {
    fn of<'g>(
        test: &'a str,
        rail: &'a str,
        slots: &[Vec<Arrived>],
        leaf: &dyn Fn(u32) -> Option<&'g str>,
    ) -> RailShares<'a> {
        let senders = compare(slots, leaf);
        RailShares {
            test,
            rail,
            receivers: slots.len(),
            effects: senders
                .iter()
                .map(|sender| (sender.rank, sender.effect))
                .collect(),
            senders,
            shown: None,
        }
    }

    /// A sender beyond doubt decides what others are compared with, so the farthest out is set apart first, and the others are judged without it. One that
    /// takes too much decides what all others of its slots get, more of some and less of others, by the cables that they share with it: they are judged by slots
    /// in which it does not send. One that starves leaves them as they are. Who cannot be compared any more is not judged.
    fn set_unfair_apart<'g>(
        &mut self,
        slots: &[Vec<Arrived>],
        leaf: &dyn Fn(u32) -> Option<&'g str>,
        accepted: f64,
    ) {
        let mut apart: Vec<Sender> = Vec::new();
        loop {
            let is_unfair = |sender: &Sender| sender.is_far() && sender.p_value() < accepted;
            let all = self
                .senders
                .iter()
                .enumerate()
                .filter(|(_, sender)| is_unfair(sender));
            let Some((farthest, _)) =
                all.max_by(|(_, one), (_, other)| one.effect.abs().total_cmp(&other.effect.abs()))
            else {
                break;
            };
            apart.push(self.senders.swap_remove(farthest));
            let is_apart = |from: u32, wild: bool| {
                let mut apart = apart.iter();
                apart.any(|sender| sender.rank == from && (sender.effect > 0.0) == wild)
            };
            let has_wild = |slot: &[Arrived]| slot.iter().any(|arrived| is_apart(arrived.from, true));
            let others: Vec<Vec<Arrived>> = slots
                .iter()
                .filter(|slot| !has_wild(slot))
                .map(|slot| without(slot, |from| is_apart(from, false)))
                .collect();
            self.senders = compare(&others, leaf);
        }
        self.senders.extend(apart);
        self.senders.sort_by_key(|sender| sender.rank);
    }

    fn has_accused(&self, fairness: &Fairness<'_>, budget: f64) -> bool {
        let mut senders = self.senders.iter();
        senders.any(|sender| fairness.is_accused(sender, budget))
    }

    /// The factor that a sender in the middle would have shown with probability 0.9, where so large a p-value is accepted.
    fn shown(&self, accepted: f64) -> Option<f64> {
        let deviations: Vec<f64> = self.senders.iter().map(|sender| sender.deviation).collect();
        let freedom = self.senders.first()?.freedom;
        let reach = student_score(1.0 - accepted, freedom) + normal_score(1.0 - POWER);
        let factor = (reach * median(&deviations)?).exp();
        factor.is_finite().then(|| factor.max(UNFAIR))
    }
}

/// What others than these senders got in a slot.
fn without(slot: &[Arrived], left_out: impl Fn(u32) -> bool) -> Vec<Arrived> {
    slot.iter()
        .filter(|arrived| !left_out(arrived.from))
        .copied()
        .collect()
}

/// The senders of these slots that can be compared with others, judged. One that is far out is held against what healthy senders vary by all others alone, as if
/// it had not been there: else it would be part of what is called healthy, and of a few senders most of it.
fn compare<'g>(slots: &[Vec<Arrived>], leaf: &dyn Fn(u32) -> Option<&'g str>) -> Vec<Sender> {
    let mut senders = shares(slots, leaf);
    let Some(all) = Healthy::of(&senders) else {
        return senders;
    };
    for sender in &mut senders {
        let alone = sender.is_far().then(|| {
            let others: Vec<Vec<Arrived>> = slots
                .iter()
                .map(|slot| without(slot, |from| from == sender.rank))
                .collect();
            let others = Healthy::of(&shares(&others, leaf))?;
            // What shares of one sender differ by says nothing of its effect: its own count as well.
            let within = others.within.max(all.within);
            Some(Healthy { within, ..others })
        });
        alone.flatten().as_ref().unwrap_or(&all).judge(sender);
    }
    senders
}

/// What the senders of these slots got of what others got, of those that can be compared often enough.
fn shares<'g>(slots: &[Vec<Arrived>], leaf: &dyn Fn(u32) -> Option<&'g str>) -> Vec<Sender> {
    let mut senders: BTreeMap<u32, Sender> = BTreeMap::new();
    for slot in slots {
        let is_near = |one: &Arrived| leaf(one.from).is_some() && leaf(one.from) == leaf(one.to);
        for one in slot {
            let sender = senders.entry(one.from).or_insert_with(|| Sender::new(one.from));
            sender.cells.push(one.cell);
            let others = slot
                .iter()
                .filter(|other| other.cell != one.cell && is_near(other) == is_near(one));
            let others: Vec<f64> = others.map(|other| other.bytes.ln()).collect();
            if others.len() >= FEWEST_OTHERS {
                let share = one.bytes.ln() - median(&others).unwrap_or_default();
                sender.met.push((one.to, share));
            }
        }
    }
    let is_met = |sender: &Sender| sender.met.len() >= FEWEST_RECEIVERS;
    let mut senders: Vec<Sender> = senders.into_values().filter(is_met).collect();
    for sender in &mut senders {
        let shares: Vec<f64> = sender.met.iter().map(|(_, share)| *share).collect();
        sender.effect = median(&shares).unwrap_or_default();
    }
    senders
}

/// How healthy senders vary, by some of them.
struct Healthy {
    /// The effect in the middle.
    middle: f64,
    /// What shares of one sender differ by.
    within: f64,
    /// Variance of effects for good.
    level: f64,
    /// How well both are known.
    freedom: [f64; 2],
}

impl Healthy {
    fn of(senders: &[Sender]) -> Option<Healthy> {
        let differences: Vec<f64> = senders.iter().flat_map(Sender::differences).collect();
        let effects: Vec<f64> = senders.iter().map(|sender| sender.effect).collect();
        let (within, crowd) = (Scale::of(&differences)?, Scale::of(&effects)?);
        let errors: Vec<f64> = senders
            .iter()
            .map(|sender| sender.error(within.deviation))
            .collect();
        let beyond = (crowd.deviation.powi(2) - median(&errors).unwrap_or_default()).max(0.0);
        let known = EFFICIENCY * crowd.values as f64;
        Some(Healthy {
            middle: crowd.middle,
            within: within.deviation,
            level: (WORTH * ASSUMED.powi(2) + known * beyond) / (WORTH + known),
            freedom: [WORTH + known, WORTH + EFFICIENCY * within.values as f64],
        })
    }

    /// Sets how far a sender is from the middle, and how well that is known.
    fn judge(&self, sender: &mut Sender) {
        let (level, error) = (self.level, sender.error(self.within));
        sender.beside = sender.effect - self.middle;
        sender.deviation = (level + error).sqrt();
        // Of a sum of two variances, by Welch and Satterthwaite.
        let [of_level, of_error] = self.freedom;
        sender.freedom = (level + error).powi(2) / (level.powi(2) / of_level + error.powi(2) / of_error);
    }
}

impl Sender {
    fn new(rank: u32) -> Sender {
        Sender {
            rank,
            met: Vec::new(),
            effect: 0.0,
            beside: 0.0,
            deviation: f64::INFINITY,
            freedom: WORTH,
            cells: Vec::new(),
        }
    }

    /// How far its shares are from their median, widened because that is their own.
    fn differences(&self) -> impl Iterator<Item = f64> + '_ {
        let met = self.met.len() as f64;
        let widened = (met / (met - 1.0)).sqrt();
        self.met
            .iter()
            .map(move |(_, share)| (share - self.effect) * widened)
    }

    /// Variance of its effect, where shares differ by so much.
    fn error(&self, within: f64) -> f64 {
        ERROR_OF_MEDIAN * within.powi(2) / self.met.len() as f64
    }

    /// Whether it gets so much less or more than others that it matters.
    fn is_far(&self) -> bool {
        self.effect.abs() >= UNFAIR.ln()
    }

    /// Whether that may be so, or become so when it is better known.
    fn may_be_far(&self) -> bool {
        self.is_far() || self.effect.abs() >= MAYBE_UNFAIR.ln() && self.p_value() < SUSPECT
    }

    fn p_value(&self) -> f64 {
        (2.0 * student_above((self.beside / self.deviation).abs(), self.freedom)).min(1.0)
    }

    /// `0.12 times [0.08, 0.20]`.
    fn in_words(&self, confidence: f64) -> String {
        let reach = student_score(confidence, self.freedom) * self.deviation;
        format!(
            "{} [{}, {}]",
            times(self.effect),
            number(self.effect - reach),
            number(self.effect + reach)
        )
    }
}

fn number(logarithm: f64) -> String {
    let factor = logarithm.exp();
    match factor < 10.0 {
        true => format!("{factor:.2}"),
        false => format!("{factor:.0}"),
    }
}

fn times(logarithm: f64) -> String {
    format!("{} times", number(logarithm))
}

/// One finding per sender and rail.
pub(super) struct UnfairSender;

impl Detector for UnfairSender {
    fn question(&self) -> &'static str {
        "Does a sender get much more or less than others where many send to one?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let budget = analysis.run().rule.budget_of(Question::Fairness);
        let fairness = &analysis.fairness;
        let senders = fairness
            .rails
            .iter()
            .flat_map(|rail| rail.senders.iter().map(move |sender| (rail, sender)));
        senders
            .filter(|(_, sender)| fairness.is_accused(sender, budget))
            .map(|(rail, sender)| finding(analysis, rail, sender, budget))
            .collect()
    }
}

fn finding(analysis: &RunAnalysis<'_>, rail: &RailShares<'_>, sender: &Sender, budget: f64) -> Finding {
    let run = analysis.run();
    let host = analysis
        .host(sender.rank)
        .map_or_else(|| run.rank_name(sender.rank), str::to_string);
    let is_tame = sender.effect < 0.0;
    let met = text::counted(sender.met.len(), "time");
    let what = match is_tame {
        true => "its congestion control is tamer than that of others, or its packets are lost",
        false => "its congestion control is wilder than that of others, and they get less for it",
    };
    let place = Place {
        hosts: vec![host.clone()],
        ranks: vec![sender.rank],
        rail: Some(rail.rail.to_string()),
        ..Place::default()
    };
    let mut shares: Vec<&(u32, f64)> = sender.met.iter().collect();
    shares.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let listed = shares.iter().take(MOST_LISTED).map(|(to, share)| {
        format!(
            "to {}: {} of what the others got",
            run.rank_name(*to),
            times(*share)
        )
    });
    let mut finding = Finding::new(FindingKind::UnfairSender, place)
        .with_sentence(format!(
            "{host} on {}: gets {} of what others get where many send to one (median of {met}): {what}",
            rail.rail,
            sender.in_words(run.rule.confidence)
        ))
        .with_rule(format!(
            "unfair: half of what others as far from the receiver get, or less, or twice as much, or more, in the median of {FEWEST_RECEIVERS} slots or more, and the \
             probability that a healthy sender is that far from others, corrected for {} and {}, is below {budget}",
            text::counted(analysis.fairness.judged, "sender"),
            text::counted(analysis.fairness.looks, "look")
        ))
        .with_confirmation(Confirmation {
            rounds: u16::try_from(sender.met.len()).unwrap_or(u16::MAX),
            p_value: analysis.fairness.p_value(sender),
            comparisons: (analysis.fairness.judged * analysis.fairness.looks) as u32,
        })
        .with_evidence(listed.collect())
        .with_cells(sender.cells.clone())
        .with_repeat(repeat::command(run, &[("test", rail.test), ("rail", rail.rail)]));
    finding.not_told_apart_from = match is_tame {
        true => vec![
            format!(
                "a cable of {host} that loses packets, or carries less than a share (`railgauge run probe` and `run links` tell)"
            ),
            format!("something on {host} that keeps it from sending"),
        ],
        false => vec![format!("other programs of {host} that do not back off")],
    };
    finding.next_step = format!(
        "compare the congestion control of {host} with that of another host: over RDMA the DCQCN parameters of its NIC, its traffic class (DSCP, ECN, PFC) and its firmware; \
         over TCP `sysctl net.ipv4.tcp_congestion_control net.ipv4.tcp_ecn`"
    );
    finding
}

#[cfg(test)]
#[path = "fairness_tests.rs"]
mod tests;

//! Everything known about one rail: every switch that had a choice gets a cause, every fault is collected.
//!
//! Where several causes fit one place, the first of these applies: a sender without entropy, a dead member, a slow
//! one, a polarised hash, a second tier that repeats the first, unequal weights. A fault that shows at many switches
//! is reported once.

use std::collections::HashSet;

use super::counters::{self, CountedSpread, PortCounters};
use super::dead::{DeadMember, dead_links};
use super::flows::{LowEntropyCell, RailFlows};
use super::loss::{FlowCountAdvice, Goodput, HostCableSharing, goodput};
use super::model::Model;
use super::nulls::NullStore;
use super::slow::{SlowMember, slow_links};
use super::spread::{Spread, SpreadKind, spread};
use record::EcmpCause;
use record::text::percent;
use topology::graph::{Graph, LinkId};

/// From this fraction of flows on that took another path when traced again, flows are not pinned to paths.
const UNSTEADY: f64 = 0.2;
/// Fewest flows of which that must be known.
const FEWEST_ASKED: usize = 4;
/// Fraction of flows whose first choice must be known for a switch to be judged by its flows.
const KNOWN: f64 = 0.5;
/// Flows that deliver nothing for no known reason: this many are a fault, and this fraction.
const UNEXPLAINED_DEAD: (usize, f64) = (2, 0.02);
/// Where links that should be full carry less of their rate than this, something else is wrong than how flows are spread.
const CARRIED: f64 = 0.8;
/// Where flows have no fixed path, they deliver this share of what an even spread would, or more.
const EVEN: f64 = 0.7;
/// Of the choices of one tier, up to this fraction may leave out a member before the hash and not the member is at
/// fault.
const LEFT_OUT: f64 = 0.25;

/// Above this p-value, pairs that each stick to one member may be the reason that another is left out.
const STICKY: f64 = 0.01;

/// The analysis of one rail.
pub(super) struct RailView<'r, 'a> {
    /// Its flows.
    pub(super) rail: &'r RailFlows<'a>,
    /// The fabric.
    pub(super) graph: &'r Graph,
    /// Loads and expectations, with the capacities as they turned out.
    pub(super) model: Option<Model>,
    /// Expectations as they were with every link healthy.
    pub(super) healthy: Option<Model>,
    /// Dead links, and links nothing is sent to.
    pub(super) dead: Vec<DeadMember>,
    /// Slow links.
    pub(super) slow: Vec<SlowMember>,
    /// Per chooser: how its flows are spread.
    pub(super) spreads: Vec<Option<Spread>>,
    /// Per chooser: what its ports counted.
    pub(super) counted: Vec<Option<CountedSpread>>,
    /// Per chooser of the first tier: what its flows delivered.
    pub(super) goodput: Vec<Goodput>,
    /// Per chooser: what it comes to.
    pub(super) causes: Vec<EcmpCause>,
    /// Cells whose sender is accused of not varying its ports.
    pub(super) low_entropy: Vec<LowEntropyCell>,
    /// Per chooser: what it is suspected of, where that is not confirmed.
    pub(super) suspicions: Vec<Option<String>>,
    /// Flows that took another path when traced again, and those of which it is known.
    pub(super) unsteady: (usize, usize),
    /// Flows that delivered nothing although no link explains it.
    pub(super) unexplained_dead: usize,
}

/// What all rails of a run share.
pub(super) struct DecisionContext<'b> {
    pub(super) counters: &'b PortCounters,
    pub(super) store: NullStore,
    pub(super) advice: FlowCountAdvice,
    /// Significance level for dead links.
    pub(super) dead_level: f64,
    /// Significance level for slow links.
    pub(super) slow_level: f64,
    /// The same for suspecting one by flows that were chosen for their paths: others of them, and more, confirm it at that level.
    pub(super) suspicion_level: f64,
    pub(super) seed: u64,
}

impl<'r, 'a> RailView<'r, 'a> {
    /// Analyses the flows of a rail.
    pub(super) fn of(
        rail: &'r RailFlows<'a>,
        graph: &'r Graph,
        context: &mut DecisionContext<'_>,
    ) -> RailView<'r, 'a> {
        let flows = &rail.flows;
        let asked = flows.iter().filter_map(|flow| flow.steady);
        let unsteady = asked.fold((0, 0), |(moved, all), steady| {
            (moved + usize::from(!steady), all + 1)
        });
        let mut view = RailView {
            rail,
            graph,
            model: None,
            healthy: None,
            dead: Vec::new(),
            slow: Vec::new(),
            spreads: Vec::new(),
            counted: Vec::new(),
            goodput: Vec::new(),
            causes: Vec::new(),
            low_entropy: rail.low_entropy.clone(),
            suspicions: vec![None; rail.choosers.all.len()],
            unsteady,
            unexplained_dead: 0,
        };
        let is_pinned = !view.is_adaptive();
        if is_pinned {
            // Flows over a dead link are not among those that were chosen.
            if !rail.chosen {
                view.dead = dead_links(graph, rail.rail, flows, context.dead_level);
            }
            view.healthy = Model::of(graph, flows);
            view.model = view.healthy.clone();
            // Where everything is slow, no link stands out.
            if let Some(model) = view.model.as_mut().filter(|model| model.can_tell_links()) {
                view.slow = slow_links(graph, flows, model);
                let level = match rail.is_first_of_chosen() {
                    true => context.suspicion_level,
                    false => context.slow_level,
                };
                // A host's own cable may explain a shortfall but is not a member of equal paths: other tests judge
                // it.
                view.slow
                    .retain(|slow| slow.p_value <= level && !graph.link(slow.link).is_host);
            }
        }
        if rail.chosen {
            view.spreads = vec![None; rail.choosers.all.len()];
        } else {
            view.judge_spreads(context);
            view.settle_idle_members(context);
        }
        let shared = HostCableSharing::of(graph, rail.rail, flows);
        let efficiency = view.healthy.as_ref().map_or(1.0, |model| model.efficiency);
        for number in 0..rail.choosers.all.len() {
            let of = goodput(graph, rail, number, &shared, efficiency);
            view.goodput.push(of);
            let counted = (!rail.chosen).then(|| {
                counters::counted(
                    graph,
                    context.counters,
                    number,
                    rail,
                    context.store.level,
                    context.seed,
                )
            });
            view.counted.push(counted.flatten());
        }
        let dead = flows.iter().filter(|flow| flow.dead).count();
        let (fewest, share) = UNEXPLAINED_DEAD;
        let is_many = dead >= fewest && dead as f64 >= share * flows.len() as f64;
        if is_many && !view.dead.iter().any(|link| link.vanished > 0) {
            view.unexplained_dead = dead;
        }
        view.causes = (0..rail.choosers.all.len())
            .map(|number| view.cause(number, context.store.level))
            .collect();
        view
    }

    /// Whether the fabric moves flows between paths.
    pub(super) fn is_adaptive(&self) -> bool {
        let (moved, asked) = self.unsteady;
        asked >= FEWEST_ASKED && moved as f64 >= UNSTEADY * asked as f64
    }

    /// Why the flows of this rail cannot be called healthy, however they are spread: they deliver too little.
    pub(super) fn shortfall(&self) -> Option<String> {
        let carried = self.healthy.as_ref().map(|model| model.carried);
        if let Some(carried) = carried.filter(|carried| *carried < CARRIED) {
            return Some(format!(
                "links that should be full carried {} of their rate: find out why first, for example with `railgauge diagnose`",
                percent(carried)
            ));
        }
        let all = self
            .goodput
            .iter()
            .fold(Goodput::default(), |sum, one| sum.and(*one));
        let lost = all
            .lost()
            .filter(|lost| self.is_adaptive() && *lost > 1.0 - EVEN)?;
        Some(format!(
            "its flows have no fixed path, and deliver {} of what an even spread would",
            percent(1.0 - lost)
        ))
    }

    /// How the flows of all choosers are spread over what is not dead.
    fn judge_spreads(&mut self, context: &mut DecisionContext<'_>) {
        let vanished = self.dead.iter().filter(|dead| dead.vanished > 0);
        let without: HashSet<LinkId> = vanished.map(|dead| dead.link).collect();
        self.spreads = (0..self.rail.choosers.all.len())
            .map(|number| spread(number, self.rail, &without, &mut context.store))
            .collect();
    }

    /// A member without flows is not at fault where the hash leaves members out, here or all over the tier. Where it
    /// is at fault, flows are judged by how they are spread over the others.
    fn settle_idle_members(&mut self, context: &mut DecisionContext<'_>) {
        let choosers = &self.rail.choosers.all;
        let idle: HashSet<LinkId> = self
            .dead
            .iter()
            .filter(|dead| dead.vanished == 0)
            .map(|dead| dead.link)
            .collect();
        let has_idle = |number: usize| {
            choosers[number]
                .sets
                .iter()
                .flatten()
                .any(|link| idle.contains(link))
        };
        let owners: Vec<usize> = (0..choosers.len()).filter(|number| has_idle(*number)).collect();
        let mut kept: HashSet<LinkId> = HashSet::new();
        for owner in owners {
            let tier = choosers[owner].tier;
            let of_tier: Vec<usize> = (0..choosers.len())
                .filter(|number| choosers[*number].tier == tier)
                .collect();
            let sets = of_tier.iter().flat_map(|number| &choosers[*number].sets);
            let (all, with_idle) = sets.fold((0, 0), |(all, some), set| {
                let is_idle = set.iter().any(|member| idle.contains(member));
                (all + 1, some + usize::from(is_idle))
            });
            if with_idle > 1 && with_idle as f64 > LEFT_OUT * f64::from(all) {
                continue;
            }
            let polarised = |spread: &Option<Spread>| {
                let spread = spread.as_ref();
                spread.is_some_and(|spread| spread.kind == SpreadKind::Polarised)
            };
            let elsewhere = of_tier
                .iter()
                .any(|number| !has_idle(*number) && polarised(&self.spreads[*number]));
            // With one member left there is no spread to test: pairs that stick to it by chance must be ruled out.
            let of_owner = |dead: &&DeadMember| {
                let mut links = choosers[owner].sets.iter().flatten();
                dead.vanished == 0 && links.any(|link| *link == dead.link)
            };
            let may_stick = |dead: &DeadMember| {
                let mut sets = choosers[owner].sets.iter().filter(|set| set.contains(&dead.link));
                let one_left = sets.any(|set| set.iter().filter(|member| !idle.contains(member)).count() < 2);
                one_left && (dead.p_of_pairs > STICKY || elsewhere)
            };
            if self.dead.iter().filter(of_owner).any(may_stick) {
                continue;
            }
            let without: HashSet<LinkId> = self.dead.iter().map(|dead| dead.link).collect();
            let rest = spread(owner, self.rail, &without, &mut context.store);
            if !polarised(&rest) {
                kept.extend(self.dead.iter().filter(of_owner).map(|dead| dead.link));
                self.spreads[owner] = rest;
            }
        }
        self.dead
            .retain(|dead| dead.vanished > 0 || kept.contains(&dead.link));
    }

    /// The dead and slow members of a chooser.
    pub(super) fn bad_members(&self, number: usize) -> (Vec<&DeadMember>, Vec<&SlowMember>) {
        let members = self.rail.choosers.all[number].members();
        let dead = self.dead.iter().filter(|dead| members.contains(&dead.link));
        let slow = self.slow.iter().filter(|slow| members.contains(&slow.link));
        (dead.collect(), slow.collect())
    }

    fn cause(&self, number: usize, level: f64) -> EcmpCause {
        let chooser = &self.rail.choosers.all[number];
        let own = || self.rail.of_chooser(number);
        let low_entropy: HashSet<u32> = self.rail.low_entropy.iter().map(|cell| cell.cell).collect();
        let (dead, slow) = self.bad_members(number);
        let all = own().count();
        let poor = own().filter(|flow| low_entropy.contains(&flow.cell)).count();
        if poor > 0 && 2 * poor >= all {
            return EcmpCause::NoEntropy;
        }
        if !dead.is_empty() {
            return EcmpCause::DeadMember;
        }
        if !slow.is_empty() {
            return EcmpCause::SlowMember;
        }
        if self.is_adaptive() {
            return EcmpCause::AdaptiveRouting;
        }
        let known = own()
            .filter(|flow| {
                let choice = flow.choices.iter().find(|choice| choice.chooser == number);
                choice.is_some_and(|choice| choice.member.is_some())
            })
            .count();
        let counted = self.counted[number].as_ref();
        match &self.spreads[number] {
            Some(spread) if known as f64 >= KNOWN * all as f64 => match spread.kind {
                SpreadKind::Fair => EcmpCause::ExpectedCollision,
                SpreadKind::Open => EcmpCause::Unjudged,
                SpreadKind::Unequal => EcmpCause::UnequalWeights,
                SpreadKind::Polarised if chooser.tier == 1 => EcmpCause::Polarised,
                SpreadKind::Polarised => EcmpCause::PolarisedSecondTier,
            },
            _ => match counted {
                Some(counted) => counted.cause(level),
                None => EcmpCause::Unjudged,
            },
        }
    }
}

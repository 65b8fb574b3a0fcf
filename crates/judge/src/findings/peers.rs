//! Peers: cells of a run that measure the same on other parts, and what they reach together.
//!
//! The reference is the median of the peers' medians: pooled with all the others, several slow parts would mask each other.
//!
//! Groups are formed and sorted once, so that a tournament of thousands of pairs is compared quickly.

use std::collections::BTreeMap;

use super::iterations::Round;
use super::summary::CellSummary;
use record::stats::median_of_sorted;
use record::units::{Bytes, Rate};
use record::{Cell, Engine};

/// A measured member of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// Its place in the plan.
    pub(super) place: usize,
    /// Bytes on its busiest link.
    pub(super) bytes: Bytes,
    /// Its median wire rate.
    rate: Rate,
}

impl Peer {
    /// Its median wire rate in one round.
    fn rate_in(&self, round: &Round) -> Option<f64> {
        let median = median_of_sorted(&round.times).filter(|median| *median > 0.0)?;
        Some(self.bytes.0 as f64 * 1e9 / median)
    }
}

/// What the members of a group reached in one round: median wire rates, ascending.
#[derive(Debug, Default)]
struct RoundOfGroup(Vec<f64>);

impl RoundOfGroup {
    /// The median of all of them but `own`, which is one of them.
    fn median_without(&self, own: Option<f64>) -> Option<f64> {
        let own = own.map(|own| self.0.partition_point(|rate| rate.total_cmp(&own).is_lt()));
        let count = self.0.len() - usize::from(own.is_some());
        let nth = |n: usize| self.0[n + usize::from(own.is_some_and(|own| n >= own))];
        let (low, high) = (nth(count.checked_sub(1)? / 2), nth(count / 2));
        Some(if low == high { low } else { (low + high) / 2.0 })
    }
}

/// All groups of a run.
pub(super) struct PeerGroups {
    /// Measured cells with the same key, slowest first.
    groups: Vec<Vec<Peer>>,
    group_of: Vec<usize>,
    /// Of every group what its members reached in each round.
    rounds: Vec<BTreeMap<u16, RoundOfGroup>>,
    /// Where in its group a cell is, when it was measured.
    position_of: Vec<Option<usize>>,
}

impl PeerGroups {
    /// Groups the cells of a run.
    pub(super) fn of(summaries: &[CellSummary<'_>], confidence: f64) -> PeerGroups {
        let mut numbers = BTreeMap::new();
        let mut groups: Vec<Vec<Peer>> = Vec::new();
        let mut group_of = Vec::with_capacity(summaries.len());
        for (place, summary) in summaries.iter().enumerate() {
            let number = *numbers.entry(summary.cell.peer_key()).or_insert(groups.len());
            if number == groups.len() {
                groups.push(Vec::new());
            }
            group_of.push(number);
            if let (Some(bytes), Some(rate), true) = (
                summary.wire.bytes(),
                summary.wire_rate(confidence),
                summary.is_typical,
            ) {
                groups[number].push(Peer {
                    place,
                    bytes,
                    rate: rate.median,
                });
            }
        }
        let mut position_of = vec![None; summaries.len()];
        let mut rounds = Vec::with_capacity(groups.len());
        for group in &mut groups {
            group.sort_by(|a, b| a.rate.0.total_cmp(&b.rate.0));
            for (position, peer) in group.iter().enumerate() {
                position_of[peer.place] = Some(position);
            }
            let mut of_rounds: BTreeMap<u16, RoundOfGroup> = BTreeMap::new();
            for peer in group.iter() {
                for round in &summaries[peer.place].rounds {
                    let rate = peer.rate_in(round);
                    of_rounds.entry(round.number).or_default().0.extend(rate);
                }
            }
            for round in of_rounds.values_mut() {
                round.0.sort_by(f64::total_cmp);
            }
            rounds.push(of_rounds);
        }
        PeerGroups {
            groups,
            group_of,
            rounds,
            position_of,
        }
    }

    /// The measured peers of the cell at `place`, itself left out, slowest first.
    pub(super) fn others(&self, place: usize) -> impl Iterator<Item = &Peer> {
        self.groups[self.group_of[place]]
            .iter()
            .filter(move |peer| peer.place != place)
    }

    /// The median of what those peers reached in one round; none unless all of them were measured in it, because
    /// those that were measured again may be just the slow ones.
    pub(super) fn rate_in_round(
        &self,
        summaries: &[CellSummary<'_>],
        place: usize,
        number: u16,
    ) -> Option<Rate> {
        let group = self.group_of[place];
        let round = self.rounds[group].get(&number)?;
        let own = self.position_of[place].map(|position| &self.groups[group][position]);
        let own_rate = own.and_then(|own| own.rate_in(summaries[place].round(number)?));
        let others = self.groups[group].len() - usize::from(own.is_some());
        let measured = round.0.len() - usize::from(own_rate.is_some());
        round
            .median_without(own_rate)
            .filter(|_| measured == others)
            .map(Rate)
    }

    /// What those peers reach; none without any.
    pub(super) fn reference(&self, place: usize) -> Option<PeerReference> {
        let group = &self.groups[self.group_of[place]];
        let own = self.position_of[place];
        let count = group.len() - usize::from(own.is_some());
        let nth = |n: usize| &group[if own.is_some_and(|own| n >= own) { n + 1 } else { n }];
        let (low, high) = (nth(count.checked_sub(1)? / 2), nth(count / 2));
        Some(PeerReference {
            rate: Rate((low.rate.0 + high.rate.0) / 2.0),
            count,
        })
    }
}

/// What the peers of a cell reach.
pub(super) struct PeerReference {
    /// The median of their median rates.
    pub(super) rate: Rate,
    /// How many they are.
    pub(super) count: usize,
}

/// What peers of a cell are called: they differ in their rail, or in their ranks.
pub(super) fn peer_noun<'a>(cell: &Cell, mut peers: impl Iterator<Item = &'a Cell>) -> &'static str {
    if peers.all(|peer| peer.ranks == cell.ranks && peer.rails != cell.rails) {
        "rail"
    } else if cell.ranks.len() == 2 {
        "pair"
    } else {
        "group"
    }
}

/// For every cell the position of the same cell by the other engine, where there is one.
pub(super) fn engine_counterparts(summaries: &[CellSummary<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; summaries.len()];
    let mut by_nccl = BTreeMap::new();
    let of = |engine: Engine| {
        let places = summaries.iter().enumerate();
        places.filter(move |(_, summary)| summary.cell.engine == engine)
    };
    for (place, summary) in of(Engine::Nccl) {
        by_nccl.entry(summary.cell.work_key()).or_insert(place);
    }
    if by_nccl.is_empty() {
        return found;
    }
    for (ours, summary) in of(Engine::Ours) {
        // A cell that was planned again after a loss is the same work: the first one gets the counterpart.
        if let Some(nccl) = by_nccl.remove(&summary.cell.work_key()) {
            (found[ours], found[nccl]) = (Some(nccl), Some(ours));
        }
    }
    found
}

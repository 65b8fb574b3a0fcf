//! Which part explains each slow cell: as few parts as possible.
//!
//! Each slow cell is assigned to the first of these that explains it:
//!
//! 1. a shape over message size (`shapes`);
//! 2. a straggling rank whose extra work is most of the missing time;
//! 3. one engine, where the other is as fast as expected in the same cell;
//! 4. a link, switch or host that `localise` accuses and that the cell uses;
//! 5. one rail, where others are judged and not slow (a cell striped over a slow rail belongs to that rail);
//! 6. all rails, where each is below an absolute figure;
//! 7. one rank that all slow pairs share;
//! 8. a single pair;
//! 9. its test.

use record::TestKind;
use std::collections::{BTreeMap, BTreeSet};

use super::localise::{ExplainedBy, Localisation};
use super::speed::Speed;
use super::straggling_ranks::StragglingRank;
use super::summary::CellSummary;
use record::stats::median_of_sorted;
use record::{Cell, Collective, Engine, Run};

/// Slow cells by the part that explains them, as positions in the plan.
#[derive(Debug, Default)]
pub(super) struct Blame {
    /// Explained by a straggling rank.
    pub(super) straggler: BTreeMap<u32, Vec<usize>>,
    /// One engine, where the other is as fast as expected.
    pub(super) engine: BTreeMap<(Engine, String), Vec<usize>>,
    /// A part of the fabric, by the number of its cause: the cells it explains beyond the flows it was found by.
    pub(super) link: BTreeMap<usize, Vec<usize>>,
    /// Round trips: latency of a path, not its bandwidth.
    pub(super) latency: Vec<usize>,
    /// One rail.
    pub(super) rail: BTreeMap<String, Vec<usize>>,
    /// All rails.
    pub(super) all_rails: Vec<usize>,
    /// One rank in all its slow pairs.
    pub(super) shared_rank: Option<(u32, Vec<usize>)>,
    /// A pair in one direction: the ranks in the cell's order.
    pub(super) pair: BTreeMap<(u32, u32), Vec<usize>>,
    /// A test as a whole.
    pub(super) test: BTreeMap<String, Vec<usize>>,
}

/// The kind of test that measures pairs.
const PAIRS: Option<TestKind> = Some(TestKind::Pairs);
/// The kind of test that measures rails.
const RAILS: Option<TestKind> = Some(TestKind::Rails);

impl Blame {
    pub(super) fn of(
        run: &Run,
        summaries: &[CellSummary<'_>],
        speeds: &[Speed],
        counterparts: &[Option<usize>],
        stragglers: &[StragglingRank],
        localisation: Option<&Localisation>,
        explained: &BTreeSet<usize>,
    ) -> Blame {
        let mut blame = Blame::default();
        let kind = |place: usize| run.test_of(summaries[place].cell).map(|test| test.kind);
        let is_pair = |place: usize| kind(place) == PAIRS && summaries[place].cell.ranks.len() == 2;
        let mut slow: Vec<usize> = (0..speeds.len())
            .filter(|p| matches!(speeds[*p], Speed::Slow(_)) && !explained.contains(p))
            .collect();
        slow.retain(|place| {
            let guilty = stragglers
                .iter()
                .find(|s| explains(s, &summaries[*place], &speeds[*place]));
            if let Some(straggler) = guilty {
                blame.straggler.entry(straggler.rank).or_default().push(*place);
            }
            guilty.is_none()
        });

        slow.retain(|place| {
            let other = counterparts[*place].map(|other| &speeds[other]);
            let is_software = matches!(other, Some(Speed::Good(_)));
            if is_software {
                let cell = summaries[*place].cell;
                let guilty = (cell.engine, cell.test.clone());
                blame.engine.entry(guilty).or_default().push(*place);
            }
            !is_software
        });

        slow.retain(|place| {
            let is_latency = summaries[*place].cell.collective == Collective::RoundTrip;
            if is_latency {
                blame.latency.push(*place);
            }
            !is_latency
        });

        if let Some(localisation) = localisation {
            slow.retain(
                |place| match localisation.explains(run, summaries[*place].cell, *place) {
                    ExplainedBy::OwnFlow => false,
                    ExplainedBy::Cause(cause) => {
                        blame.link.entry(cause).or_default().push(*place);
                        false
                    }
                    ExplainedBy::Rail(rail) => {
                        blame.rail.entry(rail).or_default().push(*place);
                        false
                    }
                    ExplainedBy::Fabric => {
                        blame.all_rails.push(*place);
                        false
                    }
                    ExplainedBy::Nothing => true,
                },
            );
        }

        let judged = |wanted: bool| (0..speeds.len()).filter(move |p| is_pair(*p) == wanted);
        let rails = Rails::of(judged(false), summaries, speeds);
        let pair_rails = Rails::of(judged(true), summaries, speeds);
        let is_against_spec = |place: &usize| {
            speeds[*place]
                .comparison()
                .is_some_and(|comparison| comparison.is_spec)
        };
        let on_one_rail = |place: &&usize| !is_pair(**place) && summaries[**place].cell.rails.len() == 1;
        let all_slow = rails.0.len() > 1
            && rails.0.values().all(|tally| tally.slow > 0)
            && slow.iter().filter(on_one_rail).all(is_against_spec);
        slow.retain(|place| {
            let [rail] = summaries[*place].cell.rails.as_slice() else {
                return true;
            };
            if is_pair(*place) {
                if !pair_rails.is_slow_as_a_whole(rail) {
                    return true;
                }
            } else if all_slow {
                blame.all_rails.push(*place);
                return false;
            } else if rails.0.len() < 2 && kind(*place) != RAILS {
                return true;
            }
            blame.rail.entry(rail.clone()).or_default().push(*place);
            false
        });
        slow.retain(|place| {
            let rails = &summaries[*place].cell.rails;
            let blamed = rails
                .iter()
                .find(|rail| rails.len() > 1 && blame.rail.contains_key(*rail))
                .cloned();
            if let Some(places) = blamed.as_ref().and_then(|rail| blame.rail.get_mut(rail)) {
                places.push(*place);
            }
            blamed.is_none()
        });

        let (pairs, rest): (Vec<usize>, Vec<usize>) = slow.into_iter().partition(|place| is_pair(*place));
        match shared_rank(pairs.iter().map(|place| summaries[*place].cell)) {
            Some(rank) => blame.shared_rank = Some((rank, pairs)),
            None => {
                for place in pairs {
                    let cell = summaries[place].cell;
                    blame.pair.entry(direction(cell)).or_default().push(place);
                }
            }
        }
        for place in rest {
            blame
                .test
                .entry(summaries[place].cell.test.clone())
                .or_default()
                .push(place);
        }
        blame
    }
}

/// Whether a straggling rank is the reason that a cell is slow.
pub(super) fn is_of_a_straggler(
    stragglers: &[StragglingRank],
    summary: &CellSummary<'_>,
    speed: &Speed,
) -> bool {
    stragglers
        .iter()
        .any(|straggler| explains(straggler, summary, speed))
}

/// Whether a straggler's extra work is most of the time a slow cell is missing.
fn explains(straggler: &StragglingRank, summary: &CellSummary<'_>, speed: &Speed) -> bool {
    let busy = summary.busy.iter().find(|busy| busy.rank == straggler.rank);
    let (Some(busy), Some(comparison)) = (busy, speed.comparison()) else {
        return false;
    };
    let (Some(time), Some(bytes)) = (median_of_sorted(&summary.times), summary.wire.bytes()) else {
        return false;
    };
    let missing = time - bytes.0 as f64 * 1e9 / comparison.expected.0;
    busy.excess() >= missing / 2.0
}

/// How a rail did over its cells.
#[derive(Default)]
struct RailTally<'a> {
    slow: usize,
    good: usize,
    slow_ranks: BTreeSet<&'a [u32]>,
}

/// How each rail did, over cells that run on one rail alone and were judged.
struct Rails<'a>(BTreeMap<&'a str, RailTally<'a>>);

impl<'a> Rails<'a> {
    fn of(places: impl Iterator<Item = usize>, summaries: &[CellSummary<'a>], speeds: &[Speed]) -> Rails<'a> {
        let mut rails: BTreeMap<&str, RailTally<'_>> = BTreeMap::new();
        for place in places {
            let cell = summaries[place].cell;
            let ([rail], Some(_)) = (cell.rails.as_slice(), speeds[place].comparison()) else {
                continue;
            };
            let tally = rails.entry(rail).or_default();
            if matches!(speeds[place], Speed::Slow(_)) {
                tally.slow += 1;
                tally.slow_ranks.insert(&cell.ranks);
            } else {
                tally.good += 1;
            }
        }
        Rails(rails)
    }

    /// Whether every pair on this rail is slow, at least two are, and another rail has pairs that are not.
    fn is_slow_as_a_whole(&self, rail: &str) -> bool {
        let others_are_good = self
            .0
            .iter()
            .any(|(other, tally)| *other != rail && tally.good > 0);
        let tally = self.0.get(rail);
        tally.is_some_and(|tally| tally.good == 0 && tally.slow_ranks.len() > 1) && others_are_good
    }
}

/// The ranks of a pair in the direction the data flows; in ascending order where it flows in both.
fn direction(cell: &Cell) -> (u32, u32) {
    match (cell.collective, cell.ranks.as_slice()) {
        (Collective::PointToPoint, [from, to]) => (*from, *to),
        (_, ranks) => (
            ranks.iter().min().copied().unwrap_or_default(),
            ranks.iter().max().copied().unwrap_or_default(),
        ),
    }
}

/// The one rank that is in all of these pairs, when they have at least two different partners.
pub(super) fn shared_rank<'a>(pairs: impl Iterator<Item = &'a Cell>) -> Option<u32> {
    let pairs: BTreeSet<BTreeSet<u32>> = pairs.map(|cell| cell.ranks.iter().copied().collect()).collect();
    if pairs.len() < 2 {
        return None;
    }
    let mut pairs = pairs.into_iter();
    let first = pairs.next()?;
    let shared = pairs.fold(first, |shared, pair| &shared & &pair);
    (shared.len() == 1).then(|| shared.first().copied()).flatten()
}

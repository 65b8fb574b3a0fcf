//! All parts of one kind and one quantity, run after run.
//!
//! What all of them have in common in a run (another kernel, a busy night, colder air) is the median of how far they are from
//! their usual. It is taken off every part, and it is a series of its own: a fleet that slows down as a whole is one change.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::kinship::Kinship;
use super::look::{Arrival, LOOKS, Learnt, Lesson, Terms, View};
use super::rule::{self, Rule};
use super::series::{FEWEST, Series};
use crate::change_point::wander::{ASSUMED, Differences};
use crate::change_point::{self, Baseline, Pool, Shared, SharedEstimate, Siblings, Variogram};
use record::stats::median;
use record::{PartKind, PartReading, Quantity, Replaced};

/// Fewer parts have nothing in common that could be told from what each of them does.
const CROWD: usize = 4;
/// As how many runs the spread of the whole fleet counts for one part.
const WEIGHT: f64 = 20.0;
/// What a fleet as a whole is taken to vary by, and as how many runs that counts.
const COMMON_SPREAD: (f64, f64) = (0.005, 5.0);
/// A sibling farther from its usual level, in spreads, counts as that: what happens to it alone is not shared.
const FARTHEST_SIBLING: f64 = 2.5;

/// All parts of one kind and quantity.
#[derive(Debug, Clone)]
pub(super) struct Fleet {
    /// What kind of part.
    pub(super) kind: PartKind,
    /// What is read of them.
    pub(super) quantity: Quantity,
    /// Names, each with its place in `series`.
    places: BTreeMap<String, usize>,
    /// Each part.
    pub(super) series: Vec<(String, Series)>,
    /// All of them together.
    pub(super) common: Series,
    /// Logarithm of what they have in common, run by run, where it is known.
    pub(super) levels: Vec<(usize, f64)>,
    /// What is known of parts, for each look, and of all together.
    known: [Known; LOOKS],
    of_common: Known,
    kinship: Kinship,
    shared: SharedEstimate,
    /// Usual spread of a part, in the last run.
    spread: f64,
}

/// What the past of all parts teaches of one way to look at them.
#[derive(Debug, Clone, Default)]
struct Known {
    pool: Pool,
    variogram: Variogram,
}

impl Known {
    fn learn(&mut self, lessons: Vec<Lesson>) {
        let differences: Vec<Differences> = lessons.iter().map(|lesson| lesson.differences).collect();
        self.variogram.add(&differences);
        self.pool
            .add(lessons.into_iter().map(|lesson| lesson.distance).collect());
    }
}

impl Fleet {
    /// A fleet of which nothing is known yet.
    pub(super) fn new(kind: PartKind, quantity: Quantity) -> Fleet {
        Fleet {
            kind,
            quantity,
            places: BTreeMap::new(),
            series: Vec::new(),
            common: Series::default(),
            levels: Vec::new(),
            known: std::array::from_fn(|_| Known::default()),
            of_common: Known::default(),
            kinship: Kinship::default(),
            shared: SharedEstimate::default(),
            spread: 0.0,
        }
    }

    /// What all parts have in common by now, as a logarithm.
    pub(super) fn level(&self) -> f64 {
        self.levels.last().map_or(0.0, |(_, level)| *level)
    }

    /// How far a part with that past lies from its usual where nothing changed, as a standard deviation of logarithms.
    pub(super) fn spread_of(&self, usual: &Baseline) -> f64 {
        let least = rule::least_spread(self.quantity);
        usual.spread_among(self.spread.max(least), WEIGHT, least)
    }

    /// What all of them together are called.
    pub(super) fn common_name(&self) -> String {
        match self.kind {
            PartKind::Gpu => "all GPUs".to_string(),
            kind => format!("all {kind}s"),
        }
    }

    /// Parts among these readings whose past is long enough to judge them, and those whose past is not. Parts that are others than
    /// before begin anew.
    pub(super) fn meet(&mut self, readings: &[&PartReading], run: usize, rule: &Rule) -> PresentParts {
        let mut met = PresentParts::default();
        let looks = match self.shared.shared() == Shared::NOTHING {
            true => 1,
            false => LOOKS as u32,
        };
        for reading in readings {
            let place = *self.places.entry(reading.part.clone()).or_insert_with(|| {
                self.series.push((reading.part.clone(), Series::default()));
                self.kinship.add(self.kind, &reading.part);
                self.series.len() - 1
            });
            let series = &mut self.series[place].1;
            if let Some(before) = series.identify(reading.identity.as_deref(), run) {
                met.replaced.push(Replaced {
                    kind: self.kind,
                    part: reading.part.clone(),
                    before,
                    after: reading.identity.clone().unwrap_or_default(),
                    since: String::new(),
                });
            }
            // A part that is in a change is compared with what it was before.
            match series.is_grown(rule) || series.episode().is_some() {
                true => met.grown += 1,
                false => met.young += 1,
            }
        }
        met.looks = looks * met.grown;
        met
    }

    /// One more run: every reading goes into its series. `threshold` is the score from which something is beyond chance.
    pub(super) fn add(&mut self, readings: &[&PartReading], run: usize, threshold: f64, rule: &Rule) {
        let mut logs: Vec<Option<f64>> = vec![None; self.series.len()];
        for reading in readings {
            if let Some(place) = self.places.get(&reading.part) {
                logs[*place] = Some(reading.value.ln()).filter(|log| log.is_finite());
            }
        }
        let mut arrivals: Vec<Option<Arrival>> = self
            .series
            .par_iter_mut()
            .zip(logs)
            .map(|((_, series), log)| {
                let log = log?;
                let usual = series.baseline(rule);
                series.refer_to(usual);
                Some(Arrival {
                    log,
                    siblings: Siblings::default(),
                    usual: std::array::from_fn(|at| usual.filter(|_| at == 0)),
                })
            })
            .collect();
        let level =
            common_level(&arrivals).unwrap_or_else(|| self.levels.last().map_or(0.0, |(_, level)| *level));
        let is_crowd = arrivals.iter().flatten().count() >= CROWD;
        let least_spread = rule::least_spread(self.quantity);
        let spread = spread(
            arrivals.iter().flatten().map(|arrival| arrival.usual[0]),
            least_spread,
        );
        let shared = self.shared.shared();
        let beside = [shared, shared.whole()];
        let with_siblings = self.add_siblings(&mut arrivals, level, spread);
        self.series
            .par_iter()
            .zip(&mut arrivals)
            .for_each(|((_, series), arrival)| {
                if let Some(arrival) = arrival {
                    for (usual, shared) in arrival.usual[1..].iter_mut().zip(beside) {
                        *usual = series.baseline_less(shared, rule);
                    }
                }
            });
        let view_beside = |at: usize| {
            let usual = arrivals.iter().flatten().map(|arrival| arrival.usual[at]);
            View {
                shared: beside[at - 1],
                spread: self::spread(usual, least_spread),
                pool: &self.known[at].pool,
                wander: self.known[at].variogram.wander(ASSUMED),
            }
        };
        let terms = Terms {
            run,
            common: level,
            own: View {
                shared: Shared::NOTHING,
                spread,
                pool: &self.known[0].pool,
                wander: self.known[0].variogram.wander(ASSUMED),
            },
            beside: match with_siblings.is_empty() {
                true => [None; LOOKS - 1],
                false => [1, 2].map(|at| Some(view_beside(at))),
            },
            weight: WEIGHT,
            least_spread,
            least_effect: rule.least_effect_of(self.quantity).ln_1p(),
            more_is_better: self.quantity.is_better_when_higher(),
            threshold,
            rule,
        };
        let learnt: Vec<Learnt> = self
            .series
            .par_iter_mut()
            .zip(&arrivals)
            .filter_map(|((_, series), arrival)| series.add(arrival.as_ref()?, &terms))
            .collect();
        if is_crowd {
            let terms = Terms {
                common: 0.0,
                own: View {
                    spread: COMMON_SPREAD.0,
                    pool: &self.of_common.pool,
                    // What all have in common may well wander as each of them does.
                    wander: self.of_common.variogram.wander(terms.own.wander),
                    ..terms.own
                },
                beside: [None; LOOKS - 1],
                weight: COMMON_SPREAD.1,
                ..terms
            };
            let arrival = Arrival {
                log: level,
                siblings: Siblings::default(),
                usual: [self.common.baseline(rule), None, None],
            };
            let learnt = self.common.add(&arrival, &terms);
            self.of_common
                .learn(learnt.into_iter().filter_map(|[own, ..]| own).collect());
            self.levels.push((run, level));
        }
        self.spread = spread;
        let mut lessons: [Vec<Lesson>; LOOKS] = std::array::from_fn(|_| Vec::new());
        for of_part in learnt {
            for (lessons, lesson) in lessons.iter_mut().zip(of_part) {
                lessons.extend(lesson);
            }
        }
        for (known, lessons) in self.known.iter_mut().zip(lessons) {
            known.learn(lessons);
        }
        self.shared.add(&with_siblings);
    }

    /// Tells every reading what its siblings are above or below a level of long ago; returns the same with its own, of parts that have
    /// siblings.
    fn add_siblings(
        &self,
        arrivals: &mut [Option<Arrival>],
        level: f64,
        spread: f64,
    ) -> Vec<(f64, Siblings)> {
        let most = FARTHEST_SIBLING * spread;
        let distance = |(arrival, (_, series)): (&Option<Arrival>, &(String, Series))| {
            let arrival = arrival.as_ref()?;
            let usual = arrival.usual[0]?;
            let tonight = (arrival.log - level - usual.median).clamp(-most, most);
            // The usual level follows a wander after some runs. Were it subtracted, its course would be left in every sibling.
            Some(usual.median - series.reference()? + tonight)
        };
        let distances: Vec<Option<f64>> = arrivals.iter().zip(&self.series).map(distance).collect();
        let siblings = self.kinship.siblings(&distances);
        let mut both = Vec::new();
        for ((arrival, siblings), own) in arrivals.iter_mut().zip(siblings).zip(distances) {
            if let (Some(arrival), Some(own)) = (arrival, own)
                && siblings != Siblings::default()
            {
                arrival.siblings = siblings;
                both.push((own, siblings));
            }
        }
        both
    }
}

/// Usual spread of a part: the median.
fn spread(usual: impl Iterator<Item = Option<Baseline>>, least: f64) -> f64 {
    let grown = usual.flatten().filter(|usual| usual.runs >= FEWEST);
    let spreads: Vec<f64> = grown.map(|usual| usual.spread).collect();
    median(&spreads).unwrap_or(least).max(least)
}

/// The median of how far parts are from their usual; none of a few.
fn common_level(arrivals: &[Option<Arrival>]) -> Option<f64> {
    let of = |arrival: &Arrival| arrival.usual[0].map(|usual| arrival.log - usual.median);
    let distances: Vec<f64> = arrivals.iter().flatten().filter_map(of).collect();
    change_point::common_level(&distances, CROWD)
}

/// Parts that were read in a run.
#[derive(Debug, Default)]
pub(super) struct PresentParts {
    /// Parts with a past to be compared with.
    pub(super) grown: u32,
    /// How often chance has an opportunity: parts that have siblings are looked at in several ways.
    pub(super) looks: u32,
    /// Parts without.
    pub(super) young: u32,
    /// Parts that are others than before.
    pub(super) replaced: Vec<Replaced>,
}

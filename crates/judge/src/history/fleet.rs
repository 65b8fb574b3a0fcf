//! All parts of one kind and one quantity, run after run.
//!
//! What all of them have in common in a run (another kernel, a busy night, colder air) is the median of how far they are from
//! their usual. It is taken off every part, and it is a series of its own: a fleet that slows down as a whole is one change.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::rule::{self, Rule};
use super::series::{FEWEST, Learnt, Series, Terms};
use crate::change_point::wander::{ASSUMED, Differences};
use crate::change_point::{self, Baseline, Pool, Variogram};
use record::stats::median;
use record::{PartKind, PartReading, Quantity, Replaced};

/// Fewer parts have nothing in common that could be told from what each of them does.
const CROWD: usize = 4;
/// As how many runs the spread of the whole fleet counts for one part.
const WEIGHT: f64 = 20.0;
/// What a fleet as a whole is taken to vary by, and as how many runs that counts.
const COMMON_SPREAD: (f64, f64) = (0.005, 5.0);

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
    pool: Pool,
    common_pool: Pool,
    variogram: Variogram,
    common_variogram: Variogram,
    /// Usual spread of a part, in the last run.
    spread: f64,
}

/// One reading on its way into its series.
struct Arrival<'a> {
    series: &'a mut Series,
    log: f64,
    usual: Option<Baseline>,
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
            pool: Pool::default(),
            common_pool: Pool::default(),
            variogram: Variogram::default(),
            common_variogram: Variogram::default(),
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
        for reading in readings {
            let place = *self.places.entry(reading.part.clone()).or_insert_with(|| {
                self.series.push((reading.part.clone(), Series::default()));
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
        let mut arrivals: Vec<Arrival<'_>> = self
            .series
            .par_iter_mut()
            .zip(logs)
            .filter_map(|((_, series), log)| {
                let usual = series.baseline(rule);
                log.map(|log| Arrival { series, log, usual })
            })
            .collect();
        let level =
            common_level(&arrivals).unwrap_or_else(|| self.levels.last().map_or(0.0, |(_, level)| *level));
        let is_crowd = arrivals.len() >= CROWD;
        let least_spread = rule::least_spread(self.quantity);
        let spreads: Vec<f64> = arrivals
            .iter()
            .filter_map(|arrival| arrival.usual.filter(|usual| usual.runs >= FEWEST))
            .map(|usual| usual.spread)
            .collect();
        let terms = Terms {
            run,
            common: level,
            spread: median(&spreads).unwrap_or(least_spread).max(least_spread),
            weight: WEIGHT,
            least_spread,
            least_effect: rule.least_effect_of(self.quantity).ln_1p(),
            more_is_better: self.quantity.is_better_when_higher(),
            threshold,
            pool: &self.pool,
            wander: self.variogram.wander(ASSUMED),
            rule,
        };
        let learnt: Vec<Learnt> = arrivals
            .par_iter_mut()
            .filter_map(|arrival| arrival.series.add(arrival.log, arrival.usual, &terms))
            .collect();
        if is_crowd {
            let terms = Terms {
                common: 0.0,
                spread: COMMON_SPREAD.0,
                weight: COMMON_SPREAD.1,
                pool: &self.common_pool,
                // What all have in common may well wander as each of them does.
                wander: self.common_variogram.wander(terms.wander),
                ..terms
            };
            let usual = self.common.baseline(rule);
            let learnt = self.common.add(level, usual, &terms);
            pooled(
                &mut self.common_pool,
                &mut self.common_variogram,
                learnt.into_iter().collect(),
            );
            self.levels.push((run, level));
        }
        self.spread = terms.spread;
        pooled(&mut self.pool, &mut self.variogram, learnt);
    }
}

fn pooled(pool: &mut Pool, variogram: &mut Variogram, learnt: Vec<Learnt>) {
    let differences: Vec<Differences> = learnt.iter().map(|learnt| learnt.differences).collect();
    variogram.add(&differences);
    pool.add(learnt.into_iter().map(|learnt| learnt.distance).collect());
}

/// The median of how far parts are from their usual; none of a few.
fn common_level(arrivals: &[Arrival<'_>]) -> Option<f64> {
    let of = |arrival: &Arrival<'_>| arrival.usual.map(|usual| arrival.log - usual.median);
    let distances: Vec<f64> = arrivals.iter().filter_map(of).collect();
    change_point::common_level(&distances, CROWD)
}

/// Parts that were read in a run.
#[derive(Debug, Default)]
pub(super) struct PresentParts {
    /// Parts with a past to be compared with.
    pub(super) grown: u32,
    /// Parts without.
    pub(super) young: u32,
    /// Parts that are others than before.
    pub(super) replaced: Vec<Replaced>,
}

//! How the figures of every part moved over the burn-in, compared with all parts of its kind in the same cycle.
//!
//! What all parts did together in one cycle (a busy machine, another job) is taken out: the median over parts of how far each is from its own usual
//! figure. What is left of a part is looked at for a step and a slope.

use std::collections::{BTreeMap, BTreeSet};

use super::absent_hosts::{AbsentHosts, MissingHosts};
use super::attribution::CycleFinding;
use super::catalog::CatalogIndex;
use super::timeline::Timeline;
use crate::change_point::common_level;
use crate::change_point::offline::{self, Slope, Step};
use record::stats::median;
use record::{BurnInTrend, PartKind, Quantity};

/// The chance of one false step or slope in the whole burn-in that is accepted.
const CHANCE: f64 = 0.001;
/// Fewer figures say nothing.
pub(super) const FEWEST: usize = 5;
/// Parts that must be read in a cycle for what they have in common to be taken out.
const FOR_COMMON: usize = 3;
/// No figure is known better than this.
const LEAST_NOISE: f64 = 0.001;

/// What a series is of: kind, name and quantity of a part, and the hosts that were away.
pub(super) type SeriesKey = (PartKind, String, Quantity, MissingHosts);

/// One figure over the cycles, and what it shows.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Places of its cycles in the timeline.
    places: Vec<usize>,
    /// Figures as read.
    values: Vec<f64>,
    /// Their logarithms, what all parts have in common taken out.
    adjusted: Vec<f64>,
    /// A step beyond chance.
    pub(super) step: Option<Step>,
    /// The slope, per hour under load.
    pub(super) slope: Option<Slope>,
    /// Hours under load between its first and last cycle.
    pub(super) hours: f64,
}

/// What all parts of a kind did together: how far they were from their own usual figures.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) kind: PartKind,
    pub(super) quantity: Quantity,
    /// How many series it is the median of.
    pub(super) parts: usize,
    pub(super) series: Series,
}

/// Every series, and what those of a kind have in common.
pub(super) fn all(
    timeline: &Timeline<'_>,
    known: &CatalogIndex<'_>,
    cycle_findings: &[CycleFinding<'_>],
) -> (BTreeMap<SeriesKey, Series>, Vec<Common>) {
    let mut series = collect(timeline, known, cycle_findings);
    let mut common = remove_common_mode(timeline, &mut series);
    let kinds = common.len().max(1);
    for Common { series, .. } in &mut common {
        let noise = offline::noise(&series.adjusted).unwrap_or(0.0);
        series.look(timeline, noise.max(LEAST_NOISE), CHANCE / kinds as f64);
    }
    let judged = series
        .values()
        .filter(|one| one.values.len() >= FEWEST)
        .count()
        .max(1);
    let noise = usual_noise(&series);
    for ((kind, _, quantity, _), one) in &mut series {
        let own = offline::noise(&one.adjusted).unwrap_or(0.0);
        let usual = noise.get(&(*kind, *quantity)).copied().unwrap_or(0.0);
        one.look(timeline, own.max(usual).max(LEAST_NOISE), CHANCE / judged as f64);
    }
    (series, common)
}

/// The series of a part that has the most cycles: that of all hosts, unless some were away for longer than they were there.
pub(super) fn longest<'s>(
    series: &'s BTreeMap<SeriesKey, Series>,
    kind: PartKind,
    part: &str,
    quantity: Quantity,
) -> Option<&'s Series> {
    let from = (kind, part.to_string(), quantity, MissingHosts::new());
    let of_part = series
        .range(from..)
        .take_while(|(key, _)| (key.0, key.1.as_str(), key.2) == (kind, part, quantity));
    of_part
        .max_by_key(|(key, one)| (one.count(), key.3.is_empty()))
        .map(|(_, one)| one)
}

fn collect(
    timeline: &Timeline<'_>,
    known: &CatalogIndex<'_>,
    cycle_findings: &[CycleFinding<'_>],
) -> BTreeMap<SeriesKey, Series> {
    let disturbed: BTreeSet<(u32, &super::catalog::AccusedPart)> = cycle_findings
        .iter()
        .filter(|finding| finding.family == super::family::Family::Flap)
        .map(|finding| (finding.cycle, &finding.accused))
        .collect();
    let lost: BTreeSet<(u32, &str)> = timeline
        .absences
        .iter()
        .map(|absence| (absence.lost.cycle, absence.host.as_str()))
        .collect();
    let away = AbsentHosts::of(timeline, known);
    let mut series: BTreeMap<SeriesKey, Series> = BTreeMap::new();
    let mut identities: BTreeMap<(PartKind, &str, Quantity), &str> = BTreeMap::new();
    for (place, cycle) in timeline.cycles.iter().enumerate() {
        for reading in cycle.said.figures() {
            let is_followed = matches!(reading.kind, PartKind::Link | PartKind::RailEnd | PartKind::Gpu);
            let is_figure = reading.value.is_finite() && reading.value > 0.0;
            if !is_followed || !is_figure {
                continue;
            }
            // What a flap or a loss did to its own cable or host is told as that.
            let part = known.read(reading.kind, reading.part);
            let host = known.host_of(&part);
            let is_lost = host.is_some_and(|host| lost.contains(&(cycle.number(), host)));
            if is_lost || disturbed.contains(&(cycle.number(), &part)) {
                continue;
            }
            let Some(without) = away.without(cycle.number(), reading.part) else {
                continue;
            };
            let (kind, name, quantity) = (reading.kind, reading.part, reading.quantity);
            if let Some(identity) = reading.identity
                && let Some(before) = identities.insert((kind, name, quantity), identity)
                && before != identity
            {
                // Another part under the same name begins anew.
                series.retain(|key, _| (key.0, key.1.as_str(), key.2) != (kind, name, quantity));
            }
            let key = (kind, name.to_string(), quantity, without);
            let one = series.entry(key).or_insert_with(Series::empty);
            one.places.push(place);
            one.values.push(reading.value);
        }
    }
    series
}

/// Takes out of every series what all of its kind have in common, and returns that.
fn remove_common_mode(timeline: &Timeline<'_>, series: &mut BTreeMap<SeriesKey, Series>) -> Vec<Common> {
    let mut apart: BTreeMap<(PartKind, Quantity), Vec<Vec<f64>>> = BTreeMap::new();
    for ((kind, _, quantity, _), one) in series.iter_mut() {
        one.adjusted = one.values.iter().map(|value| value.ln()).collect();
        let Some(usual) = median(&one.adjusted) else {
            continue;
        };
        let apart = apart
            .entry((*kind, *quantity))
            .or_insert_with(|| vec![Vec::new(); timeline.cycles.len()]);
        for (place, figure) in one.places.iter().zip(&one.adjusted) {
            apart[*place].push(figure - usual);
        }
    }
    let common: BTreeMap<(PartKind, Quantity), Vec<Option<f64>>> = apart
        .iter()
        .map(|(group, cycles)| {
            let levels = cycles.iter().map(|parts| common_level(parts, FOR_COMMON));
            (*group, levels.collect())
        })
        .collect();
    for ((kind, _, quantity, _), one) in series.iter_mut() {
        if let Some(common) = common.get(&(*kind, *quantity)) {
            for (place, figure) in one.places.iter().zip(&mut one.adjusted) {
                *figure -= common[*place].unwrap_or(0.0);
            }
        }
    }
    let parts = |group: &(PartKind, Quantity)| apart[group].iter().map(Vec::len).max().unwrap_or(0);
    common
        .into_iter()
        .map(|(group, levels)| {
            let known = levels.iter().enumerate();
            let (places, adjusted): (Vec<usize>, Vec<f64>) = known
                .filter_map(|(place, level)| Some((place, (*level)?)))
                .unzip();
            Common {
                kind: group.0,
                quantity: group.1,
                parts: parts(&group),
                series: Series {
                    values: adjusted.iter().map(|level| level.exp()).collect(),
                    places,
                    adjusted,
                    ..Series::empty()
                },
            }
        })
        .collect()
}

/// The median noise of parts, for every kind and quantity.
fn usual_noise(series: &BTreeMap<SeriesKey, Series>) -> BTreeMap<(PartKind, Quantity), f64> {
    let mut all: BTreeMap<(PartKind, Quantity), Vec<f64>> = BTreeMap::new();
    for ((kind, _, quantity, _), one) in series {
        let enough = one.adjusted.len() >= FEWEST;
        all.entry((*kind, *quantity))
            .or_default()
            .extend(offline::noise(&one.adjusted).filter(|_| enough));
    }
    all.into_iter()
        .filter_map(|(group, noise)| Some((group, median(&noise)?)))
        .collect()
}

impl Series {
    fn empty() -> Series {
        Series {
            places: Vec::new(),
            values: Vec::new(),
            adjusted: Vec::new(),
            step: None,
            slope: None,
            hours: 0.0,
        }
    }

    fn look(&mut self, timeline: &Timeline<'_>, noise: f64, chance: f64) {
        if self.values.len() < FEWEST {
            return;
        }
        let times: Vec<f64> = self
            .places
            .iter()
            .map(|place| timeline.cycles[*place].hours())
            .collect();
        self.hours = times
            .last()
            .zip(times.first())
            .map_or(0.0, |(last, first)| (last - first).max(0.0));
        self.step = offline::step(&self.adjusted, noise, chance);
        self.slope = offline::slope(&times, &self.adjusted, chance);
    }

    /// Cycles it was read in.
    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    /// The number of the cycle at one of its places.
    pub(super) fn cycle(&self, timeline: &Timeline<'_>, at: usize) -> u32 {
        self.places
            .get(at)
            .map_or(0, |place| timeline.cycles[*place].number())
    }

    /// Whether a step describes it better than a slope.
    pub(super) fn is_step(&self, timeline: &Timeline<'_>) -> bool {
        let Some(step) = self.step else { return false };
        let Some(slope) = self.slope else { return true };
        let side = |at: usize| {
            if at < step.at {
                &self.adjusted[..step.at]
            } else {
                &self.adjusted[step.at..]
            }
        };
        let levels = [median(side(0)), median(side(step.at))].map(Option::unwrap_or_default);
        let times: Vec<f64> = self
            .places
            .iter()
            .map(|place| timeline.cycles[*place].hours())
            .collect();
        let offsets: Vec<f64> = self
            .adjusted
            .iter()
            .zip(&times)
            .map(|(figure, time)| figure - slope.by * time)
            .collect();
        let offset = median(&offsets).unwrap_or(0.0);
        let by_step = offline::distance(&self.adjusted, |at| levels[usize::from(at >= step.at)]);
        let by_slope = offline::distance(&self.adjusted, |at| offset + slope.by * times[at]);
        by_step <= by_slope
    }

    /// The share by which a slope beyond chance changed it from first to last.
    pub(super) fn sloped_by(&self) -> Option<f64> {
        let slope = self
            .slope
            .filter(|slope| slope.lower > 0.0 || slope.upper < 0.0)?;
        Some((slope.by * self.hours).clamp(-20.0, 20.0).exp() - 1.0)
    }

    /// The usual figure of its first cycles and of its last: a fifth of them, or those before and after a step.
    pub(super) fn ends(&self) -> (f64, f64) {
        let count = self.values.len();
        let fifth = count.div_ceil(5).max(3).min(count);
        let (first, last) = match self.step {
            Some(step) => (&self.values[..step.at], &self.values[step.at..]),
            None => (&self.values[..fifth], &self.values[count - fifth..]),
        };
        (median(first).unwrap_or(0.0), median(last).unwrap_or(0.0))
    }

    /// As the certificate has it.
    pub(super) fn course(&self, quantity: Quantity, timeline: &Timeline<'_>) -> BurnInTrend {
        let (at_first, at_last) = self.ends();
        let share = |by: f64| by.clamp(-20.0, 20.0).exp() - 1.0;
        BurnInTrend {
            quantity,
            at_first,
            at_last,
            slope_per_hour: self
                .slope
                .map(|slope| (share(slope.by), share(slope.lower), share(slope.upper))),
            step: self
                .step
                .map(|step| (timeline.moment(self.cycle(timeline, step.at)), share(step.by))),
            cycles: u32::try_from(self.values.len()).unwrap_or(u32::MAX),
        }
    }
}

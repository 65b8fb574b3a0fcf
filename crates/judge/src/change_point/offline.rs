//! Did a series of figures step, or slope? Plain numbers in, plain numbers out.
//!
//! A step is looked for at every place with three figures before it and two after it: the place where the means on both sides differ most,
//! in units of what they would differ by chance. Chance is corrected for all places and all series, so that a thousand
//! healthy parts watched for a day stay within one budget. One wild figure makes no step: nearly every figure after it must be below nearly every one
//! before it. A slope is the median of all slopes between two figures (Theil and Sen), with the interval that the ranks give.

use std::f64::consts::SQRT_2;

use record::stats::median;

use super::baseline::OF_MEDIAN_DEVIATION;

/// Figures needed before a step.
const BEFORE: usize = 3;
/// Figures needed after it.
const AFTER: usize = 2;
/// Figures needed for a slope.
const FOR_A_SLOPE: usize = 8;
/// More figures than this are joined to medians of neighbours before slopes are taken.
const MOST_FOR_A_SLOPE: usize = 60;
/// The share of pairs, one from before and one from after, that must agree on the direction of a step.
const AGREE: f64 = 0.85;
/// Figures farther from their median than so many deviations count as that far.
const WILD: f64 = 6.0;

/// A step beyond chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// Place of the first figure after it.
    pub(crate) at: usize,
    /// Median after less median before.
    pub(crate) by: f64,
}

/// A slope with its interval, per unit of the times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slope {
    pub(crate) by: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// What neighbouring figures differ by, as a standard deviation of one figure: a step or slope hardly touches it.
pub(crate) fn noise(figures: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = figures.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    Some(median(&differences)? * OF_MEDIAN_DEVIATION / SQRT_2)
}

/// The deviation that chance exceeds with this probability, not less: a bound of the normal tail.
fn bound(chance: f64) -> f64 {
    (2.0 * (0.5 / chance.clamp(1e-300, 0.5)).ln()).sqrt()
}

/// The step of a series, when there is one: `noise` is the deviation of a single figure, `chance` the chance of a false one that is accepted.
pub(crate) fn step(figures: &[f64], noise: f64, chance: f64) -> Option<Step> {
    let count = figures.len();
    let places = (count + 1)
        .checked_sub(BEFORE + AFTER)
        .filter(|places| *places > 0)?;
    if !(noise.is_finite() && noise > 0.0) || figures.iter().any(|figure| !figure.is_finite()) {
        return None;
    }
    let middle = median(figures)?;
    // Relative to the whole range of the series, so that a large step is not cut.
    let spread = figures
        .iter()
        .map(|figure| (figure - middle).abs())
        .collect::<Vec<_>>();
    let far = WILD * noise + median(&spread)? * 2.0 + between_halves(figures);
    let tame: Vec<f64> = figures
        .iter()
        .map(|figure| figure.clamp(middle - far, middle + far))
        .collect();
    let total: f64 = tame.iter().sum();
    let mut sum: f64 = tame[..BEFORE - 1].iter().sum();
    let mut best: Option<(f64, usize)> = None;
    for at in BEFORE..=count - AFTER {
        sum += tame[at - 1];
        let (before, after) = (at as f64, (count - at) as f64);
        let by = (total - sum) / after - sum / before;
        let score = by.abs() / (noise * (1.0 / before + 1.0 / after).sqrt());
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, at));
        }
    }
    let (score, at) = best?;
    if score < bound(chance / places as f64) {
        return None;
    }
    let by = median(&figures[at..])? - median(&figures[..at])?;
    (agreement(&figures[..at], &figures[at..], by) >= AGREE).then_some(Step { at, by })
}

/// How far the halves of a series are apart: room for a step that is not a wild figure.
fn between_halves(figures: &[f64]) -> f64 {
    let (first, last) = figures.split_at(figures.len() / 2);
    match (median(first), median(last)) {
        (Some(first), Some(last)) => (first - last).abs(),
        _ => 0.0,
    }
}

/// The share of pairs that differ in the direction of `by`.
fn agreement(before: &[f64], after: &[f64], by: f64) -> f64 {
    let mut sorted = before.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = |figure: f64| sorted.partition_point(|other| *other < figure);
    let above = |figure: f64| sorted.len() - sorted.partition_point(|other| *other <= figure);
    let agree = |figure: &f64| if by < 0.0 { above(*figure) } else { below(*figure) };
    let agreeing: usize = after.iter().map(agree).sum();
    agreeing as f64 / (before.len() * after.len()).max(1) as f64
}

/// The slope of a series over its times, with an interval that misses it with this chance.
pub(crate) fn slope(times: &[f64], figures: &[f64], chance: f64) -> Option<Slope> {
    let points = thinned(times, figures);
    let count = points.len();
    if count < FOR_A_SLOPE {
        return None;
    }
    let mut slopes: Vec<f64> = Vec::with_capacity(count * (count - 1) / 2);
    for (later, (time, figure)) in points.iter().enumerate() {
        let earlier = points[..later].iter().filter(|(other, _)| time - other > 0.0);
        slopes.extend(earlier.map(|(other, before)| (figure - before) / (time - other)));
    }
    slopes.sort_by(f64::total_cmp);
    let n = count as f64;
    let spread = bound(chance / 2.0) * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let at = |rank: f64| {
        slopes
            .get(rank.clamp(0.0, slopes.len().saturating_sub(1) as f64) as usize)
            .copied()
    };
    Some(Slope {
        by: median(&slopes)?,
        lower: at((slopes.len() as f64 - spread) / 2.0)?,
        upper: at((slopes.len() as f64 + spread) / 2.0)?,
    })
}

/// At most so many points: neighbours become their medians.
fn thinned(times: &[f64], figures: &[f64]) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = times.iter().copied().zip(figures.iter().copied()).collect();
    let each = points.len().div_ceil(MOST_FOR_A_SLOPE).max(1);
    let of = |chunk: &[(f64, f64)]| {
        let (times, figures): (Vec<f64>, Vec<f64>) = chunk.iter().copied().unzip();
        Some((median(&times)?, median(&figures)?))
    };
    points.chunks(each).filter_map(of).collect()
}

/// Sum of distances of figures from a fit.
pub(crate) fn distance(figures: &[f64], fit: impl Fn(usize) -> f64) -> f64 {
    figures
        .iter()
        .enumerate()
        .map(|(at, figure)| (figure - fit(at)).abs())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burn_in::fixture::Noise;
    use proptest::prelude::*;

    #[test]
    fn a_step_is_found_where_it_is_and_one_wild_figure_is_none() {
        let mut figures: Vec<f64> = (0..30)
            .map(|i| if i < 10 { 0.0 } else { -0.15 } + 0.01 * ((i * 7 % 5) as f64 - 2.0))
            .collect();
        let found = step(&figures, 0.014, 1e-4).unwrap();
        assert_eq!(found.at, 10);
        assert!((found.by + 0.15).abs() < 0.01, "{found:?}");
        figures.truncate(9);
        figures.push(-0.5);
        figures.push(0.01);
        assert_eq!(step(&figures, 0.014, 1e-4), None);
        assert_eq!(step(&figures[..4], 0.014, 1e-4), None, "too few");
    }

    #[test]
    fn healthy_series_step_no_more_often_than_asked() {
        let mut noise_of = Noise::new(11);
        let (trials, mut steps) = (3000, 0);
        for _ in 0..trials {
            let figures: Vec<f64> = (0..30).map(|_| 0.02 * noise_of.normal()).collect();
            steps += u32::from(step(&figures, 0.02, 0.05).is_some());
        }
        assert!(steps <= 150, "{steps} of {trials}");
    }

    #[test]
    fn a_slope_lies_in_its_interval_and_few_figures_have_none() {
        let mut noise_of = Noise::new(5);
        let times: Vec<f64> = (0..400).map(|i| f64::from(i) / 60.0).collect();
        let figures: Vec<f64> = times
            .iter()
            .map(|hour| -0.02 * hour + 0.01 * noise_of.normal())
            .collect();
        let found = slope(&times, &figures, 0.01).unwrap();
        assert!(found.lower <= -0.02 && -0.02 <= found.upper, "{found:?}");
        assert!(found.upper < -0.015, "{found:?}");
        assert_eq!(slope(&times[..7], &figures[..7], 0.01), None);
    }

    proptest! {
        #[test]
        fn no_series_is_too_odd(
            figures in prop::collection::vec(prop::num::f64::ANY, 0..40),
            noise_of in prop::num::f64::ANY,
            chance in prop::num::f64::ANY,
        ) {
            let times: Vec<f64> = (0..figures.len()).map(|at| at as f64).collect();
            step(&figures, noise_of, chance);
            slope(&times, &figures, chance);
            noise(&figures);
        }
    }
}

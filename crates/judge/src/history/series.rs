//! One part over the runs: its usual level, its last scores, and the change that it is in.

use std::collections::{BTreeMap, VecDeque};

use super::episode::{Ending, Episode, Open, Point, Proof, effect};
use super::look::{Arrival, LOOKS, Learnt, Lesson, Terms, View};
use super::rule::Rule;
use crate::change_point::{Baseline, Fit, Forecast, Shared, online, wander};
use record::ChangeShape;

/// Distances are pooled only when so many runs have not turned them into a change: a fault must not teach what is usual.
const LAG: usize = 3;
/// The fewest runs whose spread can be estimated.
pub(super) const FEWEST: usize = 4;
/// How much farther out a change for the better must be: it is not urgent.
const BETTER: f64 = 1.0;
/// How much farther out a part must be by itself where it wanders with its siblings: all of them are far out at once then.
const WITH_SIBLINGS: f64 = 0.5;
/// How much more a slope must explain than a step to be called one, in squares of the spread.
const SLOPE: f64 = 4.0;
/// Share of the threshold from which a change is looked at closely.
const CLOSELY: f64 = 0.5;
/// Share of the threshold from which a single run is worth a word.
const BLIP: f64 = 0.9;

/// One part and quantity.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    identity: Option<String>,
    /// Runs on the present level.
    points: Vec<Point>,
    /// The first usual level, moved by every change since that was the part's alone: from it, siblings of the part see how far it has
    /// wandered. What they share with it they must go on to see, or one change would bring the next.
    reference: Option<f64>,
    /// By how much the change that lasts has moved it.
    moved: f64,
    open: Option<Open>,
    /// Changes that are over, in order.
    pub(super) over: Vec<Episode>,
    /// The latest run that stood out by itself, with its effect and score.
    pub(super) blip: Option<(usize, f64, f64)>,
    /// What is not pooled yet.
    pending: VecDeque<Learnt>,
}

impl Series {
    /// What is usual by now; none before the first run.
    pub(super) fn baseline(&self, rule: &Rule) -> Option<Baseline> {
        self.baseline_less(Shared::NOTHING, rule)
    }

    /// The same of the part less what it shares with its siblings.
    pub(super) fn baseline_less(&self, shared: Shared, rule: &Rule) -> Option<Baseline> {
        let from = self.points.len().saturating_sub(rule.window);
        let less = |point: &Point| point.own - shared.expected(&point.siblings);
        Baseline::of(self.points[from..].iter().map(less))
    }

    /// Takes the usual level for the one that wandering is seen from, when there is none yet.
    pub(super) fn refer_to(&mut self, usual: Option<Baseline>) {
        let grown = usual.filter(|usual| usual.runs >= FEWEST);
        self.reference = self.reference.or(grown.map(|usual| usual.median));
    }

    /// From where its siblings see how far it has wandered.
    pub(super) fn reference(&self) -> Option<f64> {
        self.reference
    }

    /// Whether there are enough runs to find a change with the next one: some before it, and the least that show it.
    pub(super) fn is_grown(&self, rule: &Rule) -> bool {
        // Tonight is not among them yet.
        self.points.len() + 1 >= rule.least_runs + online::LEAST_STEP
    }

    /// The change that lasts.
    pub(super) fn episode(&self) -> Option<&Episode> {
        self.open.as_ref().map(|open| &open.episode)
    }

    /// What the part was before the change that it is in, else what is usual now.
    pub(super) fn usual(&self, rule: &Rule) -> Option<Baseline> {
        match &self.open {
            Some(open) => Some(open.before),
            None => self.baseline(rule),
        }
    }

    /// The logarithm of the figure of that run, when it is the last one that was read.
    pub(super) fn last_log(&self, run: usize) -> Option<f64> {
        self.points
            .last()
            .filter(|point| point.run == run)
            .map(|point| point.log)
    }

    /// Takes note of what the part is made of; what it was made of before, when it is another one now.
    pub(super) fn identify(&mut self, now: Option<&str>, run: usize) -> Option<String> {
        let now = now?;
        let before = self.identity.take();
        let Some(before) = before else {
            self.identity = Some(now.to_string());
            return None;
        };
        if !is_another(&before, now) {
            self.identity = Some(joined_identity(&before, now));
            return None;
        }
        self.close(run, Ending::Replaced);
        *self = Series {
            identity: Some(now.to_string()),
            over: std::mem::take(&mut self.over),
            ..Series::default()
        };
        Some(before)
    }

    /// One more run.
    pub(super) fn add(&mut self, arrival: &Arrival, terms: &Terms<'_>) -> Option<Learnt> {
        let mut point = Point {
            run: terms.run,
            log: arrival.log,
            own: arrival.log - terms.common,
            siblings: arrival.siblings,
            scores: [0.0; LOOKS],
        };
        let mut learnt = Learnt::default();
        for (at, view) in terms.views() {
            let Some(usual) = arrival.usual[at].filter(|usual| usual.runs >= FEWEST) else {
                continue;
            };
            let lesson = self.lesson(&view, &usual, view.of(&point), terms);
            point.scores[at] = view.pool.score(lesson.distance);
            learnt[at] = Some(lesson);
        }
        self.points.push(point);
        self.follow(terms);
        let is_proven = self.look(terms);
        if let (false, Some(usual)) = (is_proven, arrival.usual[0]) {
            let effect = point.own - usual.median;
            let score = point.scores[0];
            let stands_out =
                score.abs() >= BLIP * terms.threshold && effect.abs() >= 2.0 * terms.least_effect;
            if stands_out && self.open.is_none() && usual.runs >= terms.rule.least_runs {
                self.blip = Some((terms.run, effect, score));
            }
        }
        let most = terms.rule.window + terms.rule.reach;
        if self.points.len() > most {
            self.points.drain(..self.points.len() - most);
        }
        match is_proven || learnt[0].is_none() {
            true => None,
            false => self.learn(learnt),
        }
    }

    /// What a reading adds to what is known of the fleet.
    fn lesson(&self, view: &View<'_>, usual: &Baseline, now: f64, terms: &Terms<'_>) -> Lesson {
        let spread = usual.spread_among(view.spread, terms.weight, terms.least_spread);
        let from = self.points.len().saturating_sub(terms.rule.window);
        let earlier = view.of_all(&self.points[from..]);
        let forecast = Forecast::after(&earlier, usual, spread, view.wander);
        Lesson {
            distance: forecast.distance(0, now),
            differences: wander::differences(now, &earlier, view.spread),
        }
    }

    /// Hands out what was learnt some runs ago: it has not become part of a change.
    fn learn(&mut self, now: Learnt) -> Option<Learnt> {
        self.pending.push_back(now);
        match self.pending.len() > LAG {
            true => self.pending.pop_front(),
            false => None,
        }
    }

    /// Goes on with the change that lasts, and sees whether it still does.
    fn follow(&mut self, terms: &Terms<'_>) {
        let (Some(open), Some(point)) = (&mut self.open, self.points.last()) else {
            return;
        };
        open.since.push(*point);
        if !open.lasts() {
            let back: Vec<Point> = self.points.iter().rev().take(2).rev().copied().collect();
            let mut points = std::mem::take(&mut open.old);
            self.reference = self.reference.map(|level| level - self.moved);
            points.extend(back.into_iter().map(Point::unjudged));
            self.close(terms.run, Ending::Gone);
            self.points = points;
            return;
        }
        open.measure(terms.run);
        if open.since.len() >= terms.rule.window {
            self.close(terms.run, Ending::Settled);
        }
    }

    /// Looks for a change that is beyond chance; whether there is one.
    fn look(&mut self, terms: &Terms<'_>) -> bool {
        let rule = terms.rule;
        let Some(most) = self
            .points
            .len()
            .checked_sub(rule.least_runs)
            .map(|most| most.min(rule.reach))
        else {
            return false;
        };
        if most < online::LEAST_STEP {
            return false;
        }
        let from = self.points.len() - most;
        let has_siblings = terms.has_siblings();
        let mut best: Option<(Fit, Proof, View<'_>)> = None;
        for (at, view) in terms.views() {
            // Siblings that share nothing leave the part as it is: one look is enough.
            if at > 0 && !has_siblings {
                continue;
            }
            let by_itself = if at == 0 && has_siblings {
                WITH_SIBLINGS
            } else {
                0.0
            };
            let scores: Vec<f64> = self.points[from..].iter().map(|point| point.scores[at]).collect();
            for (shape, age) in online::shapes(most, most) {
                // A quick look first: what is far from beyond chance as it came need not be looked at closely.
                if online::glance(&scores, shape, age).abs() < CLOSELY * terms.threshold {
                    continue;
                }
                let Some((fit, proof)) = self.closely(shape, age, &view, terms) else {
                    continue;
                };
                let is_worse = (proof.effect < 0.0) == terms.more_is_better;
                let threshold = terms.threshold + by_itself + if is_worse { 0.0 } else { BETTER };
                let is_change = fit.is_beyond(threshold) && proof.effect.abs() >= terms.least_effect;
                let is_best = best
                    .as_ref()
                    .is_none_or(|(known, ..)| fit.score.abs() > known.score.abs());
                if is_change && is_best && fit.score.signum() == proof.effect.signum() {
                    best = Some((fit, proof, view));
                }
            }
        }
        let Some((proven, proof, view)) = best else {
            return false;
        };
        let is_alone = view.shared != Shared::NOTHING;
        // What proves a change need not be what describes it best: a step of two runs can pass for a slope of four.
        let (shape, age) = self
            .likeliest(most, &view, terms, &proof)
            .unwrap_or((proven.shape, proven.age));
        match self.closely(shape, age, &view, terms) {
            Some((_, better)) if better.effect.signum() == proof.effect.signum() => {
                let fit = Fit { shape, age, ..proven };
                self.begin(fit, better, terms.run, is_alone);
            }
            _ => self.begin(proven, proof, terms.run, is_alone),
        }
        true
    }

    /// The shape and age that leave least of the last `most` runs unexplained.
    fn likeliest(
        &self,
        most: usize,
        view: &View<'_>,
        terms: &Terms<'_>,
        proof: &Proof,
    ) -> Option<(ChangeShape, usize)> {
        let last = view.of_all(&self.points[self.points.len() - most..]);
        let level = match view.shared == Shared::NOTHING {
            true => proof.before.median,
            false => {
                let before = &self.points[..self.points.len() - most];
                let from = before.len().saturating_sub(terms.rule.window);
                Baseline::of(view.of_all(&before[from..]).into_iter())?.median
            }
        };
        let unexplained = |(shape, age): &(ChangeShape, usize)| {
            let from = most - age;
            let effect = effect(*shape, &last[from..], level);
            let share = |at: usize| match shape {
                _ if at < from => 0.0,
                ChangeShape::Slope => (at - from + 1) as f64 / *age as f64,
                ChangeShape::Step | ChangeShape::Blip => 1.0,
            };
            let rest = |(at, value): (usize, &f64)| value - level - effect * share(at);
            last.iter()
                .enumerate()
                .map(rest)
                .map(|rest| rest * rest)
                .sum::<f64>()
        };
        let best = |wanted: ChangeShape| {
            let all = online::shapes(most, most).filter(move |(shape, _)| *shape == wanted);
            all.map(|shape| (shape, unexplained(&shape)))
                .min_by(|a, b| a.1.total_cmp(&b.1))
        };
        let step = best(ChangeShape::Step)?;
        let slope =
            best(ChangeShape::Slope).filter(|slope| step.1 - slope.1 > SLOPE * proof.spread * proof.spread);
        Some(slope.unwrap_or(step).0)
    }

    /// A change of that shape and age, against what was usual before it alone. However it is looked at, the part itself must show it:
    /// what only its siblings do is none.
    fn closely(
        &self,
        shape: ChangeShape,
        age: usize,
        view: &View<'_>,
        terms: &Terms<'_>,
    ) -> Option<(Fit, Proof)> {
        let (before, since) = self.points.split_at(self.points.len().checked_sub(age)?);
        let from = before.len().saturating_sub(terms.rule.window);
        let earlier = view.of_all(&before[from..]);
        let usual = Baseline::of(earlier.iter().copied())?;
        let spread = usual.spread_among(view.spread, terms.weight, terms.least_spread);
        let forecast = Forecast::after(&earlier, &usual, spread, view.wander);
        let now = view.of_all(since);
        let distances: Vec<f64> = now
            .iter()
            .enumerate()
            .map(|(ahead, now)| forecast.distance(ahead, *now))
            .collect();
        let scores: Vec<f64> = distances
            .iter()
            .map(|distance| view.pool.score(*distance))
            .collect();
        let mut fit = online::fit(&scores, shape, &forecast)?;
        if shape == ChangeShape::Step {
            let row = online::row(&distances, &forecast, view.pool);
            if row.abs() > fit.score.abs() {
                fit.score = row;
            }
        }
        if view.shared == Shared::NOTHING {
            let proof = Proof {
                effect: effect(shape, &now, usual.median),
                before: usual,
                spread,
                wander: view.wander,
            };
            return Some((fit, proof));
        }
        let before = Baseline::of(before[from..].iter().map(|point| point.own))?;
        let own: Vec<f64> = since.iter().map(|point| point.own).collect();
        let proof = Proof {
            effect: effect(shape, &own, before.median),
            spread: before.spread_among(terms.own.spread, terms.weight, terms.least_spread),
            before,
            wander: terms.own.wander,
        };
        let matters = effect(shape, &now, usual.median).abs() >= terms.least_effect;
        matters.then_some((fit, proof))
    }

    /// `is_alone`: whether it shows apart from the siblings.
    fn begin(&mut self, fit: Fit, proof: Proof, run: usize, is_alone: bool) {
        self.pending.clear();
        self.close(run, Ending::Superseded);
        let since = self.points.split_off(self.points.len() - fit.age);
        let old = std::mem::take(&mut self.points);
        self.moved = if is_alone { proof.effect } else { 0.0 };
        self.reference = self.reference.map(|level| level + self.moved);
        let open = Open::begun(fit, proof, old, since, run);
        // What is usual from here on: the new level, or where a slope has come to.
        let level = match fit.shape {
            ChangeShape::Slope => 2,
            ChangeShape::Step | ChangeShape::Blip => open.since.len(),
        };
        let from = open.since.len() - level;
        self.points = open.since[from..].iter().map(|point| point.unjudged()).collect();
        self.open = Some(open);
    }

    fn close(&mut self, run: usize, ending: Ending) {
        if let Some(open) = self.open.take() {
            let ended = Some((run, ending));
            self.over.push(Episode {
                ended,
                ..open.episode
            });
        }
    }
}

/// `nic MT01; module C7` by its keys.
fn serial_numbers(identity: &str) -> BTreeMap<&str, &str> {
    let known = identity.split(';').filter_map(|fact| fact.trim().split_once(' '));
    known.map(|(key, value)| (key, value.trim())).collect()
}

/// Whether it is another part than before: a serial number that both have differs.
fn is_another(before: &str, after: &str) -> bool {
    let before = serial_numbers(before);
    let differs = |(key, value): (&str, &str)| before.get(key).is_some_and(|known| *known != value);
    serial_numbers(after).into_iter().any(differs)
}

/// Everything that is known of a part that is still the same.
fn joined_identity(before: &str, after: &str) -> String {
    let mut known = serial_numbers(before);
    known.extend(serial_numbers(after));
    let facts: Vec<String> = known
        .into_iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    facts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_that_could_not_be_read_is_no_other_part() {
        assert!(!is_another("nic MT01; module C7", "module C7"));
        assert!(!is_another("nic MT01", "guid 77:88"));
        assert!(is_another("nic MT01; module C7", "nic MT01; module C8"));
        assert!(!is_another("", "nic MT01"));
        // What was known once is not forgotten in a run that could not read it.
        let known = joined_identity("nic MT01; module C7", "nic MT01");
        assert!(is_another(&known, "module C8"));
    }
}

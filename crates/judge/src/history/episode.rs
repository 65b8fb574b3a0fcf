//! A change of one part, from the run that proves it to the run that ends it.

use super::look::LOOKS;
use crate::change_point::{Baseline, Fit, Siblings, Wander, online};
use record::ChangeShape;
use record::stats::median;

/// A change is there as long as this share of it is.
const STILL: f64 = 0.5;

/// One run of one part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Which run.
    pub(super) run: usize,
    /// Logarithm of the figure.
    pub(super) log: f64,
    /// The same less what all parts of its kind have in common in that run.
    pub(super) own: f64,
    /// What its siblings showed.
    pub(super) siblings: Siblings,
    /// How rare it was when it came, for each look; 0 when it was not judged.
    pub(super) scores: [f64; LOOKS],
}

impl Point {
    /// The same as one that is usual by now.
    pub(super) fn unjudged(self) -> Point {
        Point {
            scores: [0.0; LOOKS],
            ..self
        }
    }
}

/// Why a change is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The part is as it was before.
    Gone,
    /// The part is another one.
    Replaced,
    /// It has lasted so long that it is the usual by now.
    Settled,
    /// It changed again.
    Superseded,
}

/// A change from the run that proved it to the run that ended it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Episode {
    /// How.
    pub(super) shape: ChangeShape,
    /// The run it began with.
    pub(super) since: usize,
    /// The run that proved it.
    pub(super) proved: usize,
    /// The last run in which it was seen.
    pub(super) seen: usize,
    /// Runs that show it.
    pub(super) runs: usize,
    /// How far out it was when it was proved, with its sign.
    pub(super) score: f64,
    /// Logarithm of the figure since.
    pub(super) after: f64,
    /// Logarithm of what it makes of the figure: after over before.
    pub(super) effect: f64,
    /// Standard error of that.
    pub(super) error: f64,
    /// How it ended, and with which run; none while it lasts.
    pub(super) ended: Option<(usize, Ending)>,
}

/// A change that lasts.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// What is told of it.
    pub(super) episode: Episode,
    /// The usual before it.
    pub(super) before: Baseline,
    /// The spread before it.
    spread: f64,
    /// How the part wanders.
    wander: Wander,
    /// The effect that proved it.
    proven: f64,
    /// Runs before it.
    pub(super) old: Vec<Point>,
    /// Runs since it began.
    pub(super) since: Vec<Point>,
}

/// What a change rests on.
pub(super) struct Proof {
    /// The usual before it.
    pub(super) before: Baseline,
    /// The spread before it.
    pub(super) spread: f64,
    /// How the part wanders.
    pub(super) wander: Wander,
    /// What it makes of the figure, as a logarithm.
    pub(super) effect: f64,
}

/// What a change makes of the figure by now, as a logarithm.
pub(super) fn effect(shape: ChangeShape, since: &[f64], before: f64) -> f64 {
    match shape {
        ChangeShape::Slope => {
            let (mut products, mut squares) = (0.0, 0.0);
            for (at, own) in since.iter().enumerate() {
                let age = (at + 1) as f64;
                products += age * (own - before);
                squares += age * age;
            }
            products / squares * since.len() as f64
        }
        ChangeShape::Step | ChangeShape::Blip => median(since).map_or(0.0, |median| median - before),
    }
}

impl Open {
    /// A change that the last of `since` proves, after the runs of `old`.
    pub(super) fn begun(fit: Fit, proof: Proof, old: Vec<Point>, since: Vec<Point>, run: usize) -> Open {
        let mut open = Open {
            episode: Episode {
                shape: fit.shape,
                since: since.first().map_or(run, |first| first.run),
                proved: run,
                seen: run,
                runs: 0,
                score: fit.score,
                after: 0.0,
                effect: proof.effect,
                error: 0.0,
                ended: None,
            },
            before: proof.before,
            spread: proof.spread,
            wander: proof.wander,
            proven: proof.effect,
            old,
            since,
        };
        open.measure(run);
        open
    }

    /// Whether the last two runs, taken together, still show it.
    pub(super) fn lasts(&self) -> bool {
        let last = &self.since[self.since.len().saturating_sub(2)..];
        let sum: f64 = last.iter().map(|point| point.own - self.before.median).sum();
        let now = sum / last.len().max(1) as f64;
        now * self.proven.signum() >= STILL * self.proven.abs()
    }

    /// Takes the measure of the change anew, after one more run of it.
    pub(super) fn measure(&mut self, run: usize) {
        // A slope is where it has come to: the last runs.
        let recent = match self.episode.shape {
            ChangeShape::Slope => &self.since[self.since.len().saturating_sub(3)..],
            ChangeShape::Step | ChangeShape::Blip => &self.since[..],
        };
        let shape = match self.since.len() <= online::LEAST_SLOPE {
            true => self.episode.shape,
            false => ChangeShape::Step,
        };
        let own: Vec<f64> = recent.iter().map(|point| point.own).collect();
        let of_now = effect(shape, &own, self.before.median);
        if self.episode.runs > 0 {
            self.episode.effect = of_now;
        }
        let logs: Vec<f64> = recent.iter().map(|point| point.log).collect();
        self.episode.after = median(&logs).unwrap_or_default();
        let (after, before) = (recent.len(), self.before.runs);
        let variance = self.wander.level_variance(after) + self.wander.level_variance(before);
        self.episode.error = self.spread * variance.sqrt();
        self.episode.runs = self.since.len();
        self.episode.seen = run;
    }
}

//! The ways in which a part is looked at, and what a run says of each.
//!
//! As it is; less what its siblings predict of it, which leaves least of one night; and against its siblings, which leaves nothing of what they
//! share. What is left of a wander by the second lasts for nights, the third pays for its absence with the errors of the siblings, which are new
//! every night: over several nights it tells more.

use super::episode::Point;
use super::rule::Rule;
use crate::change_point::wander::Differences;
use crate::change_point::{Baseline, Pool, Shared, Siblings, Wander};

/// How many they are.
pub(super) const LOOKS: usize = 3;

/// One reading on its way into its series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Logarithm of the figure.
    pub(super) log: f64,
    /// What its siblings show.
    pub(super) siblings: Siblings,
    /// What was usual before it, for each look.
    pub(super) usual: [Option<Baseline>; LOOKS],
}

/// What the fleet says in one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    /// Which run.
    pub(super) run: usize,
    /// What all parts of the kind have in common.
    pub(super) common: f64,
    /// Parts as they are.
    pub(super) own: View<'a>,
    /// The same less what their siblings show, and against them; none where parts have no siblings.
    pub(super) beside: [Option<View<'a>>; LOOKS - 1],
    /// As how many runs that counts.
    pub(super) weight: f64,
    /// The least that a spread is taken to be.
    pub(super) least_spread: f64,
    /// Smallest change that matters, as a logarithm.
    pub(super) least_effect: f64,
    /// Whether more of it is better.
    pub(super) more_is_better: bool,
    /// From which score a change is beyond chance.
    pub(super) threshold: f64,
    /// The rule.
    pub(super) rule: &'a Rule,
}

impl<'a> Terms<'a> {
    /// Every way to look at parts, with its place.
    pub(super) fn views(&self) -> impl Iterator<Item = (usize, View<'a>)> + use<'a> {
        let [less, against] = self.beside;
        [Some(self.own), less, against]
            .into_iter()
            .enumerate()
            .filter_map(|(at, view)| Some((at, view?)))
    }

    /// Whether parts share anything with their siblings.
    pub(super) fn has_siblings(&self) -> bool {
        self.beside
            .iter()
            .flatten()
            .any(|view| view.shared != Shared::NOTHING)
    }
}

/// One way to look at parts, and what the fleet knows of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// What is subtracted of siblings.
    pub(super) shared: Shared,
    /// Usual spread of a part.
    pub(super) spread: f64,
    /// What distances are rare.
    pub(super) pool: &'a Pool,
    /// How readings of a part follow from those before.
    pub(super) wander: Wander,
}

impl View<'_> {
    /// The reading as it is looked at.
    pub(super) fn of(&self, point: &Point) -> f64 {
        point.own - self.shared.expected(&point.siblings)
    }

    /// The same of several.
    pub(super) fn of_all(&self, points: &[Point]) -> Vec<f64> {
        points.iter().map(|point| self.of(point)).collect()
    }
}

/// What one run of one part adds to what is known of its fleet, for each look.
pub(super) type Learnt = [Option<Lesson>; LOOKS];

/// The same of one of them.
#[derive(Debug, Clone)]
pub(super) struct Lesson {
    /// A distance from what was expected.
    pub(super) distance: f64,
    /// How much the reading differs from earlier ones.
    pub(super) differences: Differences,
}

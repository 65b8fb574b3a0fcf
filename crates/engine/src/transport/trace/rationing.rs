//! Switches that answer only so many questions a second, as Linux and most switches do by default.

use std::collections::HashMap;

use super::flow::PartialPath;

/// So many questions are enough to see that only some are answered: Linux answers the first six.
const MANY: usize = 12;

/// How often switches have answered this rank so far.
#[derive(Debug, Clone, Default)]
pub(in crate::transport) struct AnswerHabits {
    /// By rail and distance: how many questions were answered, and how many were not.
    asked: HashMap<(String, usize), [usize; 2]>,
}

impl AnswerHabits {
    /// Takes note of traced paths and the rails they are on.
    pub(super) fn note<'t>(&mut self, traced: impl Iterator<Item = (&'t str, &'t Option<PartialPath>)>) {
        for (rail, seen) in traced {
            for (distance, hop) in seen.iter().flat_map(|seen| seen.hops.iter().enumerate()) {
                let counts = self.asked.entry((rail.to_string(), distance)).or_default();
                counts[usize::from(hop.is_none())] += 1;
            }
        }
    }

    /// Whether, at some distance on some rail, questions were answered and as many or more were not. A switch that is silent among others that answer
    /// may look the same, and more patience would not help there either.
    pub(super) fn are_rationed(&self) -> bool {
        let mut counts = self.asked.values();
        counts.any(|[answered, silent]| *answered > 0 && silent >= answered && answered + silent >= MANY)
    }
}

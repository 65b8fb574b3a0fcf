//! Deviations found so far: parts with the same deviation become one entry.

use std::collections::{BTreeMap, HashSet};

use super::parts::LocatedPart;
use super::rules::follows_from;
use record::{Deviation, Disagreement, DriftBasis, PartAt, PartClass};

/// What makes two deviations one.
type DeviationKey = (
    String,
    PartClass,
    String,
    Option<String>,
    String,
    Option<String>,
    Option<(String, u32)>,
);

/// Deviations and disagreements, in the order in which they were found.
#[derive(Default)]
pub(super) struct DriftLog {
    deviations: Vec<Deviation>,
    places: BTreeMap<DeviationKey, usize>,
    pub(super) disagreements: Vec<Disagreement>,
    accused: HashSet<(usize, String)>,
}

impl DriftLog {
    /// Adds parts that deviate. An equal deviation takes them in; their majorities add up.
    pub(super) fn add(&mut self, parts: &[LocatedPart<'_>], mut deviation: Deviation) {
        if parts.is_empty() {
            return;
        }
        for part in parts {
            self.accused.insert((part.number, deviation.fact.clone()));
        }
        deviation.parts = parts.iter().map(LocatedPart::at).collect();
        let line = match &deviation.basis {
            DriftBasis::Golden { file, line, .. } => Some((file.clone(), *line)),
            _ => None,
        };
        let key = (
            deviation.rule.clone(),
            deviation.class,
            deviation.fact.clone(),
            deviation.value.clone(),
            deviation.expected.clone(),
            deviation.like.clone(),
            line,
        );
        let Some(place) = self.places.get(&key) else {
            self.places.insert(key, self.deviations.len());
            return self.deviations.push(deviation);
        };
        let known = &mut self.deviations[*place];
        known.parts.extend(deviation.parts);
        match (&mut known.basis, &deviation.basis) {
            (DriftBasis::Majority { agree, of }, DriftBasis::Majority { agree: more, of: all }) => {
                *agree += more;
                *of += all;
            }
            (DriftBasis::Capability { of, .. }, DriftBasis::Capability { of: all, .. }) => *of += all,
            _ => {}
        }
    }

    /// Whether this fact of this part is known to deviate, or one that it follows from.
    pub(super) fn accuses(&self, part: &LocatedPart<'_>, fact: &str) -> bool {
        let is_accused = |fact: &str| self.accused.contains(&(part.number, fact.to_string()));
        is_accused(fact) || follows_from(part.part.class, fact).is_some_and(is_accused)
    }

    /// Everything that deviates.
    pub(super) fn into_parts(self) -> (Vec<Deviation>, Vec<Disagreement>) {
        let DriftLog {
            mut deviations,
            mut disagreements,
            ..
        } = self;
        for deviation in &mut deviations {
            sort(&mut deviation.parts);
        }
        for parts in disagreements
            .iter_mut()
            .flat_map(|split| split.values.values_mut())
        {
            sort(parts);
        }
        (deviations, disagreements)
    }
}

fn sort(parts: &mut Vec<PartAt>) {
    parts.sort();
    parts.dedup();
}

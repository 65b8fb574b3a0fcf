//! Null distributions of a fair hash, as many trials as a value needs. Switches whose flows have the same structure share their trials.

use std::collections::HashMap;
use std::sync::Arc;

use record::stats::Null;
use record::stats::fair_hash::{Evenness, FairNulls, FlowGroups};

/// Trials to begin with.
const FEW: usize = 2000;
/// Ten times as many are run while fewer than this are as extreme as what was measured.
const AS_ODD: f64 = 40.0;
const MORE: usize = 10;
/// Enough trials to resolve the significance level: this many for one expected exceedance.
const PER_CHANCE: f64 = 3.0;
const MOST: usize = 400_000;

/// Null distributions by structure, simulated when first asked for.
pub(super) struct NullStore {
    seed: u64,
    known: HashMap<FlowGroups, Arc<FairNulls>>,
    /// Significance level.
    pub(super) level: f64,
}

impl NullStore {
    /// Nothing simulated yet.
    pub(super) fn new(seed: u64, level: f64) -> NullStore {
        NullStore {
            seed,
            known: HashMap::new(),
            level,
        }
    }

    /// The null distributions for these values: of a few trials, or of many where the values are extreme.
    pub(super) fn of(&mut self, structure: &FlowGroups, values: &Evenness) -> Arc<FairNulls> {
        let seed = self.seed;
        let nulls = self
            .known
            .entry(structure.clone())
            .or_insert_with(|| Arc::new(structure.nulls(FEW, seed)));
        let chance = |null: &Null, value: f64| null.p_upper(value).min(null.p_lower(value));
        let wanted = ((PER_CHANCE / self.level.max(1e-9)) as usize).clamp(FEW, MOST);
        loop {
            let trials = nulls[0].trials();
            let least = chance(&nulls[0], values.pooled)
                .min(chance(&nulls[1], values.within))
                .min(chance(&nulls[2], values.paired));
            if trials >= wanted || least * trials as f64 >= AS_ODD {
                break;
            }
            let more = (trials * MORE).min(wanted);
            *nulls = Arc::new(structure.nulls(more, seed ^ more as u64));
        }
        Arc::clone(nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_stick_to_a_member_each_look_even_in_sum_and_are_not_within() {
        let structure = {
            let flows: Vec<(usize, u64, u64)> = (0..40).map(|at| (0, at / 20, at / 20)).collect();
            FlowGroups::of(&[2], &flows).0
        };
        let chosen: Vec<usize> = (0..40).map(|at| at / 20).collect();
        let values = structure.statistics(&chosen);
        assert_eq!((values.pooled, values.within), (0.0, 40.0));
        let nulls = NullStore::new(1, 1e-4).of(&structure, &values);
        assert!(nulls[1].p_upper(values.within) < 1e-4);
        assert!(nulls[0].p_upper(values.pooled) > 0.9);
    }

    #[test]
    fn switches_with_the_same_structure_share_their_trials() {
        let flows = |names: [u64; 3]| -> Vec<(usize, u64, u64)> {
            let sizes = [4usize, 2, 3];
            let named = names.iter().zip(sizes);
            named
                .flat_map(|(name, size)| vec![(0, *name, *name); size])
                .collect()
        };
        let one = FlowGroups::of(&[4], &flows([1, 2, 3])).0;
        let other = FlowGroups::of(&[4], &flows([9, 5, 7])).0;
        assert_eq!(one, other);
        let mut store = NullStore::new(1, 0.01);
        let values = one.statistics(&[0, 1, 2, 3, 0, 1, 2, 3, 0]);
        let (first, second) = (store.of(&one, &values), store.of(&other, &values));
        assert!(Arc::ptr_eq(&first, &second));
    }
}

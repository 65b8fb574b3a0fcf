//! Null distributions of a fair hash, as many trials as a value needs, and bounds where trials end. Switches whose flows have the same
//! structure share both.
//!
//! The more switches there are, the smaller the level at which one is judged: that of 1,000 is below what 400,000 trials can show. What
//! fewer than [`AS_ODD`] trials are as extreme as has the smaller of two p-values, that of the trials and a bound of the tail that is
//! exact or larger. What neither of them puts below the level although no trial was as extreme stays *open*.

use std::collections::HashMap;
use std::sync::Arc;

use record::stats::fair_hash::{Evenness, FairNulls, FlowGroups};
use record::stats::{Null, TailBound};

/// Trials to begin with.
const FEW: usize = 2000;
/// Ten times as many are run while fewer than this are as extreme as what was measured.
const AS_ODD: f64 = 40.0;
const MORE: usize = 10;
/// Enough trials to resolve the significance level: this many for one expected exceedance.
const PER_CHANCE: f64 = 3.0;
const MOST: usize = 400_000;

/// How probable a value is under a fair hash.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FairChance {
    pub(super) p_value: f64,
    /// Whether it may be below the level, and nothing shows it.
    pub(super) is_open: bool,
}

/// Null distributions by structure, simulated when first asked for.
pub(super) struct NullStore {
    seed: u64,
    known: HashMap<FlowGroups, Arc<FairNulls>>,
    bounds: HashMap<FlowGroups, [TailBound; 3]>,
    /// Significance level.
    pub(super) level: f64,
}

impl NullStore {
    /// Nothing simulated yet.
    pub(super) fn new(seed: u64, level: f64) -> NullStore {
        NullStore {
            seed,
            known: HashMap::new(),
            bounds: HashMap::new(),
            level,
        }
    }

    /// The null distributions for these values: of a few trials, or of many where the values are extreme and no bound settles them.
    pub(super) fn of(&mut self, structure: &FlowGroups, values: &Evenness) -> Arc<FairNulls> {
        let values = [values.pooled, values.within, values.paired];
        let wanted = ((PER_CHANCE / self.level.max(1e-9)) as usize).clamp(FEW, MOST);
        let known = self.known.get(structure).cloned();
        let mut nulls = known.unwrap_or_else(|| Arc::new(structure.nulls(FEW, self.seed)));
        loop {
            let trials = nulls[0].trials();
            let mut each = nulls.iter().zip(values).enumerate();
            let is_settled = each.all(|(which, (null, value))| {
                let least = null.p_upper(value).min(null.p_lower(value));
                least * trials as f64 >= AS_ODD || self.bound(structure, which, value) <= self.level
            });
            if trials >= wanted || is_settled {
                break;
            }
            let more = (trials * MORE).min(wanted);
            nulls = Arc::new(structure.nulls(more, self.seed ^ more as u64));
        }
        self.known.insert(structure.clone(), Arc::clone(&nulls));
        nulls
    }

    /// The probability of a statistic's value or more under a fair hash.
    pub(super) fn chance(
        &mut self,
        structure: &FlowGroups,
        null: &Null,
        which: usize,
        value: f64,
    ) -> FairChance {
        let by_trials = null.p_upper(value);
        let least = 1.0 / (1 + null.trials()) as f64;
        if by_trials >= (1.0 + AS_ODD) * least {
            return FairChance {
                p_value: by_trials,
                is_open: false,
            };
        }
        let p_value = by_trials.min(self.bound(structure, which, value));
        FairChance {
            p_value,
            is_open: p_value > self.level && least > self.level && by_trials < 1.5 * least,
        }
    }

    fn bound(&mut self, structure: &FlowGroups, which: usize, value: f64) -> f64 {
        if !self.bounds.contains_key(structure) {
            self.bounds.insert(structure.clone(), structure.tail_bounds());
        }
        self.bounds[structure][which].p_upper(value)
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
        for level in [1e-4, 1e-9] {
            let mut store = NullStore::new(1, level);
            let nulls = store.of(&structure, &values);
            let within = store.chance(&structure, &nulls[1], 1, values.within);
            assert!(within.p_value < level && !within.is_open, "{within:?}");
            let pooled = store.chance(&structure, &nulls[0], 0, values.pooled);
            assert!(pooled.p_value > 0.9 && !pooled.is_open, "{pooled:?}");
        }
    }

    #[test]
    fn what_trials_cannot_show_and_no_bound_proves_stays_open() {
        // 25 of 30 flows on one of two members: about 3 in 10,000.
        let flows: Vec<(usize, u64, u64)> = (0..30).map(|_| (0, 0, 0)).collect();
        let structure = FlowGroups::of(&[2], &flows).0;
        let chosen: Vec<usize> = (0..30).map(|at| usize::from(at >= 25)).collect();
        let values = structure.statistics(&chosen);
        let null = structure.nulls(FEW, 1);
        let beyond = |trials: Option<f64>, level: f64| {
            let drawn = trials.map_or(null[0].clone(), |above| {
                Null::of((0..MOST).map(|_| values.pooled - above).collect())
            });
            NullStore::new(1, level).chance(&structure, &drawn, 0, values.pooled)
        };
        assert!(
            !beyond(None, 1e-3).is_open,
            "the level is within reach of the trials"
        );
        let open = beyond(Some(1.0), 1e-7);
        assert!(open.is_open && open.p_value > 1e-7, "{open:?}");
        assert!(!beyond(Some(-1.0), 1e-7).is_open, "trials show that it is usual");
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

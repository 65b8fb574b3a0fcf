//! A fair hash for the flows of one switch: the same flows in the same groups, thrown at its members at random.
//!
//! Evenness is tested in up to three ways: over all flows of a set of members (*pooled*), within every group of flows
//! that belong together (*within*: those of one pair of hosts; at the second switch those that came by one link), and
//! at the second switch also within pairs (*paired*). Each is a sum of chi-squares, compared with its distribution
//! when every flow picks a member at random. Switches whose flows have the same structure share their trials.

use std::collections::HashMap;
use std::sync::Arc;

use record::stats::Null;
use record::stats::hashing::{chi_square, pick};

/// Trials to begin with.
const FEW: usize = 2000;
/// Ten times as many are run while fewer than this are as extreme as what was measured.
const AS_ODD: f64 = 40.0;
const MORE: usize = 10;
/// Enough trials to resolve the significance level: this many for one expected exceedance.
const PER_CHANCE: f64 = 3.0;
const MOST: usize = 400_000;

/// Flows in groups, without names: what a null distribution depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Structure {
    /// Members of every set.
    members: Vec<u32>,
    /// Flows: their set, their group, their pair's group.
    flows: Vec<[u32; 3]>,
    groups: [u32; 2],
}

/// The statistics of one spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Statistics {
    pub(super) pooled: f64,
    pub(super) within: f64,
    pub(super) paired: f64,
    pub(super) max_over_mean: f64,
}

/// Their null distributions, in the same order.
pub(super) type Nulls = [Null; 4];

impl Structure {
    /// From flows given by set, group and pair; groups of different sets must have different names. Yields the order of the
    /// given flows within the structure as well.
    pub(super) fn of(members: &[usize], flows: &[(usize, u64, u64)]) -> (Structure, Vec<usize>) {
        let names = |of: fn(&(usize, u64, u64)) -> u64| {
            let mut sizes: HashMap<(usize, u64), u32> = HashMap::new();
            for flow in flows {
                *sizes.entry((flow.0, of(flow))).or_default() += 1;
            }
            // Named by size, so that switches whose groups only have other names have the same structure.
            let mut order: Vec<((usize, u64), u32)> = sizes.into_iter().collect();
            order.sort_by_key(|((set, name), size)| (*set, *size, *name));
            let numbers: HashMap<(usize, u64), u32> = order
                .iter()
                .enumerate()
                .map(|(number, (name, _))| (*name, number as u32))
                .collect();
            numbers
        };
        let (groups, pairs) = (names(|flow| flow.1), names(|flow| flow.2));
        let mut placed: Vec<([u32; 3], usize)> = flows
            .iter()
            .enumerate()
            .map(|(at, flow)| {
                let named = [flow.0 as u32, groups[&(flow.0, flow.1)], pairs[&(flow.0, flow.2)]];
                (named, at)
            })
            .collect();
        placed.sort_unstable();
        let structure = Structure {
            members: members.iter().map(|count| *count as u32).collect(),
            flows: placed.iter().map(|(flow, _)| *flow).collect(),
            groups: [groups.len() as u32, pairs.len() as u32],
        };
        (structure, placed.into_iter().map(|(_, at)| at).collect())
    }

    /// How many flows there are.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The statistics when flows (in the order of the structure) are on these members.
    pub(super) fn statistics(&self, chosen: &[usize]) -> Statistics {
        let mut counts = MemberCounts::of(self);
        counts.clear();
        for (flow, member) in self.flows.iter().zip(chosen) {
            counts.put(flow, *member);
        }
        counts.statistics(self)
    }

    fn nulls(&self, trials: usize, seed: u64) -> Nulls {
        Null::simulate_together(
            trials,
            seed,
            || MemberCounts::of(self),
            |counts, random| {
                counts.clear();
                for flow in &self.flows {
                    counts.put(flow, pick(self.members[flow[0] as usize] as usize, random));
                }
                let values = counts.statistics(self);
                [values.pooled, values.within, values.paired, values.max_over_mean]
            },
        )
    }
}

/// Counts of flows per member, over everything and per group.
struct MemberCounts {
    width: usize,
    pooled: Vec<u32>,
    within: Vec<u32>,
    paired: Vec<u32>,
    group_set: [Vec<u32>; 2],
}

impl MemberCounts {
    fn of(structure: &Structure) -> MemberCounts {
        let width = structure.members.iter().copied().max().unwrap_or(0) as usize;
        let sets_of = |which: usize| {
            let mut sets = vec![0; structure.groups[which] as usize];
            for flow in &structure.flows {
                sets[flow[which + 1] as usize] = flow[0];
            }
            sets
        };
        MemberCounts {
            width,
            pooled: vec![0; structure.members.len() * width],
            within: vec![0; structure.groups[0] as usize * width],
            paired: vec![0; structure.groups[1] as usize * width],
            group_set: [sets_of(0), sets_of(1)],
        }
    }

    fn clear(&mut self) {
        self.pooled.fill(0);
        self.within.fill(0);
        self.paired.fill(0);
    }

    fn put(&mut self, flow: &[u32; 3], member: usize) {
        self.pooled[flow[0] as usize * self.width + member] += 1;
        self.within[flow[1] as usize * self.width + member] += 1;
        self.paired[flow[2] as usize * self.width + member] += 1;
    }

    fn statistics(&self, structure: &Structure) -> Statistics {
        let of_set = |set: u32| structure.members[set as usize] as usize;
        let blocks = |counts: &[u32], sets: &[u32]| -> f64 {
            counts
                .chunks_exact(self.width.max(1))
                .zip(sets)
                .map(|(block, set)| chi_square(&block[..of_set(*set)]))
                .sum()
        };
        let pooled = self.pooled.chunks_exact(self.width.max(1)).enumerate();
        let (mut chi, mut most) = (0.0, 1.0f64);
        for (set, block) in pooled {
            let block = &block[..of_set(set as u32)];
            chi += chi_square(block);
            most = most.max(record::stats::hashing::max_over_mean(block));
        }
        Statistics {
            pooled: chi,
            within: blocks(&self.within, &self.group_set[0]),
            paired: blocks(&self.paired, &self.group_set[1]),
            max_over_mean: most,
        }
    }
}

/// Null distributions by structure, simulated when first asked for.
pub(super) struct NullStore {
    seed: u64,
    known: HashMap<Structure, Arc<Nulls>>,
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
    pub(super) fn of(&mut self, structure: &Structure, values: &Statistics) -> Arc<Nulls> {
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

    /// Two pairs of `flows` flows each over `members` members.
    fn two_pairs(flows: usize, members: usize) -> Structure {
        let flows: Vec<(usize, u64, u64)> = (0..2 * flows)
            .map(|at| (0, (at / flows) as u64, (at / flows) as u64))
            .collect();
        Structure::of(&[members], &flows).0
    }

    #[test]
    fn pairs_that_stick_to_a_member_each_look_even_in_sum_and_are_not_within() {
        let structure = two_pairs(20, 2);
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
        let one = Structure::of(&[4], &flows([1, 2, 3])).0;
        let other = Structure::of(&[4], &flows([9, 5, 7])).0;
        assert_eq!(one, other);
        let mut store = NullStore::new(1, 0.01);
        let values = one.statistics(&[0, 1, 2, 3, 0, 1, 2, 3, 0]);
        let (first, second) = (store.of(&one, &values), store.of(&other, &values));
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn p_values_of_a_fair_hash_are_uniform() {
        let structure = two_pairs(40, 4);
        let nulls = structure.nulls(2000, 3);
        let others = structure.nulls(1000, 4);
        for statistic in 0..2 {
            let low = (1..1000)
                .map(|at| others[statistic].quantile(f64::from(at) / 1000.0))
                .filter(|value| nulls[statistic].p_upper(*value) <= 0.1)
                .count();
            assert!((70..130).contains(&low), "statistic {statistic}: {low} of 1000");
        }
    }
}

//! A fair hash for the flows of one switch: the same flows in the same groups, thrown at its members at random.
//!
//! Evenness is tested in up to three ways: over all flows of a set of members (*pooled*), within every group of flows
//! that belong together (*within*: those of one pair of hosts; at the second switch those that came by one link), and
//! at the second switch also within pairs (*paired*). Each is a sum of chi-squares, compared with its distribution
//! when every flow picks a member at random.

use std::collections::HashMap;

use super::Null;
use super::TailBound;
use super::hashing::{chi_square, max_over_mean, pick};

/// Trials of a band: 100 lie beyond either end of it.
const BAND_TRIALS: usize = 20_000;

/// The number of flows on one of `members` lies between these two in 99 of 100 cases, when there are `flows` in all.
pub fn load_band(flows: u32, members: u32) -> (f64, f64) {
    let null = Null::simulate(BAND_TRIALS, 17, |random| {
        let on_it = (0..flows).filter(|_| pick(members as usize, random) == 0);
        on_it.count() as f64
    });
    (null.quantile(0.005), null.quantile(0.995))
}

/// Flows in groups, without names: what a null distribution depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlowGroups {
    /// Members of every set.
    members: Vec<u32>,
    /// Flows: their set, their group, their pair's group.
    flows: Vec<[u32; 3]>,
    groups: [u32; 2],
}

/// The statistics of one spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evenness {
    /// Chi-square over all flows of a set, summed over sets.
    pub pooled: f64,
    /// Within groups.
    pub within: f64,
    /// Within pairs.
    pub paired: f64,
    /// The largest load over the mean one.
    pub max_over_mean: f64,
}

/// Their null distributions, in the same order.
pub type FairNulls = [Null; 4];

impl FlowGroups {
    /// From flows given by set, group and pair; groups of different sets must have different names. Yields the order of the
    /// given flows within the structure as well.
    pub fn of(members: &[usize], flows: &[(usize, u64, u64)]) -> (FlowGroups, Vec<usize>) {
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
        let structure = FlowGroups {
            members: members.iter().map(|count| *count as u32).collect(),
            flows: placed.iter().map(|(flow, _)| *flow).collect(),
            groups: [groups.len() as u32, pairs.len() as u32],
        };
        (structure, placed.into_iter().map(|(_, at)| at).collect())
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// The statistics when flows (in the order of the structure) are on these members.
    pub fn statistics(&self, chosen: &[usize]) -> Evenness {
        let mut counts = MemberCounts::of(self);
        counts.clear();
        for (flow, member) in self.flows.iter().zip(chosen) {
            counts.put(flow, *member);
        }
        counts.statistics(self)
    }

    /// Distributions of `within` and `paired` when the members that were chosen are shuffled among the flows of each set.
    pub fn shuffled(&self, chosen: &[usize], trials: usize, seed: u64) -> [Null; 2] {
        Null::simulate_together(
            trials,
            seed,
            || chosen.to_vec(),
            |shuffled, random| {
                // Flows lie in the order of their sets.
                let mut start = 0;
                for of_set in self.flows.chunk_by(|a, b| a[0] == b[0]) {
                    let part = &mut shuffled[start..start + of_set.len()];
                    for at in (1..part.len()).rev() {
                        part.swap(at, pick(at + 1, random));
                    }
                    start += of_set.len();
                }
                let values = self.statistics(shuffled);
                [values.within, values.paired]
            },
        )
    }

    /// Bounds of the probabilities of `pooled`, `within` and `paired`, in this order, where no trial is as extreme.
    pub fn tail_bounds(&self) -> [TailBound; 3] {
        let bound = |which: usize| {
            let mut sizes: HashMap<u32, (u32, u32)> = HashMap::new();
            for flow in &self.flows {
                let block = sizes.entry(flow[which]).or_default();
                *block = (block.0 + 1, self.members[flow[0] as usize]);
            }
            TailBound::of(sizes.into_values())
        };
        [bound(0), bound(1), bound(2)]
    }

    /// The null distributions, of this many trials.
    pub fn nulls(&self, trials: usize, seed: u64) -> FairNulls {
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
    fn of(structure: &FlowGroups) -> MemberCounts {
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

    #[inline]
    fn put(&mut self, flow: &[u32; 3], member: usize) {
        self.pooled[flow[0] as usize * self.width + member] += 1;
        self.within[flow[1] as usize * self.width + member] += 1;
        self.paired[flow[2] as usize * self.width + member] += 1;
    }

    fn statistics(&self, structure: &FlowGroups) -> Evenness {
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
            most = most.max(max_over_mean(block));
        }
        Evenness {
            pooled: chi,
            within: blocks(&self.within, &self.group_set[0]),
            paired: blocks(&self.paired, &self.group_set[1]),
            max_over_mean: most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs of `flows` flows each over `members` members.
    fn two_pairs(flows: usize, members: usize) -> FlowGroups {
        let flows: Vec<(usize, u64, u64)> = (0..2 * flows)
            .map(|at| (0, (at / flows) as u64, (at / flows) as u64))
            .collect();
        FlowGroups::of(&[members], &flows).0
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

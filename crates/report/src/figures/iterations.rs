//! How long every iteration of some cells took: the maximum over ranks, as everywhere. Iterations that not all ranks completed are left out.

use std::collections::{BTreeMap, HashMap};

use record::{Recorded, Sample};

/// One complete iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Iteration {
    /// Measurement round.
    pub(super) round: u16,
    /// Number within the round.
    pub(super) iter: u32,
    /// How long the slowest rank took.
    pub(super) ns: u64,
    /// Which that was.
    pub(super) rank: u32,
}

/// The iterations of the cells that are asked for, in order.
pub(super) fn iterations(
    recorded: &Recorded,
    is_wanted: impl Fn(u32) -> bool,
) -> BTreeMap<u32, Vec<Iteration>> {
    // Only samples of ranks that take part count, each once.
    let mut ranks_of: HashMap<u32, Vec<u32>> = HashMap::new();
    for cell in recorded.run.cells.iter().filter(|cell| is_wanted(cell.id)) {
        let mut ranks = cell.ranks.clone();
        ranks.sort_unstable();
        ranks.dedup();
        ranks_of.entry(cell.id).or_insert(ranks);
    }
    let takes_part = |sample: &&Sample| {
        let ranks = ranks_of.get(&sample.cell);
        ranks.is_some_and(|ranks| ranks.binary_search(&sample.rank).is_ok())
    };
    let mut samples: Vec<&Sample> = recorded.samples.iter().filter(takes_part).collect();
    let key = |sample: &&Sample| (sample.cell, sample.round, sample.iter, sample.rank);
    samples.sort_by_key(key);
    samples.dedup_by_key(|sample| key(sample));
    let mut found: BTreeMap<u32, Vec<Iteration>> = BTreeMap::new();
    for together in samples.chunk_by(|a, b| (a.cell, a.round, a.iter) == (b.cell, b.round, b.iter)) {
        let Some(slowest) = together.iter().rev().max_by_key(|sample| sample.ns) else {
            continue;
        };
        if ranks_of.get(&slowest.cell).map(Vec::len) == Some(together.len()) {
            found.entry(slowest.cell).or_default().push(Iteration {
                round: slowest.round,
                iter: slowest.iter,
                ns: slowest.ns,
                rank: slowest.rank,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::findings::fixture::Fixture;
    use judge::findings::judge;

    #[test]
    fn iterations_are_those_that_verdicts_rest_on() {
        let mut recorded = Fixture::rails(2).recorded();
        recorded.samples.remove(3);
        let again = recorded.samples[10];
        recorded.samples.push(again);
        let judgement = judge(&recorded);
        let all = iterations(&recorded, |_| true);
        for cell in &judgement.cells {
            let times: Vec<u64> = all[&cell.cell.id].iter().map(|iteration| iteration.ns).collect();
            assert_eq!(times.len() as u32, cell.iterations);
            assert_eq!(times.iter().max().copied(), cell.percentiles.map(|all| all.max.0));
        }
        assert_eq!(iterations(&recorded, |cell| cell == 1).len(), 1);
    }
}

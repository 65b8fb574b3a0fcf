//! NCCL communicators that later cells can reuse, as the coordinator keeps track of them.
//!
//! Creating a communicator takes a second, so a few are kept for later cells of the same ranks and algorithm. The coordinator
//! alone decides which, and sends the list with every cell, so ranks cannot disagree about which communicators exist.

use super::protocol::Communicator;
use crate::device::cuda::nccl::CommunicatorConfig;
use record::{Cell, Engine};

/// Communicators kept at most; each holds buffers on every GPU.
const CAPACITY: usize = 4;

/// One that ranks can use again.
struct CachedCommunicator {
    ranks: Vec<u32>,
    algorithm: Option<&'static str>,
    id: String,
}

/// The communicators of a run, the most recently used last.
#[derive(Default)]
pub(super) struct CommunicatorCache {
    known: Vec<CachedCommunicator>,
}

impl CommunicatorCache {
    /// The one for `cell`, if there is one.
    pub fn find(&mut self, cell: &Cell) -> Option<Communicator> {
        if cell.engine != Engine::Nccl {
            return None;
        }
        let algorithm = CommunicatorConfig::algorithm_of(cell);
        let fits = |known: &CachedCommunicator| known.ranks == cell.ranks && known.algorithm == algorithm;
        let at = self.known.iter().position(fits)?;
        let found = self.known.remove(at);
        let id = found.id.clone();
        self.known.push(found);
        Some(Communicator {
            id,
            live: self.live(),
        })
    }

    /// Evicts the least recently used, so that there is room for `new` ones; `needed` are in use at the same time.
    pub fn make_room(&mut self, new: usize, needed: usize) {
        let too_many = (self.known.len() + new).saturating_sub(CAPACITY.max(needed));
        self.known.drain(..too_many.min(self.known.len()));
    }

    /// Adds a new one.
    pub fn add(&mut self, cell: &Cell, id: String) {
        self.known.push(CachedCommunicator {
            ranks: cell.ranks.clone(),
            algorithm: CommunicatorConfig::algorithm_of(cell),
            id,
        });
    }

    /// Drops all of them.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    fn live(&self) -> Vec<String> {
        self.known.iter().map(|known| known.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Choices, Plan};
    use record::{Algorithm, DeviceKind};
    use topology::Fabric;
    use topology::suite::Suite;

    fn cell(ranks: &[u32], algorithm: Algorithm) -> Cell {
        let suite = Suite::load("all-reduce").unwrap();
        let rails = probe::rails::loopback().unwrap();
        let plan = Plan::new(
            &suite,
            &Fabric::local(record::HostRecord::named("node"), 2, DeviceKind::Host, rails),
            &Choices::default(),
        );
        Cell {
            ranks: ranks.to_vec(),
            algorithm,
            engine: Engine::Nccl,
            ..plan.unwrap().cells[0].clone()
        }
    }

    #[test]
    fn cells_of_the_same_ranks_and_algorithm_share_a_communicator() {
        let mut known = CommunicatorCache::default();
        let ring = cell(&[0, 1], Algorithm::Ring);
        assert_eq!(known.find(&ring), None);
        known.add(&ring, "a".into());
        assert_eq!(known.find(&ring).unwrap().id, "a");
        let tree = cell(&[0, 1], Algorithm::Tree);
        assert_eq!(
            known.find(&tree),
            None,
            "NCCL fixes the algorithm when the communicator is created"
        );
        known.add(&tree, "b".into());
        assert_eq!(known.find(&cell(&[0, 1], Algorithm::DoubleTree)).unwrap().id, "b");
        assert_eq!(
            known.find(&cell(&[1, 0], Algorithm::Ring)),
            None,
            "positions differ"
        );
    }

    #[test]
    fn the_least_recently_used_is_evicted_first_and_ranks_learn_it() {
        let mut known = CommunicatorCache::default();
        let cells: Vec<Cell> = (0..5).map(|peer| cell(&[9, peer], Algorithm::Ring)).collect();
        for (cell, id) in cells.iter().zip(["a", "b", "c", "d"]) {
            known.add(cell, id.into());
        }
        assert_eq!(known.find(&cells[0]).unwrap().id, "a");
        known.make_room(1, 1);
        known.add(&cells[4], "e".into());
        assert_eq!(known.find(&cells[1]), None);
        assert_eq!(known.find(&cells[4]).unwrap().live, ["c", "d", "a", "e"]);
        known.make_room(6, 6);
        assert_eq!(known.find(&cells[4]), None, "all six are needed at the same time");
        known.add(&cells[0], "f".into());
        known.clear();
        assert_eq!(known.find(&cells[0]), None);
    }
}

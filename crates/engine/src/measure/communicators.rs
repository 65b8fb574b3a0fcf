//! The coordinator's side of NCCL: which communicators there are, and bringing the ranks of a new one together.
//!
//! A communicator takes a second to make, so a few are kept for later cells of the same ranks and algorithm. The coordinator
//! alone decides which, and tells the ranks with every cell: no two ranks can disagree about what is still there.

use super::lanes::processes_share_a_gpu;
use super::orders::{Answer, Card, Communicator, NcclCard, Order};
use super::session::MeasureError;
use super::sink::Sink;
use super::slot::{Slot, Trouble};
use crate::device::cuda::nccl::{Terms, Version};
use record::{Cell, Engine, NcclRecord};

/// How many are kept; each holds buffers on every GPU.
const MOST: usize = 4;

/// One that ranks can use again.
struct Known {
    ranks: Vec<u32>,
    algorithm: Option<&'static str>,
    id: String,
}

/// The communicators of a run, the one used last at the end.
#[derive(Default)]
pub(super) struct Communicators {
    known: Vec<Known>,
}

impl Communicators {
    /// The one for `cell`, if there is one.
    pub fn find(&mut self, cell: &Cell) -> Option<Communicator> {
        if cell.engine != Engine::Nccl {
            return None;
        }
        let algorithm = Terms::algorithm_of(cell);
        let fits = |known: &Known| known.ranks == cell.ranks && known.algorithm == algorithm;
        let at = self.known.iter().position(fits)?;
        let found = self.known.remove(at);
        let id = found.id.clone();
        self.known.push(found);
        Some(Communicator {
            id,
            live: self.live(),
        })
    }

    /// Forgets those used longest ago, so that there is room for `new` ones; `needed` are in use at the same time.
    pub fn make_room(&mut self, new: usize, needed: usize) {
        let too_many = (self.known.len() + new).saturating_sub(MOST.max(needed));
        self.known.drain(..too_many.min(self.known.len()));
    }

    /// Takes note of a new one.
    pub fn add(&mut self, cell: &Cell, id: String) {
        self.known.push(Known {
            ranks: cell.ranks.clone(),
            algorithm: Terms::algorithm_of(cell),
            id,
        });
    }

    /// None can be used any more.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    fn live(&self) -> Vec<String> {
        self.known.iter().map(|known| known.id.clone()).collect()
    }
}

impl Slot<'_> {
    /// Lets the first rank of every cell that needs a new communicator say how the others find it.
    pub(super) fn introduce(&mut self, sink: &mut Sink) -> Result<Result<(), Trouble>, MeasureError> {
        let by_nccl = self.cells.iter().map(|running| running.cell);
        let by_nccl: Vec<&Cell> = by_nccl.filter(|cell| cell.engine == Engine::Nccl).collect();
        let known = &mut self.session.communicators;
        let is_new = |cell: &&&Cell| known.find(cell).is_none();
        let new: Vec<u32> = by_nccl.iter().filter(is_new).map(|cell| cell.id).collect();
        if new.is_empty() {
            return Ok(Ok(()));
        }
        known.make_room(new.len(), by_nccl.len());
        for &rank in &self.ranks {
            let cells = self.cells.iter().map(|running| running.cell);
            let mine = cells.filter(|cell| cell.ranks.contains(&rank));
            let leads = |cell: &Cell| new.contains(&cell.id) && cell.ranks.first() == Some(&rank);
            let order = Order::Introduce(mine.map(|cell| (cell.id, leads(cell))).collect());
            self.session.order(rank, &order)?;
        }
        self.collect("said how NCCL's ranks meet", sink, |slot, _, answer| {
            let Answer::Introduced { cell, id } = answer else {
                return false;
            };
            let mut cells = slot.cells.iter().map(|running| running.cell);
            let cell = cells.find(|known| known.id == *cell);
            if let (Some(cell), Some(id)) = (cell, id) {
                slot.session.communicators.add(cell, id.clone());
            }
            true
        })
    }
}

/// What the ranks' NCCL is, all of them together; why it cannot be used otherwise.
pub(super) fn agree(cards: &[Card]) -> Option<Result<NcclRecord, String>> {
    let mut agreed: Option<NcclRecord> = None;
    let mut oldest = Version(u32::MAX);
    for (rank, card) in cards.iter().enumerate() {
        match card.nccl.as_ref()? {
            NcclCard::Missing(why) => return Some(Err(format!("rank {rank} ({}): {why}", card.host.name))),
            NcclCard::There { version, library } => {
                let version = Version(*version);
                let first = agreed.get_or_insert_with(|| NcclRecord {
                    version: version.to_string(),
                    library: library.clone(),
                    shares_gpus: !version.refuses_shared_gpus(),
                    own_host_ids: false,
                });
                if first.version != version.to_string() {
                    let (ours, theirs) = (&first.version, version);
                    return Some(Err(format!("rank 0 has NCCL {ours}, rank {rank} has {theirs}")));
                }
                oldest = oldest.min(version);
            }
        }
    }
    let mut agreed = agreed?;
    let ends: Vec<_> = cards.iter().map(|card| card.endpoint.clone()).collect();
    agreed.own_host_ids = oldest.refuses_shared_gpus() && processes_share_a_gpu(&ends);
    Some(Ok(agreed))
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
        let mut known = Communicators::default();
        let ring = cell(&[0, 1], Algorithm::Ring);
        assert_eq!(known.find(&ring), None);
        known.add(&ring, "a".into());
        assert_eq!(known.find(&ring).unwrap().id, "a");
        let tree = cell(&[0, 1], Algorithm::Tree);
        assert_eq!(
            known.find(&tree),
            None,
            "NCCL is held to an algorithm when it is made"
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
    fn the_one_used_longest_ago_goes_first_and_ranks_are_told() {
        let mut known = Communicators::default();
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

//! Congestion: a load, a victim beside it, and both by themselves.
//!
//! An *incast* sends from many ranks to one; every rank is the receiver once. An *all-to-all* sends from every rank to every other. The
//! victim is a pair of ranks that take no part in the load: a flow as long as one sender's block, and a train of small round trips.
//! Each is measured alone, then under load, so that the difference is the effect of congestion on uninvolved flows. Where there are
//! several rails, a longer flow is measured on the next rail, alone and while this one is loaded: that should make no difference. And one
//! of an incast's senders sends as much alone: what is lost then is not lost because many send.

use super::PlanError;
use super::layout::{Slot, TestLayout, Work};
use record::TestKind;
use record::units::Bytes;
use record::{Cell, Collective, Load};

/// Bytes of a victim's round trip.
const SMALL: Bytes = Bytes(8);
/// Round trips timed as one: a single one would be over before queues have filled.
const TRAIN: u16 = 32;

/// Who makes the load, and who suffers from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadAndVictim {
    /// The receiver first, in an incast.
    pub load: Vec<u32>,
    /// Sender and receiver of a flow that has nothing to do with it.
    pub victim: Option<(u32, u32)>,
}

impl TestLayout<'_> {
    /// Every group on every rail: load alone, victim alone, both together.
    pub(super) fn congestion(&mut self) -> Result<Vec<Slot>, PlanError> {
        if !self.transport.has_rails() {
            let why = format!(
                "transport {} has no links to congest; use --transport tcp or verbs",
                self.transport
            );
            self.leave_out("all of it", &why);
            return Ok(Vec::new());
        }
        let world = self.world();
        if world.len() < 3 {
            self.leave_out("all of it", "congestion takes three ranks or more");
            return Ok(Vec::new());
        }
        let rails = self.rails.to_vec();
        let places: usize = rails
            .iter()
            .map(|rail| self.groups_under_load(&world, rail).len())
            .sum();
        self.check_count(places * if rails.len() > 1 { 8 } else { 6 })?;
        if !self.fabric.is_one_rank_per_host() {
            self.leave_out(
                "whether it is the fabric or the hosts that are congested",
                "ranks share hosts",
            );
        }
        let mut slots = Vec::new();
        for (at, rail) in rails.iter().enumerate() {
            let other = &rails[(at + 1) % rails.len()];
            let other = (other != rail).then_some(other.as_str());
            for group in self.groups_under_load(&world, rail) {
                if group.victim.is_none() {
                    let why = format!(
                        "{} ranks leave no pair that takes no part in the load",
                        world.len()
                    );
                    self.leave_out("what it does to others", &why);
                }
                for work in self.work(group.load.len())? {
                    slots.extend(self.beside(work, &group, rail, other));
                }
            }
        }
        Ok(slots)
    }

    fn groups_under_load(&self, world: &[u32], rail: &str) -> Vec<LoadAndVictim> {
        let leaf = |rank: u32| {
            let graph = self.known.graph.as_ref()?;
            graph.leaf_of(rank, rail).map(str::to_string)
        };
        match self.test.kind {
            TestKind::Incast => incasts(world, self.test.senders, &leaf),
            _ => vec![all_to_all(world, &leaf)],
        }
    }

    /// The slots of one group and size. `other` is a rail that the load leaves alone.
    fn beside(&self, work: Work, group: &LoadAndVictim, rail: &str, other: Option<&str>) -> Vec<Slot> {
        let rails = vec![rail.to_string()];
        let load = |load| self.cell(work, group.load.clone(), rails.clone(), load);
        let mut slots = vec![vec![load(Load::Alone)]];
        let Some((from, to)) = group.victim else {
            return slots;
        };
        let element = work.dtype.size() as u64;
        let block = work.size.0 / group.load.len() as u64;
        let whole = |bytes: u64| Bytes((bytes / element).max(1) * element);
        let victims = [
            (Collective::PointToPoint, whole(block), self.test.batch),
            (Collective::RoundTrip, whole(SMALL.0), TRAIN),
        ];
        let victim = |(collective, size, batch), rail: &str, load| {
            let work = Work {
                collective,
                size,
                ..work
            };
            Cell {
                batch,
                ..self.cell(work, vec![from, to], vec![rail.to_string()], load)
            }
        };
        for one in victims {
            slots.push(vec![victim(one, rail, Load::Alone)]);
            slots.push(vec![load(Load::Together), victim(one, rail, Load::Together)]);
        }
        let flow = (Collective::PointToPoint, work.size, self.test.batch);
        if let Some(other) = other {
            slots.push(vec![victim(flow, other, Load::Alone)]);
            slots.push(vec![load(Load::Together), victim(flow, other, Load::AcrossRails)]);
        }
        if let ([receiver, .., sender], Collective::Incast) = (group.load.as_slice(), work.collective) {
            let alone = Work {
                collective: Collective::PointToPoint,
                ..work
            };
            slots.push(vec![self.cell(
                alone,
                vec![*sender, *receiver],
                rails.clone(),
                Load::Alone,
            )]);
        }
        slots
    }
}

/// Every rank as the receiver of an incast. The victim sends to a neighbour of the receiver from elsewhere, where it is known
/// who is whose neighbour.
fn incasts(world: &[u32], senders: Option<u32>, leaf: &dyn Fn(u32) -> Option<String>) -> Vec<LoadAndVictim> {
    let most = senders.map_or(usize::MAX, |senders| senders as usize);
    (0..world.len())
        .map(|at| {
            let receiver = world[at];
            let mut others: Vec<u32> = world[at + 1..].iter().chain(&world[..at]).copied().collect();
            let victim = (others.len() >= 3).then(|| victim(&mut others, leaf(receiver), leaf));
            others.truncate(most);
            let load = [receiver].into_iter().chain(others).collect();
            LoadAndVictim { load, victim }
        })
        .collect()
}

/// All ranks but two in an all-to-all; all of them where they are few.
fn all_to_all(world: &[u32], leaf: &dyn Fn(u32) -> Option<String>) -> LoadAndVictim {
    let mut load = world.to_vec();
    let victim = (world.len() >= 5).then(|| victim(&mut load, leaf(world[0]), leaf));
    LoadAndVictim { load, victim }
}

/// Takes two ranks out: a receiver on that leaf, and a sender that is not, where leaves are known.
fn victim(others: &mut Vec<u32>, home: Option<String>, leaf: &dyn Fn(u32) -> Option<String>) -> (u32, u32) {
    let is_home = |rank: &u32| home.is_some() && leaf(*rank) == home;
    let to = others.iter().position(is_home).unwrap_or(0);
    let to = others.remove(to);
    let from = others.iter().rposition(|rank| !is_home(rank));
    let from = others.remove(from.unwrap_or(others.len() - 1));
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choices, Plan};
    use probe::rails;
    use record::DeviceKind;
    use topology::Fabric;
    use topology::suite::SuiteFile;

    /// Two ranks on each leaf.
    fn by_two(rank: u32) -> Option<String> {
        Some(format!("leaf{}", rank / 2))
    }

    #[test]
    fn every_rank_receives_once_and_victims_take_no_part() {
        for size in 3..=9u32 {
            let world: Vec<u32> = (0..size).map(|rank| rank * 3).collect();
            for senders in [None, Some(1), Some(2), Some(100)] {
                let groups_under_load = incasts(&world, senders, &|_| None);
                let receivers: Vec<u32> = groups_under_load.iter().map(|group| group.load[0]).collect();
                assert_eq!(receivers, world);
                for group in &groups_under_load {
                    let mut ranks = group.load.clone();
                    ranks.extend(group.victim.iter().flat_map(|(from, to)| [*from, *to]));
                    ranks.sort_unstable();
                    let count = ranks.len();
                    ranks.dedup();
                    assert_eq!(ranks.len(), count, "{group:?}");
                    assert_eq!(group.victim.is_some(), size >= 4);
                    assert!(group.load.len() >= 2, "{group:?}");
                    assert!(senders.is_none_or(|most| group.load.len() <= 1 + most as usize));
                }
            }
        }
    }

    #[test]
    fn a_victim_shares_the_way_into_the_receivers_leaf() {
        for group in incasts(&[0, 1, 2, 3, 4, 5, 6, 7], None, &by_two) {
            let (from, to) = group.victim.unwrap();
            assert_eq!(by_two(to), by_two(group.load[0]), "{group:?}");
            assert_ne!(by_two(from), by_two(to), "{group:?}");
            assert_eq!(group.load.len(), 6);
        }
    }

    fn planned(kind: &str, ranks: u32) -> Plan {
        planned_with(kind, ranks, "")
    }

    fn planned_with(kind: &str, ranks: u32, more: &str) -> Plan {
        let text = format!(
            "name = \"s\"\n[[test]]\nname = \"t\"\nkind = \"{kind}\"\nsizes = [\"1M\"]\ntransport = \"tcp\"\n{more}"
        );
        let suite = SuiteFile::parse(&text, "x.toml").unwrap().check().unwrap();
        let mut fabric = Fabric::local(
            record::HostRecord::named("node"),
            ranks,
            DeviceKind::Host,
            rails::loopback().unwrap(),
        );
        for record in &mut fabric.ranks {
            record.host = format!("h{}", record.rank);
        }
        Plan::new(&suite, &fabric, &Choices::default()).unwrap()
    }

    #[test]
    fn a_victim_is_measured_alone_and_under_load_by_the_same_cell() {
        for kind in ["incast", "all-to-all"] {
            let plan = planned(kind, 6);
            let under: Vec<&[Cell]> = plan.slots().filter(|slot| slot.len() == 2).collect();
            assert!(!under.is_empty());
            for slot in under {
                let [load, victim] = slot else { unreachable!() };
                assert!(load.ranks.iter().all(|rank| !victim.ranks.contains(rank)));
                assert_eq!(load.load, Load::Together);
                let is_elsewhere = load.rails != victim.rails;
                assert_eq!(
                    victim.load == Load::AcrossRails,
                    is_elsewhere,
                    "{}",
                    victim.describe()
                );
                let quiet = plan.slots().any(|slot| {
                    matches!(slot, [alone] if alone.ranks == victim.ranks && alone.rails == victim.rails
                        && alone.size == victim.size && alone.collective == victim.collective
                        && alone.batch == victim.batch && alone.load == Load::Alone)
                });
                assert!(quiet, "{}", victim.describe());
            }
        }
    }

    #[test]
    fn a_flow_is_measured_on_the_next_rail_and_one_sender_sends_as_much_alone() {
        let plan = planned("incast", 6);
        let rails = rails::loopback().unwrap().len();
        let across = plan.cells.iter().filter(|cell| cell.load == Load::AcrossRails);
        assert_eq!(across.count(), if rails > 1 { 6 * rails } else { 0 });
        for load in plan
            .cells
            .iter()
            .filter(|cell| cell.collective == Collective::Incast)
        {
            let is_baseline = |cell: &&Cell| {
                cell.load == Load::Alone
                    && cell.collective == Collective::PointToPoint
                    && (cell.size, &cell.rails) == (load.size, &load.rails)
                    && cell.ranks[1] == load.ranks[0]
                    && load.ranks.contains(&cell.ranks[0])
            };
            assert!(
                plan.cells.iter().any(|cell| is_baseline(&cell)),
                "{}",
                load.describe()
            );
        }
    }

    #[test]
    fn pairs_across_rails_use_every_two_rails_in_both_orders() {
        let rails = rails::loopback().unwrap().len();
        let plan = planned_with("pairs", 3, "rails = \"cross\"\ndirections = \"one-way\"\n");
        assert_eq!(plan.cells.len(), 3 * 2 * rails * (rails - 1));
        for cell in &plan.cells {
            assert!(
                cell.to_rail
                    .as_ref()
                    .is_some_and(|other| cell.rails != [other.as_str()])
            );
        }
        let both = planned_with("pairs", 3, "rails = \"both\"\ndirections = \"one-way\"\n");
        assert_eq!(both.cells.len(), 3 * 2 * rails * rails);
    }

    #[test]
    fn too_few_ranks_are_said_to_be() {
        let plan = planned("incast", 2);
        assert!(plan.cells.is_empty());
        assert!(
            plan.untested
                .iter()
                .any(|gap| gap.why.contains("three ranks or more"))
        );
        let plan = planned("all-to-all", 4);
        assert!(plan.cells.iter().all(|cell| cell.load == Load::Alone));
        assert!(
            plan.untested
                .iter()
                .any(|gap| gap.why.contains("takes no part in the load"))
        );
    }

    #[test]
    fn groups_without_a_topology_say_what_is_missing() {
        let plan = planned("groups", 6);
        assert!(plan.cells.is_empty());
        assert!(plan.untested.iter().any(|gap| gap.why.contains("--topology")));
    }

    #[test]
    fn latency_is_measured_by_round_trips_of_every_pair_once() {
        let plan = planned("latency", 4);
        let rails = rails::loopback().unwrap().len();
        assert_eq!(plan.cells.len(), 6 * rails);
        assert!(
            plan.cells
                .iter()
                .all(|cell| cell.collective == Collective::RoundTrip)
        );
        assert!(
            plan.tests[0].min_iterations >= 200,
            "a 99th percentile takes hundreds"
        );
    }

    #[test]
    fn an_all_to_all_of_few_ranks_has_no_victim() {
        assert_eq!(all_to_all(&[0, 1, 2, 3], &by_two).victim, None);
        let group = all_to_all(&[0, 1, 2, 3, 4, 5], &by_two);
        assert_eq!(group.load.len(), 4);
        let (from, to) = group.victim.unwrap();
        assert_ne!(by_two(from), by_two(to));
    }
}

//! What NICs would have counted under load: pauses, marks and packets that were lost for want of room.
//!
//! A healthy rail marks some packets in every slot in which many send to one, pauses senders a little now and then, and loses nothing under load
//! but a stray packet in one slot of a hundred, whatever its load. How much of each differs from slot to slot.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::losses::lost_of;
use super::{Running, Twin, hash};
use record::counters::named;
use record::units::Nanos;
use record::{Cell, Collective, CounterDelta, CounterState, Event, TestRecord};
use topology::graph::Graph;

/// What a packet carries.
const PACKET: f64 = 4096.0;
/// A healthy slot under load: marked packets and the time that a sender is paused, as shares (medians), and how much they vary (natural logarithms).
const MARKED: (f64, f64) = (0.01, 0.7);
const PAUSED: (f64, f64) = (0.003, 1.0);
/// So many healthy slots are told no marks, lose a stray packet, or see a receiver that pauses others for a moment.
const UNTOLD: f64 = 0.03;
const STRAY: f64 = 0.01;
const MOMENT: f64 = 0.03;
/// Where marks come too late: the time that a sender is paused, and in how many slots a few packets are marked all the same.
const PAUSED_LATE: (f64, f64) = (0.08, 0.7);
const MARKED_LATE: f64 = 0.05;
/// Where nothing protects packets: in so many slots some are lost, from one in 100,000 to one in 1,000 of them.
const LOSES: f64 = 0.8;
const LOST: (f64, f64) = (1e-5, 1e-3);

/// Something that shows under load only.
#[derive(Debug, Clone, PartialEq)]
pub enum CongestionFault {
    /// Receivers at a host's cable, behind a leaf or on a rail are not protected by pauses: `lossy-class:PART`.
    LossyClass(String),
    /// The same receivers' ports do not mark: `late-marks:PART`.
    LateMarks(String),
    /// The NIC at a cable takes this share of what it could, and pauses others: `slow-receiver:CABLE=40%`.
    SlowReceiver(String, f64),
    /// A load on the first rail leaves this share of the second one's cables between switches: `rails-meet:rail0+rail1=50%`.
    RailsMeet([String; 2], f64),
}

impl CongestionFault {
    /// Whether the fabric has the part.
    pub fn check(&self, graph: &Graph) -> Result<(), String> {
        let rails: Vec<&String> = graph.links().filter_map(|(_, link)| link.rail.as_ref()).collect();
        let has_rail = |name: &String| rails.contains(&name);
        let is_end = |name: &String| graph.cable(name).is_some_and(|[up, _]| graph.link(up).is_host);
        let is_leaf = |name: &String| {
            let mut links = graph.links();
            links.any(|(_, link)| link.is_host && link.upper_node() == name)
        };
        let (has, part) = match self {
            CongestionFault::LossyClass(part) | CongestionFault::LateMarks(part) => {
                (has_rail(part) || is_end(part) || is_leaf(part), part.clone())
            }
            CongestionFault::SlowReceiver(part, _) => (is_end(part), part.clone()),
            CongestionFault::RailsMeet(two, _) => {
                (two[0] != two[1] && two.iter().all(has_rail), two.join("+"))
            }
        };
        match has {
            true => Ok(()),
            false => Err(format!(
                "`{self}`: the fabric has no such part `{part}` (a host's cable, and for lossy-class and late-marks also a leaf or a rail; two rails for rails-meet)"
            )),
        }
    }
}

impl Twin<'_> {
    /// The same with these faults.
    pub fn with_congestion(mut self, faults: &[CongestionFault]) -> Self {
        self.congestion = faults.to_vec();
        self
    }

    /// Takes from what links carry what faults take under the load of this slot.
    pub(super) fn congest(&self, cells: &[Running<'_>], round: u16, capacity: &mut [f64]) {
        for fault in &self.congestion {
            match fault {
                CongestionFault::SlowReceiver(cable, share) => {
                    let Some([up, down]) = self.graph.cable(cable) else {
                        continue;
                    };
                    capacity[down.index()] *= share;
                    let is_root = |cell: &Running<'_>| self.receives(cell.cell, cable);
                    if let Some(cell) = cells.iter().find(|cell| is_root(cell)) {
                        // Pauses fill the cables that lead to its leaf, too.
                        let leaf = &self.graph.link(up).to.node;
                        let mut random = self.random_of(cell.cell, round, "spread");
                        let left = 1.0 - (1.0 - share) * (0.5 + 0.5 * uniform(&mut random));
                        for (link, of) in self.graph.links() {
                            if !of.is_host && of.to.node == *leaf {
                                capacity[link.index()] *= left;
                            }
                        }
                    }
                }
                CongestionFault::RailsMeet([loaded, other], share) => {
                    let is_load = |cell: &Running<'_>| {
                        cell.cell.collective.is_load() && cell.cell.rails.contains(loaded)
                    };
                    if cells.iter().any(is_load) {
                        for (link, of) in self.graph.links() {
                            if !of.is_host && of.rail.as_ref() == Some(other) {
                                capacity[link.index()] *= share;
                            }
                        }
                    }
                }
                CongestionFault::LossyClass(_) | CongestionFault::LateMarks(_) => {}
            }
        }
    }

    /// Whether many send to the end of this cable in a cell.
    fn receives(&self, cell: &Cell, cable: &str) -> bool {
        let [up, _] = match self.graph.cable(cable) {
            Some(links) => links,
            None => return false,
        };
        let is_there = |rank: &u32| {
            cell.rails
                .iter()
                .any(|rail| self.graph.up(*rank, rail) == Some(up))
        };
        match cell.collective {
            Collective::Incast => cell.ranks.get(cell.root as usize).is_some_and(is_there),
            Collective::AllToAll => cell.ranks.iter().any(is_there),
            _ => false,
        }
    }

    fn random_of(&self, cell: &Cell, round: u16, what: &str) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(hash((self.seed, "congestion", what, cell.id, round)))
    }

    /// What the ends of a cell counted; nothing in tests that load nothing.
    pub(super) fn counters_of(&self, running: &Running<'_>, test: &TestRecord, round: u16) -> Vec<Event> {
        if !test.kind.loads_rails() {
            return Vec::new();
        }
        let cell = running.cell;
        let time = Nanos(running.times.iter().sum::<u64>());
        let iterations = running.times.len() as f64;
        let mut events = Vec::new();
        for rail in &cell.rails {
            let packets_to = |rank: u32| {
                let moved = running
                    .transfers
                    .iter()
                    .filter(|one| one.to == rank && one.rail == *rail);
                moved
                    .map(|one| (one.bytes.0 as f64 * f64::from(cell.batch.max(1)) / PACKET).ceil())
                    .sum::<f64>()
                    * iterations
            };
            let arrived: Vec<f64> = cell.ranks.iter().map(|rank| packets_to(*rank)).collect();
            let all: f64 = arrived.iter().sum();
            let root = cell.ranks.get(cell.root as usize).copied();
            let root = root.filter(|_| cell.collective == Collective::Incast);
            let is_hit = |part: &String| match root {
                Some(root) => self.is_behind(root, rail, part),
                None => cell.collective.is_load() && part == rail,
            };
            let mut random = self.random_of(cell, round, rail);
            let mut draw = || uniform(&mut random);
            let is_lossy = self
                .congestion
                .iter()
                .any(|fault| matches!(fault, CongestionFault::LossyClass(part) if is_hit(part)));
            let is_late = self
                .congestion
                .iter()
                .any(|fault| matches!(fault, CongestionFault::LateMarks(part) if is_hit(part)));
            let (mut marked, mut paused) = (0.0, 0.0);
            if cell.collective.is_load() {
                marked = around(MARKED, &mut draw).min(0.5) * f64::from(u8::from(draw() >= UNTOLD));
                paused = around(PAUSED, &mut draw);
                if is_late {
                    paused = around(PAUSED_LATE, &mut draw);
                    marked *= f64::from(u8::from(draw() < MARKED_LATE));
                }
            }
            let mut lost = f64::from(u8::from(draw() < STRAY)) * (1.0 + 2.0 * draw()).floor();
            if is_lossy {
                paused = 0.0;
                if draw() < LOSES {
                    let share = LOST.0 * (LOST.1 / LOST.0).powf(draw());
                    lost += (all * share).round();
                }
            }
            let crossed = self.lost_on_the_way(running, rail, iterations, round);
            let whose = (draw() * cell.ranks.len() as f64) as usize;
            for (place, rank) in cell.ranks.iter().enumerate() {
                let is_root = Some(*rank) == root || (root.is_none() && cell.collective.is_load());
                let loses = match root {
                    Some(root) => *rank == root,
                    None => place == whose,
                };
                let mut pauses = match draw() < MOMENT {
                    true => 0.001 + 0.029 * draw(),
                    false => 0.0,
                };
                if let Some(left) = self.slow_receiver(*rank, rail).filter(|_| arrived[place] > 16.0) {
                    pauses = ((1.0 - left) * (0.7 + 0.3 * draw())).max(pauses);
                }
                let time_of = |share: f64| (time.0 as f64 / 1e3 * share.min(0.95)) as u64;
                let sender_paused = match is_root && root.is_some() {
                    true => 0.0,
                    false => paused * (0.5 + 0.5 * draw()),
                };
                let handled = match is_root && root.is_some() {
                    true => 0.0,
                    false => all * marked / 8.0 / cell.ranks.len() as f64,
                };
                let counted = [
                    ("rx_packets_phy", arrived[place] as u64),
                    ("rx_prio3_pause_duration", time_of(sender_paused)),
                    ("tx_prio3_pause_duration", time_of(pauses)),
                    ("np_ecn_marked_roce_packets", (arrived[place] * marked) as u64),
                    ("rp_cnp_handled", handled as u64),
                    (
                        "out_of_sequence",
                        if loses { lost as u64 } else { 0 } + crossed.get(rank).copied().unwrap_or(0),
                    ),
                    ("symbol_error", 0),
                ];
                events.extend(counted.map(|(name, by)| {
                    Event::Counter(CounterDelta {
                        cell: cell.id,
                        round,
                        rank: *rank,
                        rail: rail.clone(),
                        name: name.to_string(),
                        before: Some(0),
                        after: Some(by),
                        ns: Some(time),
                        bits: named(name).and_then(|counter| counter.recorded_bits()),
                        state: CounterState::Present,
                    })
                }));
            }
        }
        events
    }

    /// Packets that lossy cables took from each receiver of a cell.
    fn lost_on_the_way(
        &self,
        running: &Running<'_>,
        rail: &str,
        iterations: f64,
        round: u16,
    ) -> BTreeMap<u32, u64> {
        let mut lost = BTreeMap::new();
        if self.lossy.is_empty() {
            return lost;
        }
        let flows = f64::from(running.cell.flows.max(1));
        let mut random = self.random_of(running.cell, round, "on the way");
        for (index, path) in &running.flows {
            let transfer = &running.transfers[*index];
            if transfer.rail != rail {
                continue;
            }
            let packets = transfer.bytes.0 as f64 * f64::from(running.cell.batch.max(1)) / PACKET / flows;
            let share = self.loss_over(path);
            let of_flow = lost_of((packets * iterations) as u64, share, &mut random);
            *lost.entry(transfer.to).or_default() += u64::from(of_flow);
        }
        lost
    }

    /// Whether what goes to a rank goes through that part: its cable, its leaf or its rail.
    fn is_behind(&self, rank: u32, rail: &str, part: &str) -> bool {
        let cable = self.graph.up(rank, rail);
        let cable = cable.is_some_and(|up| self.graph.link(up).cable == part);
        cable || part == rail || self.graph.leaf_of(rank, rail) == Some(part)
    }

    /// What is left of a rank's NIC on a rail, where it does not keep up.
    fn slow_receiver(&self, rank: u32, rail: &str) -> Option<f64> {
        let up = self.graph.up(rank, rail)?;
        self.congestion.iter().find_map(|fault| match fault {
            CongestionFault::SlowReceiver(cable, left) if self.graph.link(up).cable == *cable => Some(*left),
            _ => None,
        })
    }
}

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Around a median, by a normal value of the logarithm.
fn around((median, spread): (f64, f64), draw: &mut dyn FnMut() -> f64) -> f64 {
    let normal = (-2.0 * draw().ln()).sqrt() * (std::f64::consts::TAU * draw()).cos();
    median * (spread * normal).exp()
}

impl FromStr for CongestionFault {
    type Err = String;

    fn from_str(text: &str) -> Result<CongestionFault, String> {
        let bad = || {
            format!(
                "`{text}` is not a fault under load; write lossy-class:PART, late-marks:PART, slow-receiver:CABLE=40% or rails-meet:RAIL+RAIL=50%"
            )
        };
        let (what, part) = text.split_once(':').ok_or_else(bad)?;
        let with_share = || {
            let (part, share) = part.rsplit_once('=').ok_or_else(bad)?;
            let share = share.trim().strip_suffix('%').ok_or_else(bad)?;
            let share = share.trim().parse::<f64>().map_err(|_| bad())? / 100.0;
            match share > 0.0 && share < 1.0 && !part.is_empty() {
                true => Ok((part.to_string(), share)),
                false => Err(bad()),
            }
        };
        match what {
            _ if part.is_empty() => Err(bad()),
            "lossy-class" => Ok(CongestionFault::LossyClass(part.to_string())),
            "late-marks" => Ok(CongestionFault::LateMarks(part.to_string())),
            "slow-receiver" => with_share().map(|(part, share)| CongestionFault::SlowReceiver(part, share)),
            "rails-meet" => {
                let (rails, share) = with_share()?;
                let (loaded, other) = rails.split_once('+').ok_or_else(bad)?;
                Ok(CongestionFault::RailsMeet(
                    [loaded.to_string(), other.to_string()],
                    share,
                ))
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for CongestionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CongestionFault::LossyClass(part) => write!(f, "lossy-class:{part}"),
            CongestionFault::LateMarks(part) => write!(f, "late-marks:{part}"),
            CongestionFault::SlowReceiver(part, share) => {
                write!(f, "slow-receiver:{part}={}%", share * 100.0)
            }
            CongestionFault::RailsMeet([loaded, other], share) => {
                write!(f, "rails-meet:{loaded}+{other}={}%", share * 100.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::{Shape, clos};

    #[test]
    fn a_fault_is_written_as_it_is_read_and_its_part_is_looked_for() {
        let (topology, ranks) = clos(&"8x2".parse::<Shape>().unwrap());
        let graph = Graph::of(&topology, &ranks).unwrap();
        for text in [
            "lossy-class:rail0-leaf1",
            "lossy-class:h2-rail1-leaf1",
            "late-marks:rail1",
            "slow-receiver:h2-rail1-leaf1=40%",
            "rails-meet:rail0+rail1=50%",
        ] {
            let fault: CongestionFault = text.parse().unwrap();
            assert_eq!(fault.to_string(), text);
            fault.check(&graph).unwrap();
        }
        for text in [
            "",
            "lossy-class",
            "lossy-class:",
            "slow-receiver:h2",
            "slow-receiver:h2=0%",
            "slow-receiver:=40%",
            "rails-meet:rail0=50%",
            "else:h2",
        ] {
            assert!(text.parse::<CongestionFault>().is_err(), "{text}");
        }
        for text in [
            "lossy-class:rail9",
            "late-marks:rail0-spine0",
            "slow-receiver:rail0=40%",
            "rails-meet:rail0+rail0=50%",
            "rails-meet:rail0+rail7=50%",
        ] {
            let fault: CongestionFault = text.parse().unwrap();
            assert!(
                fault.check(&graph).unwrap_err().contains("no such part"),
                "{text}"
            );
        }
    }
}

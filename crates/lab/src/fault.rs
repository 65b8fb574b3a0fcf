//! Faults: one enum, and how each is explained and checked; `fault_text` writes and reads them.
//!
//! Reading does not need a lab; `check` then resolves the names against one, so that a slip is answered with the nearest
//! valid name before anything is touched.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, EnumString};

use super::{LabError, Node, Wiring, packets};
use record::units::{Bytes, Nanos};

/// How every fault is written and what it does.
pub const HELP: &str = "\
slow:PORT=60%                      what leaves that port gets 60 % of the cable's rate (PORT: h1/rail0, rail0-leaf0/p1)
slow-cable:CABLE=60%               both directions (CABLE: h1-rail0-leaf0, rail0-leaf0-spine1)
swap:CABLE,CABLE                   their upper ends are exchanged; the topology file does not say so
cut:CABLE                          the upper end is down; routes avoid it where there is another way
flap:CABLE,period=2s,duty=50%      down and up again; duty is the share of the period it is up
loss:PORT=0.1%                     packets leaving that port are lost at random
corrupt:PORT=0.1%                  packets leaving that port have a wrong bit: whoever they are for throws them away
duplicate:PORT=1%                  packets leaving that port are sent twice
reorder:PORT=1%,by=2ms             packets leaving that port are held for a while, and others overtake them
jitter:PORT=2ms                    all packets leaving that port wait for a time that changes, from 0 to this; their order stays
buffer:PORT=30kB                   that port has room for so much, and drops what comes beyond
ecn:PORT|all=on,above=128kB        that port of a switch marks packets beyond so much of a queue, and TCP asks for marks; off: it does not, where others do
stall:PORT=5ms,every=1s            that port sends nothing for a while, again and again; what waits is not lost
hash-l3:LEAF|all                   paths are chosen by addresses only, not by ports
unpinned:LEAF|all                  every connection is placed anew, whatever its ports, as adaptive routing does
spray:SWITCH|all                   every packet is placed anew, as packet spraying does
answers:SWITCH|all=egress          how traces are answered: inbound (as without it), egress, loopback, limited, silent
slow-switch:SWITCH=60%             all cables of a switch, both directions
weights:LEAF=3:1                   unequal shares for the spines
polarised                          all tiers hash with the same seed (needs a lab with --trunk 2 or more)
dead-hop:SWITCH->SWITCH            routes still point there, packets vanish
freeze:HOST                        every process on it is stopped (SIGSTOP); heal continues them
kill:HOST                          every process on it is killed, once
management-cut:HOST                its management cable is down
firmware:HOST=28.39.1002[,device=mlx5_1]   NIC firmware shown to processes
switch-firmware:SWITCH=31.2010.3118   what the switch says in the lab's inventory of switches
clock:HOST=+250ms                  monotonic clock offset of processes started afterwards";

/// A share of something, in percent.
pub type Percent = f64;

/// How a switch answers packets whose time to live ends at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum Answers {
    /// From the address of the port by which they came in, every one.
    #[default]
    Inbound,
    /// From the address of the port by which the answer leaves, as Linux does.
    Egress,
    /// From the switch's own address, as in fabrics whose cables have none.
    Loopback,
    /// At most one a second to the same asker, as Linux does.
    Limited,
    /// Never.
    Silent,
}

/// Something wrong with the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fault {
    /// What leaves a port is slow.
    Slow {
        /// The port.
        port: String,
        /// Share of the cable's rate that is left.
        percent: Percent,
    },
    /// Both directions of a cable are slow.
    SlowCable {
        /// The cable.
        cable: String,
        /// Share of its rate that is left.
        percent: Percent,
    },
    /// Two cables of a rail are plugged into each other's upper ports.
    Swap {
        /// The two.
        cables: [String; 2],
    },
    /// A cable is down.
    Cut {
        /// The cable.
        cable: String,
    },
    /// A cable goes down and up.
    Flap {
        /// The cable.
        cable: String,
        /// One down and one up together.
        period: Nanos,
        /// Share of the period it is up.
        duty: Percent,
    },
    /// Packets leaving a port are lost.
    Loss {
        /// The port.
        port: String,
        /// Share of packets lost.
        percent: Percent,
    },
    /// Packets leaving a port are corrupted on their way.
    Corrupt {
        /// The port.
        port: String,
        /// Share of packets with a wrong bit.
        percent: Percent,
    },
    /// Packets leaving a port are sent twice.
    Duplicate {
        /// The port.
        port: String,
        /// Share of packets sent twice.
        percent: Percent,
    },
    /// Packets leaving a port are overtaken by others.
    Reorder {
        /// The port.
        port: String,
        /// Share of packets overtaken.
        percent: Percent,
        /// For how long they are held.
        by: Nanos,
    },
    /// Packets leaving a port wait, now longer, now shorter.
    Jitter {
        /// The port.
        port: String,
        /// For how long at most.
        most: Nanos,
    },
    /// A port has little room for packets that wait.
    Buffer {
        /// The port.
        port: String,
        /// How much it has room for.
        size: Bytes,
    },
    /// A port of a switch marks packets when it is congested, or does not.
    Ecn {
        /// The port; none for all of all switches.
        port: Option<String>,
        /// Beyond so many waiting bytes; none where it never does.
        above: Option<Bytes>,
    },
    /// A port stops now and then.
    Stall {
        /// The port.
        port: String,
        /// For how long.
        lasts: Nanos,
        /// How often, on average.
        every: Nanos,
    },
    /// Paths are chosen by addresses only.
    HashL3 {
        /// The leaf; none for all.
        switch: Option<Node>,
    },
    /// Paths do not follow from ports.
    Unpinned {
        /// The leaf; none for all.
        switch: Option<Node>,
    },
    /// Every packet is placed anew.
    Spray {
        /// The switch; none for all.
        switch: Option<Node>,
    },
    /// Traces are answered in another way.
    Answers {
        /// The switch; none for all.
        switch: Option<Node>,
        /// How.
        way: Answers,
    },
    /// All cables of a switch are slow.
    SlowSwitch {
        /// The switch.
        switch: Node,
        /// Share of their rate that is left.
        percent: Percent,
    },
    /// Unequal shares for the spines.
    Weights {
        /// The leaf.
        switch: Node,
        /// One weight per spine.
        weights: Vec<u16>,
    },
    /// All tiers hash alike.
    Polarised,
    /// Packets from one switch to another vanish.
    DeadHop {
        /// Where they come from.
        from: Node,
        /// Where they never arrive.
        to: Node,
    },
    /// Processes of a host are stopped.
    Freeze {
        /// The host.
        host: Node,
    },
    /// Processes of a host are killed.
    Kill {
        /// The host.
        host: Node,
    },
    /// A host's management cable is down.
    ManagementCut {
        /// The host.
        host: Node,
    },
    /// NIC firmware of a host.
    Firmware {
        /// The host.
        host: Node,
        /// What its NICs say.
        version: String,
        /// One device only.
        device: Option<String>,
    },
    /// Other firmware on a switch.
    SwitchFirmware {
        /// The switch.
        switch: Node,
        /// What it says.
        version: String,
    },
    /// A host's clock is off.
    Clock {
        /// The host.
        host: Node,
        /// By how many nanoseconds.
        offset: i64,
    },
}

impl Fault {
    /// What it is about, without its value: of two faults with the same key only one can be in force.
    pub fn key(&self) -> String {
        let text = self.to_string();
        match self {
            Fault::Firmware {
                host,
                device: Some(device),
                ..
            } => format!("firmware:{host},device={device}"),
            Fault::Flap { cable, .. } => format!("flap:{cable}"),
            _ => text.split('=').next().unwrap_or_default().to_string(),
        }
    }

    /// Whether it stays until it is healed.
    pub fn lasts(&self) -> bool {
        !matches!(self, Fault::Kill { .. })
    }

    /// The same fault with the lab's own names; an error when the lab has no such part or the fault would do nothing.
    pub fn check(self, wiring: &Wiring) -> Result<Fault, LabError> {
        let refuse = |why: &str| LabError::BadFault {
            given: self.to_string(),
            why: why.to_string(),
        };
        let cable_name = |name: &str| wiring.cable(name).map(|cable| cable.name.clone());
        let host = |node: &Node| wiring.host(&node.to_string());
        let leaf = |node: &Node| {
            wiring.node("leaf", &node.to_string(), |node| {
                matches!(node, Node::Leaf { .. })
            })
        };
        let switch = |node: &Node| wiring.node("switch", &node.to_string(), Node::is_switch);
        match &self {
            Fault::Slow { port, .. }
            | Fault::Loss { port, .. }
            | Fault::Stall { port, .. }
            | Fault::Corrupt { port, .. }
            | Fault::Duplicate { port, .. }
            | Fault::Reorder { port, .. }
            | Fault::Jitter { port, .. } => {
                wiring.port(port)?;
            }
            Fault::Buffer { port, size } => {
                wiring.port(port)?;
                let least = packets::least_buffer(wiring.shape.mtu);
                if *size < least {
                    return Err(refuse(&format!(
                        "a port has room for {} bytes at the least: three of the largest frames",
                        least.0
                    )));
                }
            }
            Fault::Ecn { port: None, .. } => {}
            Fault::Ecn { port: Some(port), .. } => {
                if !wiring.port(port)?.node.is_switch() {
                    return Err(refuse(
                        "hosts do not mark what they send; name a port of a switch, or all",
                    ));
                }
            }
            Fault::SlowCable { cable, percent } => {
                let (cable, percent) = (cable_name(cable)?, *percent);
                return Ok(Fault::SlowCable { cable, percent });
            }
            Fault::Swap { cables: [one, other] } => {
                let [one, other] = [wiring.cable(one)?, wiring.cable(other)?];
                let tier = |node: Node| {
                    (
                        matches!(node, Node::Leaf { .. }),
                        matches!(node, Node::Spine { .. }),
                    )
                };
                if one.name == other.name || tier(one.ends[1].node) != tier(other.ends[1].node) {
                    return Err(refuse("two different cables of the same kind can be swapped"));
                }
                if one.rail != other.rail {
                    return Err(refuse(
                        "the rails of a lab are apart: swap two cables of one rail",
                    ));
                }
                if wiring.shape.guests.is_some() {
                    return Err(refuse(
                        "cables of hosts with kernels of their own cannot be replugged",
                    ));
                }
                // In one order, so that the same two are the same fault.
                let mut cables = [one.name.clone(), other.name.clone()];
                cables.sort();
                return Ok(Fault::Swap { cables });
            }
            Fault::Cut { cable } => {
                return Ok(Fault::Cut {
                    cable: cable_name(cable)?,
                });
            }
            Fault::Flap { cable, period, duty } => {
                let (cable, period, duty) = (cable_name(cable)?, *period, *duty);
                return Ok(Fault::Flap { cable, period, duty });
            }
            Fault::HashL3 { switch } | Fault::Unpinned { switch } => {
                switch.as_ref().map(leaf).transpose()?;
            }
            Fault::Weights { switch, weights } => {
                leaf(switch)?;
                if weights.len() != usize::from(wiring.shape.spines) {
                    return Err(refuse(&format!(
                        "this lab has {} spines per rail: give that many weights",
                        wiring.shape.spines
                    )));
                }
            }
            Fault::SwitchFirmware { switch: node, .. } | Fault::SlowSwitch { switch: node, .. } => {
                switch(node)?;
            }
            Fault::Spray { switch: node } | Fault::Answers { switch: node, .. } => {
                node.as_ref().map(switch).transpose()?;
            }
            Fault::Polarised if wiring.shape.trunk < 2 => {
                return Err(refuse(
                    "with one cable between a leaf and a spine only leaves choose a path; use a lab with --trunk 2",
                ));
            }
            Fault::Polarised => {}
            Fault::DeadHop { from, to } => {
                let (from, to) = (switch(from)?, switch(to)?);
                if !wiring
                    .ports_of(from)
                    .any(|(_, cable)| cable.ends.iter().any(|end| end.node == to))
                {
                    return Err(refuse("there is no cable between these two"));
                }
            }
            Fault::Freeze { host: node }
            | Fault::Kill { host: node }
            | Fault::ManagementCut { host: node } => {
                host(node)?;
            }
            Fault::Clock { host: node, .. } => {
                host(node)?;
            }
            Fault::Firmware {
                host: node, device, ..
            } => {
                host(node)?;
                let known: Vec<String> = (0..wiring.shape.rails)
                    .map(|rail| format!("mlx5_{rail}"))
                    .collect();
                if let Some(device) = device.as_ref().filter(|device| !known.contains(device)) {
                    return Err(refuse(&format!(
                        "no device `{device}`; {}",
                        super::suggest::suggestion(device, &known)
                    )));
                }
            }
        }
        Ok(self)
    }
}

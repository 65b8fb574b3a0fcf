//! The effect of the faults in force on one part of the lab. Pure functions; of several faults the worst applies.

use super::fault::Answers;
use super::packets::Disturbance;
use super::{Cable, Fault, Node, Port};
use record::units::Bytes;

fn ppm(percent: f64) -> u32 {
    (percent * 1e4).round() as u32
}

/// Parts per million of packets that a dead hop loses: all.
const ALL: u32 = 1_000_000;

/// The faults in force.
#[derive(Debug, Clone, Copy)]
pub struct Faults<'f>(pub &'f [Fault]);

impl Faults<'_> {
    /// The share of its rate that is left to what leaves `port`.
    pub fn share(&self, port: &Port, cable: &Cable) -> f64 {
        let shares = self.0.iter().filter_map(|fault| match fault {
            Fault::Slow { port: slow, percent } if *slow == port.to_string() => Some(percent / 100.0),
            Fault::SlowCable { cable: slow, percent } if *slow == cable.name => Some(percent / 100.0),
            Fault::SlowSwitch { switch, percent } if cable.ends.iter().any(|end| end.node == *switch) => {
                Some(percent / 100.0)
            }
            _ => None,
        });
        shares.fold(1.0, f64::min)
    }

    /// Whether a cable is cut.
    pub fn is_cut(&self, cable: &Cable) -> bool {
        let cuts = |fault: &Fault| matches!(fault, Fault::Cut { cable: cut } if *cut == cable.name);
        self.0.iter().any(cuts)
    }

    /// Whether a cable loses its carrier again and again.
    pub fn is_flapping(&self, cable: &Cable) -> bool {
        let flaps =
            |fault: &Fault| matches!(fault, Fault::Flap { cable: flapping, .. } if *flapping == cable.name);
        self.0.iter().any(flaps)
    }

    /// How many of a million packets that leave `port` vanish.
    pub fn lost_ppm(&self, port: &Port, cable: &Cable) -> u32 {
        let other = |node: Node| cable.ends.iter().any(|end| end.node == node);
        let lost = self.0.iter().filter_map(|fault| match fault {
            Fault::Loss { port: lossy, percent } if *lossy == port.to_string() => Some(ppm(*percent)),
            Fault::DeadHop { from, to } if *from == port.node && other(*to) => Some(ALL),
            _ => None,
        });
        lost.max().unwrap_or(0)
    }

    /// How many of a million packets that leave `port` are sent twice.
    pub fn copied_ppm(&self, port: &Port) -> u32 {
        let copied = self.0.iter().filter_map(|fault| match fault {
            Fault::Duplicate { port: of, percent } if *of == port.to_string() => Some(ppm(*percent)),
            _ => None,
        });
        copied.max().unwrap_or(0)
    }

    /// What a process does to packets that leave `port`.
    pub fn disturbance(&self, port: &Port) -> Disturbance {
        let name = port.to_string();
        let mut all = Disturbance::default();
        for fault in self.0 {
            match fault {
                Fault::Corrupt { port, percent } if *port == name => all.corrupt_ppm = ppm(*percent),
                Fault::Reorder { port, percent, by } if *port == name => {
                    (all.late_ppm, all.late_by) = (ppm(*percent), *by);
                }
                Fault::Jitter { port, most } if *port == name => all.jitter = *most,
                _ => {}
            }
        }
        all
    }

    /// How much `port` has room for, when it is not the usual.
    pub fn buffer(&self, port: &Port) -> Option<Bytes> {
        self.0.iter().find_map(|fault| match fault {
            Fault::Buffer { port: of, size } if *of == port.to_string() => Some(*size),
            _ => None,
        })
    }

    /// Beyond how many waiting bytes `port` marks packets; what was said about it alone wins.
    pub fn marks_above(&self, port: &Port) -> Option<Bytes> {
        let said = |wanted: Option<&str>| {
            self.0.iter().find_map(|fault| match fault {
                Fault::Ecn { port, above } if port.as_deref() == wanted => Some(*above),
                _ => None,
            })
        };
        let name = port.to_string();
        let of_all = || said(None).filter(|_| port.node.is_switch());
        said(Some(&name)).or_else(of_all).flatten()
    }

    /// Whether any switch marks packets, so that hosts ask for it.
    pub fn uses_marks(&self) -> bool {
        let marks = |fault: &Fault| matches!(fault, Fault::Ecn { above: Some(_), .. });
        self.0.iter().any(marks)
    }

    /// Whether a switch hashes addresses only.
    pub fn hashes_l3(&self, node: Node) -> bool {
        let l3 = |fault: &Fault| matches!(fault, Fault::HashL3 { switch } if switch.is_none_or(|switch| switch == node));
        self.0.iter().any(l3)
    }

    /// Whether a switch places flows without looking at their ports.
    pub fn is_unpinned(&self, node: Node) -> bool {
        let unpinned = |fault: &Fault| matches!(fault, Fault::Unpinned { switch } if switch.is_none_or(|switch| switch == node));
        self.0.iter().any(unpinned)
    }

    /// Whether a switch places every packet anew.
    pub fn is_spraying(&self, node: Node) -> bool {
        let sprays = |fault: &Fault| matches!(fault, Fault::Spray { switch } if switch.is_none_or(|switch| switch == node));
        self.0.iter().any(sprays)
    }

    /// How a switch answers traces; what was said about it alone wins.
    pub fn answers(&self, node: Node) -> Answers {
        let said = |wanted: Option<Node>| {
            self.0.iter().find_map(|fault| match fault {
                Fault::Answers { switch, way } if *switch == wanted => Some(*way),
                _ => None,
            })
        };
        said(Some(node)).or_else(|| said(None)).unwrap_or_default()
    }

    /// The weight of a spine on a leaf.
    pub fn weight(&self, leaf: Node, spine: u16) -> u16 {
        let weights = self.0.iter().find_map(|fault| match fault {
            Fault::Weights { switch, weights } if *switch == leaf => weights.get(usize::from(spine)).copied(),
            _ => None,
        });
        weights.unwrap_or(1)
    }

    /// Whether all tiers hash with the same seed.
    pub fn polarised(&self) -> bool {
        self.0.contains(&Fault::Polarised)
    }

    /// Whether a host's management cable is down.
    pub fn management_cut(&self, host: u16) -> bool {
        self.0.contains(&Fault::ManagementCut {
            host: Node::Host(host),
        })
    }

    /// The firmware a device of a host shows, when it is not the usual one; a fault of one device wins.
    pub fn firmware(&self, host: u16, device: &str) -> Option<&str> {
        let version_for = |wanted: Option<&str>| {
            self.0.iter().find_map(|fault| match fault {
                Fault::Firmware {
                    host: of,
                    version,
                    device,
                } if *of == Node::Host(host) && device.as_deref() == wanted => Some(version.as_str()),
                _ => None,
            })
        };
        version_for(Some(device)).or_else(|| version_for(None))
    }

    /// The firmware a switch shows, when it is not the usual one.
    pub fn switch_firmware(&self, node: Node) -> Option<&str> {
        self.0.iter().find_map(|fault| match fault {
            Fault::SwitchFirmware { switch, version } if *switch == node => Some(version.as_str()),
            _ => None,
        })
    }

    /// By how many nanoseconds a node's clock is off.
    pub fn clock_offset(&self, node: Node) -> i64 {
        let offset = self.0.iter().find_map(|fault| match fault {
            Fault::Clock { host, offset } if *host == node => Some(*offset),
            _ => None,
        });
        offset.unwrap_or(0)
    }
}

//! Faults: one enum, with how each is written, read and explained.
//!
//! Reading does not need a lab; `check` then resolves the names against one, so that a slip is answered with the nearest
//! valid name before anything is touched.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{LabError, Node, Wiring};
use crate::units::Nanos;

/// How every fault is written and what it does.
pub const HELP: &str = "\
slow:PORT=60%                      what leaves that port gets 60 % of the cable's rate (PORT: h1/rail0, rail0-leaf0/p1)
slow-cable:CABLE=60%               both directions (CABLE: h1-rail0-leaf0, rail0-leaf0-spine1)
cut:CABLE                          the upper end is down; routes avoid it where there is another way
flap:CABLE,period=2s,duty=50%      down and up again; duty is the share of the period it is up
loss:PORT=0.1%                     packets leaving that port are lost at random
hash-l3:LEAF|all                   paths are chosen by addresses only, not by ports
weights:LEAF=3:1                   unequal shares for the spines
polarised                          all tiers hash with the same seed (needs a lab with --trunk 2 or more)
dead-hop:SWITCH->SWITCH            routes still point there, packets vanish
freeze:HOST                        every process on it is stopped (SIGSTOP); heal continues them
kill:HOST                          every process on it is killed, once
management-cut:HOST                its management cable is down
firmware:HOST=28.39.1002[,device=mlx5_1]   NIC firmware shown to processes
clock:HOST=+250ms                  monotonic clock offset of processes started afterwards";

/// A share of something, in percent.
pub type Percent = f64;

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
    /// Paths are chosen by addresses only.
    HashL3 {
        /// The leaf; none for all.
        switch: Option<Node>,
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
            Fault::Slow { port, .. } | Fault::Loss { port, .. } => {
                wiring.port(port)?;
            }
            Fault::SlowCable { cable, percent } => {
                let (cable, percent) = (cable_name(cable)?, *percent);
                return Ok(Fault::SlowCable { cable, percent });
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
            Fault::HashL3 { switch } => {
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
                        super::nearest::hint(device, &known)
                    )));
                }
            }
        }
        Ok(self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Slow { port, percent } => write!(f, "slow:{port}={percent}%"),
            Fault::SlowCable { cable, percent } => write!(f, "slow-cable:{cable}={percent}%"),
            Fault::Cut { cable } => write!(f, "cut:{cable}"),
            Fault::Flap { cable, period, duty } => {
                write!(f, "flap:{cable},period={}ms,duty={duty}%", period.0 as f64 / 1e6)
            }
            Fault::Loss { port, percent } => write!(f, "loss:{port}={percent}%"),
            Fault::HashL3 { switch: None } => f.write_str("hash-l3:all"),
            Fault::HashL3 { switch: Some(switch) } => write!(f, "hash-l3:{switch}"),
            Fault::Weights { switch, weights } => {
                let weights: Vec<String> = weights.iter().map(u16::to_string).collect();
                write!(f, "weights:{switch}={}", weights.join(":"))
            }
            Fault::Polarised => f.write_str("polarised"),
            Fault::DeadHop { from, to } => write!(f, "dead-hop:{from}->{to}"),
            Fault::Freeze { host } => write!(f, "freeze:{host}"),
            Fault::Kill { host } => write!(f, "kill:{host}"),
            Fault::ManagementCut { host } => write!(f, "management-cut:{host}"),
            Fault::Firmware {
                host,
                version,
                device: None,
            } => write!(f, "firmware:{host}={version}"),
            Fault::Firmware {
                host,
                version,
                device: Some(device),
            } => {
                write!(f, "firmware:{host}={version},device={device}")
            }
            Fault::Clock { host, offset } => {
                let sign = if *offset < 0 { '-' } else { '+' };
                write!(f, "clock:{host}={sign}{}us", offset.unsigned_abs() as f64 / 1e3)
            }
        }
    }
}

impl FromStr for Fault {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Fault, LabError> {
        read(text).map_err(|why| LabError::BadFault {
            given: text.chars().take(80).collect(),
            why,
        })
    }
}

impl TryFrom<String> for Fault {
    type Error = LabError;
    fn try_from(text: String) -> Result<Fault, LabError> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.to_string()
    }
}

/// The kinds of faults, for suggestions.
const KINDS: [&str; 14] = [
    "slow",
    "slow-cable",
    "cut",
    "flap",
    "loss",
    "hash-l3",
    "weights",
    "polarised",
    "dead-hop",
    "freeze",
    "kill",
    "management-cut",
    "firmware",
    "clock",
];

fn read(text: &str) -> Result<Fault, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let valued = || {
        rest.split_once('=')
            .ok_or_else(|| format!("a value is missing: {}", example(kind)))
    };
    let node = |text: &str| text.parse::<Node>().map_err(|error| error.to_string());
    let target = || match rest {
        "" => Err(format!("it does not say where: {}", example(kind))),
        rest => Ok(rest.to_string()),
    };
    Ok(match kind {
        "slow" => {
            let (port, value) = valued()?;
            Fault::Slow {
                port: port.to_string(),
                percent: percent(value, 1.0, 100.0)?,
            }
        }
        "slow-cable" => {
            let (cable, value) = valued()?;
            Fault::SlowCable {
                cable: cable.to_string(),
                percent: percent(value, 1.0, 100.0)?,
            }
        }
        "cut" => Fault::Cut { cable: target()? },
        "flap" => flap(&target()?)?,
        "loss" => {
            let (port, value) = valued()?;
            Fault::Loss {
                port: port.to_string(),
                percent: percent(value, 0.0001, 100.0)?,
            }
        }
        "hash-l3" if rest == "all" => Fault::HashL3 { switch: None },
        "hash-l3" => Fault::HashL3 {
            switch: Some(node(&target()?)?),
        },
        "weights" => {
            let (switch, value) = valued()?;
            let weight = |text: &str| {
                text.parse::<u16>()
                    .ok()
                    .filter(|weight| (1..=256).contains(weight))
            };
            let weights: Option<Vec<u16>> = value.split(':').map(weight).collect();
            let weights = weights.ok_or("weights are numbers from 1 to 256, like 3:1")?;
            Fault::Weights {
                switch: node(switch)?,
                weights,
            }
        }
        "polarised" if rest.is_empty() => Fault::Polarised,
        "dead-hop" => {
            let (from, to) = rest.split_once("->").ok_or_else(|| example(kind))?;
            Fault::DeadHop {
                from: node(from)?,
                to: node(to)?,
            }
        }
        "freeze" => Fault::Freeze {
            host: node(&target()?)?,
        },
        "kill" => Fault::Kill {
            host: node(&target()?)?,
        },
        "management-cut" => Fault::ManagementCut {
            host: node(&target()?)?,
        },
        "firmware" => {
            let (host, value) = valued()?;
            let (version, device) = match value.split_once(",device=") {
                Some((version, device)) => (version, Some(device.to_string())),
                None => (value, None),
            };
            let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            if version.is_empty() || version.len() > 32 || !version.chars().all(fits) {
                return Err(format!(
                    "`{version}` is not a firmware version: {}",
                    example(kind)
                ));
            }
            Fault::Firmware {
                host: node(host)?,
                version: version.to_string(),
                device,
            }
        }
        "clock" => {
            let (host, value) = valued()?;
            let (sign, size) = match value.strip_prefix('-') {
                Some(size) => (-1, size),
                None => (1, value.strip_prefix('+').unwrap_or(value)),
            };
            let size: Nanos = size
                .parse()
                .map_err(|error: crate::units::ParseError| error.to_string())?;
            if size.0 == 0 || size > Nanos::from_secs(86_400) {
                return Err("a clock is off by more than nothing and at most a day".to_string());
            }
            Fault::Clock {
                host: node(host)?,
                offset: sign * size.0 as i64,
            }
        }
        _ => {
            let known: Vec<String> = KINDS.map(str::to_string).to_vec();
            return Err(format!(
                "there is no such fault; {}",
                super::nearest::hint(kind, &known).replace("it has", "there are")
            ));
        }
    })
}

fn flap(rest: &str) -> Result<Fault, String> {
    let mut parts = rest.split(',');
    let cable = parts.next().unwrap_or_default().to_string();
    let (mut period, mut duty) = (Nanos::from_secs(2), 50.0);
    for part in parts {
        match part.split_once('=') {
            Some(("period", value)) => {
                period = value
                    .parse()
                    .map_err(|error: crate::units::ParseError| error.to_string())?;
            }
            Some(("duty", value)) => duty = percent(value, 1.0, 99.0)?,
            _ => {
                return Err(format!(
                    "`{part}` is neither period nor duty: {}",
                    example("flap")
                ));
            }
        }
    }
    if period < Nanos(100_000_000) || period > Nanos::from_secs(3600) {
        return Err("the period of a flap is 100ms to 1h".to_string());
    }
    Ok(Fault::Flap { cable, period, duty })
}

fn percent(text: &str, least: f64, most: f64) -> Result<Percent, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok());
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("`{text}` is not a share from {least}% to {most}%"))
}

/// The line of the help about a kind of fault.
fn example(kind: &str) -> String {
    let line = HELP
        .lines()
        .find(|line| line.split([':', ' ']).next() == Some(kind));
    format!(
        "write {}",
        line.and_then(|line| line.split("  ").next()).unwrap_or(kind)
    )
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;

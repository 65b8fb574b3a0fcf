//! Faults as people write them, both ways: what is printed can be typed again.

use std::fmt;
use std::str::FromStr;

use strum::IntoEnumIterator;

use super::fault::{Answers, HELP, Percent};
use super::{Fault, LabError, Node, packets};
use record::units::Nanos;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Slow { port, percent } => write!(f, "slow:{port}={percent}%"),
            Fault::SlowCable { cable, percent } => write!(f, "slow-cable:{cable}={percent}%"),
            Fault::Swap { cables: [one, other] } => write!(f, "swap:{one},{other}"),
            Fault::Cut { cable } => write!(f, "cut:{cable}"),
            Fault::Flap { cable, period, duty } => {
                write!(f, "flap:{cable},period={}ms,duty={duty}%", period.0 as f64 / 1e6)
            }
            Fault::Loss { port, percent } => write!(f, "loss:{port}={percent}%"),
            Fault::Corrupt { port, percent } => write!(f, "corrupt:{port}={percent}%"),
            Fault::Duplicate { port, percent } => write!(f, "duplicate:{port}={percent}%"),
            Fault::Reorder { port, percent, by } => {
                write!(f, "reorder:{port}={percent}%,by={}ms", by.0 as f64 / 1e6)
            }
            Fault::Jitter { port, most } => write!(f, "jitter:{port}={}ms", most.0 as f64 / 1e6),
            Fault::Buffer { port, size } => write!(f, "buffer:{port}={}B", size.0),
            Fault::Ecn { port, above } => {
                let port = port.as_deref().unwrap_or("all");
                match above {
                    Some(above) => write!(f, "ecn:{port}=on,above={}B", above.0),
                    None => write!(f, "ecn:{port}=off"),
                }
            }
            Fault::Stall { port, lasts, every } => write!(
                f,
                "stall:{port}={}ms,every={}ms",
                lasts.0 as f64 / 1e6,
                every.0 as f64 / 1e6
            ),
            Fault::HashL3 { switch: None } => f.write_str("hash-l3:all"),
            Fault::HashL3 { switch: Some(switch) } => write!(f, "hash-l3:{switch}"),
            Fault::Unpinned { switch: None } => f.write_str("unpinned:all"),
            Fault::Unpinned { switch: Some(switch) } => write!(f, "unpinned:{switch}"),
            Fault::Spray { switch: None } => f.write_str("spray:all"),
            Fault::Spray { switch: Some(switch) } => write!(f, "spray:{switch}"),
            Fault::Answers { switch: None, way } => write!(f, "answers:all={way}"),
            Fault::Answers {
                switch: Some(switch),
                way,
            } => write!(f, "answers:{switch}={way}"),
            Fault::SlowSwitch { switch, percent } => write!(f, "slow-switch:{switch}={percent}%"),
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
            Fault::SwitchFirmware { switch, version } => write!(f, "switch-firmware:{switch}={version}"),
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
const KINDS: [&str; 27] = [
    "slow",
    "slow-cable",
    "swap",
    "cut",
    "flap",
    "loss",
    "corrupt",
    "duplicate",
    "reorder",
    "jitter",
    "buffer",
    "ecn",
    "stall",
    "hash-l3",
    "unpinned",
    "spray",
    "answers",
    "slow-switch",
    "weights",
    "polarised",
    "dead-hop",
    "freeze",
    "kill",
    "management-cut",
    "firmware",
    "switch-firmware",
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
        "" => Err(format!("the target is missing: {}", example(kind))),
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
        "swap" => {
            let (one, other) = rest.split_once(',').ok_or_else(|| example(kind))?;
            Fault::Swap {
                cables: [one.to_string(), other.to_string()],
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
        "corrupt" => {
            let (port, value) = valued()?;
            Fault::Corrupt {
                port: port.to_string(),
                percent: percent(value, 0.0001, 100.0)?,
            }
        }
        "duplicate" => {
            let (port, value) = valued()?;
            Fault::Duplicate {
                port: port.to_string(),
                percent: percent(value, 0.0001, packets::MOST_COPIED)?,
            }
        }
        "reorder" => packets::read_reorder(rest, |share| percent(share, 0.0001, 50.0))?,
        "jitter" => {
            let (port, value) = valued()?;
            Fault::Jitter {
                port: port.to_string(),
                most: packets::held(value)?,
            }
        }
        "buffer" => {
            let (port, value) = valued()?;
            Fault::Buffer {
                port: port.to_string(),
                size: packets::buffer(value)?,
            }
        }
        "ecn" => {
            let (port, value) = valued()?;
            let above = packets::marks(value)?;
            let port = match port {
                "all" if above.is_none() => {
                    return Err("switches do not mark unless told to: heal ecn:all".to_string());
                }
                "all" => None,
                port => Some(port.to_string()),
            };
            Fault::Ecn { port, above }
        }
        "stall" => super::stall::read(rest)?,
        "hash-l3" if rest == "all" => Fault::HashL3 { switch: None },
        "unpinned" if rest == "all" => Fault::Unpinned { switch: None },
        "unpinned" => Fault::Unpinned {
            switch: Some(node(&target()?)?),
        },
        "hash-l3" => Fault::HashL3 {
            switch: Some(node(&target()?)?),
        },
        "spray" if rest == "all" => Fault::Spray { switch: None },
        "spray" => Fault::Spray {
            switch: Some(node(&target()?)?),
        },
        "answers" => {
            let (switch, value) = valued()?;
            let way = value.parse::<Answers>().map_err(|_| {
                let ways: Vec<String> = Answers::iter().map(|way| way.to_string()).collect();
                format!(
                    "`{value}` is not a way to answer; write one of {}",
                    ways.join(", ")
                )
            })?;
            let switch = match switch {
                "all" => None,
                name => Some(node(name)?),
            };
            Fault::Answers { switch, way }
        }
        "slow-switch" => {
            let (switch, value) = valued()?;
            Fault::SlowSwitch {
                switch: node(switch)?,
                percent: percent(value, 1.0, 100.0)?,
            }
        }
        "weights" => {
            let (switch, value) = valued()?;
            let weight = |text: &str| {
                text.parse::<u16>()
                    .ok()
                    .filter(|weight| (1..=256).contains(weight))
            };
            let weights: Option<Vec<u16>> = value.split(':').map(weight).collect();
            let weights = weights.ok_or("weights must be numbers from 1 to 256, like 3:1")?;
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
            Fault::Firmware {
                host: node(host)?,
                version: version_of(kind, version)?,
                device,
            }
        }
        "switch-firmware" => {
            let (switch, version) = valued()?;
            Fault::SwitchFirmware {
                switch: node(switch)?,
                version: version_of(kind, version)?,
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
                .map_err(|error: record::units::ParseError| error.to_string())?;
            if size.0 == 0 || size > Nanos::from_secs(86_400) {
                return Err("a clock offset must be more than 0 and at most a day".to_string());
            }
            Fault::Clock {
                host: node(host)?,
                offset: sign * size.0 as i64,
            }
        }
        _ => {
            let known: Vec<String> = KINDS.map(str::to_string).to_vec();
            return Err(format!(
                "unknown fault; {}",
                super::suggest::suggestion(kind, &known).replace("it has", "known are")
            ));
        }
    })
}

fn version_of(kind: &str, version: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match version.is_empty() || version.len() > 32 || !version.chars().all(fits) {
        true => Err(format!(
            "`{version}` is not a firmware version: {}",
            example(kind)
        )),
        false => Ok(version.to_string()),
    }
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
                    .map_err(|error: record::units::ParseError| error.to_string())?;
            }
            Some(("duty", value)) => duty = percent(value, 1.0, 99.99)?,
            _ => {
                return Err(format!("`{part}` is not period or duty: {}", example("flap")));
            }
        }
    }
    if period < Nanos(100_000_000) || period > Nanos::from_secs(3600) {
        return Err("the period of a flap must be from 100ms to 1h".to_string());
    }
    Ok(Fault::Flap { cable, period, duty })
}

fn percent(text: &str, least: f64, most: f64) -> Result<Percent, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok());
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("`{text}` is not a percentage from {least}% to {most}%; write it like 60%"))
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

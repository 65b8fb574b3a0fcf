//! Both ends of a cable must have the same settings.
//!
//! Each end is looked up in all parts that describe it: an interface, the port of the RDMA device behind it, the port
//! of a switch. Rates are compared as numbers, because sources write them differently. An end that already deviates
//! from its like is not reported again.

use super::log::DriftLog;
use super::parts::{LocatedPart, Parts, SettledFacts};
use record::{Deviation, DriftBasis, Inventory, PartAt, PartClass};

const BECAUSE: &str = "both ends of a cable must have the same settings";

/// A setting that must agree at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkSetting {
    Rate,
    Width,
    Mtu,
    Fec,
}

impl LinkSetting {
    /// Lanes before the rate that follows from them.
    const ALL: [LinkSetting; 4] = [
        LinkSetting::Width,
        LinkSetting::Rate,
        LinkSetting::Mtu,
        LinkSetting::Fec,
    ];

    /// The facts that contain it, by class, the most reliable first.
    fn facts(self) -> &'static [(PartClass, &'static str)] {
        use PartClass::{Interface, Port};
        match self {
            LinkSetting::Rate => &[(Port, "rate"), (Port, "speed"), (Interface, "speed")],
            LinkSetting::Width => &[(Port, "width")],
            LinkSetting::Mtu => &[(Interface, "mtu"), (Port, "mtu")],
            LinkSetting::Fec => &[(Interface, "fec"), (Port, "fec")],
        }
    }

    fn advice(self) -> &'static str {
        match self {
            LinkSetting::Rate | LinkSetting::Width => {
                "set both ports to the same speed or to negotiate it, and look at the \
                 cable: lanes may be down"
            }
            LinkSetting::Mtu => "set the MTU of both ends; a switch must take at least what the host sends",
            LinkSetting::Fec => "set the same forward error correction at both ends",
        }
    }

    /// Whether the two ends agree; none when that is not known.
    fn agrees(self, one: &CableEnd<'_>, other: &CableEnd<'_>) -> Option<bool> {
        match self {
            LinkSetting::Rate => Some(megabits(one.value)? == megabits(other.value)?),
            LinkSetting::Width => Some(lanes(one.value)? == lanes(other.value)?),
            LinkSetting::Mtu => {
                let (a, b): (u32, u32) = (one.value.parse().ok()?, other.value.parse().ok()?);
                // Switches count headers that hosts do not: they may accept more than hosts send.
                Some(match (one.located.of_switch, other.located.of_switch) {
                    (false, true) => a <= b,
                    (true, false) => b <= a,
                    _ => a == b,
                })
            }
            LinkSetting::Fec => Some(correction(one.value)? == correction(other.value)?),
        }
    }
}

/// One end of a cable and its value of a setting.
struct CableEnd<'a> {
    located: LocatedPart<'a>,
    fact: &'static str,
    value: &'a str,
}

/// Compares the ends of every cable.
pub(super) fn compare<'a>(
    inventory: &'a Inventory,
    parts: &Parts<'a>,
    settled: &SettledFacts<'a>,
    log: &mut DriftLog,
) {
    for cable in &inventory.cables {
        let ends = cable.ends.each_ref().map(|at| parts_at(at, parts));
        for setting in LinkSetting::ALL {
            one_setting(&ends, setting, settled, log);
        }
    }
}

fn one_setting<'a>(
    ends: &[Vec<LocatedPart<'a>>; 2],
    setting: LinkSetting,
    settled: &SettledFacts<'a>,
    log: &mut DriftLog,
) {
    let [one, other] = ends.each_ref().map(|here| end(here, setting));
    let (Some(one), Some(other)) = (one, other) else {
        return;
    };
    let is_known = |end: &CableEnd<'_>| {
        log.accuses(&end.located, end.fact) || settled.contains(&(end.located.number, end.fact))
    };
    if setting.agrees(&one, &other) != Some(false) || is_known(&one) || is_known(&other) {
        return;
    }
    // The end with less is named, or else the host's: an operator looks there first.
    let is_less = match setting {
        LinkSetting::Rate => megabits(other.value) < megabits(one.value),
        LinkSetting::Width => lanes(other.value) < lanes(one.value),
        LinkSetting::Mtu | LinkSetting::Fec => one.located.of_switch && !other.located.of_switch,
    };
    let (named, against) = if is_less { (other, one) } else { (one, other) };
    let expected = match setting == LinkSetting::Mtu && against.located.of_switch && !named.located.of_switch
    {
        true => format!("{} or less", against.value),
        false => against.value.to_string(),
    };
    let deviation = Deviation {
        rule: "cable-ends".to_string(),
        class: named.located.part.class,
        fact: named.fact.to_string(),
        value: Some(named.value.to_string()),
        expected,
        basis: DriftBasis::OtherEnd {
            end: against.located.at(),
        },
        like: None,
        parts: Vec::new(),
        because: BECAUSE.to_string(),
        advice: setting.advice().to_string(),
        effect: None,
    };
    log.add(&[named.located], deviation);
}

/// The parts at an end of a cable: an interface and the port of an RDMA device behind it, or the other way round.
fn parts_at<'a>(at: &'a PartAt, parts: &Parts<'a>) -> Vec<LocatedPart<'a>> {
    let mut here: Vec<LocatedPart<'a>> = parts.named(at).copied().collect();
    let is_there = |class: PartClass| here.iter().find(move |located| located.part.class == class);
    let has_interface = is_there(PartClass::Interface).is_some();
    let interface = is_there(PartClass::Port).and_then(|port| port.value("interface"));
    if has_interface {
        here.extend(parts.behind(at));
    }
    if let Some(interface) = interface {
        here.extend(parts.called(&at.node, interface, PartClass::Interface));
    }
    here
}

/// The first part at an end that has the fact.
fn end<'a>(here: &[LocatedPart<'a>], setting: LinkSetting) -> Option<CableEnd<'a>> {
    setting.facts().iter().find_map(|(class, fact)| {
        let mut known = here.iter().filter(|located| located.part.class == *class);
        known.find_map(|located| {
            Some(CableEnd {
                located: *located,
                fact,
                value: located.value(fact)?,
            })
        })
    })
}

/// `400 Gb/sec`, `400G` and `400000` (as the kernel writes it) are the same.
fn megabits(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    let factor = match unit.trim_start().chars().next().map(|c| c.to_ascii_lowercase()) {
        None | Some('m') => 1.0,
        Some('g') => 1000.0,
        Some('t') => 1e6,
        Some('k') => 0.001,
        Some(_) => return None,
    };
    Some((number * factor).round() as u64)
}

/// `4X NDR` is four lanes.
fn lanes(text: &str) -> Option<u32> {
    let text = text.trim().trim_start_matches(['x', 'X']);
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// The code by one name; none where it is left to negotiation.
fn correction(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let has = |name: &str| text.contains(name);
    match () {
        () if has("auto") => None,
        () if has("llrs") => Some("llrs"),
        () if has("rs") => Some("rs"),
        () if has("baser") || has("fc") || has("firecode") => Some("base-r"),
        () if has("none") || has("off") || has("disabled") => Some("off"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_lanes_and_codes_are_the_same_however_they_are_written() {
        for text in ["400 Gb/sec", "400G", "400000", "400 Gb/s", "0.4T", "400000 Mb/s"] {
            assert_eq!(megabits(text), Some(400_000), "{text}");
        }
        assert_eq!(megabits("auto"), None);
        assert_eq!(megabits("12 parsecs"), None);
        assert_eq!(
            (lanes("4X NDR"), lanes("x2"), lanes("?")),
            (Some(4), Some(2), None)
        );
        for text in ["RS", "rs", "rs-fec", "RS-FEC(544,514)"] {
            assert_eq!(correction(text), Some("rs"), "{text}");
        }
        assert_eq!(correction("BaseR"), Some("base-r"));
        assert_eq!(correction("None"), Some("off"));
        assert_eq!(correction("auto"), None);
    }
}

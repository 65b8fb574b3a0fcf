//! A part against its own capability.
//!
//! A device may be capable of more than its slot. Then all of its kind fall short in the same way, and that is one
//! finding. Where a part falls short of parts like it, `alike` reports that.

use std::collections::BTreeMap;

use super::groups::{groups, in_words};
use super::log::DriftLog;
use super::parts::{LocatedPart, Parts, SettledFacts};
use super::rules::RULES;
use record::{Deviation, DriftBasis, PartClass};

/// A fact that is a number, and the one that says how large it could be.
struct Capability {
    name: &'static str,
    class: PartClass,
    fact: &'static str,
    most: &'static str,
    because: &'static str,
    advice: &'static str,
}

/// Every capability that parts report.
const CAPABILITIES: &[Capability] = &[
    Capability {
        name: "pci-width",
        class: PartClass::Pci,
        fact: "width",
        most: "width-capable",
        because: "a card on half its lanes moves half the data",
        advice: "reseat the card, clean its contacts, try another slot; if the slot has \
                 no more lanes, pin this width in a golden file",
    },
    Capability {
        name: "pci-speed",
        class: PartClass::Pci,
        fact: "speed",
        most: "speed-capable",
        because: "a link that trained to a lower generation moves half the data for each that it is lower",
        advice: "reseat the card and look at the slot's settings in the firmware setup; \
                 if the slot can do no more, pin this speed in a golden file",
    },
];

/// Whether a part reports that it could do more.
pub(super) fn falls_short(located: &LocatedPart<'_>, fact: &str) -> bool {
    let of_it = |capability: &&Capability| capability.class == located.part.class && capability.fact == fact;
    let mut known = CAPABILITIES.iter().filter(of_it);
    known.any(|capability| shortfall(located, capability).is_some())
}

/// The current value and the capability, when that is more.
fn shortfall<'a>(located: &LocatedPart<'a>, capability: &Capability) -> Option<(&'a str, &'a str)> {
    short_of(located, located.value(capability.fact)?, capability)
}

fn short_of<'a>(
    located: &LocatedPart<'a>,
    value: &'a str,
    capability: &Capability,
) -> Option<(&'a str, &'a str)> {
    let most = located.value(capability.most)?;
    if value == most {
        return None;
    }
    let (now, could) = (number(value)?, number(most)?);
    // Functions without a link of their own report 0 lanes of 255.
    (now > 0.0 && now < could && could < 255.0).then_some((value, most))
}

/// `32.0 GT/s PCIe` is 32, `x16` is 16.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(['x', 'X']);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// Compares every part with what it could do, except where it was compared with its like already.
pub(super) fn compare<'a>(parts: &Parts<'a>, settled: &SettledFacts<'a>, log: &mut DriftLog) {
    for capability in CAPABILITIES {
        let of_class = RULES.iter().filter(|rule| rule.class == capability.class);
        for rule in of_class.take(1) {
            for alike in groups(rule, parts).into_values() {
                let mut of = 0;
                let mut short: BTreeMap<(&str, &str), Vec<LocatedPart<'_>>> = BTreeMap::new();
                let is_settled = |located: &LocatedPart<'_>| {
                    settled.contains(&(located.number, capability.fact))
                        || log.accuses(located, capability.fact)
                };
                for located in alike {
                    let Some(value) = located.value(capability.fact) else {
                        continue;
                    };
                    of += 1;
                    let short_of = short_of(&located, value, capability);
                    if let Some(pair) = short_of.filter(|_| !is_settled(&located)) {
                        short.entry(pair).or_default().push(located);
                    }
                }
                for ((value, most), parts) in short {
                    let deviation = Deviation {
                        rule: capability.name.to_string(),
                        class: capability.class,
                        fact: capability.fact.to_string(),
                        value: Some(value.to_string()),
                        expected: most.to_string(),
                        basis: DriftBasis::Capability {
                            fact: capability.most.to_string(),
                            of,
                        },
                        like: in_words(rule, &parts[0]),
                        parts: Vec::new(),
                        because: capability.because.to_string(),
                        advice: capability.advice.to_string(),
                        effect: None,
                    };
                    log.add(&parts, deviation);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn generations_and_lanes_are_read_as_the_kernel_and_people_write_them() {
        assert_eq!(number("32.0 GT/s PCIe"), Some(32.0));
        assert_eq!(number("2.5 GT/s"), Some(2.5));
        assert_eq!(number("x16"), Some(16.0));
        assert_eq!(number("8"), Some(8.0));
        assert_eq!(number("Unknown"), None);
        assert_eq!(number(""), None);
    }
}

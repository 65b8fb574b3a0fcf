//! Whether a value is associated with what was slow, in sentences, and as evidence of findings about what was slow.
//!
//! A slow part is associated with a value only when the value explains it, or when the two coincide so closely that
//! someone should look; the words say which. A value that is not associated with anything slow is reported with the
//! drift only.

use std::collections::BTreeSet;

use super::measured::MeasuredParts;
use crate::findings::analysis::RunAnalysis;
use record::text;
use record::{Drift, DriftEffect, EffectUnit, Finding, FindingKind, PartAt, PartClass};

/// The noun for a class of parts, singular and plural.
pub(super) fn noun(class: PartClass, count: u32) -> &'static str {
    let (one, several) = match class {
        PartClass::Host => ("host", "hosts"),
        PartClass::Nic => ("NIC", "NICs"),
        PartClass::Port => ("port", "ports"),
        PartClass::Interface => ("interface", "interfaces"),
        PartClass::Module => ("transceiver", "transceivers"),
        PartClass::Gpu => ("GPU", "GPUs"),
        PartClass::Pci => ("card", "cards"),
        PartClass::Switch => ("switch", "switches"),
        PartClass::Cable => ("cable", "cables"),
    };
    if count == 1 { one } else { several }
}

/// The noun for what was found slow, where it is a part of this class.
fn slow_noun(class: PartClass, count: u32) -> &'static str {
    match class {
        PartClass::Host | PartClass::Gpu | PartClass::Switch => noun(class, count),
        _ if count == 1 => "rail",
        _ => "rails",
    }
}

/// Whether everything slow has the value, although that is not significant.
pub(super) fn coincides(effect: &DriftEffect) -> bool {
    !effect.explains && effect.slow_with > 0 && effect.slow_without == 0 && effect.without > 0
}

/// A value in words: `firmware 28.39.1002`.
pub(super) struct NamedValue<'a> {
    pub(super) class: PartClass,
    pub(super) fact: &'a str,
    pub(super) value: &'a str,
}

/// `28.39.1002`, or that there is none.
pub(super) fn shown(value: Option<&str>) -> &str {
    match value {
        Some("") => "(empty)",
        Some(value) => value,
        None => "missing",
    }
}

/// How a value is associated with what was slow.
pub(super) fn in_words(named: &NamedValue<'_>, effect: &DriftEffect) -> String {
    let NamedValue { class, fact, value } = *named;
    let value = shown((!value.is_empty()).then_some(value));
    let DriftEffect {
        slow_with,
        with,
        slow_without,
        without,
        ..
    } = *effect;
    let slow = slow_with + slow_without;
    let whose = format!("{} with {fact} {value}", noun(class, with));
    let those = match with {
        1 => format!("the one {whose}"),
        _ => format!("the {with} {whose}"),
    };
    let (are, is_are) = (
        if slow == 1 { "is" } else { "are" },
        if with == 1 { "is" } else { "are" },
    );
    let slow_ones = match slow {
        1 => format!("the one slow {}", slow_noun(class, 1)),
        _ => format!("the {slow} slow {}", slow_noun(class, slow)),
    };
    let p = certainty(effect);
    if slow == 0 {
        match without {
            0 => format!("{those} {is_are} not slow"),
            _ => format!("{those} {is_are} not slow, and none of the {without} others is"),
        }
    } else if without == 0 {
        format!("{slow_with} of {with} measured are slow and all have it: nothing to compare with")
    } else if slow_with == 0 {
        format!("{those} {is_are} not slow; {slow_ones} {are} elsewhere")
    } else if effect.explains && slow_without == 0 && slow_with == with {
        format!("{slow_ones} {are} exactly {those}; none of the {without} others is slow ({p})")
    } else if effect.explains {
        format!(
            "{slow_with} of {slow_ones} {are} {}; slow are {slow_with} of {with} \
             with it and {slow_without} of {without} without ({p})",
            whose
        )
    } else if coincides(effect) {
        let at = match slow_with == with {
            true => format!("{slow_ones} {are} at {those}"),
            false => format!("{slow_ones} {are} at {slow_with} of {those}"),
        };
        format!(
            "{at}; that happens by chance {}: a coincidence to look at, not proven",
            odds(effect)
        )
    } else {
        format!(
            "not associated with what is slow: {slow_with} of {with} with it, {slow_without} of {without} \
             without ({p})"
        )
    }
}

/// `p < 1e-6, counted by hosts, corrected for 3 values tried`.
fn certainty(effect: &DriftEffect) -> String {
    let mut parts = vec![text::p_value(effect.p_value)];
    match effect.by {
        EffectUnit::Part => {}
        unit => parts.push(format!("counted by {unit}s")),
    }
    if effect.comparisons > 1 {
        parts.push(format!("corrected for {} values tried", effect.comparisons));
    }
    parts.join(", ")
}

/// `in 1 of 8 cases, counted by hosts`.
fn odds(effect: &DriftEffect) -> String {
    let mut text = match effect.p_value {
        p if p >= 0.75 => "more often than not".to_string(),
        p if p >= 0.001 => format!("in 1 of {:.0} cases", 1.0 / p),
        p => format!("with {}", text::p_value(p)),
    };
    if effect.by != EffectUnit::Part {
        text.push_str(&format!(", counted by {}s", effect.by));
    }
    if effect.comparisons > 1 {
        text.push_str(&format!(", as {} values were tried", effect.comparisons));
    }
    text
}

/// A value that is associated with what is slow, and the parts that have it.
struct Association<'d> {
    named: NamedValue<'d>,
    effect: &'d DriftEffect,
    parts: BTreeSet<PartAt>,
    advice: Option<&'d str>,
}

/// Adds the drift that explains it, or coincides with it, to every finding about something slow.
pub(in crate::findings) fn explain_slow(analysis: &RunAnalysis<'_>, drift: &Drift, findings: &mut [Finding]) {
    let Some(inventory) = &analysis.recorded.inventory else {
        return;
    };
    let associations = associations(drift);
    if associations.is_empty() {
        return;
    }
    let measured = MeasuredParts::of(analysis, inventory);
    for association in associations {
        let NamedValue { class, fact, value } = association.named;
        let parts = match association.parts.is_empty() {
            false => association.parts.clone(),
            true => {
                let has_it = measured
                    .of_class(class)
                    .filter(|unit| unit.part.value(fact) == Some(value));
                has_it.map(|unit| unit.at()).collect()
            }
        };
        let slow = measured.slow_among(class, &parts);
        let said = in_words(&association.named, association.effect);
        for finding in findings
            .iter_mut()
            .filter(|finding| is_about(finding, class, &slow))
        {
            match association.effect.explains {
                true => {
                    finding
                        .evidence
                        .push(format!("explained by the inventory: {said}"));
                    if let Some(advice) = association.advice {
                        finding.next_step =
                            format!("first {advice}; if it is still slow then: {}", finding.next_step);
                    }
                }
                false => finding
                    .evidence
                    .push(format!("possibly related in the inventory: {said}")),
            }
        }
    }
}

/// Whether a finding is about something slow at one of these places.
fn is_about(finding: &Finding, class: PartClass, slow: &[(&str, Option<&str>)]) -> bool {
    use FindingKind::{SlowCollective, SlowLink, SlowPair, SlowRail, StragglerRank};
    let is_speed = matches!(
        finding.kind,
        SlowLink | SlowRail | SlowPair | SlowCollective | StragglerRank
    );
    let place = &finding.place;
    is_speed
        && slow.iter().any(|(node, rail)| match class {
            PartClass::Switch => place.switch.as_deref() == Some(*node),
            _ => {
                let at_host = place.hosts.iter().any(|host| host == node);
                let on_rail = rail.is_none() || place.rail.is_none() || place.rail.as_deref() == *rail;
                at_host && on_rail
            }
        })
}

fn associations(drift: &Drift) -> Vec<Association<'_>> {
    let matters = |effect: &&DriftEffect| effect.explains || coincides(effect);
    let mut associations = Vec::new();
    for deviation in &drift.deviations {
        if let Some(effect) = deviation.effect.as_ref().filter(matters) {
            associations.push(Association {
                named: NamedValue {
                    class: deviation.class,
                    fact: &deviation.fact,
                    value: deviation.value.as_deref().unwrap_or_default(),
                },
                effect,
                parts: deviation.parts.iter().cloned().collect(),
                advice: Some(&deviation.advice),
            });
        }
    }
    for split in &drift.disagreements {
        for (value, effect) in split.effects.iter().filter(|(_, effect)| matters(effect)) {
            associations.push(Association {
                named: NamedValue {
                    class: split.class,
                    fact: &split.fact,
                    value,
                },
                effect,
                parts: split.values[value].iter().cloned().collect(),
                advice: None,
            });
        }
    }
    for found in &drift.traits {
        associations.push(Association {
            named: NamedValue {
                class: found.class,
                fact: &found.fact,
                value: &found.value,
            },
            effect: &found.effect,
            parts: BTreeSet::new(),
            advice: None,
        });
    }
    associations
}

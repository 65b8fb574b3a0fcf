//! What is known of a cable that loses packets or holds them up: what the modules at its ends measured when the inventory was taken, and whether its
//! link went down.
//!
//! Evidence only: a module is compared with the bounds that its maker set, and whatever it says, the losses stand as they are. A lane without any light
//! beside lanes with light is not in use.

use crate::findings::analysis::RunAnalysis;
use crate::findings::flap;
use record::text;
use record::{Fact, Inventory, InventoryPart, PartClass, PortName};
use topology::graph::{DirectedLink, Graph};

/// What is measured: the fact, its bounds, what it is called, and what a lane reads that is not in use.
const MEASURED: [(&str, &str, &str, Option<f64>); 4] = [
    ("rx-power", "rx-power-bounds", "rx power", Some(-39.9)),
    ("tx-power", "tx-power-bounds", "tx power", Some(-39.9)),
    ("tx-bias", "tx-bias-bounds", "tx bias", Some(0.05)),
    ("temperature", "temperature-bounds", "temperature", None),
];

/// What the two ends of a cable say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CableEvidence {
    /// Everything, line by line.
    pub(super) lines: Vec<String>,
    /// What is beyond its bounds, or went down, for the sentence.
    pub(super) wrong: Vec<String>,
}

/// The evidence about the cable of a link.
pub(super) fn of(analysis: &RunAnalysis<'_>, graph: &Graph, link: &DirectedLink) -> CableEvidence {
    let mut found = CableEvidence::default();
    let mut is_read = false;
    for port in [&link.from, &link.to] {
        let is_switch = graph.tier_of(&port.node).is_some();
        let rail = link.rail.as_deref().unwrap_or(&port.interface);
        let end = PortName {
            node: &port.node,
            port: if is_switch { &port.interface } else { rail },
        };
        let at = end.to_string();
        if let Some(inventory) = &analysis.recorded.inventory
            && let Some(module) = module_at(
                analysis,
                inventory,
                link,
                (&port.node, &port.interface),
                is_switch,
            )
        {
            is_read = true;
            found.add_module(module, &at);
        }
        let downs = match is_switch {
            true => 0,
            false => flap::downs(analysis, &port.node, rail),
        };
        if downs > 0 {
            let said = format!(
                "the link of {at} went down and came back {} in this run",
                text::times(downs as usize)
            );
            found.lines.push(said.clone());
            found.wrong.push(said);
        }
    }
    if !is_read {
        let why = "modules at its ends were not read";
        found.lines.push(why.to_string());
    }
    found
}

/// The module at one end.
fn module_at<'i>(
    analysis: &RunAnalysis<'_>,
    inventory: &'i Inventory,
    link: &DirectedLink,
    (node, port): (&str, &str),
    is_switch: bool,
) -> Option<&'i InventoryPart> {
    let parts = inventory.node(node)?;
    let of_cable = inventory.cables.iter().find(|cable| cable.name == link.cable);
    let of_cable = of_cable.and_then(|cable| cable.ends.iter().find(|end| end.node == node));
    let mut names: Vec<&str> = of_cable.map(|end| end.part.as_str()).into_iter().collect();
    if !is_switch {
        let ranks = analysis.run().ranks.iter().filter(|record| record.host == node);
        let ends = ranks.flat_map(|record| &record.rails);
        let ends = ends.filter(|end| link.rail.as_deref().is_none_or(|rail| rail == end.rail));
        names.extend(ends.filter_map(|end| end.interface.as_deref()));
    }
    names.push(port);
    names.iter().find_map(|name| parts.part(PartClass::Module, name))
}

impl CableEvidence {
    fn add_module(&mut self, module: &InventoryPart, at: &str) {
        let mut values = Vec::new();
        let mut wrong = Vec::new();
        let mut bounded = 0;
        for (fact, bounds, name, dark) in MEASURED {
            let Some((measured, unit)) = module.value(fact).and_then(numbers) else {
                continue;
            };
            values.push(format!("{name} {} {unit}", range(&used(&measured, dark))));
            let Some((bounds, _)) = module.value(bounds).and_then(numbers) else {
                continue;
            };
            bounded += 1;
            wrong.extend(outside(&measured, dark, &bounds).map(|what| format!("{name} {what}")));
        }
        if values.is_empty() {
            let mut facts = MEASURED.iter().filter_map(|(fact, ..)| module.facts.get(*fact));
            let why = facts.find_map(|fact| match fact {
                Fact::Unreadable { why, .. } => Some(why.as_str()),
                Fact::Value(_) | Fact::Absent => None,
            });
            let kind = module.value("medium").unwrap_or("it");
            self.lines.push(match why {
                Some(why) => format!("what the module at {at} measures could not be read: {why}"),
                None => format!("the module at {at} measures nothing ({kind})"),
            });
            return;
        }
        let verdict = match (wrong.is_empty(), bounded) {
            (true, 0) => "it tells no bounds".to_string(),
            (true, _) => "within its bounds".to_string(),
            (false, _) => text::list(&wrong),
        };
        let all = text::list(&values);
        self.lines.push(format!(
            "module at {at}, as the inventory was taken: {all}: {verdict}"
        ));
        self.wrong
            .extend(wrong.into_iter().map(|what| format!("{what} at {at}")));
    }
}

/// `-2.1 -2.3 dBm` as numbers and their unit.
fn numbers(text: &str) -> Option<(Vec<f64>, &str)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (unit, values) = words.split_last()?;
    let values: Option<Vec<f64>> = values
        .iter()
        .map(|word| word.parse().ok().filter(|value: &f64| value.is_finite()))
        .collect();
    values
        .filter(|values| !values.is_empty())
        .map(|values| (values, *unit))
}

/// Lanes that are in use, by their number, with what they read. Where none has light, all are meant to.
fn used(values: &[f64], dark: Option<f64>) -> Vec<(usize, f64)> {
    let lanes = || (1..).zip(values.iter().copied());
    let lit: Vec<(usize, f64)> = lanes()
        .filter(|(_, value)| dark.is_none_or(|dark| *value > dark))
        .collect();
    match lit.is_empty() {
        true => lanes().collect(),
        false => lit,
    }
}

/// `-2.3 to -2.1`.
fn range(values: &[(usize, f64)]) -> String {
    let least = values
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::INFINITY, f64::min);
    let most = values
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::NEG_INFINITY, f64::max);
    match least == most {
        true => format!("{least:.1}"),
        false => format!("{least:.1} to {most:.1}"),
    }
}

/// What is beyond the bounds (low alarm, low warning, high warning, high alarm): the lane that is furthest out on either side.
fn outside(values: &[f64], dark: Option<f64>, bounds: &[f64]) -> Option<String> {
    let [low_alarm, low, high, high_alarm] = *bounds else {
        return None;
    };
    let lanes = used(values, dark);
    let lane = |number: usize| match values.len() {
        1 => String::new(),
        _ => format!(" of lane {number}"),
    };
    let (lowest, least) = lanes.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (highest, most) = lanes.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let below = |bound: f64, what: &str| {
        format!(
            "{least:.1}{} below the module's {what} of {bound:.1}",
            lane(lowest)
        )
    };
    let above = |bound: f64, what: &str| {
        format!(
            "{most:.1}{} above the module's {what} of {bound:.1}",
            lane(highest)
        )
    };
    match () {
        () if least < low_alarm => Some(below(low_alarm, "alarm")),
        () if most > high_alarm => Some(above(high_alarm, "alarm")),
        () if least < low => Some(below(low, "warning")),
        () if most > high => Some(above(high, "warning")),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::drift::fixture::part;
    use proptest::prelude::*;

    const BOUNDS: [f64; 4] = [-10.0, -8.0, 2.0, 3.0];

    #[test]
    fn a_lane_with_too_little_light_is_named_and_one_without_any_is_not_in_use() {
        let of = |values: &[f64]| outside(values, Some(-39.9), &BOUNDS);
        assert_eq!(of(&[-2.0, -2.1, -7.9, -40.0]), None);
        assert_eq!(
            of(&[-2.0, -9.1, -2.0, -40.0]).as_deref(),
            Some("-9.1 of lane 2 below the module's warning of -8.0")
        );
        assert_eq!(
            of(&[-13.1]).as_deref(),
            Some("-13.1 below the module's alarm of -10.0")
        );
        assert_eq!(
            of(&[2.5]).as_deref(),
            Some("2.5 above the module's warning of 2.0")
        );
        assert!(of(&[-40.0, -40.0]).is_some(), "no light at all is not healthy");
        assert_eq!(outside(&[-13.1], None, &[]), None);
    }

    #[test]
    fn what_a_module_says_is_one_line_and_what_it_does_not_is_not_healthy() {
        let said = |facts: &[(&str, &str)]| {
            let mut found = CableEvidence::default();
            found.add_module(&part(PartClass::Module, "eth1", facts), "h2/rail1");
            found
        };
        let bounds = ("rx-power-bounds", "-10.0 -8.0 2.0 3.0 dBm");
        let fine = said(&[("rx-power", "-2.1 -2.3 dBm"), bounds, ("temperature", "45.0 C")]);
        assert_eq!(
            fine.lines,
            [
                "module at h2/rail1, as the inventory was taken: rx power -2.3 to -2.1 dBm and temperature 45.0 C: within its bounds"
            ]
        );
        assert!(fine.wrong.is_empty());
        let dim = said(&[("rx-power", "-2.1 -13.1 dBm"), bounds]);
        assert_eq!(
            dim.wrong,
            ["rx power -13.1 of lane 2 below the module's alarm of -10.0 at h2/rail1"]
        );
        let unbounded = said(&[("rx-power", "-13.1 dBm")]);
        assert!(unbounded.wrong.is_empty() && unbounded.lines[0].ends_with("it tells no bounds"));
        let copper = said(&[("medium", "passive copper")]);
        assert_eq!(
            copper.lines,
            ["the module at h2/rail1 measures nothing (passive copper)"]
        );
    }

    proptest! {
        #[test]
        fn no_text_of_another_machine_makes_it_fail(value in "\\PC{0,30}", bounds in "\\PC{0,30}") {
            let mut found = CableEvidence::default();
            let facts = [("rx-power", value.as_str()), ("rx-power-bounds", bounds.as_str())];
            found.add_module(&part(PartClass::Module, "eth1", &facts), "h2/rail1");
            prop_assert_eq!(found.lines.len(), 1);
        }

        #[test]
        fn a_value_is_wrong_exactly_outside_its_warnings(value in -20.0f64..10.0) {
            let is_wrong = outside(&[value], Some(-39.9), &BOUNDS).is_some();
            prop_assert_eq!(is_wrong, !(-8.0..=2.0).contains(&value));
        }
    }
}

//! Hosts whose rails differ from those of the other hosts.
//!
//! A rail is the same cable plane on every host. When one host has other names, or the same names in another order,
//! measurements between them are not valid.

use super::Fabric;

impl Fabric {
    /// One line per host whose rails differ from the majority's; empty when all are alike.
    pub fn rail_differences(&self) -> Vec<String> {
        let mut hosts: Vec<(&str, Vec<&str>)> = Vec::new();
        for record in &self.ranks {
            let rails: Vec<&str> = record.rails.iter().map(|end| end.rail.as_str()).collect();
            let entry = (record.host.as_str(), rails);
            if !hosts.contains(&entry) {
                hosts.push(entry);
            }
        }
        let votes = |rails: &[&str]| hosts.iter().filter(|(_, other)| other == rails).count();
        // Of two that are equally common the first is taken, so that the message is the same every time.
        let Some(most) = hosts.iter().map(|(_, rails)| votes(rails)).max() else {
            return Vec::new();
        };
        let Some((_, usual)) = hosts.iter().find(|(_, rails)| votes(rails) == most) else {
            return Vec::new();
        };
        let odd: Vec<_> = hosts.iter().filter(|(_, rails)| rails != usual).collect();
        let others = match (odd.len(), most) {
            (1, 1) => "the other host has".to_string(),
            (1, most) => format!("the other {most} hosts have"),
            (_, 1) => "another host has".to_string(),
            (_, most) => format!("{most} hosts have"),
        };
        odd.iter()
            .map(|(host, rails)| {
                let missing = without(usual, rails);
                let extra = without(rails, usual);
                let what = match (missing.is_empty(), extra.is_empty()) {
                    (true, true) => "same names, other order".to_string(),
                    (false, true) => format!("missing {}", missing.join(", ")),
                    (true, false) => format!("extra {}", extra.join(", ")),
                    (false, false) => format!("missing {}, extra {}", missing.join(", "), extra.join(", ")),
                };
                format!(
                    "rails differ: {host} has {}; {others} {} ({what})",
                    rails.join(", "),
                    usual.join(", ")
                )
            })
            .collect()
    }
}

fn without<'r>(rails: &[&'r str], these: &[&str]) -> Vec<&'r str> {
    rails
        .iter()
        .copied()
        .filter(|rail| !these.contains(rail))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{DeviceKind, RailEnd};

    fn fabric(hosts: &[(&str, &str)]) -> Fabric {
        let mut fabric = Fabric::local(
            record::HostRecord::named("node"),
            hosts.len() as u32,
            DeviceKind::Host,
            Vec::new(),
        );
        for (record, (host, rails)) in fabric.ranks.iter_mut().zip(hosts) {
            record.host = host.to_string();
            let end = |rail: &str| RailEnd {
                rail: rail.to_string(),
                address: "10.0.0.1".to_string(),
                interface: None,
                speed_mbit: None,
                rdma: None,
            };
            record.rails = rails.split_whitespace().map(end).collect();
        }
        fabric
    }

    #[test]
    fn the_host_with_a_missing_rail_is_named_and_the_others_are_not() {
        let both = "rail0 rail1";
        let alike = fabric(&[("h0", both), ("h1", both), ("h1", both)]);
        assert!(alike.rail_differences().is_empty());
        let one = fabric(&[
            ("h0", both),
            ("h1", both),
            ("h2", both),
            ("h3", "rail0"),
            ("h3", "rail0"),
        ]);
        assert_eq!(
            one.rail_differences(),
            ["rails differ: h3 has rail0; the other 3 hosts have rail0, rail1 (missing rail1)"]
        );
        let two = fabric(&[
            ("h0", both),
            ("h1", "rail1 rail0"),
            ("h2", both),
            ("h3", "rail0 eth9"),
        ]);
        let lines = two.rail_differences();
        assert!(
            lines[0].contains("h1") && lines[0].ends_with("(same names, other order)"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("h3") && lines[1].ends_with("(missing rail1, extra eth9)"),
            "{lines:?}"
        );
    }
}

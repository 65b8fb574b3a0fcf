//! Which parts are of one host, and of one cable: what wanders together.

use std::collections::HashMap;

use crate::change_point::Siblings;
use record::{PartKind, RailEndName};

/// The hosts and cables of parts, by their places.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinship {
    /// For each part its host and its cable; none for parts that have no siblings.
    of: Vec<Option<Kin>>,
    hosts: HashMap<String, usize>,
    cables: HashMap<(usize, String), usize>,
}

#[derive(Debug, Clone, Copy)]
struct Kin {
    host: usize,
    cable: usize,
}

impl Kinship {
    /// Takes note of the next part.
    pub(super) fn add(&mut self, kind: PartKind, part: &str) {
        let end = RailEndName::parse(part).filter(|_| kind == PartKind::RailEnd);
        let kin = end.map(|end| {
            let next = self.hosts.len();
            let host = *self.hosts.entry(end.host.to_string()).or_insert(next);
            let next = self.cables.len();
            let cable = *self.cables.entry((host, end.rail.to_string())).or_insert(next);
            Kin { host, cable }
        });
        self.of.push(kin);
    }

    /// What the siblings of each part are above or below their usual levels: the mean of those that were read.
    pub(super) fn siblings(&self, distances: &[Option<f64>]) -> Vec<Siblings> {
        let mut hosts: Vec<Vec<(usize, usize, f64)>> = vec![Vec::new(); self.hosts.len()];
        for (place, (kin, distance)) in self.of.iter().zip(distances).enumerate() {
            if let (Some(kin), Some(distance)) = (kin, distance) {
                hosts[kin.host].push((place, kin.cable, *distance));
            }
        }
        let of = |(place, kin): (usize, &Option<Kin>)| {
            let Some(kin) = kin else {
                return Siblings::default();
            };
            let (mut cable, mut host) = (Vec::new(), Vec::new());
            for (other, of_cable, distance) in &hosts[kin.host] {
                match *of_cable == kin.cable {
                    true if *other != place => cable.push(*distance),
                    true => {}
                    false => host.push(*distance),
                }
            }
            Siblings {
                cable: mean(&cable),
                host: mean(&host),
            }
        };
        self.of.iter().enumerate().map(of).collect()
    }
}

/// The mean; 0 of none.
fn mean(distances: &[f64]) -> f64 {
    distances.iter().sum::<f64>() / distances.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_never_its_own_sibling() {
        let mut kinship = Kinship::default();
        for part in ["h0/r0 in", "h0/r0 out", "h0/r1 in", "h0/r1 out", "h1/r0 in"] {
            kinship.add(PartKind::RailEnd, part);
        }
        let distances = [Some(-1.0), Some(2.0), Some(3.0), None, Some(50.0)];
        let siblings = kinship.siblings(&distances);
        let of = |cable: f64, host: f64| Siblings { cable, host };
        assert_eq!(siblings[0], of(2.0, 3.0));
        assert_eq!(siblings[3], of(3.0, 0.5));
        assert_eq!(siblings[4], of(0.0, 0.0));
        // Other kinds are not parts of one host by their names.
        kinship.add(PartKind::Link, "h0/r0 -> h1/r0");
        assert_eq!(kinship.siblings(&[Some(1.0); 6])[5], of(0.0, 0.0));
    }
}

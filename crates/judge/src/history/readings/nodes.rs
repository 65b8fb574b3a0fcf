//! Hosts as a whole: the median over the ends of their rails.
//!
//! One slow rail does not move it; what slows down most of a host's rails (its memory, its bridges, its clocks) does.

use super::identity::Identities;
use super::{ReadingSet, reading};
use record::stats::median;
use record::{Interval, PartKind, PartReading, PortName, Quantity, Recorded};

/// One reading per host and quantity that its ends of rails have.
pub(super) fn of(recorded: &Recorded, kept: &ReadingSet, identities: &Identities<'_>) -> Vec<PartReading> {
    let mut nodes = Vec::new();
    for host in &recorded.run.hosts {
        // All ends of rails of a host, in their order: their names begin with the same.
        let prefix = PortName {
            node: &host.name,
            port: "",
        }
        .to_string();
        let from = (PartKind::RailEnd, prefix.clone(), Quantity::Bandwidth);
        let ends: Vec<&PartReading> = kept
            .0
            .range(from..)
            .take_while(|((kind, part, _), _)| *kind == PartKind::RailEnd && part.starts_with(&prefix))
            .map(|(_, reading)| reading)
            .collect();
        for quantity in [Quantity::Bandwidth, Quantity::Latency] {
            let of_quantity = || ends.iter().filter(|end| end.quantity == quantity);
            let middle = |of: fn(&PartReading) -> f64| {
                let values: Vec<f64> = of_quantity().map(|end| of(end)).collect();
                median(&values)
            };
            let figures = [
                middle(|end| end.value),
                middle(|end| end.lower),
                middle(|end| end.upper),
            ];
            let [Some(median), Some(lower), Some(upper)] = figures else {
                continue;
            };
            let figure = Interval { median, lower, upper };
            nodes.push(PartReading {
                identity: identities.node(&host.name),
                cells: of_quantity().map(|end| end.cells).sum(),
                ..reading(PartKind::Node, host.name.clone(), quantity, figure)
            });
        }
    }
    nodes
}

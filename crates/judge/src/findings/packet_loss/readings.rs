//! What became of the probes of a run, flow by flow, for the readings of a burn-in's cycle: counts of many cycles are judged together.

use std::collections::HashMap;

use super::flows::{probed_in, rounds_of_probes};
use crate::findings::localise::{CrossedLinks, fabric_of};
use record::{ProbeReading, ProbeReadings, Recorded};
use topology::graph::{Graph, LinkId};

/// Every flow of probes of a run that was sent; none where there were no probes.
pub(crate) fn probe_readings(recorded: &Recorded) -> Option<ProbeReadings> {
    let rounds_of = rounds_of_probes(recorded);
    if rounds_of.is_empty() {
        return None;
    }
    let (graph, _) = fabric_of(recorded);
    let host_of: HashMap<u32, &str> = recorded
        .run
        .ranks
        .iter()
        .map(|record| (record.rank, record.host.as_str()))
        .collect();
    let mut crossed = CrossedLinks::new(&graph, recorded);
    let (mut hosts, mut rails, mut tests) = (Names::default(), Names::default(), Names::default());
    let mut links = LinkNames::of(&graph);
    let mut flows = Vec::new();
    for probed in probed_in(recorded.run.cells.iter(), &rounds_of) {
        let (flow, (lossy, seconds)) = (probed.flow, probed.lossy_iterations());
        let ends = host_of.get(&flow.from).zip(host_of.get(&flow.to));
        let Some(((from, to), over)) = ends.zip(crossed.links_of_probes(flow)).filter(|_| seconds > 0) else {
            continue;
        };
        let mut with_value = |all: Vec<(LinkId, f64)>| -> Vec<(u32, f64)> {
            all.into_iter()
                .map(|(link, value)| (links.position(link), value))
                .collect()
        };
        let (possible, shares) = (with_value(over.possible), with_value(over.shares));
        flows.push(ProbeReading {
            test: tests.position(&format!("{} {}", probed.cell.test, probed.cell.size)),
            slot: probed.cell.slot,
            round: probed.round,
            from: hosts.position(from),
            to: hosts.position(to),
            rail: rails.position(&flow.rail),
            port: flow.port,
            links: over
                .certain
                .into_iter()
                .map(|link| links.position(link))
                .collect(),
            possible,
            shares,
            seconds,
            lossy,
            sent: probed.counts.packets(),
            lost: probed.counts.losses().min(probed.counts.packets()),
        });
    }
    Some(ProbeReadings {
        hosts: hosts.names,
        rails: rails.names,
        links: links.names,
        tests: tests.names,
        flows,
    })
}

/// Names in the order of their first use.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    positions: HashMap<String, u32>,
}

impl Names {
    fn position(&mut self, name: &str) -> u32 {
        if let Some(position) = self.positions.get(name) {
            return *position;
        }
        let position = self.names.len() as u32;
        self.names.push(name.to_string());
        self.positions.insert(name.to_string(), position);
        position
    }
}

/// Names of links in the order of their first use.
struct LinkNames<'g> {
    graph: &'g Graph,
    names: Vec<String>,
    positions: HashMap<LinkId, u32>,
}

impl LinkNames<'_> {
    fn of(graph: &Graph) -> LinkNames<'_> {
        LinkNames {
            graph,
            names: Vec::new(),
            positions: HashMap::new(),
        }
    }

    fn position(&mut self, link: LinkId) -> u32 {
        *self.positions.entry(link).or_insert_with(|| {
            self.names.push(self.graph.name(link));
            self.names.len() as u32 - 1
        })
    }
}

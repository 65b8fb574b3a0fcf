//! What each test is compared with, resolved so that a run can be judged without its suite.
//!
//! A reference that was asked for and is not to be had is written down with the reason: the verdict becomes inconclusive
//! later, and the report can say why.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::line_rate::LineRates;
use record::units::{Bytes, Rate};
use record::{Cell, RailEnd, Reference, SpecRow, TestRecord, TransportKind};
use topology::Fabric;
use topology::Topology;
use topology::suite::spec::{LinkLayer, SpecEntry, by_id, by_speed};
use topology::suite::{Schedule, SpecChoice, TestCase};

/// Where one test's references come from.
pub(super) struct References<'a> {
    pub fabric: &'a Fabric,
    pub specs: &'a [SpecEntry],
    pub transport: TransportKind,
    pub rails: &'a [String],
    /// What the operator says the cables are; it wins over what interfaces say.
    pub topology: Option<&'a Topology>,
    /// What flows can expect where links differ.
    pub lines: &'a LineRates<'a>,
}

/// Acceptance in common use: the share of the port rate that must be delivered, and how far below is still accepted.
const ACCEPTED_SHARE: f64 = 0.92;
const ACCEPTED_BELOW: f64 = 0.02;
/// A rate is judged on messages that keep the link busy for at least this long, up to the size the built-in rows ask for.
const JUDGED_SECONDS: f64 = 0.02;
const JUDGED_SIZE: Bytes = Bytes(16 << 20);

impl References<'_> {
    /// The test as it is recorded. `override_spec` replaces what it asks for, where there are rails to compare.
    pub fn resolve(&self, test: &TestCase, override_spec: Option<&str>) -> TestRecord {
        let mut references = Vec::new();
        let mut missing = Vec::new();
        let typed = override_spec
            .filter(|_| !self.rails.is_empty())
            .map(|id| match id {
                "auto" => SpecChoice::Auto,
                id => SpecChoice::Row(id.to_string()),
            });
        if let Some(choice) = typed.as_ref().or(test.expect.spec.as_ref()) {
            match self.spec(choice) {
                Ok(rows) => {
                    for row in rows {
                        match row {
                            Ok(row) => references.push(Reference::Spec(row)),
                            Err(why) => missing.push(format!("spec: {why}")),
                        }
                    }
                }
                Err(why) => missing.push(format!("spec: {why}")),
            }
        }
        if let Some(margin) = test.expect.peers {
            references.push(Reference::Peers { margin });
        }
        if let Some(baseline) = &test.expect.baseline {
            // Its figures follow when cells have numbers.
            references.push(Reference::Baseline {
                run: baseline.run.clone(),
                margin: baseline.margin,
                rates: Vec::new(),
            });
        }
        TestRecord {
            name: test.name.clone(),
            kind: test.kind,
            references,
            missing_references: missing,
            warmup: test.warmup,
            min_iterations: test.min_iterations,
            max_iterations: test.max_iterations,
            tight: test.tight,
            budget: test.budget,
            verify_every: test.verify_every,
            adaptive: test.schedule == Schedule::Adaptive,
        }
    }

    /// The rows that are expected, one for every rate of links; or why there is none for a rate, or at all.
    fn spec(&self, choice: &SpecChoice) -> Result<Vec<Result<SpecRow, String>>, String> {
        if self.transport == TransportKind::Shm {
            return Err("expected rates are those of links; shared memory has none".to_string());
        }
        if self.transport == TransportKind::Peer && *choice == SpecChoice::Auto {
            return Err("which links peer memory uses is not known; name a row of the tables".to_string());
        }
        match choice {
            SpecChoice::Row(id) => by_id(self.specs, id).cloned().map(|row| vec![Ok(row)]),
            SpecChoice::Auto => match self.topology {
                Some(topology) if states_rates(topology) => self.rows_from(topology),
                // Schedulers' files know no rates; the links themselves may.
                _ => {
                    let speeds = self.link_speeds()?;
                    let is_one = speeds.len() == 1;
                    let rows = speeds.into_iter().map(|speed| {
                        let row = self.row_of(speed)?;
                        Ok(SpecRow {
                            line_mbit: (!is_one).then_some(speed),
                            ..row
                        })
                    });
                    Ok(rows.collect())
                }
            },
        }
    }

    /// The row of the tables for links of this speed.
    fn row_of(&self, speed: u64) -> Result<SpecRow, String> {
        let layer = self.link_layer();
        by_speed(self.specs, layer, speed).cloned().ok_or_else(|| {
            let name = match layer {
                LinkLayer::Infiniband => "InfiniBand",
                _ => "Ethernet",
            };
            format!("no row in suites/specs for {name} at {speed} Mbit/s")
        })
    }

    /// The rows that follow from the rates the topology file states for the rails.
    fn rows_from(&self, topology: &Topology) -> Result<Vec<Result<SpecRow, String>>, String> {
        let ends = topology
            .links
            .iter()
            .flat_map(|link| link.ends.iter().map(move |end| (end, link.rate)));
        let ports: HashMap<(&str, &str), Rate> = ends
            .filter(|(_, rate)| rate.0 > 0.0)
            .map(|(end, rate)| ((end.node.as_str(), end.interface.as_str()), rate))
            .collect();
        let rate_of = |host: &str, port: &str| ports.get(&(host, port)).copied();
        let mut rates: Vec<Rate> = Vec::new();
        for rail in self.rails {
            for (rank, end) in self.fabric.ends_of(rail) {
                let port = end.interface.as_deref().unwrap_or(rail);
                let rate = rate_of(&rank.host, port).or_else(|| rate_of(&rank.host, rail));
                let rate = rate.ok_or_else(|| {
                    format!(
                        "the topology file has no cable at {}/{port}, or not its rate",
                        rank.host
                    )
                })?;
                rates.push(rate);
            }
        }
        let row = |rate: Rate| {
            let judged = ((rate.0 * JUDGED_SECONDS) as u64).next_power_of_two();
            SpecRow {
                id: "topology".to_string(),
                title: format!("{rate}, as the topology file states"),
                rate: rate * ACCEPTED_SHARE,
                tolerance: ACCEPTED_BELOW,
                algorithm: None,
                from_size: Bytes(judged).min(JUDGED_SIZE),
                scale: "per cable".to_string(),
                source: format!(
                    "computed: {ACCEPTED_SHARE} x {rate}, the acceptance in common use; the rate is the topology file's"
                ),
                line_mbit: None,
            }
        };
        let of_lines = |mbit: &u64| SpecRow {
            id: format!("topology-{mbit}"),
            line_mbit: Some(*mbit),
            ..row(Rate(*mbit as f64 * 1e6 / 8.0))
        };
        match (rates.first(), self.lines.different()) {
            (None, _) => Err("there are no rails".to_string()),
            (Some(rate), []) => Ok(vec![Ok(row(*rate))]),
            (Some(_), several) => Ok(several.iter().map(|mbit| Ok(of_lines(mbit))).collect()),
        }
    }

    /// What the rails are made of. Bytes over TCP travel on InfiniBand, too, where there is nothing else.
    fn link_layer(&self) -> LinkLayer {
        let mut ends = self.rails.iter().flat_map(|rail| self.fabric.ends_of(rail));
        let is_infiniband = |end: &RailEnd| {
            let port = end.rdma.as_ref();
            port.is_some_and(|port| port.link_layer == "InfiniBand")
        };
        match ends.any(|(_, end)| is_infiniband(end)) {
            true => LinkLayer::Infiniband,
            false => LinkLayer::Ethernet,
        }
    }

    /// The different link speeds of all ends of all rails, ascending.
    fn link_speeds(&self) -> Result<Vec<u64>, String> {
        let mut speeds: BTreeSet<u64> = BTreeSet::new();
        for rail in self.rails {
            for (rank, end) in self.fabric.ends_of(rail) {
                speeds.insert(end.speed_mbit.ok_or_else(|| {
                    let rank = self.fabric.rank_name(rank.rank);
                    format!("rail {rail} of {rank} states no link speed; name a row, or judge by peers alone")
                })?);
            }
        }
        match speeds.is_empty() {
            true => Err("there are no rails".to_string()),
            false => Ok(speeds.into_iter().collect()),
        }
    }
}

/// Turns "compare with peers" into a missing reference for tests in which no cell has a peer.
pub(super) fn name_missing_peers(tests: &mut [TestRecord], cells: &[Cell]) {
    let mut alike: HashMap<_, Vec<&Cell>> = HashMap::new();
    for cell in cells {
        alike.entry(cell.peer_key()).or_default().push(cell);
    }
    let with_peers: HashSet<&str> = alike
        .values()
        .filter(|cells| cells.len() > 1)
        .map(|cells| cells[0].test.as_str())
        .collect();
    for test in tests
        .iter_mut()
        .filter(|test| !with_peers.contains(test.name.as_str()))
    {
        let asked = test.references.len();
        test.references
            .retain(|reference| !matches!(reference, Reference::Peers { .. }));
        if test.references.len() < asked {
            let why = "peers: no two cells of this test measure the same on other ranks or rails";
            test.missing_references.push(why.to_string());
        }
    }
}

fn states_rates(topology: &Topology) -> bool {
    topology.links.iter().any(|link| link.rate.0 > 0.0)
}

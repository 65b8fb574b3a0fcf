//! What each test is compared with, resolved so that a run can be judged without its suite.
//!
//! A reference that was asked for and is not to be had is written down with the reason: the verdict becomes inconclusive
//! later, and the report can say why.

use std::collections::{HashMap, HashSet};

use crate::fabric::Fabric;
use crate::record::{Cell, Reference, SpecRow, TestRecord, TransportKind};
use crate::suite::spec::{LinkLayer, SpecEntry, by_id, by_speed};
use crate::suite::{SpecChoice, TestCase};

/// Where one test's references come from.
pub(super) struct References<'a> {
    pub fabric: &'a Fabric,
    pub specs: &'a [SpecEntry],
    pub transport: TransportKind,
    pub rails: &'a [String],
}

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
                Ok(row) => references.push(Reference::Spec(row.clone())),
                Err(why) => missing.push(format!("spec: {why}")),
            }
        }
        if let Some(margin) = test.expect.peers {
            references.push(Reference::Peers { margin });
        }
        TestRecord {
            name: test.name.clone(),
            kind: test.kind.to_string(),
            references,
            missing_references: missing,
            warmup: test.warmup,
            min_iterations: test.min_iterations,
            max_iterations: test.max_iterations,
            tight: test.tight,
            budget: test.budget,
            verify_every: test.verify_every,
        }
    }

    fn spec(&self, choice: &SpecChoice) -> Result<&SpecRow, String> {
        if self.transport == TransportKind::Shm {
            return Err("expected rates are those of links; shared memory has none".to_string());
        }
        match choice {
            SpecChoice::Row(id) => by_id(self.specs, id),
            SpecChoice::Auto => {
                let speed = self.link_speed()?;
                by_speed(self.specs, LinkLayer::Ethernet, speed)
                    .ok_or_else(|| format!("no row in suites/specs for Ethernet at {speed} Mbit/s"))
            }
        }
    }

    /// The one link speed of all ends of all rails.
    fn link_speed(&self) -> Result<u64, String> {
        let mut speeds: Vec<(u64, &str)> = Vec::new();
        for rail in self.rails {
            for (rank, end) in self.fabric.ends_of(rail) {
                let speed = end.speed_mbit.ok_or_else(|| {
                    let rank = self.fabric.rank_name(rank.rank);
                    format!("rail {rail} of {rank} states no link speed; name a row, or judge by peers alone")
                })?;
                if speeds.iter().all(|(known, _)| *known != speed) {
                    speeds.push((speed, rail));
                }
            }
        }
        match speeds.as_slice() {
            [] => Err("there are no rails".to_string()),
            [(speed, _)] => Ok(*speed),
            several => {
                let said: Vec<String> = several
                    .iter()
                    .map(|(speed, rail)| format!("{speed} Mbit/s on {rail}"))
                    .collect();
                Err(format!("link speeds differ ({}); name a row", said.join(", ")))
            }
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

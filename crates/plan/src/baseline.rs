//! A recorded run as the reference: what the same cells on the same hosts reached then.

use std::collections::HashMap;

use record::units::Rate;
use record::{BaselineRate, Cell, Judgement, RankRecord, Reference, Run, TestRecord};
use topology::Fabric;

/// What every measured cell of a recorded run reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Baseline {
    rates: HashMap<String, Rate>,
}

impl Baseline {
    /// From a recorded run and its judgement.
    pub fn of(run: &Run, judgement: &Judgement) -> Baseline {
        let mut rates = HashMap::new();
        for verdict in &judgement.cells {
            if let (Some(key), Some(rate)) = (key(&verdict.cell, &run.ranks), verdict.wire_rate) {
                rates.insert(key, rate.median);
            }
        }
        Baseline { rates }
    }

    /// Gives the baseline reference of a test its figures: one for each of the test's cells that the recorded run has, too.
    /// Where it has none of them, the reference is missing.
    pub(super) fn resolve(&self, test: &mut TestRecord, cells: &[Cell], fabric: &Fabric) {
        let own: Vec<&Cell> = cells.iter().filter(|cell| cell.test == test.name).collect();
        let known: Vec<BaselineRate> = own
            .iter()
            .filter_map(|cell| {
                let rate = *self.rates.get(&key(cell, &fabric.ranks)?)?;
                Some(BaselineRate { cell: cell.id, rate })
            })
            .collect();
        let mut missing = None;
        test.references.retain_mut(|reference| match reference {
            Reference::Baseline { run, rates, .. } => {
                if known.is_empty() {
                    missing = Some(format!(
                        "baseline {run}: it has no cell with the same hosts, rail, size, flows and transport"
                    ));
                }
                *rates = known.clone();
                !known.is_empty()
            }
            _ => true,
        });
        test.missing_references.extend(missing);
    }
}

/// What makes two cells of two runs the same: what is done, by which hosts, over which rails, under which load. Ranks may be
/// numbered differently and tests have other names.
fn key(cell: &Cell, ranks: &[RankRecord]) -> Option<String> {
    let host = |rank: &u32| {
        let record = ranks.iter().find(|record| record.rank == *rank)?;
        // Ranks of one host are distinguished by their order there.
        let before = ranks
            .iter()
            .filter(|other| other.host == record.host && other.rank < record.rank);
        Some((record.host.as_str(), before.count()))
    };
    let hosts: Vec<(&str, usize)> = cell.ranks.iter().map(host).collect::<Option<_>>()?;
    let what = (cell.collective, cell.algorithm, cell.size, cell.dtype, cell.op);
    let how = (
        cell.transport,
        cell.device,
        cell.engine,
        cell.batch,
        cell.placement,
    );
    let place = (
        (&cell.rails, &cell.to_rail),
        cell.root,
        cell.flows,
        cell.load,
        cell.group,
    );
    Some(format!("{hosts:?} {what:?} {how:?} {place:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choices, Plan};
    use probe::rails;
    use record::{DeviceKind, Interval};
    use topology::suite::SuiteFile;

    fn fabric(hosts: &[&str]) -> Fabric {
        let mut fabric = Fabric::local(
            record::HostRecord::named("node"),
            hosts.len() as u32,
            DeviceKind::Host,
            rails::loopback().unwrap(),
        );
        for (record, host) in fabric.ranks.iter_mut().zip(hosts) {
            record.host = host.to_string();
        }
        fabric
    }

    fn planned(hosts: &[&str], sizes: &str, baselines: &[(&str, Baseline)]) -> Plan {
        let text = format!(
            "name = \"s\"\n[[test]]\nname = \"t\"\nkind = \"pairs\"\nsizes = {sizes}\ntransport = \"tcp\"\n\
             [test.expect]\nbaseline = \"runs/a\"\nmargin = \"8%\"\n"
        );
        let suite = SuiteFile::parse(&text, "x.toml").unwrap().check().unwrap();
        let choices = Choices {
            baselines: baselines
                .iter()
                .map(|(name, baseline)| (name.to_string(), baseline.clone()))
                .collect(),
            ..Choices::default()
        };
        Plan::new(&suite, &fabric(hosts), &choices).unwrap()
    }

    /// A baseline in which every cell of `plan` reached one gigabyte a second.
    fn recorded(plan: &Plan, hosts: &[&str]) -> Baseline {
        let mut baseline = Baseline::default();
        let rate = Interval {
            median: Rate(1e9),
            lower: Rate(0.9e9),
            upper: Rate(1.1e9),
        };
        for cell in &plan.cells {
            let key = key(cell, &fabric(hosts).ranks).unwrap();
            baseline.rates.insert(key, rate.median);
        }
        baseline
    }

    #[test]
    fn the_same_cell_is_found_by_its_hosts_whatever_their_ranks_are() {
        let before = recorded(&planned(&["a", "b", "c"], "[\"1M\"]", &[]), &["a", "b", "c"]);
        let plan = planned(&["c", "a", "b"], "[\"1M\"]", &[("runs/a", before)]);
        let [Reference::Baseline { margin, rates, .. }] = plan.tests[0].references.as_slice() else {
            panic!("{:?}", plan.tests[0]);
        };
        assert_eq!(*margin, 0.08);
        let one_way = |cell: &&Cell| cell.collective == record::Collective::PointToPoint;
        for cell in plan.cells.iter().filter(one_way) {
            assert!(
                rates.iter().any(|known| known.cell == cell.id),
                "{}",
                cell.describe()
            );
        }
    }

    #[test]
    fn what_the_recorded_run_does_not_have_is_a_missing_reference() {
        let before = recorded(&planned(&["a", "b"], "[\"1M\"]", &[]), &["a", "b"]);
        let plan = planned(&["x", "y"], "[\"1M\"]", &[("runs/a", before.clone())]);
        assert!(plan.tests[0].references.is_empty());
        assert!(plan.tests[0].missing_references[0].contains("runs/a"));
        let plan = planned(&["a", "b"], "[\"1M\", \"2M\"]", &[("runs/a", before)]);
        let [Reference::Baseline { rates, .. }] = plan.tests[0].references.as_slice() else {
            panic!("{:?}", plan.tests[0]);
        };
        assert!(rates.len() < plan.cells.len(), "other sizes have no reference");
        assert!(!rates.is_empty());
    }
}

//! Plans on small fabrics: what is measured is what was asked for, and what is not measured is said.

mod engines;
mod nightly;
mod only;
mod references;
mod refusals;
mod streams;
mod suites;
mod verbs;

use std::collections::HashSet;

use railgauge_plan::{Choices, Filter, Plan, PlanError};
use record::units::{Bytes, Nanos};
use record::{Collective, DeviceKind, GpuRecord, Load, RailEnd, Reference, TransportKind};
use topology::Fabric;
use topology::suite::{Suite, SuiteFile, TransportChoice};

fn fabric(ranks: u32, rails: usize, speed_mbit: Option<u64>) -> Fabric {
    let rails = (0..rails).map(|rail| RailEnd {
        rail: format!("rail{rail}"),
        address: format!("127.0.1.{}", rail + 1),
        interface: None,
        speed_mbit,
        rdma: None,
    });
    Fabric::local(
        record::HostRecord::named("node"),
        ranks,
        DeviceKind::Host,
        rails.collect(),
    )
}

fn cluster(hosts: u32, rails: usize) -> Fabric {
    let mut fabric = fabric(hosts, rails, Some(400_000));
    for record in &mut fabric.ranks {
        record.host = format!("node{:02}", record.rank);
    }
    fabric
}

fn threads() -> Choices {
    Choices {
        same_process: true,
        ..Default::default()
    }
}

fn suite(test: &str) -> Suite {
    let text = format!("name = \"s\"\n[[test]]\nname = \"t\"\n{test}\n");
    SuiteFile::parse(&text, "x.toml").unwrap().check().unwrap()
}

fn untested(plan: &Plan) -> String {
    let lines: Vec<String> = plan
        .untested
        .iter()
        .map(|gap| format!("{}: {}", gap.what, gap.why))
        .collect();
    lines.join("\n")
}

/// What must hold for every plan, whatever the suite and the fabric.
fn assert_sound(plan: &Plan, fabric: &Fabric) {
    let mut ids = HashSet::new();
    for cell in &plan.cells {
        assert!(ids.insert(cell.id), "id {} twice", cell.id);
        assert_eq!(plan.cell(cell.id), Some(cell));
        assert!(
            cell.collective.algorithms().contains(&cell.algorithm),
            "{}",
            cell.describe()
        );
        let members: HashSet<u32> = cell.ranks.iter().copied().collect();
        assert_eq!(members.len(), cell.ranks.len(), "{}", cell.describe());
        assert!(
            members.iter().all(|rank| fabric.rank(*rank).is_some()),
            "{}",
            cell.describe()
        );
        assert!((cell.root as usize) < cell.ranks.len(), "{}", cell.describe());
        let blocks = if cell.collective.is_blocked() {
            cell.world()
        } else {
            1
        };
        assert_eq!(
            cell.size.as_usize() % (cell.dtype.size() * blocks),
            0,
            "{}",
            cell.describe()
        );
        assert_eq!(
            cell.rails.is_empty(),
            cell.transport == TransportKind::Shm,
            "{}",
            cell.describe()
        );
        assert!(plan.tests.iter().any(|test| test.name == cell.test));
    }
    assert!(plan.cells.is_sorted_by_key(|cell| (cell.slot, cell.id)));
    for slot in plan.slots() {
        let mut busy = HashSet::new();
        for cell in slot {
            assert_eq!(cell.load != Load::Alone, slot.len() > 1, "{}", cell.describe());
            for (position, rank) in cell.ranks.iter().enumerate() {
                // A rank may send streams and receive others: a cable has two directions.
                let part = cell.streams.as_ref().map(|_| position);
                assert!(
                    cell.rails
                        .iter()
                        .all(|rail| busy.insert((*rank, rail.clone(), part))),
                    "{}",
                    cell.describe()
                );
            }
        }
    }
}

#[test]
fn every_built_in_suite_can_be_planned_on_small_and_large_machines() {
    for name in Suite::built_in() {
        let suite = Suite::load(name).unwrap();
        for ranks in [1, 2, 4, 8] {
            for rails in [1, 2] {
                for same_process in [true, false] {
                    let fabric = fabric(ranks, rails, None);
                    let tcp = (!same_process).then_some(TransportChoice::Tcp);
                    let choices = Choices {
                        same_process,
                        transport: tcp,
                        ..Default::default()
                    };
                    let plan = Plan::new(&suite, &fabric, &choices).unwrap();
                    assert_sound(&plan, &fabric);
                    assert!(
                        !plan.cells.is_empty() || !plan.untested.is_empty(),
                        "{name}, {ranks} ranks"
                    );
                }
            }
        }
    }
}

#[test]
fn the_same_seed_repeats_the_order_and_another_changes_it() {
    let mut suite = Suite::load("smoke").unwrap();
    let fabric = fabric(4, 2, None);
    let first = Plan::new(&suite, &fabric, &threads()).unwrap();
    assert_eq!(first, Plan::new(&suite, &fabric, &threads()).unwrap());
    suite.run.seed = Some(2);
    let other = Plan::new(&suite, &fabric, &threads()).unwrap();
    assert_ne!(first.cells, other.cells);
    assert_eq!(first.cells.len(), other.cells.len());
}

#[test]
fn rails_run_alone_and_then_together_and_one_rail_cannot_be_together() {
    let suite = suite("kind = \"rails\"\nsizes = [\"1M\"]");
    let two = Plan::new(&suite, &fabric(4, 2, None), &threads()).unwrap();
    let loads = |load| two.cells.iter().filter(|cell| cell.load == load).count();
    assert_eq!((loads(Load::Alone), loads(Load::Together)), (2, 2));
    assert!(two.cells.iter().all(|cell| cell.transport == TransportKind::Tcp));
    let one = Plan::new(&suite, &fabric(4, 1, None), &threads()).unwrap();
    assert_eq!(one.cells.len(), 1);
    assert_eq!(
        untested(&one),
        "test `t`: rails at the same time: there is one rail only"
    );
}

#[test]
fn every_pair_is_measured_in_both_directions_and_one_after_another_on_one_host() {
    let suite = suite("kind = \"pairs\"\nsizes = [\"1M\"]");
    let plan = Plan::new(&suite, &fabric(4, 2, None), &threads()).unwrap();
    let of = |collective| {
        plan.cells
            .iter()
            .filter(move |cell| cell.collective == collective)
    };
    let one_way: HashSet<_> = of(Collective::PointToPoint)
        .map(|cell| cell.ranks.clone())
        .collect();
    assert_eq!(one_way.len(), 12);
    assert_eq!(of(Collective::Bidirectional).count(), 6);
    assert!(plan.slots().all(|slot| slot.len() == 1));
    let choices = Choices {
        transport: Some(TransportChoice::Tcp),
        ..threads()
    };
    assert_eq!(
        Plan::new(&suite, &fabric(4, 2, None), &choices)
            .unwrap()
            .cells
            .len(),
        2 * plan.cells.len()
    );
}

#[test]
fn pairs_of_separate_hosts_run_in_rounds() {
    let suite = suite("kind = \"pairs\"\nsizes = [\"1M\"]\ndirections = \"bidirectional\"");
    let fabric = cluster(8, 1);
    let plan = Plan::new(&suite, &fabric, &Choices::default()).unwrap();
    assert_sound(&plan, &fabric);
    assert_eq!((plan.slots().count(), plan.cells.len()), (7, 28));
}

#[test]
fn sizes_become_whole_elements_once_each_and_what_is_too_small_is_said() {
    let suite =
        suite("collective = \"all-gather\"\ntype = \"f64\"\nsizes = [\"8\", \"70\", \"64\", \"1000\"]");
    let plan = Plan::new(&suite, &fabric(4, 2, None), &threads()).unwrap();
    let mut sizes: Vec<Bytes> = plan.cells.iter().map(|cell| cell.size).collect();
    sizes.sort();
    assert_eq!(sizes, [Bytes(64), Bytes(992)]);
    assert!(untested(&plan).contains("8 B all-gather of f64 over 4 ranks: less than the 32 B"));
}

#[test]
fn over_tcp_each_rail_is_measured_by_itself_and_striped_when_asked() {
    let suite = suite("sizes = [\"1M\"]\ntransport = \"tcp\"\nstripe = true");
    let plan = Plan::new(&suite, &fabric(2, 2, None), &threads()).unwrap();
    let mut rails: Vec<String> = plan.cells.iter().map(|cell| cell.rails.join("+")).collect();
    rails.sort();
    assert_eq!(rails, ["rail0", "rail0+rail1", "rail1"]);
}

#[test]
fn a_plan_too_long_for_its_budget_says_so_before_it_is_run() {
    let mut suite = Suite::load("rails").unwrap();
    suite.run.budget = Some(Nanos::from_secs(1));
    let plan = Plan::new(&suite, &fabric(4, 2, None), &threads()).unwrap();
    let outline = plan.describe();
    assert!(outline.warning.unwrap().contains("may take 1.00 s"));
    assert!(outline.assumptions.contains("1.00 GB/s"));
    assert_eq!(outline.tests[0].row()[3], "4 from 64 KiB to 256 MiB");
    assert_eq!(outline.tests[0].row()[5], "peers -10%");
}

#[test]
fn an_outline_can_be_read_by_a_script() {
    let suite = Suite::load("smoke").unwrap();
    let plan = Plan::new(&suite, &fabric(4, 2, None), &threads()).unwrap();
    let json = serde_json::to_value(plan.describe()).unwrap();
    assert_eq!(json["tests"][0]["name"], "all-reduce");
    assert!(json["time"]["expected"].as_u64().unwrap() > 0);
    assert!("size=1M".parse::<Filter>().is_ok());
}

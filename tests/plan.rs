//! Plans on small fabrics: what is measured is what was asked for, and what is not measured is said.

use std::collections::HashSet;

use railgauge::fabric::Fabric;
use railgauge::plan::{Choices, Filter, Plan, PlanError};
use railgauge::record::{Collective, DeviceKind, Load, RailEnd, Reference, TransportKind};
use railgauge::suite::{Suite, SuiteFile, TransportChoice};
use railgauge::units::{Bytes, Nanos};

fn fabric(ranks: u32, rails: usize, speed_mbit: Option<u64>) -> Fabric {
    let rails = (0..rails).map(|rail| RailEnd {
        rail: format!("rail{rail}"),
        address: format!("127.0.1.{}", rail + 1),
        interface: None,
        speed_mbit,
    });
    Fabric::local(ranks, DeviceKind::Host, rails.collect())
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

fn only(text: &str) -> Choices {
    Choices {
        only: Some(text.parse().unwrap()),
        ..threads()
    }
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
            assert_eq!(cell.load == Load::Together, slot.len() > 1, "{}", cell.describe());
            for rank in &cell.ranks {
                assert!(
                    cell.rails.iter().all(|rail| busy.insert((*rank, rail.clone()))),
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
fn smoke_compares_every_cell_with_a_peer_and_fits_a_minute() {
    let suite = Suite::load("smoke").unwrap();
    let fabric = fabric(suite.run.ranks(), 2, None);
    let plan = Plan::new(&suite, &fabric, &threads()).unwrap();
    assert_eq!(untested(&plan), "");
    for cell in &plan.cells {
        assert!(
            plan.cells.iter().any(|other| cell.is_peer_of(other)),
            "{}",
            cell.describe()
        );
    }
    for test in &plan.tests {
        assert_eq!(test.missing_references, Vec::<String>::new(), "{}", test.name);
        assert!(
            matches!(test.references[..], [Reference::Peers { .. }]),
            "{}",
            test.name
        );
    }
    assert!(plan.describe().warning.is_none());
    assert!(
        plan.estimate().expected < Nanos::from_secs(20),
        "{}",
        plan.estimate().expected
    );
    assert!(
        plan.estimate().at_most < Nanos::from_secs(50),
        "{}",
        plan.estimate().at_most
    );
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
fn a_rank_left_over_by_groups_is_said_and_an_unknown_one_is_an_error() {
    let plan = Plan::new(
        &suite("sizes = [\"8\"]\ngroups = \"halves\""),
        &fabric(5, 1, None),
        &threads(),
    )
    .unwrap();
    assert_eq!(plan.cells.len(), 2);
    assert!(untested(&plan).contains("rank 4"), "{}", untested(&plan));
    let error = Plan::new(
        &suite("sizes = [\"8\"]\ngroups = [[0, 9]]"),
        &fabric(4, 1, None),
        &threads(),
    );
    let error = error.unwrap_err();
    assert_eq!(
        error.to_string(),
        "test `t`: a group names rank 9, but the ranks are 0 to 3"
    );
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn a_transport_that_is_not_to_be_had_is_an_error_and_never_another_transport() {
    let shm = suite("sizes = [\"8\"]\ntransport = \"shm\"");
    let error = Plan::new(&shm, &fabric(2, 1, None), &Choices::default()).unwrap_err();
    assert!(error.to_string().contains("different processes"), "{error}");
    assert_eq!(error.exit_code(), 3);
    for transport in ["verbs", "peer"] {
        let suite = suite(&format!("sizes = [\"8\"]\ntransport = \"{transport}\""));
        let error = Plan::new(&suite, &fabric(2, 1, None), &threads()).unwrap_err();
        assert!(error.to_string().contains("this build does not have"), "{error}");
        assert_eq!(error.exit_code(), 3);
    }
    let auto = suite("sizes = [\"8\"]");
    let plan = Plan::new(&auto, &fabric(2, 1, None), &Choices::default()).unwrap();
    assert_eq!(plan.cells[0].transport, TransportKind::Tcp);
}

#[test]
fn a_rail_that_some_rank_lacks_is_untested_and_no_common_rail_is_an_error() {
    let tcp = suite("sizes = [\"8\"]\ntransport = \"tcp\"");
    let mut fabric = cluster(2, 2);
    fabric.ranks[1].rails.remove(1);
    let plan = Plan::new(&tcp, &fabric, &Choices::default()).unwrap();
    assert_eq!(untested(&plan), "rail rail1: missing on rank 1 (node01)");
    fabric.ranks[1].rails.clear();
    let error = Plan::new(&tcp, &fabric, &Choices::default()).unwrap_err();
    assert!(matches!(error, PlanError::NoRail { .. }), "{error}");
    assert!(error.to_string().contains("rank 1 (node01)"), "{error}");
}

#[test]
fn rails_chosen_on_the_command_line_are_used_and_the_others_reported() {
    let tcp = suite("sizes = [\"8\"]\ntransport = \"tcp\"");
    let choose = |rail: &str| Choices {
        rails: Some(vec![rail.to_string()]),
        ..threads()
    };
    let plan = Plan::new(&tcp, &fabric(2, 2, None), &choose("rail1")).unwrap();
    assert_eq!(plan.cells[0].rails, ["rail1"]);
    assert_eq!(untested(&plan), "rail rail0: left out by --rails");
    let error = Plan::new(&tcp, &fabric(2, 2, None), &choose("rail7")).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("there are rail0, rail1"), "{error}");
}

#[test]
fn the_expected_rate_follows_the_link_speed_or_is_said_to_be_missing() {
    let text = "sizes = [\"16M\"]\ntransport = \"tcp\"\n[test.expect]\nspec = \"auto\"";
    let references = |fabric: &Fabric, choices: &Choices| {
        let plan = Plan::new(&suite(text), fabric, choices).unwrap();
        (
            plan.tests[0].references.clone(),
            plan.tests[0].missing_references.join("; "),
        )
    };
    let (found, missing) = references(&fabric(2, 2, Some(400_000)), &threads());
    assert!(matches!(&found[..], [Reference::Spec(row)] if row.id == "ethernet400"));
    assert_eq!(missing, "");
    let (found, missing) = references(&fabric(2, 2, None), &threads());
    assert_eq!(found, []);
    assert!(
        missing.contains("rail0 of rank 0") && missing.contains("states no link speed"),
        "{missing}"
    );
    let (_, missing) = references(&fabric(2, 2, Some(10_000)), &threads());
    assert!(
        missing.contains("no row in suites/specs for Ethernet at 10000 Mbit/s"),
        "{missing}"
    );
    let mut uneven = fabric(2, 2, Some(400_000));
    uneven.ranks[1].rails[1].speed_mbit = Some(200_000);
    let (_, missing) = references(&uneven, &threads());
    assert!(missing.contains("link speeds differ"), "{missing}");
    let typed = Choices {
        spec: Some("ndr400".to_string()),
        ..threads()
    };
    let (found, _) = references(&fabric(2, 2, None), &typed);
    assert!(matches!(&found[..], [Reference::Spec(row)] if row.id == "ndr400"));
    let typed = Choices {
        spec: Some("ndr40".to_string()),
        ..threads()
    };
    let (_, missing) = references(&fabric(2, 2, None), &typed);
    assert!(missing.contains("did you mean `ndr400`?"), "{missing}");
    let over_shm = Choices {
        transport: Some(TransportChoice::Shm),
        ..threads()
    };
    let (_, missing) = references(&fabric(2, 2, Some(400_000)), &over_shm);
    assert!(missing.contains("shared memory has none"), "{missing}");
}

#[test]
fn a_test_without_peers_does_not_pretend_to_be_compared_with_them() {
    let world = suite("sizes = [\"8\"]\ntransport = \"shm\"\n[test.expect]\npeers = \"10%\"");
    let plan = Plan::new(&world, &fabric(4, 1, None), &threads()).unwrap();
    assert_eq!(plan.tests[0].references, []);
    assert!(plan.tests[0].missing_references[0].starts_with("peers: no two cells"));
}

#[test]
fn only_keeps_what_it_names_with_ids_unchanged_and_says_what_it_left_out() {
    let suite = Suite::load("smoke").unwrap();
    let fabric = fabric(4, 2, None);
    let whole = Plan::new(&suite, &fabric, &threads()).unwrap();
    let part = Plan::new(&suite, &fabric, &only("test=pairs-shm,pair=1:0")).unwrap();
    assert_sound(&part, &fabric);
    assert_eq!(part.cells.len(), 3);
    assert!(part.cells.iter().all(|cell| whole.cell(cell.id) == Some(cell)));
    assert_eq!(part.tests.len(), 1);
    assert!(
        untested(&part).contains("cells of test `rails-tcp`: left out by --only"),
        "{}",
        untested(&part)
    );
    let one = Plan::new(&suite, &fabric, &only(&format!("cell={}", part.cells[1].id))).unwrap();
    assert_eq!(one.cells, [part.cells[1].clone()]);
}

#[test]
fn only_one_rail_of_a_measurement_together_keeps_the_company_that_makes_it_one() {
    let suite = suite("kind = \"rails\"\nsizes = [\"1M\"]");
    let plan = Plan::new(&suite, &fabric(2, 2, None), &only("rail=rail1")).unwrap();
    let together: Vec<_> = plan
        .cells
        .iter()
        .filter(|cell| cell.load == Load::Together)
        .collect();
    assert_eq!((plan.cells.len(), together.len()), (3, 2));
}

#[test]
fn hosts_can_be_named_in_a_filter() {
    let suite = suite("kind = \"pairs\"\nsizes = [\"1M\"]\ndirections = \"one-way\"");
    let choices = Choices {
        only: "pair=node02:node01".parse().ok(),
        ..Default::default()
    };
    let plan = Plan::new(&suite, &cluster(3, 1), &choices).unwrap();
    assert_eq!(plan.cells.len(), 2);
    assert!(
        plan.cells
            .iter()
            .all(|cell| cell.ranks.contains(&1) && cell.ranks.contains(&2))
    );
}

#[test]
fn a_filter_that_matches_nothing_says_what_there_is() {
    let suite = Suite::load("smoke").unwrap();
    let cases = [
        ("rail=rail9", "rail=rail9: there is rail0, rail1"),
        ("size=3M", "size=3M: there is 1 KiB, "),
        ("cell=99999", "cell=99999: there is cell 0 to "),
        ("pair=0:9", "pair=0:9: there is 0:1, 0:2"),
        (
            "test=rails-tcp,transport=shm",
            "each of its parts matches some cell, but no cell matches all",
        ),
    ];
    for (text, wanted) in cases {
        let error = Plan::new(&suite, &fabric(4, 2, None), &only(text)).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_plan_too_long_for_its_budget_says_so_before_it_is_run() {
    let mut suite = Suite::load("rails").unwrap();
    suite.run.budget = Some(Nanos::from_secs(1));
    let outline = Plan::new(&suite, &fabric(4, 2, None), &threads())
        .unwrap()
        .describe();
    assert!(outline.warning.unwrap().contains("may take 1.00 s"));
    assert!(outline.assumptions.contains("1.00 GB/s"));
    assert_eq!(outline.tests[0].row()[3], "4 from 64 KiB to 256 MiB");
    assert_eq!(outline.tests[0].row()[5], "peers -10%");
}

#[test]
fn a_plan_that_would_never_end_is_refused_before_memory_runs_out() {
    let suite = suite("kind = \"pairs\"\nsizes = { from = 8, to = \"64K\", step = 16 }");
    let error = Plan::new(&suite, &fabric(1000, 1, None), &threads()).unwrap_err();
    assert!(matches!(error, PlanError::TooManyCells { .. }), "{error}");
}

#[test]
fn pinned_ports_and_roots_outside_their_range_are_refused() {
    let ports = suite("sizes = [\"8\"]\nsource_port = 65500\nflows = 16");
    assert!(matches!(
        Plan::new(&ports, &fabric(4, 1, None), &threads()),
        Err(PlanError::TooManyPorts { .. })
    ));
    let root = suite("sizes = [\"8\"]\ncollective = \"broadcast\"\nroot = 4");
    assert!(matches!(
        Plan::new(&root, &fabric(4, 1, None), &threads()),
        Err(PlanError::RootOutside { .. })
    ));
}

#[test]
fn an_outline_can_be_read_by_a_script() {
    let suite = Suite::load("smoke").unwrap();
    let plan = Plan::new(&suite, &fabric(4, 2, None), &threads()).unwrap();
    let json = serde_json::to_value(plan.describe()).unwrap();
    assert_eq!(json["tests"][0]["name"], "all-reduce-shm");
    assert!(json["time"]["expected"].as_u64().unwrap() > 0);
    assert!("size=1M".parse::<Filter>().is_ok());
}

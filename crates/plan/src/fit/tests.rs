use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;
use crate::Choices;
use record::{DeviceKind, RailEnd};
use topology::suite::{Suite, SuiteFile};

/// `hosts` machines with one rank each and so many rails of 400 Gbit/s.
fn cluster(hosts: u32, rails: u32) -> Fabric {
    let end = |rail| RailEnd {
        rail: format!("rail{rail}"),
        address: format!("127.0.1.{}", rail + 1),
        interface: None,
        speed_mbit: Some(400_000),
        rdma: None,
    };
    let mut fabric = Fabric::local(
        record::HostRecord::named("node"),
        hosts,
        DeviceKind::Host,
        (0..rails).map(end).collect(),
    );
    for record in &mut fabric.ranks {
        record.host = format!("node{:03}", record.rank);
    }
    fabric
}

fn suite(tests: &[String]) -> Suite {
    let tests: String = tests
        .iter()
        .enumerate()
        .map(|(n, test)| format!("[[test]]\nname = \"t{n}\"\ntransport = \"tcp\"\n{test}\n"))
        .collect();
    SuiteFile::parse(&format!("name = \"s\"\n{tests}"), "x.toml")
        .unwrap()
        .check()
        .unwrap()
}

fn sweep(sizes: u32) -> String {
    format!(
        "collective = \"all-reduce\"\nalgorithm = \"ring\"\nwarmup = 0\niterations = 10\nbudget = \"10s\"\n\
         sizes = {{ from = \"1K\", to = \"{}\", factor = 4 }}",
        1024 * 4_u64.pow(sizes - 1)
    )
}

fn pairs(peers: bool) -> String {
    let expect = if peers {
        "[test.expect]\npeers = \"10%\""
    } else {
        ""
    };
    format!(
        "kind = \"pairs\"\ndirections = \"one-way\"\nsizes = [\"16M\"]\nwarmup = 0\niterations = 10\nbudget = \"10s\"\n{expect}"
    )
}

fn planned(suite: &Suite, fabric: &Fabric, budget: Option<Nanos>) -> Plan {
    let mut suite = suite.clone();
    suite.run.budget = budget;
    let mut plan = Plan::new(&suite, fabric, &Choices::default()).unwrap();
    plan.fit(fabric, Nanos(0));
    plan
}

fn share(time: Nanos, share: f64) -> Nanos {
    Nanos((time.0 as f64 * share) as u64)
}

fn ends(plan: &Plan) -> BTreeSet<(String, u32, String, usize)> {
    let of_cell = |cell: &record::Cell| {
        let (test, rail) = (cell.test.clone(), cell.rails[0].clone());
        let ends = cell.ranks.iter().enumerate();
        let ends = ends.map(|(side, rank)| (test.clone(), *rank, rail.clone(), side));
        ends.collect::<Vec<_>>()
    };
    plan.cells.iter().flat_map(of_cell).collect()
}

fn said(plan: &Plan) -> String {
    let lines = plan
        .untested
        .iter()
        .map(|gap| format!("{}: {}\n", gap.what, gap.why));
    lines.collect()
}

#[test]
fn a_plan_that_fits_is_left_alone() {
    let fabric = cluster(8, 2);
    let suite = suite(&[sweep(6), pairs(true)]);
    let whole = planned(&suite, &fabric, None);
    let roomy = share(whole.estimate().expected, 1.01 / (1.0 - RESERVE));
    let fitted = planned(&suite, &fabric, Some(roomy));
    assert_eq!(fitted.cells, whole.cells);
    assert_eq!(said(&fitted), "");
}

#[test]
fn sizes_in_the_middle_go_first_and_the_ends_of_the_sweep_stay() {
    let fabric = cluster(8, 2);
    let suite = suite(&[pairs(true), sweep(7)]);
    let whole = planned(&suite, &fabric, None);
    let sizes = |plan: &Plan| -> BTreeSet<Bytes> {
        let of_sweep = plan.cells.iter().filter(|cell| cell.test == "t1");
        of_sweep.map(|cell| cell.size).collect()
    };
    let budget = share(whole.estimate().expected, 0.995 / (1.0 - RESERVE));
    let fitted = planned(&suite, &fabric, Some(budget));
    let left = sizes(&fitted);
    assert!(left.len() < sizes(&whole).len());
    assert_eq!(left.first(), sizes(&whole).first());
    assert_eq!(left.last(), sizes(&whole).last());
    assert_eq!(
        ends(&fitted),
        ends(&whole),
        "every end is still measured by every test"
    );
    let said = said(&fitted);
    assert!(said.contains("cells of test `t1`, of "), "{said}");
    assert!(said.contains("does not fit into the budget of"), "{said}");
    assert!(!said.contains("t0"), "pairs are not needed for it: {said}");
}

#[test]
fn pairs_of_a_tournament_go_before_any_end_is_given_up() {
    let fabric = cluster(16, 2);
    let suite = suite(&[pairs(true)]);
    let whole = planned(&suite, &fabric, None);
    let fitted = planned(&suite, &fabric, Some(share(whole.estimate().expected, 0.3)));
    assert!(fitted.cells.len() < whole.cells.len() / 3);
    assert_eq!(ends(&fitted), ends(&whole));
    assert_eq!(fitted.untested.len(), 1, "{}", said(&fitted));
    assert!(said(&fitted).contains("other cells of this test cross the same links"));
}

#[test]
fn whole_tests_go_from_the_last_on_and_stay_in_the_list() {
    let fabric = cluster(4, 2);
    let suite = suite(&[sweep(1), sweep(2), sweep(2)]);
    let whole = planned(&suite, &fabric, None);
    let first = of_slot(&whole.cells[..1], &whole.tests, whole.wire).expected;
    let budget = share(first, 5.0 / (1.0 - RESERVE));
    let fitted = planned(&suite, &fabric, Some(budget));
    let names: BTreeSet<&str> = fitted.cells.iter().map(|cell| cell.test.as_str()).collect();
    assert!(
        names.contains("t0") && !names.contains("t2"),
        "{names:?} {}",
        said(&fitted)
    );
    assert_eq!(fitted.tests.len(), 3, "they were asked for");
    assert!(
        said(&fitted).contains("test `t2`: does not fit"),
        "{}",
        said(&fitted)
    );
}

#[test]
fn a_test_that_alone_reaches_something_outlives_those_before_it() {
    let fabric = cluster(4, 2);
    let one_pair = "collective = \"all-reduce\"\nalgorithm = \"ring\"\nsizes = [\"1K\"]\nwarmup = 0\niterations = 10\ngroups = [[0, 1]]";
    let others = "collective = \"all-reduce\"\nalgorithm = \"ring\"\nsizes = [\"1K\"]\nwarmup = 0\niterations = 10\ngroups = [[0, 1], [2, 3]]";
    let suite = suite(&[one_pair.to_string(), others.to_string()]);
    let whole = planned(&suite, &fabric, None);
    let slots = whole.slots().count();
    let of_others = whole.slots().filter(|slot| slot[0].test == "t1").count();
    let budget = share(
        whole.estimate().expected,
        (of_others as f64 + 0.1) / slots as f64 / (1.0 - RESERVE),
    );
    let fitted = planned(&suite, &fabric, Some(budget));
    let names: BTreeSet<&str> = fitted.cells.iter().map(|cell| cell.test.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["t1"]), "{}", said(&fitted));
}

#[test]
fn the_only_slot_is_cut_short_and_not_left_out() {
    let fabric = cluster(2, 1);
    let fitted = planned(&suite(&[sweep(1)]), &fabric, Some(Nanos(1)));
    assert_eq!(fitted.cells.len(), 1);
    assert_eq!(said(&fitted), "");
}

#[test]
fn time_that_is_gone_is_not_planned() {
    let (budget, spent) = (Nanos::from_secs(10), Nanos::from_secs(8));
    assert_eq!(available(budget, Nanos(0)), Nanos::from_secs(7));
    assert_eq!(available(budget, Nanos::from_secs(2)), Nanos::from_secs(7));
    assert_eq!(available(budget, spent), Nanos::from_secs(2));
    assert_eq!(available(budget, Nanos::from_secs(11)), Nanos(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_budget_the_rules_hold(
        hosts in 2_u32..9,
        rails in 1_u32..4,
        kinds in prop::collection::vec(0_u32..4, 1..4),
        permille in 1_u64..1500,
    ) {
        let fabric = cluster(hosts, rails);
        let tests: Vec<String> = kinds
            .iter()
            .map(|kind| match kind {
                0 => pairs(true),
                1 => pairs(false),
                more => sweep(more + 1),
            })
            .collect();
        let suite = suite(&tests);
        let whole = planned(&suite, &fabric, None);
        let budget = Nanos(whole.estimate().expected.0 * permille / 1000);
        let fitted = planned(&suite, &fabric, Some(budget));
        prop_assert_eq!(&fitted, &planned(&suite, &fabric, Some(budget)), "twice the same");

        let time = fitted.estimate().expected;
        prop_assert!(
            time <= available(budget, Nanos(0)) || fitted.slots().count() == 1,
            "{time} of {budget}"
        );
        let mut rest = whole.slots();
        for slot in fitted.slots() {
            prop_assert!(rest.any(|other| other == slot), "slots stay whole and in order");
        }
        let is_less = fitted.cells.len() < whole.cells.len();
        prop_assert_eq!(is_less, !fitted.untested.is_empty(), "{}", said(&fitted));
        prop_assert!(fitted.untested.len() <= 3 * tests.len() + 1, "{}", said(&fitted));

        let mut peers: HashMap<_, (u32, u32)> = HashMap::new();
        for cell in &whole.cells {
            peers.entry(cell.peer_key()).or_default().0 += 1;
        }
        for cell in &fitted.cells {
            peers.entry(cell.peer_key()).or_default().1 += 1;
        }
        let by_peers = |name: &str| whole.tests.iter().any(|test| test.name == name && is_judged_by_peers(test));
        if fitted.slots().count() > 1 {
            for cell in fitted.cells.iter().filter(|cell| by_peers(&cell.test)) {
                let (had, has) = peers[&cell.peer_key()];
                prop_assert!(has >= had.min(1 + FEWEST_PEERS), "{has} of {had} peers left");
            }
        }
        // What a test that is measured at all reached before, it reaches still, unless it is the only one left.
        let of_tests = |plan: &Plan| plan.cells.iter().map(|cell| cell.test.clone()).collect::<BTreeSet<_>>();
        if of_tests(&fitted).len() > 1 {
            let kept = of_tests(&fitted);
            let had = ends(&whole).into_iter().filter(|(test, ..)| kept.contains(test));
            prop_assert_eq!(ends(&fitted), had.collect::<BTreeSet<_>>());
        }
    }
}

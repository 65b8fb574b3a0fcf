//! The references of tests, and what is said when one is not available.

use super::*;
use record::units::Rate;
use topology::Topology;

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
    let (found, missing) = references(&uneven, &threads());
    let rows = |found: &[Reference]| -> Vec<(String, Option<u64>)> {
        let row = |reference: &Reference| match reference {
            Reference::Spec(row) => (row.id.clone(), row.line_mbit),
            other => panic!("{other:?}"),
        };
        found.iter().map(row).collect()
    };
    assert_eq!(
        rows(&found),
        [
            ("ethernet200".to_string(), Some(200_000)),
            ("ethernet400".to_string(), Some(400_000))
        ],
        "{missing}"
    );
    let mut told = fabric(2, 2, Some(10_000));
    told.ranks
        .iter_mut()
        .for_each(|record| record.host = format!("h{}", record.rank));
    let cable = |host: u32, rail: u32, rate: &str| {
        format!(
            "[[link]]\nname = \"c{host}{rail}\"\nends = [\"h{host}/rail{rail}\", \"leaf/p{host}{rail}\"]\nrate = \"{rate}\"\n"
        )
    };
    let topology = |last: &str| {
        let nodes = "[[host]]\nname = \"h0\"\n[[host]]\nname = \"h1\"\n[[switch]]\nname = \"leaf\"\ntier = \"leaf\"\n";
        let cables = cable(0, 0, "200 Mb/s") + &cable(0, 1, "200 Mb/s") + &cable(1, 0, "200 Mb/s") + last;
        let topology = Topology::parse("told", &(nodes.to_string() + &cables)).unwrap();
        Choices {
            topology: Some(topology),
            ..threads()
        }
    };
    let (found, missing) = references(&told, &topology(&cable(1, 1, "200 Mb/s")));
    let [Reference::Spec(row)] = &found[..] else {
        panic!("{missing}")
    };
    assert_eq!((row.rate, row.from_size), (Rate(23e6), Bytes(512 << 10)));
    assert!(row.source.contains("topology file"), "{}", row.source);
    let (found, missing) = references(&told, &topology(&cable(1, 1, "100 Mb/s")));
    assert_eq!(
        rows(&found),
        [
            ("topology-100".to_string(), Some(100)),
            ("topology-200".to_string(), Some(200))
        ],
        "{missing}"
    );
    let (_, missing) = references(&told, &topology(""));
    assert!(missing.contains("no cable at h1/rail1"), "{missing}");
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

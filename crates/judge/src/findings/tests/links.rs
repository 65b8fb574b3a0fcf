//! Which part it is: cables in one direction, hosts, and who must not be blamed.

use crate::findings::fixture::{Fixture, HEALTHY, spec};
use crate::findings::{judge, localise};
use record::{
    Algorithm, Cell, Collective, CounterDelta, Event, Finding, FindingKind, RailEnd, Recorded, SuspectKind,
    TestRecord, Verdict,
};

/// Every directed pair of eight hosts on each of two rails, one after another, on hosts that have cables.
pub(in crate::findings) fn flows(speed: impl Fn(&Cell, u16) -> f64 + 'static) -> Fixture {
    let mut fixture = Fixture::pairs(8).speed(speed);
    let of_rail0 = fixture.run.cells.clone();
    let of_rail1 = of_rail0.iter().map(|cell| Cell {
        rails: vec!["rail1".to_string()],
        ..cell.clone()
    });
    fixture.run.cells = of_rail0.iter().cloned().chain(of_rail1).collect();
    for (id, cell) in (0..).zip(&mut fixture.run.cells) {
        (cell.id, cell.slot) = (id, id);
    }
    for rank in &mut fixture.run.ranks {
        let end = |rail: u8| RailEnd {
            rail: format!("rail{rail}"),
            address: format!("10.{rail}.0.{}", rank.rank + 1),
            interface: Some(format!("eth{rail}")),
            speed_mbit: None,
            rdma: None,
        };
        rank.rails = vec![end(0), end(1)];
    }
    fixture
}

fn slow_links(recorded: &Recorded) -> Vec<Finding> {
    let judgement = judge(recorded);
    let others: Vec<&Finding> = judgement
        .findings
        .iter()
        .filter(|finding| finding.kind != FindingKind::SlowLink)
        .collect();
    assert!(others.is_empty(), "{others:?}");
    judgement.findings
}

pub(super) fn sends(cell: &Cell, rank: u32, rail: &str) -> bool {
    cell.ranks[0] == rank && cell.rails == [rail]
}

fn receives(cell: &Cell, rank: u32, rail: &str) -> bool {
    cell.ranks[1] == rank && cell.rails == [rail]
}

#[test]
fn a_cable_that_is_slow_in_one_direction_is_named_with_it() {
    for share in [0.7, 0.5, 0.2] {
        let away = flows(move |cell, _| {
            if sends(cell, 2, "rail1") {
                share * HEALTHY
            } else {
                HEALTHY
            }
        });
        let findings = slow_links(&away.recorded());
        let [finding] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        let first = &finding.suspects[0];
        assert_eq!(
            (first.kind, first.direction.as_deref()),
            (SuspectKind::HostCable, Some("away from the host"))
        );
        assert_eq!(
            (finding.place.hosts.as_slice(), finding.place.rail.as_deref()),
            (&["node02".to_string()][..], Some("rail1"))
        );
        assert!(first.confidence > 0.9, "{first:?}");

        let towards = flows(move |cell, _| {
            if receives(cell, 5, "rail0") {
                share * HEALTHY
            } else {
                HEALTHY
            }
        });
        let findings = slow_links(&towards.recorded());
        let [finding] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        assert_eq!(finding.suspects[0].direction.as_deref(), Some("towards the host"));
        assert_eq!(finding.place.hosts, ["node05"]);
    }
}

#[test]
fn two_faults_on_one_rail_are_two_findings_even_where_a_flow_crosses_both() {
    let both = flows(
        |cell, _| match (sends(cell, 1, "rail0"), receives(cell, 6, "rail0")) {
            (_, true) => 0.3 * HEALTHY,
            (true, false) => 0.6 * HEALTHY,
            _ => HEALTHY,
        },
    );
    let findings = slow_links(&both.recorded());
    let hosts: Vec<&str> = findings
        .iter()
        .map(|finding| finding.place.hosts[0].as_str())
        .collect();
    assert_eq!(hosts.len(), 2, "{findings:?}");
    assert!(
        hosts.contains(&"node01") && hosts.contains(&"node06"),
        "{hosts:?}"
    );
}

#[test]
fn two_ranks_behind_one_nic_are_one_partner() {
    // Ranks 0 and 1 are on one host, 2 and 3 on another, and so on. The first host has flows to the second only.
    let mut fixture = flows(|cell, _| match cell.ranks[0] < 2 && cell.rails == ["rail0"] {
        true => 0.5 * HEALTHY,
        false => HEALTHY,
    });
    for rank in &mut fixture.run.ranks {
        let host = rank.rank / 2;
        rank.host = format!("node{host:02}");
        for (rail, end) in rank.rails.iter_mut().enumerate() {
            end.address = format!("10.{rail}.0.{}", host + 1);
        }
    }
    let host = |rank: u32| rank / 2;
    fixture.run.cells.retain(|cell| {
        let (from, to) = (host(cell.ranks[0]), host(cell.ranks[1]));
        from != to && (from != 0 || to == 1 || cell.rails != ["rail0"])
    });
    let seen = localise(&fixture.recorded()).unwrap();
    let [cause] = seen.causes.as_slice() else {
        panic!("{:?}", seen.causes);
    };
    assert_eq!(cause.partners, 1);
    assert_eq!(cause.why_not.as_deref(), Some("seen with one partner only"));
}

#[test]
fn both_directions_of_a_cable_are_one_finding() {
    let both = flows(
        |cell, _| match sends(cell, 3, "rail0") || receives(cell, 3, "rail0") {
            true => 0.5 * HEALTHY,
            false => HEALTHY,
        },
    );
    let findings = slow_links(&both.recorded());
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert!(
        finding.sentence.contains("both directions"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_host_that_is_slow_on_every_rail_is_the_host() {
    let host = flows(|cell, _| {
        if cell.ranks[0] == 4 {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    });
    let findings = slow_links(&host.recorded());
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert_eq!(
        (finding.suspects[0].kind, finding.suspects[0].part.as_str()),
        (SuspectKind::Node, "node04")
    );
}

#[test]
fn healthy_flows_accuse_nobody_and_one_slow_pair_is_no_cable() {
    for seed in 0..20 {
        let recorded = flows(|_, _| HEALTHY).noise(0.05, seed).recorded();
        assert!(slow_links(&recorded).is_empty());
    }
    let pair = flows(|cell, _| match cell.ranks == [1, 2] && cell.rails == ["rail0"] {
        true => 0.5 * HEALTHY,
        false => HEALTHY,
    });
    let judgement = judge(&pair.recorded());
    let kinds: Vec<FindingKind> = judgement.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(
        kinds,
        [FindingKind::SlowPair],
        "both ends are fast with everybody else"
    );
}

/// The same flows, and rings over all ranks, which show who keeps the others waiting.
pub(super) fn with_rings(speed: impl Fn(&Cell, u16) -> f64 + 'static) -> Fixture {
    let mut fixture = flows(speed);
    fixture.run.tests.push(TestRecord {
        name: "rings".into(),
        kind: record::TestKind::Rails,
        ..fixture.run.tests[0].clone()
    });
    for rail in ["rail0", "rail1"] {
        let id = fixture.run.cells.len() as u32;
        let ring = Cell {
            id,
            slot: id,
            test: "rings".into(),
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            ranks: (0..8).collect(),
            rails: vec![rail.to_string()],
            ..fixture.run.cells[0].clone()
        };
        fixture.run.cells.push(ring);
    }
    fixture
}

#[test]
fn a_straggling_rank_is_not_blamed_on_a_link() {
    // Rank 3 works as long as the data takes: everything it has a part in takes twice as long.
    let ideal = (1u64 << 20) as f64 * 1e9 / HEALTHY;
    let fixture =
        with_rings(|_, _| HEALTHY).extra_work(move |_, rank, _| if rank == 3 { ideal } else { 0.0 });
    let judgement = judge(&fixture.recorded());
    let kinds: Vec<FindingKind> = judgement.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::StragglerRank], "{:?}", judgement.findings);
    assert_eq!(judgement.findings[0].place.ranks, [3]);
}

#[test]
fn a_slow_link_is_not_blamed_on_a_rank_and_the_rings_over_it_are_its_own() {
    let fixture = with_rings(|cell, _| {
        let is_ring = cell.ranks.len() > 2 && cell.rails == ["rail1"];
        match is_ring || sends(cell, 2, "rail1") {
            true => 0.5 * HEALTHY,
            false => HEALTHY,
        }
    });
    let recorded = fixture.recorded();
    let findings = slow_links(&recorded);
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert_eq!(finding.place.hosts, ["node02"]);
    let ring = recorded
        .run
        .cells
        .iter()
        .find(|cell| cell.ranks.len() > 2 && cell.rails == ["rail1"])
        .unwrap();
    assert!(
        finding.cells.contains(&ring.id),
        "the ring is slow for the same reason"
    );
}

#[test]
fn a_run_with_missing_cells_is_localised_from_what_is_there() {
    let fixture = flows(|cell, _| {
        if sends(cell, 2, "rail1") {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    });
    let whole = fixture.recorded();
    let mut partial = whole.clone();
    let is_lost = |id: u32| id % 5 < 2;
    partial.samples.retain(|sample| !is_lost(sample.cell));
    partial
        .events
        .retain(|event| !matches!(event, Event::CellDone(done) if is_lost(done.cell)));
    let judgement = judge(&partial);
    let found = judgement
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::SlowLink)
        .unwrap();
    assert_eq!(found.place.hosts, ["node02"]);
    assert!(
        !judgement.coverage.not_measured.is_empty(),
        "what is missing is listed"
    );
    let sure = |recorded: &Recorded| localise(recorded).unwrap().causes[0].suspects[0].1;
    assert!(sure(&partial) <= sure(&whole), "less is known, nobody is surer");
}

#[test]
fn two_faults_are_no_better_an_explanation_because_each_meets_fewer_good_flows() {
    // Of the hosts 0 and 1 on leaf 0, 2 and 3 on leaf 1, 4 on leaf 2: one of the 8 cables down to leaf 1 is slow, and nobody says
    // which flows take it. An uplink of leaf 2 explains 6 of the 11 slow flows, and one of leaf 0 the others.
    let leaf = |host: usize| host * 3 / 5;
    let mut topology = String::new();
    for host in 0..5 {
        topology += &format!(
            "[[host]]\nname = \"node0{host}\"\n[[link]]\nname = \"c{host}\"\nends = [\"node0{host}/eth0\", \"leaf{}/p{host}\"]\n\
             rate = \"10 Gb/s\"\nrail = \"rail0\"\n",
            leaf(host)
        );
    }
    for (name, tier) in (0..3)
        .map(|number| (format!("leaf{number}"), "leaf"))
        .chain((0..4).map(|number| (format!("spine{number}"), "spine")))
    {
        topology += &format!("[[switch]]\nname = \"{name}\"\ntier = \"{tier}\"\nrail = \"rail0\"\n");
    }
    for (leaf, strand) in (0..3).flat_map(|leaf| (0..8).map(move |strand| (leaf, strand))) {
        topology += &format!(
            "[[link]]\nname = \"u{leaf}{strand}\"\nends = [\"leaf{leaf}/u{strand}\", \"spine{}/d{leaf}{strand}\"]\nrate = \"10 Gb/s\"\n\
             rail = \"rail0\"\n",
            strand / 2
        );
    }
    let counts = [
        ([0, 1], [2, 3], 27, 5),
        ([4, 4], [2, 3], 34, 6),
        ([2, 3], [0, 1], 25, 0),
        ([2, 3], [4, 4], 12, 0),
        ([0, 1], [4, 4], 38, 0),
        ([4, 4], [0, 1], 8, 0),
    ];
    let mut fixture = flows(|cell, _| match cell.source_port {
        Some(30_000..) => 0.45 * HEALTHY,
        _ => HEALTHY,
    });
    let template = fixture.run.cells[0].clone();
    fixture.run.cells.clear();
    for (from, to, all, slow) in counts {
        for at in 0..all {
            let id = fixture.run.cells.len() as u32;
            fixture.run.cells.push(Cell {
                id,
                slot: id,
                ranks: vec![from[at % 2], to[at / 2 % 2]],
                source_port: Some(id as u16 + if at < slow { 30_000 } else { 20_000 }),
                ..template.clone()
            });
        }
    }
    fixture.run.ranks.truncate(5);
    for rank in &mut fixture.run.ranks {
        rank.rails.truncate(1);
    }
    let mut recorded = fixture.recorded();
    recorded.topology = Some(topology);
    let findings = slow_links(&recorded);
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert_eq!(finding.place.switch.as_deref(), Some("leaf1"), "{finding:?}");
    let is_downlink = |part: &str| part.contains("->leaf1/u");
    assert!(
        finding.suspects.iter().all(|suspect| is_downlink(&suspect.part)),
        "{finding:?}"
    );
}

#[test]
fn slow_flows_that_only_may_have_crossed_a_cable_do_not_join_the_one_that_did_to_accuse_it() {
    // Two leaves of four hosts each, sixteen spines. A few flows of unknown path are slow whatever they cross, and of one flow per uplink, whose path is
    // known, so is the one over the uplink to spine 3.
    let mut topology = String::new();
    for host in 0..8 {
        topology += &format!(
            "[[host]]\nname = \"node0{host}\"\n[[link]]\nname = \"c{host}\"\nends = [\"node0{host}/eth0\", \"leaf{}/p{host}\"]\n\
             rate = \"10 Gb/s\"\nrail = \"rail0\"\n",
            host / 4
        );
    }
    for leaf in 0..2 {
        topology += &format!("[[switch]]\nname = \"leaf{leaf}\"\ntier = \"leaf\"\nrail = \"rail0\"\n");
    }
    for spine in 0..16 {
        topology += &format!("[[switch]]\nname = \"spine{spine}\"\ntier = \"spine\"\nrail = \"rail0\"\n");
        for leaf in 0..2 {
            topology += &format!(
                "[[link]]\nname = \"u{leaf}-{spine}\"\nends = [\"leaf{leaf}/u{spine}\", \"spine{spine}/d{leaf}\"]\n\
                 rate = \"10 Gb/s\"\nrail = \"rail0\"\n"
            );
        }
    }
    let mut fixture = flows(|cell, _| match cell.source_port {
        Some(30_000..) => 0.8 * HEALTHY,
        _ => HEALTHY,
    });
    let template = fixture.run.cells[0].clone();
    fixture.run.cells.clear();
    for id in 0..216 {
        let known = (id < 16).then_some(id);
        let is_slow = known == Some(3) || (known.is_none() && id % 17 == 0);
        let (from, to) = (id % 4, 4 + id / 4 % 4);
        fixture.run.cells.push(Cell {
            id,
            slot: id,
            ranks: vec![from, to],
            source_port: Some(id as u16 + if is_slow { 30_000 } else { 20_000 }),
            path: known.map_or_else(Vec::new, |spine| {
                vec![
                    format!("node0{from}/eth0->leaf0/p{from}"),
                    format!("leaf0/u{spine}->spine{spine}/d0"),
                    format!("spine{spine}/d1->leaf1/u{spine}"),
                    format!("leaf1/p{to}->node0{to}/eth0"),
                ]
            }),
            ..template.clone()
        });
    }
    for rank in &mut fixture.run.ranks {
        rank.rails.truncate(1);
    }
    let mut recorded = fixture.recorded();
    recorded.topology = Some(topology);
    let findings = slow_links(&recorded);
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_fabric_that_slows_down_while_it_is_measured_is_no_fault_of_its_pairs() {
    let slowing = |by: f64| {
        let speed = move |cell: &Cell, _: u16| HEALTHY * (1.0 - by * f64::from(cell.slot) / 112.0);
        let mut fixture = flows(speed).references(vec![spec(HEALTHY, 1 << 20)]);
        for cell in &mut fixture.run.cells {
            cell.slot = cell.id * 37 % 112;
        }
        judge(&fixture.recorded())
    };
    let judgement = slowing(0.4);
    assert!(judgement.findings.is_empty(), "{:?}", judgement.findings);
    assert!(
        matches!(&judgement.verdict, Verdict::Inconclusive(why) if why.contains("what they share was slower")),
        "{:?}",
        judgement.verdict
    );
    // Pairs that are slow while all others are not are named all the same.
    let pairs = flows(|cell, _| match (cell.ranks.as_slice(), cell.rails[0].as_str()) {
        ([1, 5] | [3, 2] | [6, 0], "rail0") => 0.6 * HEALTHY,
        _ => HEALTHY,
    });
    let judgement = judge(&pairs.references(vec![spec(HEALTHY, 1 << 20)]).recorded());
    let is_pair = |finding: &&Finding| finding.kind == FindingKind::SlowPair;
    assert_eq!(
        judgement.findings.iter().filter(is_pair).count(),
        3,
        "{:?}",
        judgement.findings
    );
}

#[test]
fn flows_that_may_have_shared_a_link_accuse_nobody() {
    // All flows of a rail in one slot: their senders and receivers are in each other's way.
    let mut fixture = flows(|cell, _| {
        if sends(cell, 2, "rail1") {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    });
    for cell in &mut fixture.run.cells {
        cell.slot = u32::from(cell.rails == ["rail1"]);
    }
    let judgement = judge(&fixture.recorded());
    assert!(
        judgement
            .findings
            .iter()
            .all(|finding| finding.kind != FindingKind::SlowLink)
    );
    assert!(
        matches!(judgement.verdict, Verdict::Inconclusive(_)),
        "{:?}",
        judgement.verdict
    );
}

#[test]
fn a_record_that_makes_no_sense_is_judged_without_a_panic() {
    let elsewhere = "[[host]]\nname = \"x\"\n[[switch]]\nname = \"s\"\ntier = \"leaf\"\n[[link]]\nname = \"l\"\nends = [\"x/a\", \"s/b\"]\n\
        rate = \"1 Gb/s\"\n";
    for topology in [None, Some("no toml ["), Some(""), Some(elsewhere)] {
        let mut fixture = flows(|cell, _| {
            if sends(cell, 2, "rail1") {
                0.5 * HEALTHY
            } else {
                HEALTHY
            }
        });
        let cells = &mut fixture.run.cells;
        cells[0].path = vec!["nobody/x->nowhere/y".to_string()];
        cells[1].ranks = vec![7, 7];
        cells[2].ranks = vec![u32::MAX, 0];
        cells[3].rails = Vec::new();
        cells[4].slot = u32::MAX;
        let twin = fixture.run.ranks[0].clone();
        fixture.run.ranks.push(twin);
        let mut recorded = fixture.recorded();
        recorded.topology = topology.map(str::to_string);
        let judgement = judge(&recorded);
        let found = judgement
            .findings
            .iter()
            .any(|finding| finding.place.hosts == ["node02"]);
        assert!(found, "what makes sense is still found: {:?}", judgement.findings);
    }
}

#[test]
fn symbol_errors_at_the_end_of_an_accused_cable_are_said_with_it_and_those_of_others_are_not() {
    let away = flows(|cell, _| match sends(cell, 2, "rail1") {
        true => 0.5 * HEALTHY,
        false => HEALTHY,
    });
    let mut recorded = away.recorded();
    let counter = |cell: &Cell, rank: u32, by: u64| {
        Event::Counter(CounterDelta {
            cell: cell.id,
            rank,
            rail: "rail1".into(),
            name: "symbol_error".into(),
            before: Some(1),
            after: Some(1 + by),
            ..CounterDelta::default()
        })
    };
    let cells = recorded.run.cells.clone();
    for cell in cells.iter().filter(|cell| cell.rails == ["rail1"]) {
        let movement = |rank: u32| if rank == 2 && cell.ranks[0] == 2 { 30 } else { 0 };
        let events = cell
            .ranks
            .iter()
            .map(|rank| counter(cell, *rank, movement(*rank)));
        recorded.events.extend(events);
    }
    let findings = slow_links(&recorded);
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    let said = "symbol errors rising on node02/rail1 (symbol_error +210): optics or cable";
    assert!(
        finding.suspects[0].why.contains(said),
        "{}",
        finding.suspects[0].why
    );
    assert!(
        finding.evidence.iter().any(|line| line.contains(said)),
        "{:#?}",
        finding.evidence
    );
    assert!(
        finding.sentence.contains("symbol_error +210 on node02/rail1"),
        "{}",
        finding.sentence
    );
    assert!(
        finding.next_step.starts_with("clean or replace the optics"),
        "{}",
        finding.next_step
    );
}

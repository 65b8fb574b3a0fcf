//! Who is accused of losing packets, and who is not.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::findings::judge;
use crate::findings::tests::links::flows;
use record::{
    Cell, CellDone, Event, Finding, FindingKind, Judgement, PathPlacement, Recorded, Retransmissions,
    SuspectKind, SwitchPlacement, TcpFlow, Verdict,
};

/// Segments of an iteration.
const SEGMENTS: u32 = 400;

/// What TCP counts: each segment is lost with the probability that `loss` says; in a `bursty` share of all iterations, queues lose ten more.
struct Counts<L> {
    loss: L,
    bursty: f64,
    seed: u64,
}

impl<L: Fn(&Cell, u32) -> f64> Counts<L> {
    /// The counts of all cells of a recorded run.
    fn added_to(&self, mut recorded: Recorded) -> Recorded {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut happens = |probability: f64| (random.next_u64() as f64 / u64::MAX as f64) < probability;
        let cells = recorded.run.cells.clone();
        for event in &mut recorded.events {
            let Event::CellDone(CellDone {
                cell,
                iterations,
                tcp,
                ..
            }) = event
            else {
                continue;
            };
            let cell = cells.iter().find(|known| known.id == *cell).unwrap();
            let mut flow = TcpFlow {
                from: cell.ranks[0],
                to: cell.ranks[1],
                rail: cell.rails[0].clone(),
                segments: u64::from(SEGMENTS * *iterations),
                ..TcpFlow::default()
            };
            for iter in 0..*iterations {
                let loss = (self.loss)(cell, iter);
                let mut retransmitted = (0..SEGMENTS)
                    .map(|_| u32::from(loss > 0.0 && happens(loss)))
                    .sum();
                if self.bursty > 0.0 && happens(self.bursty) {
                    retransmitted += 10;
                }
                if retransmitted > 0 {
                    flow.retransmitted += u64::from(retransmitted);
                    flow.iterations.push(Retransmissions {
                        iter,
                        retransmitted,
                        spurious: 0,
                    });
                }
            }
            tcp.push(flow);
        }
        recorded
    }
}

fn lossy(loss: impl Fn(&Cell, u32) -> f64, bursty: f64, seed: u64) -> Judgement {
    let fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
    judge(&Counts { loss, bursty, seed }.added_to(fixture.recorded()))
}

fn of_losses(judgement: &Judgement) -> Vec<&Finding> {
    let findings = judgement.findings.iter();
    findings
        .filter(|finding| finding.kind == FindingKind::LossyLink)
        .collect()
}

fn sends(cell: &Cell, rank: u32, rail: &str) -> bool {
    cell.ranks[0] == rank && cell.rails == [rail]
}

#[test]
fn a_lossy_cable_is_told_with_the_light_at_its_end_and_whether_it_went_down() {
    use crate::findings::drift::fixture::{inventory, node, part};
    use record::{CounterDelta, CounterState, PartClass::Module};
    let bounds = ("rx-power-bounds", "-12.0 -11.0 4.0 5.0 dBm");
    let optics = |light: &'static str| {
        let module = part(Module, "eth1", &[("rx-power", light), bounds]);
        inventory(vec![node("node02", vec![module])])
    };
    let of = |light: Option<&'static str>, downs: u64| {
        let fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
        let counts = Counts {
            loss: |cell: &Cell, _| if sends(cell, 2, "rail1") { 0.01 } else { 0.0 },
            bursty: 0.0,
            seed: 1,
        };
        let mut recorded = counts.added_to(fixture.recorded());
        recorded.inventory = light.map(optics);
        let end = recorded.events.pop().unwrap();
        let cell = recorded
            .run
            .cells
            .iter()
            .find(|cell| sends(cell, 2, "rail1"))
            .unwrap();
        recorded.events.push(Event::Counter(CounterDelta {
            cell: cell.id,
            round: 0,
            rank: 2,
            rail: "rail1".to_string(),
            name: "carrier_changes".to_string(),
            before: Some(4),
            after: Some(4 + 2 * downs),
            ns: None,
            bits: None,
            state: CounterState::Present,
        }));
        recorded.events.push(end);
        of_losses(&judge(&recorded))[0].clone()
    };
    let dim = of(Some("-13.1 dBm"), 2);
    let said = "rx power -13.1 below the module's alarm of -12.0 at node02/rail1";
    assert!(dim.sentence.contains(said), "{}", dim.sentence);
    assert!(
        dim.sentence
            .contains("the link of node02/rail1 went down and came back twice"),
        "{}",
        dim.sentence
    );
    let fine = of(Some("-2.0 dBm"), 0);
    assert!(
        !fine.sentence.contains("rx power") && !fine.sentence.contains("went down"),
        "{}",
        fine.sentence
    );
    let line = "module at node02/rail1, as the inventory was taken: rx power -2.0 dBm: within its bounds";
    assert!(
        fine.evidence.iter().any(|said| said == line),
        "{:?}",
        fine.evidence
    );
    assert_eq!(
        fine.suspects[0].confidence, dim.suspects[0].confidence,
        "light is evidence, not a judge"
    );
    let unread = of(None, 0);
    assert!(
        unread
            .evidence
            .iter()
            .any(|said| said == "modules at its ends were not read"),
        "{:?}",
        unread.evidence
    );
}

#[test]
fn a_cable_that_loses_packets_in_one_direction_is_named_with_its_share() {
    for loss in [0.01, 0.001, 0.0002] {
        let judgement = lossy(
            move |cell, _| if sends(cell, 2, "rail1") { loss } else { 0.0 },
            0.0,
            1,
        );
        let findings = of_losses(&judgement);
        let [finding] = findings.as_slice() else {
            panic!("{loss}: {findings:?}");
        };
        let first = &finding.suspects[0];
        assert_eq!(
            (first.kind, first.direction.as_deref()),
            (SuspectKind::HostCable, Some("away from the host")),
            "{loss}"
        );
        assert_eq!(
            (finding.place.hosts.as_slice(), finding.place.rail.as_deref()),
            (&["node02".to_string()][..], Some("rail1"))
        );
        assert!(first.confidence > 0.9, "{first:?}");
        assert_eq!(judgement.exit_code, 12);
        assert_eq!(
            finding.place.link.as_deref(),
            Some("node02/eth1->rail1-fabric/node02.eth1"),
            "{finding:?}"
        );
    }
    let towards = lossy(
        |cell, _| f64::from(u8::from(cell.ranks[1] == 5 && cell.rails == ["rail0"])) * 0.01,
        0.0,
        2,
    );
    let findings = of_losses(&towards);
    assert_eq!(
        findings[0].suspects[0].direction.as_deref(),
        Some("towards the host")
    );
    assert_eq!(findings[0].place.hosts, ["node05"]);
    assert!(
        findings[0].sentence.contains("loses 1.0 % of its packets")
            || findings[0].sentence.contains("loses 0.9"),
        "{}",
        findings[0].sentence
    );
}

#[test]
fn two_cables_that_lose_packets_are_two_findings_and_a_worse_one_does_not_hide_the_other() {
    let judgement = lossy(
        |cell, _| match (
            sends(cell, 1, "rail0"),
            cell.ranks[1] == 6 && cell.rails == ["rail1"],
        ) {
            (true, _) => 0.02,
            (_, true) => 0.0005,
            _ => 0.0,
        },
        0.0,
        3,
    );
    let hosts: Vec<&str> = of_losses(&judgement)
        .iter()
        .map(|finding| finding.place.hosts[0].as_str())
        .collect();
    assert_eq!(hosts, ["node01", "node06"]);
}

#[test]
fn queues_that_overflow_everywhere_now_and_then_accuse_nobody() {
    for seed in 0..20 {
        for bursty in [0.0005, 0.01, 0.3] {
            let judgement = lossy(|_, _| 0.0, bursty, seed);
            assert!(
                of_losses(&judgement).is_empty(),
                "{seed} {bursty}: {:?}",
                of_losses(&judgement)
            );
        }
    }
    // Nor does a fabric all of whose flows lose alike.
    assert!(of_losses(&lossy(|_, _| 0.002, 0.0, 5)).is_empty());
}

#[test]
fn a_flow_that_something_disturbed_accuses_nobody_and_neither_does_a_slot() {
    let one_flow = lossy(|cell, _| if cell.id == 40 { 0.05 } else { 0.0 }, 0.0, 7);
    assert!(of_losses(&one_flow).is_empty(), "{:?}", of_losses(&one_flow));
    let mut fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
    for cell in &mut fixture.run.cells {
        cell.slot = cell.id / 14;
    }
    let loss = |cell: &Cell, _: u32| if cell.slot == 3 { 0.05 } else { 0.0 };
    let counts = Counts {
        loss,
        bursty: 0.0,
        seed: 8,
    };
    let judgement = judge(&counts.added_to(fixture.recorded()));
    assert!(of_losses(&judgement).is_empty(), "{:?}", of_losses(&judgement));
}

#[test]
fn packets_that_were_late_are_not_lost() {
    let fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
    let counts = Counts {
        loss: |cell: &Cell, _: u32| if sends(cell, 2, "rail1") { 0.01 } else { 0.0 },
        bursty: 0.0,
        seed: 9,
    };
    let mut recorded = counts.added_to(fixture.recorded());
    for event in &mut recorded.events {
        let Event::CellDone(done) = event else { continue };
        for flow in &mut done.tcp {
            flow.spurious = flow.retransmitted;
            flow.iterations
                .iter_mut()
                .for_each(|one| one.spurious = one.retransmitted);
        }
    }
    assert_eq!(judge(&recorded).verdict, Verdict::Pass);
}

#[test]
fn losses_that_are_beyond_chance_and_seen_with_one_partner_only_are_no_pass_and_no_accusation() {
    // One flow of each of many rounds: it is always the same pair.
    let mut fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
    let pair = fixture
        .run
        .cells
        .iter()
        .find(|cell| sends(cell, 2, "rail1"))
        .unwrap()
        .clone();
    for number in 0..12 {
        let id = 1000 + number;
        fixture.run.cells.push(Cell {
            id,
            slot: id,
            ..pair.clone()
        });
    }
    let (from, to) = (pair.ranks[0], pair.ranks[1]);
    let counts = Counts {
        loss: move |cell: &Cell, _: u32| match cell.ranks == [from, to] && cell.rails == ["rail1"] {
            true => 0.01,
            false => 0.0,
        },
        bursty: 0.0,
        seed: 10,
    };
    let judgement = judge(&counts.added_to(fixture.recorded()));
    assert!(of_losses(&judgement).is_empty(), "{:?}", of_losses(&judgement));
    assert!(
        matches!(&judgement.verdict, Verdict::Inconclusive(why) if why.contains("packets are lost") && why.contains("one partner")),
        "{:?}",
        judgement.verdict
    );
    assert_eq!(judgement.exit_code, 20);
}

/// Two leaves, two spines. Three connections of unknown path are measured eight times each and always lose packets; four flows that are known to come down from
/// the other spine lose none, and neither do flows within a leaf. Were every measurement a draw of its own, it would be a wonder that all of them took the same
/// downlink, and everything that leads to the leaf would be likelier.
#[test]
fn all_measurements_of_one_connection_are_one_draw_of_its_path() {
    let of_connections = suspects_of_unknown_paths(|cell| 40_000 + cell.ranks[0] as u16);
    assert!(of_connections[0].contains("spine1"), "{of_connections:?}");
    let of_draws = suspects_of_unknown_paths(|cell| 40_000 + cell.id as u16);
    let names_it = |part: &String| part.contains("spine1");
    assert!(!of_draws.iter().any(names_it), "{of_draws:?}");
}

/// Eight hosts on one rail of two leaves and two spines.
fn two_leaves_of_four() -> String {
    let mut topology = String::new();
    for host in 0..8 {
        topology += &format!(
            "[[host]]\nname = \"node0{host}\"\n[[link]]\nname = \"c{host}\"\nends = [\"node0{host}/eth0\", \"leaf{}/p{host}\"]\n\
             rate = \"10 Gb/s\"\nrail = \"rail0\"\n",
            host / 4
        );
    }
    for (name, tier) in [
        ("leaf0", "leaf"),
        ("leaf1", "leaf"),
        ("spine0", "spine"),
        ("spine1", "spine"),
    ] {
        topology += &format!("[[switch]]\nname = \"{name}\"\ntier = \"{tier}\"\nrail = \"rail0\"\n");
    }
    for (leaf, spine) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        topology += &format!(
            "[[link]]\nname = \"u{leaf}-{spine}\"\nends = [\"leaf{leaf}/u{spine}\", \"spine{spine}/d{leaf}\"]\nrate = \"10 Gb/s\"\nrail = \"rail0\"\n"
        );
    }
    topology
}

/// TCP takes packets that overtook each other for lost now and then, and every flow between leaves is sprayed. One cable of a host loses packets as well.
#[test]
fn what_sprayed_flows_retransmit_is_compared_with_other_sprayed_flows() {
    let found = |extra: f64| {
        let mut fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
        fixture.run.cells.retain(|cell| cell.rails == ["rail0"]);
        fixture
            .run
            .ranks
            .iter_mut()
            .for_each(|rank| rank.rails.truncate(1));
        fixture.run.placement = ["leaf0", "leaf1"].map(sprayed).to_vec();
        let between_leaves = |cell: &Cell| (cell.ranks[0] < 4) != (cell.ranks[1] < 4);
        let loss = move |cell: &Cell, _: u32| match (cell.ranks[1] == 6, between_leaves(cell)) {
            (true, _) => 0.0005 + extra,
            (false, true) => 0.0005,
            (false, false) => 0.0,
        };
        let counts = Counts {
            loss,
            bursty: 0.0,
            seed: 5,
        };
        let mut recorded = counts.added_to(fixture.recorded());
        recorded.topology = Some(two_leaves_of_four());
        let judgement = judge(&recorded);
        let first = of_losses(&judgement)
            .into_iter()
            .map(|finding| finding.suspects[0].part.clone());
        first.collect::<Vec<String>>()
    };
    assert_eq!(found(0.0), [""; 0], "a healthy fabric");
    let [first] = found(0.02).try_into().unwrap();
    assert!(first.contains("node06"), "{first}");
}

fn sprayed(switch: &str) -> SwitchPlacement {
    SwitchPlacement {
        switch: switch.to_string(),
        placement: PathPlacement::Sprayed,
        repeats: 20,
        agreed: 10,
        bursts: 10,
        spread: 10,
    }
}

/// The first suspects of all findings about losses, where the flows of cells have these source ports.
fn suspects_of_unknown_paths(port: impl Fn(&Cell) -> u16) -> Vec<String> {
    let sent = (0..50u32).map(|id| match id {
        0..24 => (id % 3, 4 + id % 3, None, 0.01),
        24..28 => (id % 3, 4 + id % 3, Some(0), 0.0),
        _ => (id % 4, (id + 1) % 4, None, 0.0),
    });
    let judgement = over_two_leaves(&sent.collect::<Vec<_>>(), port);
    let findings = of_losses(&judgement);
    let first = findings.iter().map(|finding| finding.suspects[0].part.clone());
    first.collect()
}

/// A host whose only flows of known path take one spine, where they lose packets; a third connection of it, of unknown path, loses some whenever it is measured. Its neighbour on the
/// leaf sends over the other spine only. So its cable and the uplink explain the same, but for one connection that may have gone either way: one is twice as likely
/// as the other, however often that connection is measured.
#[test]
fn one_connection_of_unknown_path_makes_nobody_sure() {
    let mut sent = vec![(0, 4, Some(0), 0.01), (0, 5, Some(0), 0.01)];
    sent.extend([(0, 6, None, 0.01); 8]);
    for (from, to) in [(1, 4), (1, 6), (2, 5), (3, 7), (2, 7), (3, 4)] {
        sent.push((from, to, Some(1), 0.0));
        sent.push((to, from, Some(0), 0.0));
        sent.push((from, (from + 1) % 4, None, 0.0));
    }
    let judgement = over_two_leaves(&sent, |cell| 40_000 + cell.ranks[1] as u16);
    let [finding] = of_losses(&judgement).try_into().unwrap();
    let suspects: Vec<(&str, f64)> = finding
        .suspects
        .iter()
        .map(|suspect| (suspect.part.as_str(), suspect.confidence))
        .collect();
    let of = |part: &str| {
        suspects
            .iter()
            .find(|(name, _)| *name == part)
            .map_or(0.0, |(_, confidence)| *confidence)
    };
    let (cable, uplink) = (of("node00/eth0->leaf0/p0"), of("leaf0/u0->spine0/d0"));
    assert!(cable > 0.3 && cable < 0.75 && uplink > 0.2, "{suspects:?}");
}

/// The judgement of flows between hosts of two leaves of four: from, to, the spine where that is known, and the share of packets that is lost. Every one is a slot of its own.
fn over_two_leaves(sent: &[(u32, u32, Option<u32>, f64)], port: impl Fn(&Cell) -> u16) -> Judgement {
    let mut fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
    let template = fixture.run.cells[0].clone();
    let cell = |(id, (from, to, spine, _)): (u32, &(u32, u32, Option<u32>, f64))| {
        let (up, down) = (from / 4, to / 4);
        let mut path = vec![format!("node0{from}/eth0->leaf{up}/p{from}")];
        if let Some(spine) = spine {
            path.push(format!("leaf{up}/u{spine}->spine{spine}/d{up}"));
            path.push(format!("spine{spine}/d{down}->leaf{down}/u{spine}"));
        }
        path.push(format!("leaf{down}/p{to}->node0{to}/eth0"));
        Cell {
            id,
            slot: id,
            ranks: vec![*from, *to],
            path: match spine.is_none() && up != down {
                true => Vec::new(),
                false => path,
            },
            ..template.clone()
        }
    };
    fixture.run.cells = (0..).zip(sent).map(cell).collect();
    for rank in &mut fixture.run.ranks {
        rank.rails.truncate(1);
    }
    let losses: Vec<f64> = sent.iter().map(|(.., loss)| *loss).collect();
    let counts = Counts {
        loss: move |cell: &Cell, _: u32| losses[cell.id as usize],
        bursty: 0.0,
        seed: 11,
    };
    let mut recorded = counts.added_to(fixture.recorded());
    recorded.topology = Some(two_leaves_of_four());
    let cells = recorded.run.cells.clone();
    for event in &mut recorded.events {
        let Event::CellDone(done) = event else { continue };
        for flow in &mut done.tcp {
            flow.source_port = port(&cells[done.cell as usize]);
        }
    }
    judge(&recorded)
}

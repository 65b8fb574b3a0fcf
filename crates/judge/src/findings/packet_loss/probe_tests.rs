//! What probes say: who loses some of them, who holds them up, and when that means nothing.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::findings::tests::links::flows;
use crate::findings::{judge, open_probes};
use record::units::{Bytes, Nanos};
use record::{
    Algorithm, Cell, CellDone, Collective, CounterDelta, CounterState, Event, Finding, FindingKind,
    Judgement, ProbeCounts, ProbeFlow, ProbeTerms, Recorded, StopReason, SuspectKind, TestKind,
    TransportKind, Verdict,
};

const HOSTS: u32 = 8;
const SETS: u16 = 12;
const SECONDS: u32 = 3;
/// Packets of a flow in a second.
const PACKETS: u32 = 300;

/// What happens to a flow in a second of a set.
type Of<T> = Box<dyn Fn(&ProbeFlow, u16, u32) -> T>;

/// A run of probes on eight hosts with two rails.
struct Probes {
    /// The probability that a packet is lost.
    loss: Of<f64>,
    /// How long the slowest packet waited, in nanoseconds; healthy ones wait about 20 us.
    worst: Of<u64>,
    /// Bytes that others move on a rail while probes are sent.
    others: u64,
    seed: u64,
}

impl Probes {
    fn of(seed: u64) -> Probes {
        Probes {
            loss: Box::new(|_, _, _| 0.0),
            worst: Box::new(|_, _, _| 0),
            others: 0,
            seed,
        }
    }

    fn losing(mut self, loss: impl Fn(&ProbeFlow, u16, u32) -> f64 + 'static) -> Probes {
        self.loss = Box::new(loss);
        self
    }

    fn waiting(mut self, worst: impl Fn(&ProbeFlow, u16, u32) -> u64 + 'static) -> Probes {
        self.worst = Box::new(worst);
        self
    }

    fn recorded(&self) -> Recorded {
        let mut fixture = flows(|_, _| crate::findings::fixture::HEALTHY);
        let like = fixture.run.cells[0].clone();
        let test = &mut fixture.run.tests[0];
        (test.kind, test.references) = (TestKind::Probe, Vec::new());
        fixture.run.cells = (0..SETS).map(|set| cell(set, &like)).collect();
        let cells = fixture.run.cells.clone();
        let mut recorded = Recorded::new(fixture.run);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        for cell in &cells {
            recorded.events.extend(self.events(cell, &mut random));
        }
        recorded.events.push(Event::End {
            reason: record::EndReason::Finished,
            at: "2026-11-19T08:00:00Z".to_string(),
        });
        recorded
    }

    fn events(&self, cell: &Cell, random: &mut ChaCha8Rng) -> Vec<Event> {
        let terms = cell.probes.as_ref().unwrap();
        let mut happens = |probability: f64| (random.next_u64() as f64 / u64::MAX as f64) < probability;
        let mut probes = Vec::new();
        for (number, flow) in (0..).zip(&terms.flows) {
            let mut counts = ProbeCounts {
                flow: number,
                ..ProbeCounts::default()
            };
            for second in 0..SECONDS {
                let loss = (self.loss)(flow, terms.set, second);
                let lost = (0..PACKETS).map(|_| u32::from(loss > 0.0 && happens(loss))).sum();
                counts.sent.push(PACKETS);
                counts.lost.push(lost);
                counts.typical_ns.push(2_000);
                let usual = 15_000 + u64::from(number % 7) * 2_000;
                counts
                    .worst_ns
                    .push(usual.max((self.worst)(flow, terms.set, second)));
            }
            probes.push(counts);
        }
        let mut events: Vec<Event> = cell
            .ranks
            .iter()
            .map(|rank| moved(cell, *rank, self.others))
            .collect();
        events.push(Event::CellDone(CellDone {
            cell: cell.id,
            round: 0,
            iterations: SECONDS,
            verified: 0,
            stop: StopReason::Iterations,
            max_skew_ns: Nanos(100),
            unseen_skew_ns: None,
            planned: Vec::new(),
            moved: Vec::new(),
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: Vec::new(),
            probes,
        }));
        events
    }

    fn judged(&self) -> Judgement {
        judge(&self.recorded())
    }
}

fn cell(set: u16, like: &Cell) -> Cell {
    let mut flows = Vec::new();
    for rail in ["rail0", "rail1"] {
        for from in 0..HOSTS {
            for shift in 0..3 {
                let shift = 1 + (u32::from(set) * 3 + shift) % (HOSTS - 1);
                flows.push(ProbeFlow {
                    from,
                    to: (from + shift) % HOSTS,
                    rail: rail.to_string(),
                    port: 17_000 + set * 3 + shift as u16,
                    packets: PACKETS,
                    way: None,
                });
            }
        }
    }
    Cell {
        id: u32::from(set),
        slot: u32::from(set),
        collective: Collective::Probes,
        algorithm: Algorithm::Direct,
        ranks: (0..HOSTS).collect(),
        rails: vec!["rail0".to_string(), "rail1".to_string()],
        transport: TransportKind::Udp,
        size: Bytes(64),
        probes: Some(ProbeTerms {
            set,
            window: Nanos::from_secs(1),
            queue: Nanos(1_000_000),
            wire: Bytes(130),
            share_ppm: 10_000,
            most_per_second: 2_000,
            flows,
        }),
        ..like.clone()
    }
}

fn moved(cell: &Cell, rank: u32, others: u64) -> Event {
    Event::Counter(CounterDelta {
        cell: cell.id,
        round: 0,
        rank,
        rail: "rail0".to_string(),
        name: "tx_bytes".to_string(),
        before: Some(1_000),
        after: Some(1_000 + 400_000 + others),
        ns: None,
        bits: None,
        state: CounterState::default(),
    })
}

fn of_kind(judgement: &Judgement, kind: FindingKind) -> Vec<&Finding> {
    judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == kind)
        .collect()
}

fn sends(flow: &ProbeFlow, rank: u32, rail: &str) -> bool {
    flow.from == rank && flow.rail == rail
}

#[test]
fn a_cable_that_loses_one_probe_in_a_hundred_or_in_five_thousand_is_named() {
    for (loss, seed) in [(0.01, 1), (0.001, 2), (0.0002, 3)] {
        let judgement = Probes::of(seed)
            .losing(move |flow, _, _| if sends(flow, 2, "rail1") { loss } else { 0.0 })
            .judged();
        let findings = of_kind(&judgement, FindingKind::LossyLink);
        let [finding] = findings.as_slice() else {
            panic!("{loss}: {} findings, {:?}", findings.len(), judgement.verdict);
        };
        let first = &finding.suspects[0];
        assert_eq!(first.direction.as_deref(), Some("away from the host"), "{loss}");
        assert_eq!(
            (first.kind, judgement.exit_code),
            (SuspectKind::HostCable, 12),
            "{loss}"
        );
        assert!(first.confidence > 0.9, "{loss}: {}", first.confidence);
        assert_eq!(finding.place.hosts, ["node02"]);
        assert!(
            finding.sentence.contains("packets over it"),
            "{}",
            finding.sentence
        );
        assert!(of_kind(&judgement, FindingKind::SlowHop).is_empty());
    }
}

#[test]
fn healthy_probes_pass_and_so_do_those_that_are_lost_here_and_there() {
    assert_eq!(Probes::of(1).judged().verdict, Verdict::Pass);
    for seed in 0..10 {
        for loss in [1e-5, 1e-4, 1e-3] {
            let judgement = Probes::of(seed).losing(move |_, _, _| loss).judged();
            assert!(
                judgement.findings.is_empty(),
                "{seed} {loss}: {}",
                judgement.summary
            );
        }
    }
}

#[test]
fn a_host_that_was_disturbed_for_a_while_is_not_accused() {
    // All that it receives is lost or late for a second, in one slot.
    let hit = |flow: &ProbeFlow, set: u16, second: u32| flow.to == 3 && set == 4 && second == 1;
    let lost = Probes::of(5).losing(move |flow, set, second| if hit(flow, set, second) { 0.05 } else { 0.0 });
    let judgement = lost.judged();
    assert!(judgement.findings.is_empty(), "{}", judgement.summary);
    let late =
        Probes::of(6).waiting(move |flow, set, second| if hit(flow, set, second) { 8_000_000 } else { 0 });
    let judgement = late.judged();
    assert!(judgement.findings.is_empty(), "{}", judgement.summary);
}

#[test]
fn a_port_that_stops_now_and_then_is_a_slow_hop_and_loses_nothing() {
    let stalls = |flow: &ProbeFlow, set: u16, second: u32| {
        let stops = (u32::from(set) * 7 + second * 5 + flow.from) % 10 < 4;
        if flow.to == 5 && flow.rail == "rail0" && stops {
            4_500_000
        } else {
            0
        }
    };
    let judgement = Probes::of(7).waiting(stalls).judged();
    let findings = of_kind(&judgement, FindingKind::SlowHop);
    let [finding] = findings.as_slice() else {
        panic!("{} findings: {}", findings.len(), judgement.summary);
    };
    assert_eq!(finding.suspects[0].direction.as_deref(), Some("towards the host"));
    assert_eq!(finding.place.hosts, ["node05"]);
    assert!(finding.sentence.contains("up to 4.50 ms"), "{}", finding.sentence);
    assert_eq!((judgement.exit_code, judgement.findings.len()), (12, 1));
}

/// The host of every flow is held up so often that a fifth of all seconds is late, by less than two milliseconds. One port stops for longer.
#[test]
fn a_port_that_stops_on_a_busy_machine_is_told_from_its_hiccups() {
    let hiccups = |flow: &ProbeFlow, set: u16, second: u32| {
        let drawn = (u64::from(flow.from) * 31
            + u64::from(flow.to) * 17
            + u64::from(flow.port) * 7
            + u64::from(set * 3)
            + u64::from(second))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if (drawn >> 40) % 5 == 0 {
            (drawn >> 20) % 900_000
        } else {
            0
        }
    };
    let stops = move |flow: &ProbeFlow, set: u16, second: u32| {
        let is_stopped = (u32::from(set) * 7 + second * 5 + flow.from) % 10 < 3;
        match flow.to == 5 && flow.rail == "rail0" && is_stopped {
            true => 14_000_000,
            false => hiccups(flow, set, second),
        }
    };
    let judgement = Probes::of(12).waiting(stops).judged();
    let findings = of_kind(&judgement, FindingKind::SlowHop);
    let [finding] = findings.as_slice() else {
        panic!("{} findings: {}", findings.len(), judgement.summary);
    };
    assert_eq!(finding.place.hosts, ["node05"]);
    assert!(finding.rule.contains("64 times"), "{}", finding.rule);
    let judgement = Probes::of(12).waiting(hiccups).judged();
    assert!(judgement.findings.is_empty(), "{}", judgement.summary);
}

#[test]
fn waiting_means_nothing_while_others_use_the_rail() {
    let mut probes = Probes::of(8).waiting(|flow, _, _| if sends(flow, 1, "rail0") { 5_000_000 } else { 0 });
    assert_eq!(of_kind(&probes.judged(), FindingKind::SlowHop).len(), 1);
    probes.others = 50_000_000;
    let judgement = probes.judged();
    assert!(judgement.findings.is_empty(), "{}", judgement.summary);
}

#[test]
fn probes_that_were_never_sent_are_no_pass() {
    let mut recorded = Probes::of(9).recorded();
    for event in &mut recorded.events {
        if let Event::CellDone(done) = event {
            done.probes[0].sent = vec![0; SECONDS as usize];
        }
    }
    let judgement = judge(&recorded);
    assert!(
        matches!(&judgement.verdict, Verdict::Inconclusive(why) if why.contains("could not be sent")),
        "{}",
        judgement.summary
    );
    for event in &mut recorded.events {
        if let Event::CellDone(done) = event {
            done.probes.clear();
        }
    }
    assert!(matches!(judge(&recorded).verdict, Verdict::Inconclusive(_)));
}

#[test]
fn a_flow_that_lost_packets_asks_which_of_its_cables_it_was_and_says_what_speaks_against_each() {
    let recorded = Probes::of(31)
        .losing(|flow, set, _| {
            let is_that = set == 0 && sends(flow, 2, "rail1") && flow.to == 3;
            if is_that { 0.5 } else { 0.0 }
        })
        .recorded();
    let open = open_probes(&recorded);
    let [question] = open.questions.as_slice() else {
        panic!("{open:?}");
    };
    assert_eq!(question.len(), 2, "{open:?}");
    for (cable, clean) in question {
        assert!(cable.contains("rail1") && *clean > 20, "{cable}: {clean}");
    }
    assert_eq!(open.known.len(), 0);
}

#[test]
fn what_is_known_to_lose_packets_is_no_question_any_more() {
    let recorded = Probes::of(32)
        .losing(|flow, _, _| if sends(flow, 2, "rail1") { 0.5 } else { 0.0 })
        .recorded();
    let open = open_probes(&recorded);
    assert_eq!(open.questions, Vec::<Vec<(String, usize)>>::new());
    assert_eq!(open.known.len(), 1, "{open:?}");
    assert!(open.known[0].starts_with("node02/eth1->"), "{open:?}");
    assert_eq!(open.hidden, Vec::<String>::new());
}

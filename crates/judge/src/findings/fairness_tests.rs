use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::findings::fixture::Fixture;
use crate::findings::{judge, suspects};
use record::units::{Bytes, Nanos};
use record::{
    CellDone, Collective, Event, FindingKind, Judgement, Load, Recorded, StopReason, StreamRecord,
    StreamTerms, TestKind, Verdict, exit_code,
};

const HOSTS: u32 = 8;
/// What a sender gets in a window if all get the same.
const EACH: f64 = 1e6;

/// Every host is the receiver of all others once. `share` says what a sender gets of what others get; `spread` by how much that differs from receiver to
/// receiver, as the deviation of its logarithm.
fn judged(share: impl Fn(u32, u32) -> f64, spread: f64, seed: u64) -> Judgement {
    judge(&recorded(share, spread, 1, seed))
}

/// The same as recorded, measured so many times from other ports.
fn recorded(share: impl Fn(u32, u32) -> f64, spread: f64, rounds: u16, seed: u64) -> Recorded {
    let mut fixture = Fixture::pairs(HOSTS);
    let test = &mut fixture.run.tests[0];
    (test.kind, test.references) = (TestKind::Fairness, Vec::new());
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // The sum of twelve even numbers is nearly normal.
    let mut normal = || {
        (0..12)
            .map(|_| random.next_u64() as f64 / u64::MAX as f64)
            .sum::<f64>()
            - 6.0
    };
    let mut events = Vec::new();
    let planned = fixture.run.cells.clone();
    let (cells, slots) = (planned.len() as u32, HOSTS);
    fixture.run.cells = (0..rounds)
        .flat_map(|round| planned.iter().map(move |cell| (round, cell.clone())))
        .map(|(round, mut cell)| {
            cell.id += u32::from(round) * cells;
            (cell.collective, cell.load) = (Collective::Streams, Load::Together);
            cell.slot = cell.ranks[1] + u32::from(round) * slots;
            cell.streams = Some(StreamTerms {
                set: cell.slot as u16,
                window: Nanos(400_000_000),
                one_port: false,
                into_one: true,
                pattern: None,
                ports: Vec::new(),
                round,
                ways: Vec::new(),
            });
            cell
        })
        .collect();
    for cell in &mut fixture.run.cells {
        let (from, to) = (cell.ranks[0], cell.ranks[1]);
        (cell.size, cell.flows) = (Bytes(4096), 4);
        let bytes = (EACH * share(from, to) * (spread * normal()).exp()) as u64;
        let stream = |stream: u16| StreamRecord {
            stream,
            port: Some(16_000 + stream),
            bytes: vec![bytes / 4; 6],
            problem: None,
        };
        events.push(Event::CellDone(CellDone {
            cell: cell.id,
            round: 0,
            iterations: 6,
            verified: 6,
            stop: StopReason::Iterations,
            max_skew_ns: Nanos(100),
            unseen_skew_ns: None,
            planned: Vec::new(),
            moved: Vec::new(),
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: (0..4).map(stream).collect(),
            probes: Vec::new(),
        }));
    }
    let mut recorded = Recorded::new(fixture.run);
    recorded.events = events;
    recorded.events.push(Event::End {
        reason: record::EndReason::Finished,
        at: "2026-11-19T08:00:00Z".to_string(),
    });
    recorded
}

fn accused(judgement: &Judgement) -> Vec<(FindingKind, Vec<u32>)> {
    let findings = judgement.findings.iter();
    findings
        .map(|finding| (finding.kind, finding.place.ranks.clone()))
        .collect()
}

#[test]
fn a_sender_that_starves_and_one_that_takes_too_much_are_named() {
    for (factor, what) in [(0.15, "tamer"), (5.0, "wilder")] {
        let judgement = judged(|from, _| if from == 3 { factor } else { 1.0 }, 0.3, 7);
        assert_eq!(
            accused(&judgement),
            [(FindingKind::UnfairSender, vec![3])],
            "{factor}"
        );
        let finding = &judgement.findings[0];
        assert!(finding.sentence.contains(what), "{}", finding.sentence);
        assert!(
            finding.sentence.starts_with("node03 on rail0: gets "),
            "{}",
            finding.sentence
        );
        assert_eq!(judgement.exit_code, exit_code::SLOW);
        assert_eq!(finding.cells.len(), HOSTS as usize - 1);
        let row = &judgement.fair_shares[0];
        let odd = if factor < 1.0 { &row.least } else { &row.most };
        assert_eq!(odd.host, "node03");
        let failed = judgement
            .cells
            .iter()
            .filter(|verdict| matches!(verdict.verdict, Verdict::Fail(_)));
        assert_eq!(failed.count(), HOSTS as usize - 1);
    }
}

#[test]
fn healthy_senders_pass_however_much_receivers_differ_and_where_too_much_it_is_open() {
    for seed in 0..40 {
        let judgement = judged(|_, _| 1.0, 0.3, seed);
        assert_eq!(accused(&judgement), [], "{}", judgement.findings[0].sentence);
        assert_eq!(judgement.exit_code, exit_code::PASS);
        let shown = judgement.fair_shares[0].shown.unwrap();
        assert!((2.0..10.0).contains(&shown), "{shown}");
        // As of senders at different distances, of which some starve.
        let judgement = judged(|_, _| 1.0, 2.0, seed);
        assert_eq!(accused(&judgement), [], "{}", judgement.findings[0].sentence);
        assert_eq!(judgement.exit_code, exit_code::INCONCLUSIVE);
    }
}

#[test]
fn a_sender_that_gets_little_at_some_receivers_is_not_the_one_to_blame() {
    // Its way to three of seven is crowded.
    let judgement = judged(|from, to| if from == 3 && to < 3 { 0.2 } else { 1.0 }, 0.2, 7);
    assert_eq!(accused(&judgement), []);
}

#[test]
fn what_would_have_shown_is_found_and_senders_that_differ_for_good_are_not_accused() {
    let shown = judged(|_, _| 1.0, 0.3, 1).fair_shares[0].shown.unwrap();
    let finds = |seed: &u64| {
        let judgement = judged(|from, _| if from == 5 { 1.0 / shown } else { 1.0 }, 0.3, *seed);
        accused(&judgement) == [(FindingKind::UnfairSender, vec![5])]
    };
    let found = (100..140).filter(finds).count();
    assert!(found >= 32, "{found} of 40, said for 36");
    // Half as much is no PASS, however little it stands out.
    let judgement = judged(|from, _| if from == 5 { 0.4 } else { 1.0 }, 0.6, 2);
    assert_eq!(
        (accused(&judgement), judgement.exit_code),
        (vec![], exit_code::INCONCLUSIVE)
    );
    // Half of them get half as much again, for good.
    let judgement = judged(|from, _| if from % 2 == 0 { 1.5 } else { 1.0 }, 0.1, 7);
    assert_eq!(accused(&judgement), []);
}

#[test]
fn a_sender_that_is_suspected_is_measured_on_and_then_found() {
    // A third of what others get, where shares differ by a factor of 1.6 from receiver to receiver.
    let tame = |from: u32, _: u32| if from == 3 { 0.32 } else { 1.0 };
    let of = |rounds: u16, seed: u64| recorded(tame, 0.5, rounds, seed);
    let is_found = |recorded: &Recorded| accused(&judge(recorded)) == [(FindingKind::UnfairSender, vec![3])];
    let seeds = 200..240;
    let at_once = seeds.clone().filter(|seed| is_found(&of(1, *seed))).count();
    let in_the_end = seeds.clone().filter(|seed| is_found(&of(4, *seed))).count();
    assert!(
        at_once <= 20 && in_the_end >= 36,
        "{at_once}, then {in_the_end} of 40"
    );
    for seed in seeds {
        let (once, again) = (of(1, seed), of(2, seed));
        let planned = |recorded: &Recorded| suspects(recorded).len();
        let cells = once.run.cells.len();
        match is_found(&once) {
            true => assert_eq!(planned(&once), 0, "what is found is not measured again"),
            false => assert!(
                [0, cells].contains(&planned(&once)),
                "all of its rail, or nothing"
            ),
        }
        // What is repeated is what was planned, not what was repeated before.
        let ids: Vec<u32> = suspects(&again);
        assert!(ids.iter().all(|id| (*id as usize) < cells), "{ids:?}");
    }
    let open = (200..240).filter(|seed| {
        let once = of(1, *seed);
        !is_found(&once) && suspects(&once).is_empty()
    });
    assert!(open.count() <= 2, "hardly any passes for good at once");
}

#[test]
fn healthy_senders_are_not_measured_on() {
    let measured_on = (0..40).filter(|seed| !suspects(&recorded(|_, _| 1.0, 0.2, 1, *seed)).is_empty());
    assert_eq!(measured_on.count(), 0);
    // Nor accused by looking again and again.
    for seed in 0..40 {
        let judgement = judge(&recorded(|_, _| 1.0, 0.75, 4, seed));
        assert_eq!(accused(&judgement), [], "{}", judgement.findings[0].sentence);
    }
}

#[test]
fn who_gets_more_because_of_a_wild_neighbour_is_not_accused_beside_it() {
    // As in a lab (9 hosts, 4 leaves, 2026-11-20): what one takes that does not back off is missing where its flows go, and hosts behind its own leaf
    // are left five times as much as others. In slots in which it receives, they get what all get.
    let share = |from: u32, to: u32| match (from, to) {
        (2, _) => 60.0,
        (_, 2) => 1.0,
        (0 | 1, _) => 4.5,
        _ => 1.0,
    };
    for seed in 0..20 {
        let recorded = recorded(share, 0.2, 3, seed);
        assert_eq!(
            accused(&judge(&recorded)),
            [(FindingKind::UnfairSender, vec![2])],
            "{seed}"
        );
        assert!(suspects(&recorded).is_empty(), "what is found is not measured on");
    }
    // A second one shows where the first does not send.
    let both = |from: u32, to: u32| if from == 5 { 20.0 } else { share(from, to) };
    let named = accused(&judge(&recorded(both, 0.1, 4, 1)));
    let wild = [2, 5].map(|rank| (FindingKind::UnfairSender, vec![rank]));
    assert_eq!(named, wild);
}

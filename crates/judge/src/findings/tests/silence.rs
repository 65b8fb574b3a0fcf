//! Which rail is said to have gone silent, and at whose end.

use super::kinds;
use crate::findings::fixture::Fixture;
use crate::findings::{Losses, judge, losses};
use record::units::{Bytes, Nanos};
use record::{DEVICE_GONE, EndReason, Event, FindingKind, LossCause, Lost, Recorded, Stalled, Stuck};

/// A run of four hosts that ended in a standstill of cell 3; each rank says which peer it waited for and which of its ways on
/// rail1 are stuck.
fn standstill(stalls: &[(u32, Option<u32>, &[u32], bool)]) -> Recorded {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.events.retain(|event| match event {
        Event::CellDone(done) => done.cell < 3,
        Event::End { .. } => false,
        _ => true,
    });
    for (rank, waiting_for, stuck, dark) in stalls {
        let stuck = stuck.iter().map(|to| Stuck {
            to: *to,
            rail: "rail1".into(),
            bytes: Bytes(65_536),
            retransmits: 4,
        });
        recorded.events.push(Event::Stalled(Stalled {
            rank: *rank,
            cell: 3,
            step: "step 2 of 6".into(),
            waiting_for: *waiting_for,
            waited_ns: Nanos(5_000_000_000),
            stuck: stuck.collect(),
            no_carrier: dark.then(|| "rail1".to_string()).into_iter().collect(),
            broke: None,
        }));
    }
    recorded.events.push(Event::End {
        reason: EndReason::Lost,
        at: "2026-11-14T23:51:00Z".into(),
    });
    recorded
}

/// A ring whose second host is cut off on one rail: everybody waits for everybody.
const CUT_AT_NODE01: &[(u32, Option<u32>, &[u32], bool)] = &[
    (0, Some(3), &[1], false),
    (1, Some(0), &[2], false),
    (2, Some(1), &[], false),
    (3, Some(2), &[], false),
];

#[test]
fn the_end_that_all_stuck_ways_share_is_named_and_no_rank_is_called_lost() {
    let recorded = standstill(CUT_AT_NODE01);
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement)[0], FindingKind::SilentRail);
    assert!(!kinds(&judgement).contains(&FindingKind::LostRank));
    assert_eq!(judgement.exit_code, 21);
    let finding = &judgement.findings[0];
    assert_eq!(finding.place.hosts, ["node01"], "{}", finding.sentence);
    assert_eq!(finding.place.rail.as_deref(), Some("rail1"));
    assert!(
        finding.sentence.starts_with("rail1 at node01 went silent"),
        "{}",
        finding.sentence
    );
    let at_fault = ("node01".to_string(), "rail1".to_string());
    assert_eq!(losses(&recorded).rails, [at_fault].into());
}

#[test]
fn a_lost_carrier_settles_which_end_it_is() {
    let recorded = standstill(&[(0, Some(1), &[1], false), (1, Some(0), &[], true)]);
    let finding = &judge(&recorded).findings[0];
    assert_eq!(finding.place.hosts, ["node01"]);
    assert!(finding.sentence.contains("no carrier"), "{}", finding.sentence);
}

#[test]
fn two_ends_that_cannot_be_told_apart_are_both_named() {
    let recorded = standstill(&[(0, Some(1), &[1], false), (1, Some(0), &[], false)]);
    let finding = &judge(&recorded).findings[0];
    assert_eq!(finding.place.hosts, ["node00", "node01"]);
    assert!(
        finding.sentence.contains("between node00 and node01"),
        "{}",
        finding.sentence
    );
}

#[test]
fn packets_to_a_lost_host_accuse_no_rail() {
    let mut recorded = standstill(CUT_AT_NODE01);
    recorded.events.push(Event::Lost(Lost {
        rank: 1,
        host: "node01".into(),
        cell: Some(3),
        doing: "run an iteration".into(),
        reason: "not heard over the management network for 5.00 s".into(),
        cause: LossCause::Ended,
    }));
    let found = kinds(&judge(&recorded));
    assert!(
        found.contains(&FindingKind::LostRank) && !found.contains(&FindingKind::SilentRail),
        "{found:?}"
    );
    let wanted = Losses {
        hosts: ["node01".to_string()].into(),
        rails: Default::default(),
    };
    assert_eq!(losses(&recorded), wanted);
}

#[test]
fn one_retry_is_bad_luck_and_not_silence() {
    let mut recorded = standstill(CUT_AT_NODE01);
    for event in &mut recorded.events {
        if let Event::Stalled(stalled) = event {
            stalled.stuck.iter_mut().for_each(|stuck| stuck.retransmits = 1);
        }
    }
    assert!(!kinds(&judge(&recorded)).contains(&FindingKind::SilentRail));
}

#[test]
fn two_silent_rails_are_two_findings() {
    let mut recorded = standstill(CUT_AT_NODE01);
    let more = Stuck {
        to: 2,
        rail: "rail0".into(),
        bytes: Bytes(1),
        retransmits: 9,
    };
    if let Some(Event::Stalled(stalled)) = recorded
        .events
        .iter_mut()
        .find(|event| matches!(event, Event::Stalled(_)))
    {
        stalled.stuck.push(more);
    }
    let silent = kinds(&judge(&recorded))
        .into_iter()
        .filter(|kind| *kind == FindingKind::SilentRail);
    assert_eq!(silent.count(), 2);
}

#[test]
fn a_connection_that_broke_is_told_with_both_ends_and_its_cause_instead_of_who_waited() {
    let what = "rail1 from rank 1 (rxe1 port 1) to rank 2 (rxe1 port 1): remote access error (status 10)";
    let mut recorded = standstill(&[
        (1, Some(2), &[], false),
        (2, Some(1), &[], false),
        (0, Some(3), &[], false),
    ]);
    let break_at = |recorded: &mut Recorded, dark: bool| {
        for event in &mut recorded.events {
            if let Event::Stalled(stalled) = event
                && stalled.rank == 1
            {
                stalled.broke = Some(what.to_string());
                stalled.no_carrier = dark.then(|| "rail1".to_string()).into_iter().collect();
            }
        }
    };
    break_at(&mut recorded, false);
    let judgement = judge(&recorded);
    let finding = &judgement.findings[0];
    assert_eq!((finding.kind, judgement.exit_code), (FindingKind::LostRank, 21));
    assert!(
        finding
            .sentence
            .starts_with(&format!("a connection broke: {what}")),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.place.ranks, [1, 2]);
    assert_eq!(finding.place.rail.as_deref(), Some("rail1"));

    // Its own interface has no carrier: that is why.
    break_at(&mut recorded, true);
    let judgement = judge(&recorded);
    let finding = &judgement.findings[0];
    assert_eq!(finding.kind, FindingKind::SilentRail);
    assert!(
        finding.sentence.starts_with("rail1 at node01 went silent")
            && finding.sentence.contains(what)
            && finding.sentence.contains("no carrier"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_device_that_was_removed_is_its_own_hosts_affair() {
    let mut recorded = standstill(&[(2, Some(1), &[], false), (1, Some(2), &[], false)]);
    let what =
        format!("rail1 from rank 1 (rxe1 port 1) to rank 2 (rxe1 port 1): no answer (EIO): {DEVICE_GONE}");
    for event in &mut recorded.events {
        if let Event::Stalled(stalled) = event
            && stalled.rank == 1
        {
            stalled.broke = Some(what.clone());
        }
    }
    let judgement = judge(&recorded);
    let finding = &judgement.findings[0];
    assert!(
        finding
            .sentence
            .starts_with("the RDMA device of rank 1 (node01) is gone: rail1 from rank 1"),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.place.hosts, ["node01"]);
    assert_eq!(finding.place.rail.as_deref(), Some("rail1"));
    assert_eq!(judgement.exit_code, 21);
}

//! Links that went down and came back.

use super::kinds;
use crate::findings::fixture::Fixture;
use crate::findings::judge;
use record::{CounterDelta, Event, FindingKind, Recorded};

/// Reports a counter around a cell, on a rail that the cell uses.
fn counter(recorded: &mut Recorded, cell: u32, rank: u32, name: &str, before: u64, after: u64) {
    let rail = recorded.run.cells[cell as usize].rails[0].clone();
    recorded.events.insert(
        recorded.events.len() - 1,
        Event::Counter(CounterDelta {
            cell,
            round: 0,
            rank,
            rail,
            name: name.into(),
            before: Some(before),
            after: Some(after),
            ..CounterDelta::default()
        }),
    );
}

#[test]
fn a_link_that_went_down_and_came_back_is_named_although_everything_was_measured() {
    let mut recorded = Fixture::rails(2).recorded();
    counter(&mut recorded, 0, 1, "carrier_changes", 4, 4);
    counter(&mut recorded, 0, 2, "carrier_changes", 9, 9);
    counter(&mut recorded, 1, 1, "carrier_changes", 4, 6);
    counter(&mut recorded, 1, 2, "carrier_changes", 9, 9);
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Flap]);
    assert_eq!(judgement.exit_code, 12);
    let finding = &judgement.findings[0];
    for part in [
        "rail0 at node01 went down and came back during",
        "carrier_changes +2 on node01/rail0",
    ] {
        assert!(finding.sentence.contains(part), "{part}: {}", finding.sentence);
    }
    assert_eq!(finding.cells, [1]);
    assert_eq!(finding.place.ranks, [1]);
}

#[test]
fn a_flap_between_two_cells_counts_and_ranks_of_one_host_count_it_once() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.run.ranks[2].host = "node01".into();
    for rank in [1, 2] {
        counter(&mut recorded, 0, rank, "link_downed", 0, 0);
        counter(&mut recorded, 1, rank, "link_downed", 3, 3);
    }
    let judgement = judge(&recorded);
    let finding = &judgement.findings[0];
    assert!(
        finding.sentence.contains("came back 3 times"),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.place.ranks, [1, 2]);
    recorded.run.rule.flaps_allowed = 3;
    assert!(judge(&recorded).findings.is_empty(), "the suite's rule decides");
}

#[test]
fn packets_sent_again_are_a_flap_only_where_something_stood_still() {
    let mut recorded = Fixture::rails(2).recorded();
    // The ring goes 0, 1, 2, 3: rank 2 sends to rank 3, which sends to rank 0.
    counter(&mut recorded, 2, 2, "completer_retry_err", 0, 4);
    counter(&mut recorded, 2, 3, "completer_retry_err", 5, 12);
    assert!(judge(&recorded).findings.is_empty(), "some loss is not a flap");
    let longest = recorded
        .samples
        .iter_mut()
        .filter(|sample| sample.cell == 2 && sample.iter == 4);
    longest.for_each(|sample| {
        sample.ns += 2_000_000_000;
        sample.wait_ns += 2_000_000_000;
    });
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Flap]);
    let sentence = &judgement.findings[0].sentence;
    assert!(
        sentence.contains("rail1 at node03 forwarded nothing for 2.0")
            && sentence.contains(
                "completer_retry_err +4 on node02/rail1 and completer_retry_err +7 on node03/rail1"
            ),
        "{sentence}"
    );
    assert_eq!(judgement.findings[0].place.hosts, ["node03"]);
    // Held up time and again: the fabric loses packets, and no link flaps.
    let mut lossy = recorded.clone();
    let often = lossy.samples.iter_mut().filter(|sample| sample.iter % 4 == 1);
    often.for_each(|sample| {
        sample.ns += 540_000_000;
        sample.wait_ns += 540_000_000;
    });
    assert!(!kinds(&judge(&lossy)).contains(&FindingKind::Flap));
    // A link that is known to have gone down explains it.
    counter(&mut recorded, 2, 1, "link_downed", 0, 1);
    let explained = judge(&recorded);
    assert_eq!(kinds(&explained), [FindingKind::Flap]);
    assert_eq!(explained.findings[0].place.hosts, ["node01"]);
}

#[test]
fn counters_that_stand_still_or_cannot_be_read_accuse_nobody() {
    let mut recorded = Fixture::rails(2).recorded();
    counter(&mut recorded, 0, 1, "carrier_changes", 7, 7);
    counter(&mut recorded, 0, 1, "rx_bytes", 7, 900);
    // A counter that went back was reset, and says nothing.
    counter(&mut recorded, 1, 1, "carrier_changes", 7, 0);
    if let Some(Event::Counter(last)) = recorded.events.iter_mut().rev().nth(1) {
        last.before = None;
    }
    assert!(judge(&recorded).findings.is_empty());
}

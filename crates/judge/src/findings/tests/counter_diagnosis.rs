//! What counters say about why a part is slow.

use super::counters::{PACKETS, counter, missing, only, slow};
use super::{kinds, on_rail};
use crate::findings::counters::diagnosis;
use crate::findings::{RunAnalysis, judge};
use record::{CounterState, Event, FindingKind, Recorded};

#[test]
fn symbol_errors_on_a_slow_rail_point_to_optics_and_are_no_second_finding() {
    let mut recorded = slow();
    counter(&mut recorded, 2, "symbol_error", 10, 4122);
    counter(&mut recorded, 2, "out_of_sequence", 10, 412);
    let finding = only(&recorded);
    assert_eq!(finding.kind, FindingKind::SlowRail);
    assert!(
        finding.sentence.contains("symbol_error +4112 on node02/rail1"),
        "{}",
        finding.sentence
    );
    let says = |part: &str| finding.evidence.iter().any(|line| line.contains(part));
    assert!(says(
        "symbol errors rising on node02/rail1 (symbol_error +4112, 1e-9 per bit): optics or cable"
    ));
    assert!(
        says("the port has errors: rail1 at node02: symbol_error"),
        "{:#?}",
        finding.evidence
    );
    assert!(
        finding
            .next_step
            .starts_with("clean or replace the optics or cable of that port (node02/rail1)"),
        "{}",
        finding.next_step
    );
}

#[test]
fn a_port_with_errors_elsewhere_is_a_finding_beside_the_slow_rail() {
    let mut recorded = slow();
    let cell = recorded
        .run
        .cells
        .iter()
        .find(|cell| on_rail(cell, "rail0"))
        .unwrap()
        .id;
    counter(&mut recorded, 2, "symbol_error", 10, 4122);
    let place = recorded.events.len() - 2;
    if let Event::Counter(delta) = &mut recorded.events[place] {
        (delta.cell, delta.rail) = (cell, "rail0".into());
    }
    assert_eq!(
        kinds(&judge(&recorded)),
        [FindingKind::SlowRail, FindingKind::PortErrors]
    );
}

/// What the evidence of the one finding says last about counters.
fn cause(counters: &[(&str, u64)]) -> String {
    let mut recorded = slow();
    for rank in 0..4 {
        // All that would tell is there, and stands still.
        for name in [
            "symbol_error",
            "port_xmit_wait",
            "aer_dev_correctable/BadTLP",
            "rx_discards_phy",
        ] {
            counter(&mut recorded, rank, name, 7, 7);
        }
        counter(&mut recorded, rank, "port_rcv_packets", 0, PACKETS);
    }
    for (name, by) in counters {
        counter(&mut recorded, 2, name, 0, *by);
    }
    only(&recorded).evidence.join("\n")
}

#[test]
fn counters_distinguish_congestion_bus_loss_and_settings() {
    for (counters, points_to) in [
        (
            &[("symbol_error", 4000), ("np_cnp_sent", PACKETS / 10)][..],
            ": optics or cable",
        ),
        (&[("link_error_recovery", 2)], ": optics or cable"),
        (
            &[
                ("aer_dev_correctable/BadTLP", 900),
                ("rx_prio3_pause_duration", 9_000_000),
            ],
            "the host's slot or bus",
        ),
        (
            &[("rx_prio3_pause_duration", 9_000_000)],
            "paused rising on node02/rail1 (rx_prio3_pause_duration +9000000, 90% of time): congestion on the path",
        ),
        (&[("np_cnp_sent", PACKETS / 10)], ": congestion on the path"),
        (
            &[("out_of_buffer", 50_000)],
            "the receiving host does not keep up",
        ),
        (&[("out_of_sequence", 50_000)], "loss further along the path"),
        (
            &[("np_cnp_sent", 3), ("rx_dropped", 1)],
            "none moved beyond its bound: suspect the configuration",
        ),
        (&[], "none moved beyond its bound: suspect the configuration"),
    ] {
        let said = cause(counters);
        assert!(said.contains(points_to), "{counters:?}: {said}");
    }
}

#[test]
fn what_could_not_be_read_is_never_called_configuration() {
    let mut recorded = slow();
    counter(&mut recorded, 2, "rx_errors", 5, 5);
    missing(
        &mut recorded,
        2,
        "ethtool/*",
        CounterState::Unreadable("permission denied".into()),
    );
    missing(&mut recorded, 2, "pcie/*", CounterState::Absent);
    let said = only(&recorded).evidence.join("\n");
    let part = "counters do not explain it; unreadable: congestion counters, PCI bus errors and \
                ethtool/* (permission denied) on node02/rail1";
    assert!(said.contains(part), "{said}");
    assert!(!said.contains("configuration"), "{said}");
    let unknown = only(&slow()).evidence.join("\n");
    assert!(unknown.contains("no counter of rail1 could be read"), "{unknown}");
}

#[test]
fn errors_at_hosts_are_not_blamed_on_the_optics_of_a_cable_between_switches() {
    let mut recorded = slow();
    counter(&mut recorded, 2, "symbol_error", 0, 4000);
    let cells: Vec<u32> = recorded.run.cells.iter().map(|cell| cell.id).collect();
    let said = |recorded: &Recorded| {
        let mut finding = only(recorded);
        finding.evidence.clear();
        diagnosis::between_switches(&RunAnalysis::of(recorded), "rail1", &cells).add_to(&mut finding);
        finding.evidence.join("\n")
    };
    let text = said(&recorded);
    assert!(text.contains("symbol_error +4000 on node02/rail1"), "{text}");
    assert!(
        text.contains("error counters of the switches at its ends were not read"),
        "{text}"
    );
    assert!(!text.contains("optics"), "{text}");
    counter(&mut recorded, 3, "rx_prio3_pause_duration", 0, 9_000_000);
    assert!(said(&recorded).contains("congestion on the path"));
}

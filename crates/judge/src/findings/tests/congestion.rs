//! What a load does to other flows is reported, with the flows it slows.

use crate::findings::fixture::{Fixture, HEALTHY};
use crate::findings::judge;
use record::{Cell, Collective, Load};

#[test]
fn the_impact_of_an_incast_on_a_flow_and_on_round_trips_stands_in_the_judgement() {
    let under = |cell: &Cell, _| match (cell.collective, cell.load) {
        (Collective::PointToPoint, Load::Together) => HEALTHY / 3.0,
        (Collective::RoundTrip, Load::Alone) => 1e6,
        (Collective::RoundTrip, Load::Together) => 1e5,
        _ => HEALTHY,
    };
    let judgement = judge(&Fixture::incast().references(Vec::new()).speed(under).recorded());
    let rows = &judgement.congestion;
    assert_eq!(rows.len(), 2);
    let of = |kind: Collective| rows.iter().find(|row| row.measured_by == kind).unwrap();
    let (flow, trip) = (of(Collective::PointToPoint), of(Collective::RoundTrip));
    assert!((flow.impact - 3.0).abs() < 0.15, "{}", flow.impact);
    assert!((trip.impact - 10.0).abs() < 0.5, "{}", trip.impact);
    assert_eq!(
        (flow.load, &flow.loaders[..], &flow.victim[..]),
        (Collective::Incast, &[0, 1, 2, 3][..], &[5, 4][..])
    );
    assert!(flow.under_p99 > flow.alone_p99);
    assert!(judgement.interference.is_empty(), "that table is about rails");
}

#[test]
fn without_the_quiet_baseline_there_is_no_impact() {
    let mut recorded = Fixture::incast().recorded();
    let victims: Vec<u32> = recorded
        .run
        .cells
        .iter()
        .filter(|cell| cell.load == Load::Alone && cell.ranks.len() == 2)
        .map(|cell| cell.id)
        .collect();
    recorded.samples.retain(|sample| !victims.contains(&sample.cell));
    assert!(judge(&recorded).congestion.is_empty());
}

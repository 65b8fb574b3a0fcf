use super::*;
use crate::findings::fixture::{Fixture, HEALTHY};
use crate::findings::judge;
use record::{
    Cell, EndReason, Fact, Inventory, InventoryPart, Load, NodeInventory, PartClass, RailEnd, RankRecord,
};

fn of(recorded: &Recorded) -> Readings {
    readings(recorded, &judge(recorded))
}

fn value(readings: &Readings, kind: PartKind, part: &str, quantity: Quantity) -> Option<f64> {
    let is_it =
        |reading: &&PartReading| reading.kind == kind && reading.part == part && reading.quantity == quantity;
    readings.parts.iter().find(is_it).map(|reading| reading.value)
}

fn end(value: &str) -> RailEnd {
    RailEnd {
        rail: "rail0".into(),
        address: value.into(),
        interface: Some("eth0".into()),
        speed_mbit: None,
        rdma: None,
    }
}

#[test]
fn an_end_of_a_rail_is_as_good_as_its_best_flow() {
    // What node01 sends is slow; what it receives is not, and others are slow only with it.
    let slow = |cell: &Cell, _| {
        if cell.ranks[0] == 1 {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let readings = of(&Fixture::pairs(4).speed(slow).recorded());
    let rate = |part: &str| value(&readings, PartKind::RailEnd, part, Quantity::Bandwidth).unwrap();
    assert!(rate("node01/rail0 out") < 0.7 * HEALTHY);
    for part in [
        "node00/rail0 out",
        "node01/rail0 in",
        "node02/rail0 in",
        "node03/rail0 out",
    ] {
        assert!(rate(part) > 0.9 * HEALTHY, "{part}: {}", rate(part));
    }
    let node = value(&readings, PartKind::Node, "node01", Quantity::Bandwidth).unwrap();
    assert!((0.7 * HEALTHY..0.9 * HEALTHY).contains(&node), "{node}");
    assert_eq!(readings.parts.len(), 4 * 2 + 4);
    assert_eq!(readings.parts[0].cells, 3);
    assert_eq!(readings.ended, Some(EndReason::Finished));
    assert_eq!(
        readings.findings.len(),
        judge(&Fixture::pairs(4).speed(slow).recorded()).findings.len()
    );
}

#[test]
fn what_shared_a_link_says_nothing_about_it() {
    let mut fixture = Fixture::pairs(3);
    fixture.run.cells.retain(|cell| cell.ranks[0] == 0);
    for cell in &mut fixture.run.cells {
        cell.slot = 0;
        cell.load = Load::Together;
        cell.path = ["up", "down"]
            .map(|way| format!("{way}{}", cell.ranks[1]))
            .to_vec();
        cell.path.insert(1, "shared".into());
    }
    let readings = of(&fixture.recorded());
    let link = |name: &str| value(&readings, PartKind::Link, name, Quantity::Bandwidth);
    assert_eq!(link("shared"), None);
    assert!(link("up1").is_some() && link("down2").is_some());
    // Both left the same end of the rail at the same time.
    assert_eq!(
        value(
            &readings,
            PartKind::RailEnd,
            "node00/rail0 out",
            Quantity::Bandwidth
        ),
        None
    );
    assert!(
        value(
            &readings,
            PartKind::RailEnd,
            "node01/rail0 in",
            Quantity::Bandwidth
        )
        .is_some()
    );
}

#[test]
fn rails_are_read_alone_at_their_largest_size_and_round_trips_as_latency() {
    let readings = of(&Fixture::rails(2).recorded());
    let rails: Vec<&PartReading> = readings.parts.iter().collect();
    assert_eq!(
        rails.iter().map(|rail| rail.part.as_str()).collect::<Vec<_>>(),
        ["rail0", "rail1"]
    );
    assert!(
        rails
            .iter()
            .all(|rail| rail.kind == PartKind::Rail && rail.cells == 1)
    );

    let readings = of(&Fixture::latency(3).recorded());
    assert!(value(&readings, PartKind::RailEnd, "node02/rail0", Quantity::Latency).is_some());
    assert!(
        readings
            .parts
            .iter()
            .all(|part| part.quantity == Quantity::Latency)
    );
}

#[test]
fn a_part_is_known_by_its_serial_numbers() {
    let mut recorded = Fixture::pairs(2).recorded();
    let rank = |rank: &RankRecord| RankRecord {
        rails: vec![end("10.0.0.1")],
        ..rank.clone()
    };
    recorded.run.ranks = recorded.run.ranks.iter().map(rank).collect();
    let fact = |text: &str| Fact::Value(text.into());
    let parts = vec![
        InventoryPart::new(PartClass::Host, "node00").with("serial", fact("Default string")),
        InventoryPart::new(PartClass::Interface, "eth0").with("serial", fact("MT01;x")),
        InventoryPart::new(PartClass::Module, "eth0").with("serial", fact("C7")),
    ];
    let node = NodeInventory {
        node: "node00".into(),
        parts,
    };
    recorded.inventory = Some(Inventory {
        nodes: vec![node],
        ..Inventory::default()
    });
    let readings = of(&recorded);
    let identity = |part: &str| {
        let mut all = readings.parts.iter();
        all.find(|reading| reading.part == part).unwrap().identity.clone()
    };
    assert_eq!(
        identity("node00/rail0 out").as_deref(),
        Some("nic MT01,x; module C7")
    );
    assert_eq!(identity("node01/rail0 out"), None);
    assert_eq!(identity("node00"), None, "a filler is not a serial number");
}

#[test]
fn readings_survive_being_written_and_read() {
    let readings = of(&Fixture::pairs(3).recorded());
    let text = serde_json::to_string(&readings).unwrap();
    assert_eq!(serde_json::from_str::<Readings>(&text).unwrap(), readings);
}

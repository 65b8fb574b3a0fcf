//! What switches counted while streams ran agrees with the ways that the streams took.

use std::collections::HashMap;
use std::path::Path;

use record::{Event, Recorded};

use crate::harness::{TestLab, labs_can_be_made};

const SUITE: &str = "name = \"counted\"\n[[test]]\nname = \"spread\"\nkind = \"ecmp\"\nflows = [8]\nsets = 2\n\
    window = \"100ms\"\niterations = 2\n";

/// Bytes that arrived over every link from a leaf, by slot and port.
fn delivered(recorded: &Recorded) -> HashMap<(u32, String), u64> {
    let mut delivered = HashMap::new();
    for event in &recorded.events {
        let Event::CellDone(done) = event else { continue };
        let cell = recorded
            .run
            .cells
            .iter()
            .find(|cell| cell.id == done.cell)
            .unwrap();
        let Some(terms) = &cell.streams else { continue };
        for (stream, way) in done.streams.iter().zip(&terms.ways) {
            for link in way
                .links
                .iter()
                .filter(|link| link.contains("/u") && link.contains("->"))
            {
                let (from, _) = link.split_once("->").unwrap();
                let bytes: u64 = stream.bytes.iter().sum();
                *delivered.entry((cell.slot, from.to_string())).or_default() += bytes;
            }
        }
    }
    delivered
}

/// What every port sent during every slot.
fn sent(recorded: &Recorded) -> HashMap<(u32, String), u64> {
    let sent = |event: &Event| match event {
        Event::Port(delta) if delta.name == "tx_bytes" => {
            let bytes = delta.after?.checked_sub(delta.before?)?;
            Some(((delta.slot, delta.port.clone()), bytes))
        }
        _ => None,
    };
    recorded.events.iter().filter_map(sent).collect()
}

#[test]
fn every_uplink_has_counted_what_its_streams_delivered() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x1", "--leaves", "2", "--spines", "2", "--rate", "100mbit"]);
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("counted.toml");
    std::fs::write(&suite, SUITE).unwrap();
    let out = folder.path().join("run");
    // Whether two paths and few flows are enough for a verdict is not the question here.
    let output = lab.run(
        "run",
        &[
            "--",
            "run",
            suite.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--quiet",
        ],
    );
    let recorded = Recorded::read(Path::new(&out)).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let (delivered, sent) = (delivered(&recorded), sent(&recorded));
    let uplinks: Vec<_> = delivered
        .iter()
        .filter(|((_, port), _)| port.starts_with("rail0-leaf"))
        .collect();
    assert!(uplinks.len() >= 4, "{uplinks:?}");
    for (uplink, bytes) in uplinks {
        let counted = sent
            .get(uplink)
            .unwrap_or_else(|| panic!("{uplink:?} was not read: {sent:?}"));
        assert!(
            counted >= bytes,
            "{uplink:?}: {counted} counted, {bytes} delivered"
        );
    }
    assert!(
        sent.keys().all(|(_, port)| !port.contains("/p")),
        "ports of hosts are not kept: {sent:?}"
    );
}

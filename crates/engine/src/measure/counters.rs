//! The counters of a rank's rails around a cell, and which of them are recorded.
//!
//! A record of a thousand ranks must stay small: a counter is written when it changed, when it differs from the value written
//! last (it changed between cells, or is gone), and the first time. Traffic counters are always written, with the time between
//! readings. So a counter that was written once and is not written for a cell did not change there.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use probe::counters::{self, DriverQuery, Reading, Value};
use record::counters::{CounterSource, is_traffic};
use record::units::Nanos;
use record::{CounterDelta, CounterState, RailEnd};

/// Counter readings of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CounterReadings {
    at: Instant,
    readings: Vec<(String, Reading)>,
}

/// The values written last, by rail and counter.
#[derive(Debug, Default)]
pub(super) struct WrittenCounters(HashMap<(String, String), Value>);

impl CounterReadings {
    /// Reads the counters of those `ends` whose rail is `named`, below `root`. Drivers that `written` shows to have none are not
    /// asked again.
    pub fn read(
        ends: &[RailEnd],
        named: &[String],
        root: &Path,
        written: &WrittenCounters,
    ) -> CounterReadings {
        let asked = ends.iter().filter(|end| named.contains(&end.rail));
        let readings = asked.flat_map(|end| {
            let readings = counters::read(root, end, written.driver(&end.rail)).into_iter();
            readings.map(|reading| (end.rail.clone(), reading))
        });
        CounterReadings {
            at: Instant::now(),
            readings: readings.collect(),
        }
    }

    /// The deltas from here to `later` around a cell (`cell`, `round`, `rank`), as far as they are recorded. A counter that has
    /// disappeared is unknown after; one that has appeared was unknown before.
    pub fn until(
        self,
        later: CounterReadings,
        (cell, round, rank): (u32, u16, u32),
        written: &mut WrittenCounters,
    ) -> Vec<CounterDelta> {
        let took = later.at.saturating_duration_since(self.at);
        let ns = Some(Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
        let mut after: HashMap<(String, String), Reading> = HashMap::with_capacity(later.readings.len());
        let mut deltas = Vec::new();
        for (rail, reading) in later.readings {
            after.insert((rail, reading.name.clone()), reading);
        }
        for (rail, before) in self.readings {
            let key = (rail, before.name.clone());
            let gone = || Err(CounterState::Absent);
            let now = after.remove(&key).map_or_else(gone, |reading| reading.value);
            if written.note_if_changed(&key, &before.value, &now) {
                deltas.push(delta(key, before.bits, before.value, now));
            }
        }
        let mut new: Vec<_> = after.into_iter().collect();
        new.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (key, reading) in new {
            if written.note_if_changed(&key, &Err(CounterState::Absent), &reading.value) {
                deltas.push(delta(key, reading.bits, Err(CounterState::Absent), reading.value));
            }
        }
        for delta in &mut deltas {
            (delta.cell, delta.round, delta.rank, delta.ns) = (cell, round, rank, ns);
        }
        deltas
    }
}

impl WrittenCounters {
    /// Whether to ask the driver of a rail for its counters.
    fn driver(&self, rail: &str) -> DriverQuery {
        let all = (rail.to_string(), CounterSource::Ethtool.all());
        match self.0.get(&all) {
            Some(Err(CounterState::Absent)) => DriverQuery::SkipKnownEmpty,
            _ => DriverQuery::Ask,
        }
    }

    /// Whether to record a counter around a cell; its value counts as written from now on.
    fn note_if_changed(&mut self, key: &(String, String), before: &Value, after: &Value) -> bool {
        let last = self.0.get(key);
        let is_unchanged = before == after && last == Some(after);
        let is_recorded = !is_unchanged || after.is_ok() && is_traffic(&key.1);
        if last != Some(after) {
            self.0.insert(key.clone(), after.clone());
        }
        is_recorded
    }
}

fn delta((rail, name): (String, String), bits: Option<u8>, before: Value, after: Value) -> CounterDelta {
    let state = match (&before, &after) {
        (_, Err(state)) | (Err(state), Ok(_)) => state.clone(),
        (Ok(_), Ok(_)) => CounterState::Present,
    };
    CounterDelta {
        rail,
        name,
        before: before.ok(),
        after: after.ok(),
        bits,
        state,
        ..CounterDelta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::RdmaPort;

    /// A tree with one interface and one port, both of rails `a` and `b`.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            machine.write("net/eth0/carrier_changes", "2");
            machine.write("net/eth0/statistics/tx_bytes", "10");
            machine.write("net/eth0/statistics/rx_errors", "5");
            machine.write("infiniband/rxe0/ports/1/hw_counters/link_downed", "1");
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join("class").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn read(&self) -> CounterReadings {
            let end = |rail: &str| RailEnd {
                rail: rail.to_string(),
                address: "10.0.0.1".to_string(),
                interface: Some("eth0".to_string()),
                speed_mbit: None,
                rdma: Some(RdmaPort {
                    device: "rxe0".to_string(),
                    port: 1,
                    link_layer: "Ethernet".to_string(),
                    state: None,
                }),
            };
            CounterReadings::read(
                &[end("a"), end("b")],
                &["a".to_string()],
                self.0.path(),
                &WrittenCounters::default(),
            )
        }
    }

    fn found<'d>(deltas: &'d [CounterDelta], name: &str) -> Option<&'d CounterDelta> {
        let mut of_name = deltas.iter().filter(|delta| delta.name == name);
        let delta = of_name.next();
        assert!(of_name.next().is_none(), "rail b was not asked for");
        delta
    }

    #[test]
    fn a_port_that_vanishes_during_a_cell_leaves_its_counters_unknown_and_others_as_they_are() {
        let machine = Machine::new();
        let before = machine.read();
        machine.write("net/eth0/carrier_changes", "4");
        std::fs::remove_dir_all(machine.0.path().join("class/infiniband")).unwrap();
        let deltas = before.until(machine.read(), (7, 1, 3), &mut WrittenCounters::default());
        let values = |name: &str| found(&deltas, name).map(|delta| (delta.before, delta.after));
        assert_eq!(values("carrier_changes"), Some((Some(2), Some(4))));
        assert_eq!(values("link_downed"), Some((Some(1), None)));
        assert_eq!(found(&deltas, "link_downed").unwrap().state, CounterState::Absent);
        assert_eq!(values("rx_bytes"), Some((None, None)));
        assert!(
            deltas
                .iter()
                .all(|delta| (delta.cell, delta.round, delta.rank) == (7, 1, 3))
        );
        assert!(deltas.iter().all(|delta| delta.ns.is_some()));
    }

    #[test]
    fn unchanged_or_missing_counters_are_written_once_and_changed_ones_every_time() {
        let machine = Machine::new();
        let mut written = WrittenCounters::default();
        let mut cell = |machine: &Machine, during: &dyn Fn()| {
            let before = machine.read();
            during();
            before.until(machine.read(), (0, 0, 0), &mut written)
        };
        let first = cell(&machine, &|| {});
        for name in [
            "carrier_changes",
            "rx_errors",
            "tx_bytes",
            "rx_dropped",
            "link_downed",
            "ethtool/*",
            "pcie/*",
        ] {
            assert!(found(&first, name).is_some(), "{name}");
        }
        let still = cell(&machine, &|| {});
        let names: Vec<&str> = still.iter().map(|delta| delta.name.as_str()).collect();
        assert_eq!(names, ["tx_bytes"], "the time between readings goes with traffic");
        let moved = cell(&machine, &|| machine.write("net/eth0/statistics/rx_errors", "9"));
        assert_eq!(found(&moved, "rx_errors").unwrap().moved(), Some(4));
        machine.write("net/eth0/carrier_changes", "6");
        let between = cell(&machine, &|| {});
        let delta = found(&between, "carrier_changes").unwrap();
        assert_eq!(
            (delta.before, delta.after),
            (Some(6), Some(6)),
            "it moved between cells"
        );
        assert!(found(&cell(&machine, &|| {}), "carrier_changes").is_none());
        std::fs::remove_dir_all(machine.0.path().join("class/net")).unwrap();
        let gone = cell(&machine, &|| {});
        assert_eq!(found(&gone, "interface/*").unwrap().state, CounterState::Absent);
    }

    #[test]
    fn a_driver_without_counters_is_not_asked_again() {
        let end = RailEnd {
            rail: "loop0".to_string(),
            address: "127.0.0.1".to_string(),
            interface: Some("lo".to_string()),
            speed_mbit: None,
            rdma: None,
        };
        let read = |written: &WrittenCounters| {
            let sys = Path::new(probe::sysfs::SYS);
            CounterReadings::read(std::slice::from_ref(&end), &["loop0".to_string()], sys, written)
        };
        let mut written = WrittenCounters::default();
        assert_eq!(written.driver("loop0"), DriverQuery::Ask);
        let first = read(&written).until(read(&written), (0, 0, 0), &mut written);
        assert!(first.iter().any(|delta| delta.name == "ethtool/*"), "{first:?}");
        assert_eq!(written.driver("loop0"), DriverQuery::SkipKnownEmpty);
        assert_eq!(written.driver("loop1"), DriverQuery::Ask);
        let second = read(&written).until(read(&written), (1, 0, 0), &mut written);
        assert!(
            second.iter().all(|delta| delta.name != "ethtool/*"),
            "reported once: {second:?}"
        );
    }
}

//! Tests with counters in a file, as a run with switches reads them.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use super::*;
use crate::measure::{CellResult, RunFolder};
use judge::findings::fixture::Fixture;
use record::Recorded;

/// Long enough for any machine: no test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl Progress for Notes {
    fn plan(&self, _: usize) {}
    fn slot(&self, _: &[&Cell], _: u16) {}
    fn cell_done(&self, _: &CellResult<'_>) {}
    fn note(&self, text: &str) {
        self.0.borrow_mut().push(text.to_string());
    }
}

fn file(folder: &Path, ports: &[(&str, u64)]) -> Source {
    let port = |(port, bytes): &(&str, u64)| {
        format!(
            r#"{{"switch": "leaf0", "port": "{port}", "counters": {{"tx_bytes": {bytes}, "rx_bytes": 0}}}}"#
        )
    };
    let ports: Vec<String> = ports.iter().map(port).collect();
    let text = format!(r#"{{"switch_counters": 1, "ports": [{}]}}"#, ports.join(","));
    let path = folder.join("counters.json");
    fs::write(&path, text).unwrap();
    Source::Path(path)
}

/// A watch over these ports, the run's folder, and where it writes.
struct Scene {
    folder: tempfile::TempDir,
    cell: Cell,
    sink: Sink,
    heard: Notes,
}

impl Scene {
    fn new(collective: Collective) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let run = Fixture::rails(1).recorded().run;
        let sink = RunFolder::create(&folder.path().join("run"))
            .unwrap()
            .start(&run)
            .unwrap();
        let cell = Cell {
            collective,
            slot: 7,
            rails: vec!["rail0".to_string()],
            ..run.cells[0].clone()
        };
        Scene {
            folder,
            cell,
            sink,
            heard: Notes::default(),
        }
    }

    fn counts(&self, ports: &[(&str, u64)]) -> Source {
        file(self.folder.path(), ports)
    }

    /// What a slot leaves in the record when ports count on to `later` meanwhile.
    fn slot(&mut self, watch: &mut SwitchWatch, later: &[(&str, u64)]) -> Vec<PortDelta> {
        let slot = [&self.cell];
        let before = watch.before(&slot, &self.heard);
        file(self.folder.path(), later);
        watch
            .after(before, &slot, 2, &mut self.sink, &self.heard)
            .unwrap();
        self.sink.flush().unwrap();
        let recorded = Recorded::read(&self.folder.path().join("run")).unwrap();
        let port = |event: &Event| match event {
            Event::Port(delta) => Some(delta.clone()),
            _ => None,
        };
        recorded.events.iter().filter_map(port).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.heard.0.borrow().clone()
    }
}

#[test]
fn what_ports_counted_during_a_slot_of_streams_is_recorded() {
    let mut scene = Scene::new(Collective::Streams);
    let mut watch = SwitchWatch::new(scene.counts(&[("u0", 100), ("u1", 5)]), None, PATIENCE);
    assert_eq!(watch.test_read(), Ok(()));
    let deltas = scene.slot(&mut watch, &[("u0", 350), ("u1", 5), ("u2", 9)]);
    let sent: Vec<_> = deltas
        .iter()
        .filter(|delta| delta.name == "tx_bytes")
        .map(|delta| (delta.port.as_str(), delta.before, delta.after))
        .collect();
    assert_eq!(
        sent,
        [("leaf0/u0", Some(100), Some(350)), ("leaf0/u1", Some(5), Some(5))],
        "the delta of a port that is new afterwards is unknown"
    );
    assert_eq!((deltas[0].slot, deltas[0].round, deltas.len()), (7, 2, 4));
    assert!(scene.notes().is_empty());
}

#[test]
fn a_counter_that_was_set_back_meanwhile_is_unknown() {
    let mut scene = Scene::new(Collective::Streams);
    let mut watch = SwitchWatch::new(scene.counts(&[("u0", 100), ("u1", 5)]), None, PATIENCE);
    let deltas = scene.slot(&mut watch, &[("u0", 3), ("u1", 6)]);
    assert_eq!((deltas[0].before, deltas[0].after), (Some(100), None));
}

#[test]
fn other_cells_leave_switches_alone() {
    let mut scene = Scene::new(Collective::AllReduce);
    let mut watch = SwitchWatch::new(Source::Path("/no/such/file".into()), None, PATIENCE);
    assert!(scene.slot(&mut watch, &[("u0", 1)]).is_empty() && scene.notes().is_empty());
}

#[test]
fn a_source_that_fails_is_named_once_and_the_run_goes_on() {
    let mut scene = Scene::new(Collective::Streams);
    let mut watch = SwitchWatch::new(Source::Path("/no/such/file".into()), None, PATIENCE);
    for _ in 0..3 {
        assert!(scene.slot(&mut watch, &[("u0", 1)]).is_empty());
    }
    let notes = scene.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("/no/such/file"), "{notes:?}");
}

#[test]
fn stale_counters_are_not_taken_for_idle_links() {
    let mut scene = Scene::new(Collective::Streams);
    let mut watch = SwitchWatch::new(scene.counts(&[("u0", 100)]), None, PATIENCE);
    assert!(scene.slot(&mut watch, &[("u0", 100)]).is_empty());
    assert!(
        scene.notes()[0].contains("no switch counter moved"),
        "{:?}",
        scene.notes()
    );
}

#[test]
fn a_source_that_never_answers_is_not_waited_for_twice() {
    let mut scene = Scene::new(Collective::Streams);
    let (ask, asked) = channel();
    let (_answer, answers) = channel();
    let mut watch = SwitchWatch {
        reader: Some(Reader {
            source: "a dead mount".to_string(),
            ask,
            answers,
            timeout: Duration::ZERO,
        }),
        ..SwitchWatch::default()
    };
    assert!(scene.slot(&mut watch, &[("u0", 1)]).is_empty());
    assert!(scene.slot(&mut watch, &[("u0", 2)]).is_empty());
    assert_eq!(asked.iter().count(), 1, "it is asked once");
    assert!(
        scene.notes()[0].contains("a dead mount: no answer"),
        "{:?}",
        scene.notes()
    );
}

#[test]
fn only_ports_between_switches_on_the_rails_of_the_slot_are_kept() {
    let mut scene = Scene::new(Collective::Streams);
    let source = scene.counts(&[("p0", 1), ("u0", 1), ("u1", 1)]);
    let mut watch = SwitchWatch::new(source, None, PATIENCE);
    let between = [("u0", "rail0"), ("u1", "rail1"), ("u9", "rail0")];
    watch.between = Some(
        between
            .iter()
            .map(|(port, rail)| (format!("leaf0/{port}"), Some(rail.to_string())))
            .collect(),
    );
    assert_eq!(watch.test_read(), Ok(()));
    let deltas = scene.slot(&mut watch, &[("p0", 2), ("u0", 2), ("u1", 2)]);
    assert!(deltas.iter().all(|delta| delta.port == "leaf0/u0"), "{deltas:?}");
    assert_eq!(deltas.len(), 2);
    watch.between = Some(vec![("rail0-leaf0/u0".to_string(), None)]);
    let problem = watch.test_read().unwrap_err();
    assert!(
        problem.contains("`leaf0/p0`") && problem.contains("`rail0-leaf0/u0`"),
        "{problem}"
    );
}

//! Counters of ports between switches, read around slots of many streams.
//!
//! Reading never ends a run and never delays it for long: it happens on a thread of its own with a timeout, and each kind of
//! problem is reported once. Where no counter moved at all, the source is not live, and nothing is recorded: stale counters must
//! not look like idle links.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::sink::{Sink, SinkError};
use probe::switches::{PortBytes, PortTable, Source, unwrap_counter};
use record::{Cell, Collective, Event, PortDelta};
use topology::graph::Graph;

/// How much longer than its command a reading may take: a command that is killed reports that itself.
const GRACE: Duration = Duration::from_secs(1);

/// Reads the counters of switches around slots.
#[derive(Default)]
pub struct SwitchWatch {
    reader: Option<Reader>,
    /// Ports between switches with their rails, from the topology; none without a topology: then all ports are kept.
    between: Option<Vec<(String, Option<String>)>>,
    /// Kinds of problems that were reported.
    reported: BTreeSet<&'static str>,
    /// No wait lasts longer than this.
    last_moment: Option<Instant>,
}

/// A thread that reads the source on request.
struct Reader {
    source: String,
    ask: Sender<()>,
    answers: Receiver<Result<PortTable, String>>,
    timeout: Duration,
}

impl Reader {
    fn start(source: Source, timeout: Duration) -> Reader {
        let (ask, asked) = channel::<()>();
        let (answer, answers) = channel();
        let name = source.to_string();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let read = source.read(timeout).map_err(|error| error.to_string());
                if answer.send(read).is_err() {
                    break;
                }
            }
        });
        Reader {
            source: name,
            ask,
            answers,
            timeout,
        }
    }

    /// The counters of all ports now; none when the thread does not answer in time.
    fn read(&self, last_moment: Option<Instant>) -> Option<Result<PortTable, String>> {
        self.ask.send(()).ok()?;
        let longest = self.timeout + GRACE;
        let left = last_moment.map(|last| last.saturating_duration_since(Instant::now()));
        self.answers
            .recv_timeout(left.map_or(longest, |left| left.min(longest)))
            .ok()
    }
}

impl SwitchWatch {
    /// Reads `source` with `timeout`. With a graph, only ports between its switches are kept.
    pub fn new(source: Source, graph: Option<&Graph>, timeout: Duration) -> SwitchWatch {
        let between = graph.filter(|graph| !graph.is_inferred()).map(|graph| {
            let links = graph.links().filter(|(_, link)| !link.is_host);
            links
                .map(|(_, link)| (link.from.to_string(), link.rail.clone()))
                .collect()
        });
        SwitchWatch {
            reader: Some(Reader::start(source, timeout)),
            between,
            reported: BTreeSet::new(),
            last_moment: None,
        }
    }

    /// The same, with no wait beyond `last_moment`.
    #[must_use]
    pub fn until(self, last_moment: Option<Instant>) -> SwitchWatch {
        SwitchWatch { last_moment, ..self }
    }

    /// Reads once, to report before anything is measured why nothing can be recorded.
    pub fn test_read(&mut self) -> Result<(), String> {
        let Some(table) = self.read()? else { return Ok(()) };
        let Some(between) = &self.between else {
            return Ok(());
        };
        let known = between.iter().any(|(port, _)| table.get(port).is_some());
        let source = self.reader.as_ref().map_or("", |reader| &reader.source);
        match (known, table.iter().next(), between.first()) {
            (false, Some((has, _)), Some((port, _))) => Err(format!(
                "{source} has ports such as `{has}`, but none between switches of the topology, such as `{port}`; make the names agree"
            )),
            _ => Ok(()),
        }
    }

    /// The counters before a slot; none when it has no streams, or they cannot be read.
    pub(super) fn before(&mut self, slot: &[&Cell], progress: &dyn Progress) -> Option<PortTable> {
        let is_streams = slot.iter().any(|cell| cell.collective == Collective::Streams);
        if !is_streams {
            return None;
        }
        self.read_or_report(progress)
    }

    /// Records the deltas since `before`.
    pub(super) fn after(
        &mut self,
        before: Option<PortTable>,
        slot: &[&Cell],
        round: u16,
        sink: &mut Sink,
        progress: &dyn Progress,
    ) -> Result<(), SinkError> {
        let (Some(before), Some(first)) = (before, slot.first()) else {
            return Ok(());
        };
        let Some(after) = self.read_or_report(progress) else {
            return Ok(());
        };
        let deltas = self.deltas(&before, &after, slot, (first.slot, round));
        if !deltas.iter().any(has_moved) {
            self.report(
                "still",
                "no switch counter moved while streams ran: the source is not live, and its counters are not recorded",
                progress,
            );
            return Ok(());
        }
        deltas
            .into_iter()
            .try_for_each(|delta| sink.write(&Event::Port(delta)))
    }

    fn deltas(
        &self,
        before: &PortTable,
        after: &PortTable,
        slot: &[&Cell],
        (number, round): (u32, u16),
    ) -> Vec<PortDelta> {
        let of_slot = |rail: &Option<String>| {
            let Some(rail) = rail else { return true };
            slot.iter().any(|cell| cell.rails.contains(rail))
        };
        let ports: Vec<&str> = match &self.between {
            Some(between) => between
                .iter()
                .filter(|(port, rail)| of_slot(rail) && before.get(port).is_some())
                .map(|(port, _)| port.as_str())
                .collect(),
            None => before.iter().map(|(port, _)| port).collect(),
        };
        let mut deltas = Vec::with_capacity(2 * ports.len());
        for port in ports {
            let was = before.get(port).unwrap_or_default();
            let is = after.get(port).unwrap_or_default();
            for ((name, before), (_, after)) in named(was).into_iter().zip(named(is)) {
                deltas.push(PortDelta {
                    slot: number,
                    round,
                    port: port.to_string(),
                    name: name.to_string(),
                    before,
                    after: unwrap_counter(before, after, is.width),
                });
            }
        }
        deltas
    }

    fn read_or_report(&mut self, progress: &dyn Progress) -> Option<PortTable> {
        match self.read() {
            Ok(table) => table,
            Err(problem) => {
                let text = format!("switch counters cannot be read: {problem}");
                self.report("unread", &text, progress);
                None
            }
        }
    }

    /// None without a source. A reader that does not answer in time is not asked again.
    fn read(&mut self) -> Result<Option<PortTable>, String> {
        let Some(reader) = &self.reader else {
            return Ok(None);
        };
        match reader.read(self.last_moment) {
            Some(read) => read.map(Some),
            None => {
                let problem = match self.last_moment.is_some_and(|last| Instant::now() >= last) {
                    true => format!("{}: no answer before the run had to end", reader.source),
                    false => format!("{}: no answer within {:?}", reader.source, reader.timeout + GRACE),
                };
                self.reader = None;
                Err(problem)
            }
        }
    }

    /// Reports each kind of problem once.
    fn report(&mut self, kind: &'static str, text: &str, progress: &dyn Progress) {
        if self.reported.insert(kind) {
            progress.note(text);
        }
    }
}

/// The counters of a port with their recorded names.
fn named(bytes: PortBytes) -> [(&'static str, Option<u64>); 2] {
    [("tx_bytes", bytes.tx_bytes), ("rx_bytes", bytes.rx_bytes)]
}

fn has_moved(delta: &PortDelta) -> bool {
    matches!((delta.before, delta.after), (Some(before), Some(after)) if after != before)
}

#[cfg(test)]
mod tests;

//! The status of a burn-in for watchdogs and monitoring. A thread writes two files every few seconds, so that they show a live
//! process during a long cell, and the time of the last progress when one takes too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::run_clock::rfc3339;
use crate::terminal;
use engine::device::heap;
use engine::measure::{CellResult, Progress};
use judge::burn_in::{BurnInFolder, BurnInPhase, Status};
use record::units::Nanos;
use record::{BurnIn, Cell, SCHEMA, burn_in_files};

/// How often the files are written.
const EVERY: Duration = Duration::from_secs(2);

/// The status, shared between the measuring thread and the writer.
pub struct StatusBoard {
    state: Mutex<State>,
}

struct State {
    status: Status,
    last_progress: jiff::Timestamp,
    /// Since when the fabric is under load; none while it is idle.
    loaded_since: Option<Instant>,
}

impl StatusBoard {
    /// The board of a burn-in that was under load for `load` so far.
    pub fn new(request: &BurnIn, load: Nanos) -> Arc<StatusBoard> {
        let now = jiff::Timestamp::now();
        Arc::new(StatusBoard {
            state: Mutex::new(State {
                status: Status {
                    schema: SCHEMA,
                    at: rfc3339(now),
                    pid: std::process::id(),
                    resident: None,
                    suite: request.suite.clone(),
                    started: request.started.clone(),
                    doing: BurnInPhase::Meeting,
                    cycle: 0,
                    cycles_done: 0,
                    cells_done: 0,
                    cells: 0,
                    load_ns: load,
                    wanted_ns: request.wanted_ns,
                    last_progress: rfc3339(now),
                    hosts: Vec::new(),
                    lost: Vec::new(),
                    ruling: None,
                    rejected: 0,
                    incidents: Vec::new(),
                    ended: None,
                },
                last_progress: now,
                loaded_since: None,
            }),
        })
    }

    /// Changes the status.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.lock().status);
    }

    /// The fabric is under load from now on.
    pub fn start_load(&self) {
        self.lock().loaded_since.get_or_insert_with(Instant::now);
    }

    /// The fabric is idle from now on.
    pub fn stop_load(&self) {
        let mut state = self.lock();
        if let Some(since) = state.loaded_since.take() {
            state.status.load_ns = state.status.load_ns + Nanos::from(since.elapsed());
        }
    }

    /// Time under load until now.
    pub fn load(&self) -> Nanos {
        let state = self.lock();
        let running = state.loaded_since.map(|since| Nanos::from(since.elapsed()));
        state.status.load_ns + running.unwrap_or_default()
    }

    /// The status now, with the times of now and of the last progress in seconds.
    fn status(&self) -> (Status, f64, f64) {
        let load = self.load();
        let now = jiff::Timestamp::now();
        let state = self.lock();
        let status = Status {
            at: rfc3339(now),
            load_ns: load,
            resident: heap::resident(),
            last_progress: rfc3339(state.last_progress),
            ..state.status.clone()
        };
        let seconds = |time: jiff::Timestamp| time.as_millisecond() as f64 / 1e3;
        (status, seconds(now), seconds(state.last_progress))
    }

    /// Writes both files.
    pub fn write(&self, folder: &BurnInFolder) -> Result<(), CliError> {
        let (status, now, last_progress) = self.status();
        let text = serde_json::to_vec_pretty(&status).map_err(std::io::Error::other);
        let text = text.map_err(CliError::system("cannot write the status"))?;
        folder.put(burn_in_files::STATUS, &text)?;
        let metrics = status.metrics(now, last_progress);
        Ok(folder.put(burn_in_files::METRICS, metrics.as_bytes())?)
    }

    fn record_progress(&self, change: impl FnOnce(&mut Status)) {
        let mut state = self.lock();
        state.last_progress = jiff::Timestamp::now();
        change(&mut state.status);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Writes the status files every few seconds until it is dropped.
pub struct StatusWriter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StatusWriter {
    /// Writes the files once and starts the thread.
    pub fn start(board: &Arc<StatusBoard>, folder: &BurnInFolder) -> Result<StatusWriter, CliError> {
        board.write(folder)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (board, folder, stopped) = (Arc::clone(board), folder.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("status".to_string())
            .spawn(move || {
                let mut has_warned = false;
                while !stopped.load(Ordering::Relaxed) {
                    std::thread::park_timeout(EVERY);
                    // A status that cannot be written must not stop the burn-in; warn once.
                    if let Err(error) = board.write(&folder)
                        && !std::mem::replace(&mut has_warned, true)
                    {
                        terminal::warn(&error);
                    }
                }
            });
        Ok(StatusWriter {
            stop,
            thread: Some(thread.map_err(CliError::system("cannot start the status thread"))?),
        })
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Shows progress and notes it on the board.
pub struct StatusProgress<'a> {
    /// What shows it.
    pub display: &'a dyn Progress,
    /// The board.
    pub board: &'a StatusBoard,
}

impl Progress for StatusProgress<'_> {
    fn plan(&self, cells: usize) {
        self.board.update(|status| status.cells += cells as u32);
        self.display.plan(cells);
    }

    fn slot(&self, cells: &[&Cell], round: u16) {
        self.display.slot(cells, round);
    }

    fn cell_done(&self, result: &CellResult<'_>) {
        self.board.record_progress(|status| status.cells_done += 1);
        self.display.cell_done(result);
    }

    fn note(&self, text: &str) {
        self.display.note(text);
    }
}

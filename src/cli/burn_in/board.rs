//! What a watchdog sees of a burn-in: a status file and figures for monitoring, written anew every few seconds by a thread of
//! its own, so that they say "alive" also while a cell takes long, and "no progress since" when it takes too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cli::{CliError, say};
use engine::device::heap;
use engine::measure::{CellResult, Progress};
use judge::burn_in::{BurnInFolder, Doing, FolderError, Status};
use record::units::Nanos;
use record::{BurnIn, Cell, SCHEMA, burn_in_files};

/// How often the files are written.
const EVERY: Duration = Duration::from_secs(2);

/// How it is going, shared between whoever measures and whoever writes it down.
pub struct Board {
    state: Mutex<State>,
}

struct State {
    status: Status,
    last_progress: jiff::Timestamp,
    /// Since when the fabric is under load, when it is.
    loaded_since: Option<Instant>,
}

impl Board {
    /// A burn-in that was under load for `load` so far.
    pub fn new(asked: &BurnIn, load: Nanos) -> Arc<Board> {
        let now = jiff::Timestamp::now();
        Arc::new(Board {
            state: Mutex::new(State {
                status: Status {
                    schema: SCHEMA,
                    at: text(now),
                    pid: std::process::id(),
                    resident: None,
                    suite: asked.suite.clone(),
                    started: asked.started.clone(),
                    doing: Doing::Meeting,
                    cycle: 0,
                    cycles_done: 0,
                    cells_done: 0,
                    cells: 0,
                    load_ns: load,
                    wanted_ns: asked.wanted_ns,
                    last_progress: text(now),
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

    /// Changes what is known.
    pub fn note(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.lock().status);
    }

    /// The fabric is under load from here on.
    pub fn load_begins(&self) {
        self.lock().loaded_since.get_or_insert_with(Instant::now);
    }

    /// It is not any more.
    pub fn load_ends(&self) {
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

    /// How it is going now.
    pub fn status(&self) -> (Status, f64, f64) {
        let load = self.load();
        let now = jiff::Timestamp::now();
        let state = self.lock();
        let status = Status {
            at: text(now),
            load_ns: load,
            resident: heap::resident(),
            last_progress: text(state.last_progress),
            ..state.status.clone()
        };
        let seconds = |time: jiff::Timestamp| time.as_millisecond() as f64 / 1e3;
        (status, seconds(now), seconds(state.last_progress))
    }

    /// Writes both files now.
    pub fn write(&self, folder: &BurnInFolder) -> Result<(), CliError> {
        let (status, now, last_progress) = self.status();
        let text = serde_json::to_vec_pretty(&status).map_err(std::io::Error::other);
        let text = text.map_err(CliError::system("cannot write the status"))?;
        folder.put(burn_in_files::STATUS, &text)?;
        let metrics = status.metrics(now, last_progress);
        Ok(folder.put(burn_in_files::METRICS, metrics.as_bytes())?)
    }

    fn progressed(&self, change: impl FnOnce(&mut Status)) {
        let mut state = self.lock();
        state.last_progress = jiff::Timestamp::now();
        change(&mut state.status);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// RFC 3339 with whole seconds.
fn text(time: jiff::Timestamp) -> String {
    time.round(jiff::Unit::Second).unwrap_or(time).to_string()
}

/// Writes the board down every few seconds until it is dropped.
pub struct Pulse {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Begins.
    pub fn start(board: &Arc<Board>, folder: &BurnInFolder) -> Result<Pulse, CliError> {
        board.write(folder)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (board, folder, told) = (Arc::clone(board), folder.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("status".to_string())
            .spawn(move || {
                let mut complained = false;
                while !told.load(Ordering::Relaxed) {
                    std::thread::park_timeout(EVERY);
                    // A status that cannot be written is no reason to stop measuring; it is said once.
                    if let Err(error) = board.write(&folder)
                        && !std::mem::replace(&mut complained, true)
                    {
                        say::complain(&error);
                    }
                }
            });
        Ok(Pulse {
            stop,
            thread: Some(thread.map_err(CliError::system("cannot start the status thread"))?),
        })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Tells both the person who watches and the board.
pub struct Watching<'a> {
    /// The person.
    pub person: &'a dyn Progress,
    /// The board.
    pub board: &'a Board,
}

impl Progress for Watching<'_> {
    fn plan(&self, cells: usize) {
        self.board.note(|status| status.cells += cells as u32);
        self.person.plan(cells);
    }

    fn slot(&self, cells: &[&Cell], round: u16) {
        self.person.slot(cells, round);
    }

    fn cell_done(&self, result: &CellResult<'_>) {
        self.board.progressed(|status| status.cells_done += 1);
        self.person.cell_done(result);
    }

    fn note(&self, text: &str) {
        self.person.note(text);
    }
}

impl From<FolderError> for CliError {
    fn from(error: FolderError) -> CliError {
        match error {
            FolderError::Content { .. } => CliError::Usage(error.to_string()),
            FolderError::System { .. } => CliError::Folder(error),
        }
    }
}

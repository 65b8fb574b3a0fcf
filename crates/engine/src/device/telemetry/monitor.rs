//! The thread that reads sensors, and what those who ask it get.
//!
//! One thread for all ranks of a process: ranks that share a GPU share its readings. NVML is opened, asked and closed on
//! this thread alone. When it does not answer in time, whoever asked goes on without, and nobody waits again until it
//! has answered.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::reading::{FullReading, ReadingKey, nothing, reading};
use super::{GpuName, Sensors, Unreadable, nvml};
use record::units::Nanos;
use record::{GpuDuring, GpuReading};

/// How often the quick sensors are read while a cell runs.
const EVERY: Duration = Duration::from_millis(100);
/// When they are read for the first time; many cells are over soon.
const FIRST: Duration = Duration::from_millis(20);
/// A full reading of a GPU serves everybody who asks for one within this time.
const FRESH: Duration = Duration::from_millis(50);
/// Under this name stands in `unavailable` why nothing at all is known.
const ALL: &str = "all sensors";

/// What the thread is told.
enum SensorRequest {
    Begin {
        ticket: u64,
        gpu: GpuName,
        done: Sender<()>,
    },
    End {
        ticket: u64,
        done: Sender<RecordedReadings>,
    },
    Forget {
        ticket: u64,
    },
}

/// What was seen between a beginning and an end.
struct RecordedReadings {
    before: FullReading,
    during: GpuDuring,
    after: FullReading,
    elapsed: Duration,
    missing: Unreadable,
}

/// Opens the sensors, or says why they cannot be read.
type Open = Box<dyn FnOnce() -> Result<Box<dyn Sensors>, String> + Send>;

/// Watches GPUs on a thread of its own.
pub struct GpuMonitor {
    orders: Result<Sender<SensorRequest>, String>,
    /// Somebody waited for nothing, and the thread has not answered since.
    mute: Arc<AtomicBool>,
    tickets: AtomicU64,
}

/// The one of this process, reading NVML; started when it is first asked for.
pub fn process_monitor() -> &'static GpuMonitor {
    static MONITOR: OnceLock<GpuMonitor> = OnceLock::new();
    MONITOR.get_or_init(|| GpuMonitor::start(Box::new(nvml::open)))
}

impl GpuMonitor {
    fn start(open: Open) -> GpuMonitor {
        let (orders, heard) = channel();
        let mute = Arc::new(AtomicBool::new(false));
        let answered = Arc::clone(&mute);
        let thread = std::thread::Builder::new().name("telemetry".to_string());
        // Not joined: a driver that hangs must not keep the process.
        let started = thread.spawn(move || SensorThread::new(open).serve(&heard, &answered));
        GpuMonitor {
            orders: match started {
                Ok(_) => Ok(orders),
                Err(error) => Err(format!("cannot start a thread to read them: {error}")),
            },
            mute,
            tickets: AtomicU64::new(0),
        }
    }

    /// Begins to watch a GPU. Waits for the first reading, but not longer than `patience`.
    pub fn start_recording(&self, gpu: &GpuName, patience: Duration) -> SensorRecording {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (done, heard) = channel();
        let order = SensorRequest::Begin {
            ticket,
            gpu: gpu.clone(),
            done,
        };
        let began = self.ask(order, &heard, patience);
        SensorRecording {
            gpu: gpu.clone(),
            ticket,
            orders: self.orders.as_ref().ok().cloned(),
            mute: Arc::clone(&self.mute),
            since: Instant::now(),
            began,
        }
    }

    fn ask<T>(&self, order: SensorRequest, heard: &Receiver<T>, patience: Duration) -> Result<T, String> {
        ask(
            self.orders.as_ref().map_err(String::clone)?,
            order,
            heard,
            &self.mute,
            patience,
        )
    }
}

fn ask<T>(
    orders: &Sender<SensorRequest>,
    order: SensorRequest,
    heard: &Receiver<T>,
    mute: &AtomicBool,
    patience: Duration,
) -> Result<T, String> {
    if mute.load(Ordering::Acquire) {
        return Err("still no answer to an earlier question".to_string());
    }
    let ended = "the thread that reads them has ended";
    orders.send(order).map_err(|_| ended.to_string())?;
    heard.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Disconnected => ended.to_string(),
        RecvTimeoutError::Timeout => {
            mute.store(true, Ordering::Release);
            format!("no answer within {}", Nanos::from(patience))
        }
    })
}

/// A GPU that is being watched for one rank and one cell.
pub struct SensorRecording {
    gpu: GpuName,
    ticket: u64,
    orders: Option<Sender<SensorRequest>>,
    mute: Arc<AtomicBool>,
    since: Instant,
    /// Why there was no reading at the beginning.
    began: Result<(), String>,
}

impl SensorRecording {
    /// Ends watching and says what was seen. Waits for the last reading, but not longer than `patience`.
    pub fn finish(self, cell: u32, round: u16, rank: u32, patience: Duration) -> GpuReading {
        let key = ReadingKey {
            cell,
            round,
            rank,
            uuid: self.gpu.uuid.clone(),
        };
        match self.end(patience) {
            Ok(seen) => reading(
                key,
                seen.elapsed.into(),
                seen.before,
                seen.during,
                seen.after,
                seen.missing,
            ),
            Err(why) => {
                let missing = Unreadable::from([(ALL.to_string(), why)]);
                nothing(key, self.since.elapsed().into(), missing)
            }
        }
    }

    fn end(&self, patience: Duration) -> Result<RecordedReadings, String> {
        self.began.clone()?;
        let Some(orders) = &self.orders else {
            return Err("nobody reads them".to_string());
        };
        let (done, heard) = channel();
        let order = SensorRequest::End {
            ticket: self.ticket,
            done,
        };
        ask(orders, order, &heard, &self.mute, patience)
    }
}

impl Drop for SensorRecording {
    /// A cell that came to no end is not watched for ever.
    fn drop(&mut self) {
        if let Some(orders) = &self.orders {
            // When the thread has ended there is nothing to forget.
            let _ = orders.send(SensorRequest::Forget { ticket: self.ticket });
        }
    }
}

/// A full reading that may serve several.
#[derive(Clone)]
struct SharedReading {
    full: FullReading,
    missing: Unreadable,
    at: Instant,
    /// Whether a watch ended with it: then everything before is in it.
    is_last: bool,
}

/// One open watch.
struct OpenRecording {
    gpu: GpuName,
    began: Instant,
    first: SharedReading,
    during: GpuDuring,
    missing: Unreadable,
}

/// The thread's side.
struct SensorThread {
    sensors: Result<Box<dyn Sensors>, String>,
    open: BTreeMap<u64, OpenRecording>,
    latest: BTreeMap<GpuName, SharedReading>,
    next: Instant,
}

impl SensorThread {
    fn new(open: Open) -> SensorThread {
        let opened = catch_unwind(AssertUnwindSafe(open));
        let sensors = opened.unwrap_or_else(|_| Err("opening them failed inside".to_string()));
        if let Err(why) = &sensors {
            tracing::debug!(why, "the sensors of GPUs cannot be read");
        }
        SensorThread {
            sensors,
            open: BTreeMap::new(),
            latest: BTreeMap::new(),
            next: Instant::now(),
        }
    }

    fn serve(mut self, orders: &Receiver<SensorRequest>, answered: &AtomicBool) {
        loop {
            let order = if self.open.is_empty() {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(self.next.saturating_duration_since(Instant::now()))
            };
            match order {
                Ok(order) => {
                    self.handle(order);
                    answered.store(false, Ordering::Release);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.open.is_empty() && Instant::now() >= self.next {
                self.sample();
                self.next = Instant::now() + EVERY;
            }
        }
    }

    fn handle(&mut self, order: SensorRequest) {
        match order {
            SensorRequest::Begin { ticket, gpu, done } => {
                let first = self.full(&gpu, None);
                let soon = Instant::now() + FIRST;
                self.next = if self.open.is_empty() {
                    soon
                } else {
                    self.next.min(soon)
                };
                let start_recording = OpenRecording {
                    gpu,
                    began: Instant::now(),
                    first,
                    during: GpuDuring::default(),
                    missing: Unreadable::new(),
                };
                self.open.insert(ticket, start_recording);
                // Who has lost patience is told by nobody.
                let _ = done.send(());
            }
            SensorRequest::End { ticket, done } => {
                let Some(start_recording) = self.open.remove(&ticket) else {
                    return;
                };
                let (first, last) = (
                    start_recording.first,
                    self.full(&start_recording.gpu, Some(start_recording.began)),
                );
                let missing = [first.missing, start_recording.missing, last.missing];
                let seen = RecordedReadings {
                    elapsed: last.at.saturating_duration_since(first.at),
                    before: first.full,
                    during: start_recording.during,
                    after: last.full,
                    missing: missing.into_iter().flatten().collect(),
                };
                let _ = done.send(seen);
            }
            SensorRequest::Forget { ticket } => _ = self.open.remove(&ticket),
        }
    }

    /// A full reading of `gpu`: the latest where that is fresh. For the end of a watch it must be one that another watch
    /// of the same cell ended with: any other was taken before the cell was over.
    fn full(&mut self, gpu: &GpuName, end_of: Option<Instant>) -> SharedReading {
        if let Some(taken) = self.latest.get(gpu)
            && taken.at.elapsed() < FRESH
            && end_of.is_none_or(|began| taken.is_last && taken.at > began)
        {
            return taken.clone();
        }
        let mut missing = Unreadable::new();
        let full = self.read(&mut missing, |sensors, missing| FullReading {
            moment: sensors.moment(gpu, missing),
            snapshot: sensors.snapshot(gpu, missing),
        });
        let taken = SharedReading {
            full,
            missing,
            at: Instant::now(),
            is_last: end_of.is_some(),
        };
        self.latest.insert(gpu.clone(), taken.clone());
        taken
    }

    /// Reads the quick sensors of every GPU that is being watched.
    fn sample(&mut self) {
        if self.sensors.is_err() {
            return;
        }
        let gpus: BTreeSet<GpuName> = self
            .open
            .values()
            .map(|start_recording| start_recording.gpu.clone())
            .collect();
        for gpu in gpus {
            let mut missing = Unreadable::new();
            let moment = self.read(&mut missing, |sensors, missing| sensors.moment(&gpu, missing));
            for start_recording in self
                .open
                .values_mut()
                .filter(|start_recording| start_recording.gpu == gpu)
            {
                start_recording.during.add(&moment);
                start_recording.missing.extend(missing.clone());
            }
        }
    }

    fn read<T: Default>(
        &mut self,
        missing: &mut Unreadable,
        how: impl FnOnce(&mut dyn Sensors, &mut Unreadable) -> T,
    ) -> T {
        let result = match &mut self.sensors {
            Ok(sensors) => catch_unwind(AssertUnwindSafe(|| how(sensors.as_mut(), missing)))
                .map_err(|_| "reading them failed inside".to_string()),
            Err(why) => Err(why.clone()),
        };
        result.unwrap_or_else(|why| {
            missing.insert(ALL.to_string(), why.clone());
            self.sensors = Err(why);
            T::default()
        })
    }
}

#[cfg(test)]
impl GpuMonitor {
    /// One that reads what `open` opens.
    pub(super) fn of(open: impl FnOnce() -> Result<Box<dyn Sensors>, String> + Send + 'static) -> GpuMonitor {
        GpuMonitor::start(Box::new(open))
    }
}

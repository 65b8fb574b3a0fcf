//! What a user would lose if watching went wrong, with sensors that say what they are told to say.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{CounterSnapshot, GpuMonitor, GpuName, Sensors, Unreadable};
use record::{ClockLimit, GpuMoment};

const PATIENCE: Duration = Duration::from_secs(20);

/// Sensors that say what `Said` says now.
struct Script {
    said: Arc<Said>,
}

#[derive(Default)]
struct Said {
    moment: Mutex<GpuMoment>,
    replays: Mutex<u64>,
    moments: AtomicU32,
    standings: AtomicU32,
    /// Reading takes this long.
    slow: Mutex<Duration>,
    /// Reading panics.
    broken: Mutex<bool>,
}

impl Said {
    fn now(&self, sm_mhz: u32, limited_by: &[ClockLimit]) {
        *self.moment.lock().unwrap() = GpuMoment {
            sm_mhz: Some(sm_mhz),
            limited_by: Some(limited_by.to_vec()),
            ..GpuMoment::default()
        };
    }

    /// Waits until the quick sensors were read another `times` times.
    fn wait_for_readings(&self, times: u32) {
        let (from, until) = (self.moments.load(Ordering::SeqCst), Instant::now() + PATIENCE);
        while self.moments.load(Ordering::SeqCst) < from + times {
            assert!(Instant::now() < until, "nobody reads the sensors");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Sensors for Script {
    fn moment(&mut self, _: &GpuName, missing: &mut Unreadable) -> GpuMoment {
        assert!(!*self.said.broken.lock().unwrap(), "broken on purpose");
        let slow = *self.said.slow.lock().unwrap();
        std::thread::sleep(slow);
        missing.insert("memory temperature".into(), "not on this GPU".into());
        let moment = self.said.moment.lock().unwrap().clone();
        self.said.moments.fetch_add(1, Ordering::SeqCst);
        moment
    }

    fn snapshot(&mut self, _: &GpuName, _: &mut Unreadable) -> CounterSnapshot {
        self.said.standings.fetch_add(1, Ordering::SeqCst);
        let replays = *self.said.replays.lock().unwrap();
        CounterSnapshot {
            counters: [("pcie-replays".to_string(), replays)].into(),
            ..CounterSnapshot::default()
        }
    }
}

fn monitor() -> (GpuMonitor, Arc<Said>) {
    let said = Arc::new(Said::default());
    let script = Arc::clone(&said);
    let monitor = GpuMonitor::of(move || Ok(Box::new(Script { said: script }) as Box<dyn Sensors>));
    (monitor, said)
}

fn gpu(number: u32) -> GpuName {
    GpuName {
        uuid: format!("GPU-{number}"),
        pci: format!("0000:0{number}:00.0"),
    }
}

#[test]
fn a_dip_of_the_clock_in_the_middle_of_a_cell_is_recorded() {
    let (monitor, said) = monitor();
    said.now(1980, &[ClockLimit::Idle]);
    let start_recording = monitor.start_recording(&gpu(0), PATIENCE);
    said.now(990, &[ClockLimit::HardwareSlowdown, ClockLimit::HardwareThermal]);
    said.wait_for_readings(2);
    said.now(1980, &[]);
    said.wait_for_readings(1);
    *said.replays.lock().unwrap() = 3;
    let reading = start_recording.finish(4, 1, 2, PATIENCE);
    assert_eq!((reading.cell, reading.round, reading.rank), (4, 1, 2));
    assert_eq!(reading.before.limited_by, Some(vec![ClockLimit::Idle]));
    assert_eq!(reading.after.sm_mhz, Some(1980));
    let during = &reading.during;
    assert!(during.readings >= 3, "{during:?}");
    assert_eq!(during.sm_mhz.map(|clock| clock.least), Some(990));
    assert!(during.limited_by[&ClockLimit::HardwareThermal] >= 2, "{during:?}");
    assert!(
        !during.limited_by.contains_key(&ClockLimit::Idle),
        "idle was before, not during"
    );
    assert_eq!(reading.counters["pcie-replays"].moved(), Some(3));
    assert_eq!(reading.unavailable["memory temperature"], "not on this GPU");
    assert!(reading.elapsed_ns.0 > 0);
}

#[test]
fn ranks_that_share_a_gpu_share_its_readings_and_other_gpus_do_not() {
    let (monitor, said) = monitor();
    let watches: Vec<_> = [0, 0, 0, 1]
        .iter()
        .map(|number| monitor.start_recording(&gpu(*number), PATIENCE))
        .collect();
    // On a machine that stood still for a moment, a reading may be out of date and be taken again.
    let first = said.standings.load(Ordering::SeqCst);
    assert!((2..=4).contains(&first), "{first}");
    *said.replays.lock().unwrap() = 5;
    for (rank, start_recording) in watches.into_iter().enumerate() {
        let reading = start_recording.finish(0, 0, rank as u32, PATIENCE);
        assert_eq!(
            reading.counters["pcie-replays"].moved(),
            Some(5),
            "rank {rank} was given a reading from before the end"
        );
    }
}

#[test]
fn a_cell_that_is_over_at_once_still_has_a_reading_of_its_own_at_the_end() {
    let (monitor, said) = monitor();
    for cell in 0..20 {
        let start_recording = monitor.start_recording(&gpu(0), PATIENCE);
        *said.replays.lock().unwrap() += 1;
        let reading = start_recording.finish(cell, 0, 0, PATIENCE);
        assert_eq!(reading.counters["pcie-replays"].moved(), Some(1), "cell {cell}");
    }
}

#[test]
fn a_driver_that_hangs_costs_one_wait_and_is_heard_again_when_it_answers() {
    let (monitor, said) = monitor();
    *said.slow.lock().unwrap() = Duration::from_secs(1);
    let started = Instant::now();
    let short = Duration::from_millis(30);
    for cell in 0..50 {
        let reading = monitor.start_recording(&gpu(0), short).finish(cell, 0, 0, short);
        let why = &reading.unavailable["all sensors"];
        assert!(
            why.contains("no answer within 30.0 ms") || why.contains("still no answer"),
            "{why}"
        );
        assert_eq!(reading.before, GpuMoment::default());
    }
    assert!(
        started.elapsed() < Duration::from_millis(900),
        "{:?}",
        started.elapsed()
    );
    *said.slow.lock().unwrap() = Duration::ZERO;
    said.now(1500, &[]);
    let until = Instant::now() + PATIENCE;
    loop {
        let reading = monitor.start_recording(&gpu(0), short).finish(0, 0, 0, short);
        if reading.after.sm_mhz == Some(1500) {
            break;
        }
        assert!(Instant::now() < until, "{reading:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_cannot_be_opened_or_breaks_is_unavailable_with_the_reason() {
    let absent = GpuMonitor::of(|| Err("NVML is not installed".to_string()));
    let reading = absent
        .start_recording(&gpu(0), PATIENCE)
        .finish(1, 0, 0, PATIENCE);
    assert_eq!(reading.unavailable["all sensors"], "NVML is not installed");
    assert_eq!((reading.during.readings, reading.counters.len()), (0, 0));
    let (monitor, said) = monitor();
    let start_recording = monitor.start_recording(&gpu(0), PATIENCE);
    *said.broken.lock().unwrap() = true;
    let reading = start_recording.finish(1, 0, 0, PATIENCE);
    assert!(
        reading.unavailable["all sensors"].contains("failed inside"),
        "{reading:?}"
    );
    let unopened = GpuMonitor::of(|| panic!("opening breaks"));
    let reading = unopened
        .start_recording(&gpu(0), PATIENCE)
        .finish(1, 0, 0, PATIENCE);
    assert!(
        reading.unavailable["all sensors"].contains("failed inside"),
        "{reading:?}"
    );
}

#[test]
fn a_cell_that_was_given_up_is_not_watched_any_more() {
    let (monitor, said) = monitor();
    drop(monitor.start_recording(&gpu(0), PATIENCE));
    // Whoever asks next is served after that was heard.
    drop(
        monitor
            .start_recording(&gpu(1), PATIENCE)
            .finish(0, 0, 0, PATIENCE),
    );
    let read = said.moments.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(said.moments.load(Ordering::SeqCst), read);
}

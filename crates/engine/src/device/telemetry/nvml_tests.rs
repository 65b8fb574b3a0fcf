//! NVML as it is called, against a library of our own that says fixed things.

use std::ffi::OsStr;
use std::process::Command;

use tempfile::TempDir;

use super::gpu_inventory::gpus_of;
use super::nvml::{named_limits, open, open_at};
use super::{GpuName, Sensors, Unreadable};
use record::{ClockLimit, Fact, GpuLimits, GpuMoment};

/// A library built from `source`, and the sensors it has.
fn built(source: &str) -> (TempDir, Result<Box<dyn Sensors>, String>) {
    let folder = tempfile::tempdir().unwrap();
    let (code, library) = (
        folder.path().join("nvml.c"),
        folder.path().join("libnvidia-ml.so.1"),
    );
    std::fs::write(&code, source).unwrap();
    let mut compile = Command::new("cc");
    let compiled = compile
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&code)
        .status();
    assert!(compiled.unwrap().success());
    let sensors = open_at(library.as_os_str());
    (folder, sensors)
}

fn fake() -> (TempDir, Box<dyn Sensors>) {
    let (folder, sensors) = built(include_str!("fake_nvml.c"));
    (folder, sensors.map_err(|why| panic!("{why}")).unwrap())
}

fn gpu(uuid: &str, pci: &str) -> GpuName {
    GpuName {
        uuid: uuid.into(),
        pci: pci.into(),
    }
}

#[test]
fn every_sensor_is_asked_for_what_it_is_recorded_as() {
    let (_folder, mut sensors) = fake();
    let (gpu, mut missing) = (gpu("GPU-healthy", "0000:01:00.0"), Unreadable::new());
    let moment = sensors.moment(&gpu, &mut missing);
    assert_eq!(
        moment,
        GpuMoment {
            sm_mhz: Some(1701),
            memory_mhz: Some(1702),
            celsius: Some(51),
            memory_celsius: Some(63),
            milliwatts: Some(412_345),
            limited_by: Some(vec![
                ClockLimit::SoftwareThermal,
                ClockLimit::SoftwarePowerCap,
                ClockLimit::Other
            ]),
            pcie_generation: Some(4),
            pcie_width: Some(8),
        }
    );
    assert_eq!(missing, Unreadable::new());
    let snapshot = sensors.snapshot(&gpu, &mut missing);
    assert_eq!(
        snapshot.limits,
        GpuLimits {
            sm_mhz: Some(1981),
            memory_mhz: Some(1982),
            celsius: Some(87),
            milliwatts: Some(700_000),
            pcie_generation: Some(5),
            pcie_width: Some(16),
        }
    );
    let held: Vec<(ClockLimit, u64)> = snapshot.held_ns.into_iter().collect();
    assert_eq!(
        held,
        [
            (ClockLimit::HardwareThermal, 4000),
            (ClockLimit::PowerBrake, 5000),
            (ClockLimit::SoftwareThermal, 3000),
            (ClockLimit::SoftwarePowerCap, 1000),
        ]
    );
    let counters: Vec<(&str, u64)> = snapshot
        .counters
        .iter()
        .map(|(name, v)| (name.as_str(), *v))
        .collect();
    assert_eq!(
        counters,
        [
            ("ecc-corrected", 30),
            ("ecc-uncorrected", 40),
            ("nvlink-crc-flit/link0", 300),
            ("nvlink-crc-flit/link2", 302),
            ("nvlink-recoveries/link0", 200),
            ("nvlink-recoveries/link2", 202),
            ("nvlink-replays/link0", 100),
            ("nvlink-replays/link2", 102),
            ("pcie-replays", 7),
        ]
    );
    assert_eq!(snapshot.links, [(0, true), (1, false), (2, true)].into());
    let missing: Vec<&str> = missing.keys().map(String::as_str).collect();
    assert_eq!(
        missing,
        ["nvlink-crc-data", "time of sync boost with another GPU"]
    );
}

#[test]
fn a_gpu_that_fell_off_the_bus_or_is_not_there_is_a_reason_not_an_error() {
    let (_folder, mut sensors) = fake();
    let mut missing = Unreadable::new();
    let fallen = gpu("GPU-fallen", "");
    assert_eq!(sensors.moment(&fallen, &mut missing), GpuMoment::default());
    assert_eq!(sensors.snapshot(&fallen, &mut missing), Default::default());
    assert!(missing["SM clock"].contains("off the bus"), "{missing:?}");
    assert!(missing["NVLinks"].contains("off the bus"), "{missing:?}");
    let mut missing = Unreadable::new();
    sensors.moment(&gpu("GPU-elsewhere", "0000:09:00.0"), &mut missing);
    let (what, why) = missing.first_key_value().unwrap();
    assert!(
        what.contains("GPU-elsewhere at 0000:09:00.0") && !why.is_empty(),
        "{missing:?}"
    );
}

#[test]
fn a_gpu_is_found_by_its_place_when_its_name_is_hidden_and_lacks_what_it_lacks() {
    let (_folder, mut sensors) = fake();
    let (plain, mut missing) = (gpu("GPU-hidden", "0000:03:00.0"), Unreadable::new());
    let snapshot = sensors.snapshot(&plain, &mut missing);
    assert!(
        snapshot.counters.is_empty() && snapshot.links.is_empty(),
        "{snapshot:?}"
    );
    for what in [
        "ecc-uncorrected",
        "NVLinks",
        "power limit",
        "time of software power cap",
    ] {
        assert!(missing[what].contains("not available"), "{what}: {missing:?}");
    }
}

#[test]
fn an_old_library_without_a_function_lacks_that_sensor_only() {
    let source = include_str!("fake_nvml.c").replace("nvmlDeviceGetPowerUsage(", "renamed(");
    let (_folder, sensors) = built(&source);
    let mut missing = Unreadable::new();
    let moment = sensors
        .unwrap_or_else(|why| panic!("{why}"))
        .moment(&gpu("GPU-healthy", ""), &mut missing);
    assert_eq!((moment.milliwatts, moment.sm_mhz), (None, Some(1701)));
    assert!(
        missing["power"].contains("nvmlDeviceGetPowerUsage"),
        "{missing:?}"
    );
}

#[test]
fn no_library_a_broken_one_and_no_driver_are_told_apart() {
    let why = |sensors: Result<Box<dyn Sensors>, String>| sensors.err().unwrap();
    let absent = why(open_at(OsStr::new("/nonexistent/libnvidia-ml.so.1")));
    assert!(
        absent.contains("not installed") && absent.contains("/nonexistent"),
        "{absent}"
    );
    let source = include_str!("fake_nvml.c");
    let no_driver = source.replace(
        "int nvmlInit_v2(void) { return OK; }",
        "int nvmlInit_v2(void) { return 9; }",
    );
    assert!(why(built(&no_driver).1).contains("driver is not loaded"));
    let (_folder, empty) = built("int nothing;");
    assert!(why(empty).contains("nvmlInit_v2"));
    // Whatever is on this machine, asking for it does not end the process.
    let _ = open();
}

#[test]
fn idle_and_a_power_cap_are_not_taken_for_a_slowdown() {
    assert_eq!(named_limits(0), []);
    assert_eq!(named_limits(0x1), [ClockLimit::Idle]);
    assert_eq!(named_limits(0x4), [ClockLimit::SoftwarePowerCap]);
    assert_eq!(
        named_limits(0x48),
        [ClockLimit::HardwareThermal, ClockLimit::HardwareSlowdown]
    );
    assert!(
        named_limits(0x1 | 0x2 | 0x4 | 0x10 | 0x100)
            .iter()
            .all(|limit| !limit.is_trouble())
    );
}

#[test]
fn an_inventory_tells_what_gpus_are_and_of_one_that_fell_off_the_bus_why_it_does_not() {
    let (folder, _) = built(include_str!("fake_nvml.c"));
    let library = folder.path().join("libnvidia-ml.so.1");
    let gpus = gpus_of(library.as_os_str(), std::time::Duration::from_secs(10));
    assert_eq!(gpus.nvml, Fact::Value("13.580.95.05".to_string()));
    assert_eq!(gpus.cuda, Fact::Value("13.0".to_string()));
    let [healthy, fallen, plain] = gpus.parts.as_slice() else {
        panic!("{:?}", gpus.parts);
    };
    for (fact, value) in [
        ("name", "NVIDIA H200"),
        ("part-number", "692-2G520-0280-501"),
        ("serial", "1650924000001"),
        ("driver", "580.95.05"),
        ("vbios", "96.00.A5.00.01"),
        ("inforom", "G520.0280.00.01"),
        ("gsp-firmware", "580.95.05"),
        ("ecc", "on"),
        ("fabric-state", "completed"),
    ] {
        assert_eq!(healthy.value(fact), Some(value), "{fact}");
    }
    let why = |part: &record::InventoryPart, fact: &str| part.facts[fact].clone();
    assert!(matches!(why(fallen, "vbios"), Fact::Unreadable { .. }));
    assert_eq!(why(plain, "vbios"), Fact::Absent, "a GPU that does not have it");
    assert_eq!(
        plain.value("driver"),
        Some("580.95.05"),
        "the driver is the same for all"
    );
    // An old library: the function is not in it.
    assert!(matches!(why(healthy, "mig"), Fact::Unreadable { .. }));
}

//! What the sensors of GPUs add to a judgement.

use proptest::prelude::*;

use super::{kinds, on_rail};
use crate::findings::fixture::{Fixture, HEALTHY};
use crate::findings::judge;
use record::counters::CounterKind;
use record::units::Nanos;
use record::{
    ClockLimit, Corruption, Event, Extremes, FindingKind, GpuCounter, GpuDuring, GpuLimits, GpuLinks,
    GpuMoment, GpuReading, Recorded, Verdict,
};
use topology::suite::counters::{Bound, Per, Severity, built_in};

/// As an H200 in good health says it.
fn healthy(cell: u32, rank: u32) -> GpuReading {
    let moment = GpuMoment {
        sm_mhz: Some(1980),
        memory_mhz: Some(3201),
        celsius: Some(45),
        memory_celsius: Some(52),
        milliwatts: Some(310_000),
        limited_by: Some(Vec::new()),
        pcie_generation: Some(5),
        pcie_width: Some(16),
    };
    let mut during = GpuDuring::default();
    (0..10).for_each(|_| during.add(&moment));
    let zero = GpuCounter {
        before: Some(3),
        after: Some(3),
    };
    GpuReading {
        cell,
        round: 0,
        rank,
        uuid: format!("GPU-{rank}"),
        elapsed_ns: Nanos::from_secs(1),
        limits: GpuLimits {
            sm_mhz: Some(1980),
            memory_mhz: Some(3201),
            celsius: Some(87),
            milliwatts: Some(700_000),
            pcie_generation: Some(5),
            pcie_width: Some(16),
        },
        before: GpuMoment {
            sm_mhz: Some(345),
            limited_by: Some(vec![ClockLimit::Idle]),
            pcie_generation: Some(1),
            ..moment.clone()
        },
        during,
        after: moment,
        held_ns: [(ClockLimit::SoftwarePowerCap, Nanos(0))].into(),
        counters: [
            "ecc-corrected",
            "ecc-uncorrected",
            "pcie-replays",
            "nvlink-replays",
        ]
        .map(|name| (name.to_string(), zero))
        .into(),
        nvlinks: Some(GpuLinks {
            up_before: vec![0, 1],
            up_after: vec![0, 1],
            down_after: Vec::new(),
        }),
        unavailable: Default::default(),
    }
}

/// A run on four GPUs, each reading changed by `change`.
fn run(fixture: Fixture, change: impl Fn(&mut GpuReading)) -> Recorded {
    let mut recorded = fixture.recorded();
    let cells: Vec<(u32, Vec<u32>)> = recorded
        .run
        .cells
        .iter()
        .map(|cell| (cell.id, cell.ranks.clone()))
        .collect();
    for (cell, ranks) in cells {
        for rank in ranks {
            let mut reading = healthy(cell, rank);
            change(&mut reading);
            recorded.events.insert(0, Event::Gpu(Box::new(reading)));
        }
    }
    // One after another, as they are measured.
    for cell in &mut recorded.run.cells {
        cell.slot = cell.id;
    }
    recorded
}

fn count(reading: &mut GpuReading, name: &str, by: u64) {
    let counter = GpuCounter {
        before: Some(3),
        after: Some(3 + by),
    };
    reading.counters.insert(name.into(), counter);
}

#[test]
fn healthy_gpus_add_a_summary_and_no_finding() {
    let judgement = judge(&run(Fixture::rails(2), |_| {}));
    assert_eq!(judgement.verdict, Verdict::Pass, "{:?}", judgement.findings);
    assert_eq!(judgement.gpus.len(), 4);
    let gpu = &judgement.gpus[2];
    assert_eq!(
        (gpu.uuid.as_str(), &gpu.ranks[..], gpu.cells),
        ("GPU-2", &[2][..], 8)
    );
    let full = Extremes {
        least: 1980,
        most: 1980,
    };
    assert_eq!(
        gpu.sm_mhz,
        Some(full),
        "clocks of the idle GPU before the cell do not count"
    );
    assert_eq!(gpu.pcie, Some((5, 16)), "the link of an idle GPU rests");
    assert!(gpu.limited_by.is_empty(), "{:?}", gpu.limited_by);
}

#[test]
fn a_gpu_that_is_too_hot_is_named_with_its_clocks_and_the_others_are_not() {
    let recorded = run(Fixture::rails(2), |reading| {
        if (reading.rank, reading.cell) == (1, 5) {
            let hot = GpuMoment {
                sm_mhz: Some(990),
                celsius: Some(91),
                limited_by: Some(vec![ClockLimit::HardwareThermal, ClockLimit::HardwareSlowdown]),
                ..reading.after.clone()
            };
            (0..6).for_each(|_| reading.during.add(&hot));
            reading
                .held_ns
                .insert(ClockLimit::HardwareThermal, Nanos(630_000_000));
        }
    });
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Throttled]);
    assert_eq!(judgement.exit_code, 12);
    let finding = &judgement.findings[0];
    for part in [
        "rank 1 (node01, GPU-1)",
        "hardware thermal slowdown and hardware slowdown",
        "1 of 8 cells",
        "63 % of the time",
        "990 of 1980 MHz",
        "91 C (the hardware slows down from 87 C)",
    ] {
        assert!(finding.sentence.contains(part), "{part}: {}", finding.sentence);
    }
    assert_eq!(
        (&finding.place.ranks[..], &finding.cells[..]),
        (&[1][..], &[5][..])
    );
    assert!(finding.next_step.starts_with("cool "), "{}", finding.next_step);
}

#[test]
fn a_slowdown_in_one_reading_is_a_change_of_clocks() {
    let recorded = run(Fixture::rails(2), |reading| {
        reading.during.limited_by.insert(ClockLimit::HardwareSlowdown, 1);
        reading.held_ns.insert(ClockLimit::SoftwareThermal, Nanos(100));
    });
    assert_eq!(judge(&recorded).verdict, Verdict::Pass);
}

#[test]
fn a_limit_seen_in_most_readings_is_not_said_to_have_taken_no_time() {
    let recorded = run(Fixture::rails(2), |reading| {
        reading.during.limited_by.insert(ClockLimit::SoftwareThermal, 10);
        reading.held_ns.insert(ClockLimit::SoftwareThermal, Nanos(0));
    });
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Throttled; 4]);
    let sentence = &judgement.findings[0].sentence;
    assert!(
        sentence.contains("91 % of the time"),
        "ten of eleven readings: {sentence}"
    );
}

#[test]
fn a_cell_too_short_to_be_sampled_is_judged_by_the_time_the_gpu_counted() {
    let recorded = run(Fixture::rails(2), |reading| {
        reading.during = GpuDuring::default();
        reading.elapsed_ns = Nanos(20_000_000);
        if reading.rank == 3 {
            reading.held_ns.insert(ClockLimit::PowerBrake, Nanos(9_000_000));
        }
    });
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Throttled]);
    let sentence = &judgement.findings[0].sentence;
    assert!(sentence.contains("45 % of the time"), "{sentence}");
    assert!(
        sentence.contains("rank 3") && sentence.contains("power brake in 8 of 8 cells"),
        "{sentence}"
    );
}

#[test]
fn a_power_cap_is_a_finding_only_where_it_explains_something() {
    let capped = |reading: &mut GpuReading| {
        reading.during.limited_by.insert(ClockLimit::SoftwarePowerCap, 9);
        reading
            .held_ns
            .insert(ClockLimit::SoftwarePowerCap, Nanos(900_000_000));
    };
    let fast = judge(&run(Fixture::rails(3), capped));
    assert_eq!(fast.verdict, Verdict::Pass, "{:?}", fast.findings);
    let held = fast.gpus[0].limited_by[&ClockLimit::SoftwarePowerCap];
    assert_eq!((held.cells, held.held_ns), (12, Some(Nanos(10_800_000_000))));
    let slow = Fixture::rails(3).speed(|cell, _| {
        if on_rail(cell, "rail1") {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    });
    let slow = judge(&run(slow, capped));
    assert!(
        kinds(&slow).contains(&FindingKind::Throttled),
        "{:?}",
        kinds(&slow)
    );
    let throttled = slow
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::Throttled);
    let finding = throttled.unwrap();
    assert!(
        finding.sentence.contains("software power cap in 4 of 12 cells"),
        "{}",
        finding.sentence
    );
    assert!(finding.next_step.contains("power limit"), "{}", finding.next_step);
}

#[test]
fn what_the_gpu_says_stands_beside_slow_cells_and_wrong_data() {
    let slow = Fixture::rails(3).speed(|cell, _| {
        if on_rail(cell, "rail1") {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    });
    let mut recorded = run(slow, |reading| {
        count(reading, "ecc-corrected", 2);
        reading.before.pcie_width = Some(8);
        reading.after.pcie_width = Some(8);
        reading.during.pcie_width = Some(8);
    });
    let wrong = Corruption {
        cell: 0,
        round: 0,
        iter: 1,
        rank: 2,
        element: 1,
        byte_offset: 4,
        expected_bits: "0x1".into(),
        found_bits: "0x0".into(),
        wrong_elements: 1,
    };
    recorded.events.push(Event::Corruption(wrong));
    let judgement = judge(&recorded);
    assert_eq!(
        kinds(&judgement),
        [FindingKind::Corruption, FindingKind::SlowRail]
    );
    let corruption = judgement.findings[0].evidence.join("\n");
    assert!(
        corruption.contains("rank 2 (node02, GPU-2): ecc-corrected +2"),
        "{corruption}"
    );
    assert!(!corruption.contains("GPU-1"), "{corruption}");
    let slow = judgement.findings[1].evidence.join("\n");
    assert!(
        slow.contains("PCIe generation 5 x8 where generation 5 x16 is possible"),
        "{slow}"
    );
}

#[test]
fn errors_beyond_what_healthy_links_show_name_the_gpu_and_the_link() {
    let recorded = run(Fixture::rails(2), |reading| match (reading.rank, reading.cell) {
        (0, 2) => count(reading, "ecc-uncorrected", 1),
        (1, 2 | 4) => {
            count(reading, "nvlink-replays", 6);
            count(reading, "nvlink-replays/link3", 6);
        }
        (2, 6) => {
            let links = reading.nvlinks.as_mut().unwrap();
            (links.up_after, links.down_after) = (vec![0], vec![1]);
        }
        (3, _) => count(reading, "pcie-replays", 1),
        _ => {}
    });
    let judgement = judge(&recorded);
    assert_eq!(
        kinds(&judgement),
        [FindingKind::GpuErrors; 3],
        "one replay a second is not one of them"
    );
    let said: Vec<&str> = judgement
        .findings
        .iter()
        .map(|finding| finding.sentence.as_str())
        .collect();
    assert!(
        said[0].contains("GPU-0") && said[0].contains("ecc-uncorrected +1"),
        "{}",
        said[0]
    );
    assert!(
        said[1].contains("nvlink-replays +12") && said[1].contains("in 2 of 8 cells"),
        "{}",
        said[1]
    );
    assert!(
        judgement.findings[1]
            .evidence
            .join("\n")
            .contains("nvlink-replays/link3 +12")
    );
    assert!(said[2].contains("NVLink 1 went down"), "{}", said[2]);
    assert!(judgement.findings[0].next_step.contains("out of service"));
}

#[test]
fn ranks_that_share_a_gpu_do_not_multiply_its_errors() {
    let recorded = run(Fixture::rails(2), |reading| {
        reading.uuid = "GPU-shared".into();
        count(reading, "nvlink-replays", u64::from(reading.cell == 1));
        reading
            .held_ns
            .insert(ClockLimit::SoftwarePowerCap, Nanos(500_000_000));
    });
    let judgement = judge(&recorded);
    assert_eq!(judgement.gpus.len(), 1);
    let gpu = &judgement.gpus[0];
    assert_eq!(gpu.ranks, [0, 1, 2, 3]);
    assert_eq!(gpu.counters["nvlink-replays"], Some(1));
    let held = gpu.limited_by[&ClockLimit::SoftwarePowerCap].held_ns;
    assert_eq!(
        held,
        Some(Nanos(8 * 500_000_000)),
        "eight cells, half a second each"
    );
}

#[test]
fn unread_sensors_are_unknown_and_neither_healthy_nor_at_fault() {
    let recorded = run(Fixture::rails(2), |reading| {
        *reading = GpuReading {
            limits: GpuLimits::default(),
            before: GpuMoment::default(),
            during: GpuDuring::default(),
            after: GpuMoment::default(),
            held_ns: Default::default(),
            counters: Default::default(),
            nvlinks: None,
            unavailable: [("all sensors".to_string(), "NVML is not installed".to_string())].into(),
            ..reading.clone()
        };
    });
    let judgement = judge(&recorded);
    assert_eq!(judgement.verdict, Verdict::Pass);
    assert_eq!(
        judgement.gpus[0].unavailable["all sensors"],
        "NVML is not installed"
    );
    assert!(judgement.gpus[0].counters.is_empty());
}

#[test]
fn every_rule_about_gpus_fires_beyond_its_bound_and_not_within_it_and_a_run_may_bring_its_own() {
    let with = |name: &str, by: u64, rules: Option<String>| {
        let mut recorded = run(Fixture::rails(2), |reading| {
            // One cell of ten minutes.
            if (reading.rank, reading.cell) == (1, 2) {
                reading.elapsed_ns = Nanos::from_secs(600);
                count(reading, name, by);
            }
        });
        recorded.counter_rules = rules;
        judge(&recorded)
    };
    let about_gpus = || {
        let rules = built_in().iter();
        rules.filter(|rule| rule.counters[0].kind == CounterKind::Gpu)
    };
    assert!(about_gpus().count() >= 5);
    for rule in about_gpus() {
        let accepted = match rule.bound {
            Bound::Rate {
                most,
                per: Per::Second,
            } => (most * 600.0) as u64,
            Bound::Rate { most, .. } => (most * 10.0) as u64,
            _ => 0,
        };
        for counter in &rule.counters {
            let expected: &[FindingKind] = match rule.severity {
                Severity::Bad => &[FindingKind::GpuErrors],
                Severity::Suspicious => &[],
            };
            let beyond = with(counter.name, 2 * accepted + 1, None);
            assert_eq!(kinds(&beyond), expected, "{}", counter.name);
            if let Some(finding) = beyond.findings.first() {
                assert!(finding.rule.contains(&rule.source), "{}", finding.rule);
                assert!(finding.next_step.contains(&rule.action), "{}", finding.next_step);
            }
            assert_eq!(kinds(&with(counter.name, accepted, None)), [], "{}", counter.name);
        }
    }
    let own = "[[rule]]\nname = \"mine\"\ncounters = [\"ecc-corrected\"]\nbound = \"2 per hour\"\nseverity = \"bad\"\n\
               means = \"m\"\ndo = \"d\"\nsource = \"s\"\n";
    let own = || Some(own.to_string());
    assert_eq!(kinds(&with("ecc-corrected", 50, own())), [FindingKind::GpuErrors]);
    assert_eq!(kinds(&with("ecc-uncorrected", 1, own())), []);
}

proptest! {
    /// Whatever sensors say, judging neither panics nor calls a GPU healthy or throttled against what they said.
    #[test]
    fn strange_readings_are_judged_by_the_rule(
        readings in 0u32..12,
        seen in 0u32..12,
        held in proptest::option::of(any::<u64>()),
        elapsed in any::<u64>(),
        before in proptest::option::of(any::<u64>()),
        after in proptest::option::of(any::<u64>()),
        cell in prop_oneof![Just(0u32), any::<u32>()],
    ) {
        let mut recorded = Fixture::rails(2).recorded();
        let mut reading = healthy(cell, 0);
        reading.during.readings = readings;
        reading.during.limited_by.insert(ClockLimit::SoftwareThermal, seen);
        reading.elapsed_ns = Nanos(elapsed);
        if let Some(held) = held {
            reading.held_ns.insert(ClockLimit::SoftwareThermal, Nanos(held));
        }
        reading.counters.insert("ecc-uncorrected".into(), GpuCounter { before, after });
        recorded.events.push(Event::Gpu(Box::new(reading)));
        let judgement = judge(&recorded);
        let found = |kind| kinds(&judgement).contains(&kind);
        let long = held.is_some_and(|held| held > 0 && held as f64 >= 0.01 * elapsed.max(1) as f64);
        prop_assert_eq!(found(FindingKind::Throttled), seen >= 2 || long);
        let errors = matches!((before, after), (Some(before), Some(after)) if after > before);
        prop_assert_eq!(found(FindingKind::GpuErrors), errors);
    }
}

//! What the history finds in nights with known incidents, and what it leaves alone. The whole tally is in `docs/detection.md`.

use super::*;
use judge::history::{Alarm, Rule, alarms, since_earlier_runs};
use judge::tally::seeds;
use record::Severity;

const STEP: &str = "node003/rail2 out";
const SLOPE: &str = "node007/rail5 in";

fn with(incidents: Vec<Incident>, seed: u64) -> Nights {
    Nights {
        incidents,
        ..Nights::healthy(seed)
    }
}

fn worse(nights: &[Night]) -> Vec<Alarm> {
    let all = alarms(nights, &Rule::default());
    all.into_iter().filter(|alarm| alarm.change.is_worse).collect()
}

#[test]
fn a_step_of_five_percent_is_found_within_two_nights_of_its_second() {
    for seed in 0..2 {
        let (part, from) = (STEP.to_string(), 30);
        let nights = with(
            vec![Incident::Step {
                part,
                from,
                share: 0.05,
            }],
            seed,
        )
        .nights();
        let found: Vec<Alarm> = worse(&nights)
            .into_iter()
            .filter(|alarm| alarm.change.part == STEP)
            .collect();
        let first = found
            .first()
            .unwrap_or_else(|| panic!("seed {seed}: nothing was found"));
        // The second night is the first that can tell a step from a blip.
        assert!(
            (31..=33).contains(&first.proved),
            "seed {seed}: night {}",
            first.proved
        );
        assert!(
            first.since.abs_diff(30) <= 1,
            "seed {seed}: since {}",
            first.since
        );
        let (low, high) = first.change.effect_interval;
        assert!(low < -0.05 && -0.05 < high, "seed {seed}: {low} to {high}");
    }
}

#[test]
fn a_slope_of_three_percent_over_ten_nights_is_found() {
    let found = (0..4).filter(|seed| {
        let part = SLOPE.to_string();
        let slope = Incident::Slope {
            part,
            from: 30,
            over: 10,
            share: 0.03,
        };
        let mut nights = with(vec![slope], 100 + *seed);
        nights.hosts = 32;
        let nights = nights.nights();
        // The noise of the lab is 1 % a night: before the tenth night a slope of 0.3 % a night is not beyond chance among 512 parts.
        worse(&nights)
            .iter()
            .any(|alarm| alarm.change.part == SLOPE && (33..=46).contains(&alarm.proved))
    });
    assert!(found.count() >= 3);
}

#[test]
fn healthy_nights_raise_fewer_than_one_alarm_in_thirty() {
    let histories = 3;
    let wrong: usize = (0..histories)
        .map(|seed| worse(&with(Vec::new(), 200 + seed).nights()).len())
        .sum();
    // Sixty nights each, of which the first seven judge nobody.
    let thirties = histories as f64 * 53.0 / 30.0;
    assert!((wrong as f64) < thirties, "{wrong} in {thirties} times 30 nights");
}

#[test]
fn a_blip_a_dip_and_a_new_card_page_nobody() {
    let card = "node007/rail1 in".to_string();
    let mut calm = with(
        vec![
            Incident::Blip {
                part: "node003/rail0 out".to_string(),
                at: 30,
                share: 0.3,
            },
            Incident::Dip { at: 35, share: 0.08 },
            Incident::Replaced {
                part: card.clone(),
                from: 40,
                share: 0.06,
            },
        ],
        300,
    );
    (calm.hosts, calm.rails, calm.outliers) = (32, 2, 0.0);
    let nights = calm.nights();
    for count in 8..=nights.len() {
        let pages: Vec<String> = since_earlier_runs(&nights[..count])
            .issues
            .into_iter()
            .filter(|issue| issue.severity == Severity::Page)
            .map(|issue| issue.sentence)
            .collect();
        assert_eq!(pages, Vec::<String>::new(), "night {count}");
    }
    let replaced = since_earlier_runs(&nights[..41]).replaced;
    assert_eq!(replaced.len(), 1);
    assert_eq!(replaced[0].part, card);
}

#[test]
fn a_small_fleet_is_neither_blind_nor_jumpy() {
    let small = |seed: u64, incidents: Vec<Incident>| {
        let mut nights = with(incidents, seed);
        (nights.hosts, nights.rails) = (4, 2);
        nights.nights()
    };
    let part = "node001/rail1 out".to_string();
    let (runs, mut late) = (seeds(20), 0);
    for seed in 0..runs {
        let step = Incident::Step {
            part: part.clone(),
            from: 30,
            share: 0.05,
        };
        let nights = small(seed, vec![step]);
        let found = worse(&nights)
            .into_iter()
            .find(|alarm| alarm.change.part == part && alarm.proved >= 30);
        late += usize::from(found.is_none_or(|alarm| alarm.proved > 33));
    }
    assert!(late <= 2, "{late} of {runs} were found late");
    let wrong: usize = (0..runs)
        .map(|seed| worse(&small(1000 + seed, Vec::new())).len())
        .sum();
    assert!((wrong as f64) < runs as f64 * 53.0 / 30.0, "{wrong}");
}

/// A fleet of 16 hosts with 4 rails, whose hosts are 1.5 % above or below their level, much as the night before.
fn wandering(seed: u64, incidents: Vec<Incident>) -> Nights {
    Nights {
        hosts: 16,
        rails: 4,
        host_wander: Wander {
            deviation: 0.015,
            correlation: 0.8,
        },
        ..with(incidents, seed)
    }
}

#[test]
fn hosts_that_wander_from_night_to_night_raise_no_more_alarms_than_others() {
    let histories = 8;
    let wrong: usize = (0..histories)
        .map(|seed| worse(&wandering(400 + seed, Vec::new()).nights()).len())
        .sum();
    // At most 0.3 in 30 nights.
    let allowed = 0.3 * histories as f64 * 53.0 / 30.0;
    assert!(wrong as f64 <= allowed, "{wrong}, at most {allowed}");
}

#[test]
fn a_step_is_found_though_its_host_wanders() {
    let part = "node003/rail2 out";
    let found = (0..6).filter(|seed| {
        let step = Incident::Step {
            part: part.to_string(),
            from: 30,
            share: 0.1,
        };
        let alarms = worse(&wandering(500 + *seed, vec![step]).nights());
        let first = alarms.iter().find(|alarm| alarm.change.part == part);
        first.is_some_and(|alarm| (31..=34).contains(&alarm.proved))
    });
    assert!(found.count() >= 5);
}

#[test]
fn a_step_of_one_direction_is_found_within_a_week_though_its_cable_wanders_for_weeks() {
    let part = "node003/rail2 out";
    let found = (0..8).filter(|seed| {
        let step = Incident::Step {
            part: part.to_string(),
            from: 30,
            share: 0.05,
        };
        let nights = Nights {
            host_wander: Wander::default(),
            cable_wander: Wander {
                deviation: 0.03,
                correlation: 0.9,
            },
            ..wandering(700 + *seed, vec![step])
        };
        let alarms = worse(&nights.nights());
        let first = alarms
            .iter()
            .find(|alarm| alarm.change.part == part && alarm.proved >= 30);
        first.is_some_and(|alarm| alarm.proved <= 36)
    });
    // Three of these eight, where its readings of tonight alone were held against those of its other direction.
    assert!(found.count() >= 6);
}

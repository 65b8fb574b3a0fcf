//! What is found of known incidents, and when.

use std::collections::BTreeMap;

use judge::history::{Rule, alarms};
use plan::twin::Noise;
use plan::twin::nights::{Incident, Nights, ReadingNoise, Wander};

/// A step, a slope, a blip, a new card and a bad night of all.
pub fn incidents(nights: &Nights, from: usize) -> Vec<Incident> {
    let parts = nights.parts();
    let part = |share: f64| parts[(share * parts.len() as f64) as usize].clone();
    vec![
        Incident::Step {
            part: part(0.1),
            from,
            share: 0.05,
        },
        Incident::Slope {
            part: part(0.4),
            from,
            over: 10,
            share: 0.03,
        },
        Incident::Blip {
            part: part(0.6),
            at: from,
            share: 0.2,
        },
        Incident::Replaced {
            part: part(0.8),
            from,
            share: 0.06,
        },
        Incident::Dip {
            at: from + 5,
            share: 0.05,
        },
    ]
}

/// What became of the incidents of many histories.
#[derive(Default)]
struct Count {
    nights: usize,
    wrong: usize,
    /// Nights from the first of a step, or slope, to the one that proved it, both counted.
    delays: BTreeMap<&'static str, Vec<usize>>,
    missed: BTreeMap<&'static str, usize>,
    /// Alarms about what must not raise any: the blip, the new card, the bad night of all.
    calm: usize,
}

/// Prints what was found of known incidents, by fleet and noise; `host_wander` and `cable_wander` are added to all.
pub fn table(histories: usize, host_wander: Wander, cable_wander: Wander) {
    println!(
        "| fleet | noise | wrong alarms in 30 nights | 5 % step: found in its 2nd, 3rd, 4th, 5th night, later, not | detectable in, found two \
nights on | 3 % slope over ten nights: found in, median and nine in ten | detectable in, found two nights on | blip, new card or bad night of all \
alarmed |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let noises = [
        // What a judge who knew all could make of it, as the standard deviation of a normal curve: that of the best of three flows, its
        // own, and by what one reading of a long-tailed curve can tell at most.
        (
            "as recorded in the lab",
            ReadingNoise::Recorded(Box::new(Noise::recorded())),
            0.012,
        ),
        ("normal, 1 %", ReadingNoise::Normal(0.01), 0.01),
        ("long-tailed (t3), 1 %", ReadingNoise::HeavyTailed(0.01), 0.0108),
    ];
    for (hosts, rails) in [(128, 8), (16, 4), (4, 2)] {
        for (name, noise_model, spread) in &noises {
            let mut count = Count::default();
            for history in 0..histories {
                let nights = Nights {
                    hosts,
                    rails,
                    noise_model: noise_model.clone(),
                    host_wander,
                    cable_wander,
                    ..Nights::healthy(1000 + history as u64)
                };
                one(nights, history, &mut count);
            }
            print(hosts, rails, name, *spread, &count);
        }
    }
}

fn one(mut nights: Nights, history: usize, count: &mut Count) {
    nights.incidents = incidents(&nights, 25 + history % 10);
    let found = alarms(&nights.nights(), &Rule::default());
    count.nights += nights.count - Rule::default().least_runs;
    let mut known = Vec::new();
    for incident in &nights.incidents {
        match incident {
            Incident::Step { part, from, .. } => known.push(("step", part, *from)),
            Incident::Slope { part, from, .. } => known.push(("slope", part, *from)),
            Incident::Blip { part, .. } | Incident::Replaced { part, .. } => {
                count.calm += found
                    .iter()
                    .filter(|alarm| &alarm.change.part == part && alarm.change.is_worse)
                    .count();
                known.push(("calm", part, 0));
            }
            Incident::Dip { .. } => {
                count.calm += found
                    .iter()
                    .filter(|alarm| alarm.is_common && alarm.change.is_worse)
                    .count();
            }
        }
    }
    for (what, part, from) in known.iter().filter(|(what, ..)| *what != "calm") {
        let of_part = found.iter().filter(|alarm| &alarm.change.part == *part);
        match of_part
            .filter(|alarm| alarm.change.is_worse)
            .find(|alarm| alarm.proved >= *from)
        {
            Some(alarm) => count
                .delays
                .entry(what)
                .or_default()
                .push(alarm.proved - from + 1),
            None => *count.missed.entry(what).or_default() += 1,
        }
    }
    let is_known = |part: &String| known.iter().any(|(_, known, _)| *known == part);
    count.wrong += found
        .iter()
        .filter(|alarm| alarm.change.is_worse && !alarm.is_common && !is_known(&alarm.change.part))
        .count();
}

/// The first night of a change in which a judge who knew its shape, its first night and the noise would find it nine times in ten, by the
/// same threshold. `lost` is what the change takes in each of its nights; no change is told from chance before night `least`.
fn detectable(spread: f64, parts: usize, least: usize, lost: impl Fn(usize) -> f64) -> usize {
    const NINE_IN_TEN: f64 = 1.2816;
    // Thirty nights before it, whose median errs by this much of one night's variance.
    let shared = 1.57 / 30.0;
    let wanted = Rule::default().threshold(parts as u32) + NINE_IN_TEN;
    let is_found = |nights: &usize| {
        let (mut sum, mut squares) = (0.0, 0.0);
        for night in 1..=*nights {
            sum += lost(night) / spread;
            squares += (lost(night) / spread).powi(2);
        }
        squares / (squares + shared * sum * sum).sqrt() >= wanted
    };
    (least..60).find(is_found).unwrap_or(60)
}

fn print(hosts: usize, rails: usize, noise: &str, spread: f64, count: &Count) {
    let missed = |what: &str| count.missed.get(what).copied().unwrap_or(0);
    let found = |what: &str| {
        let mut nights = count.delays.get(what).cloned().unwrap_or_default();
        nights.extend(std::iter::repeat_n(usize::MAX, missed(what)));
        nights.sort_unstable();
        nights
    };
    let (steps, slopes) = (found("step"), found("slope"));
    let within = |nights: usize| steps.iter().filter(|night| **night == nights).count();
    let later = steps
        .iter()
        .filter(|night| **night > 5 && **night < usize::MAX)
        .count();
    let at = |share: f64| match slopes.get((share * slopes.len() as f64) as usize) {
        Some(nights) if *nights < usize::MAX => nights.to_string(),
        _ => "not".to_string(),
    };
    let parts = 2 * hosts * rails;
    let step_from = detectable(spread, parts, 2, |_| 0.05);
    let slope_from = detectable(spread, parts, 4, |night| 0.003 * night.min(10) as f64);
    let by = |nights: &[usize], last: usize| nights.iter().filter(|night| **night <= last).count();
    println!(
        "| {hosts} x {rails} | {noise} | {:.2} | {}, {}, {}, {}, {later}, {} | {step_from}, {} of {} | {}, {} | {slope_from}, {} of {} | {} |",
        count.wrong as f64 * 30.0 / count.nights as f64,
        within(2),
        within(3),
        within(4),
        within(5),
        missed("step"),
        by(&steps, step_from + 2),
        steps.len(),
        at(0.5),
        at(0.9),
        by(&slopes, slope_from + 2),
        slopes.len(),
        count.calm
    );
}

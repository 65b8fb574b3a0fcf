//! Burn-ins of four hosts with two rails, thirty cycles of noise, many seeds: how often the right thing is said, and how often a wrong one.

use super::fixture::{Noise, asked, clos, cycle};
use super::*;
use crate::tally::{allowed, seeds};
use record::FindingKind;

const CYCLES: u32 = 30;
const RATE: f64 = 25e6;

/// Cycles with noise of a part, and a busy machine now and then; `bad` links lose `loss` from cycle `since` on.
fn nights(known: &PartCatalog, seed: u64, sigma: f64, bad: &[&str], since: u32, loss: f64) -> Vec<Night> {
    let mut noise = Noise::new(seed);
    (1..=CYCLES)
        .map(|number| {
            let busy = if noise.uniform() < 0.1 {
                1.0 - 0.3 * noise.uniform()
            } else {
                1.0
            };
            cycle(known, number, |link| {
                let step = if number >= since && bad.contains(&link) {
                    1.0 - loss
                } else {
                    1.0
                };
                RATE * busy * step * (1.0 + sigma * noise.normal()).max(0.1)
            })
        })
        .collect()
}

/// Whether exactly that part is accused, from that cycle on, give or take one; else what was said.
fn is_right(certificate: &Certificate, parts: &[&str], since: u32) -> Result<(), String> {
    match certificate.incidents.as_slice() {
        [one] if one.counts && parts.contains(&one.part.as_str()) && one.first.cycle.abs_diff(since) <= 1 => {
            Ok(())
        }
        others => Err(others
            .iter()
            .map(|one| one.sentence.clone())
            .collect::<Vec<_>>()
            .join(" / ")),
    }
}

#[test]
fn a_cable_that_loses_15_percent_is_named_with_its_cycle_and_nothing_else_is() {
    let known = clos();
    let hosts_cable = ["h2/rail1->leaf3/p0"];
    let both_ways = ["h2/rail1->leaf3/p0", "leaf3/p0->h2/rail1"];
    let (mut wrong, mut runs) = (Vec::new(), 0u32);
    for bad in [&hosts_cable[..], &both_ways[..]] {
        for sigma in [0.01, 0.02, 0.03] {
            for seed in 0..seeds(50) {
                let nights = nights(&known, seed, sigma, bad, 11, 0.15);
                let certificate = decide(&asked(), &[], &nights, &known);
                runs += 1;
                if let Err(said) = is_right(&certificate, bad, 11) {
                    wrong.push(format!("sigma {sigma}, seed {seed}: {said}"));
                }
            }
        }
    }
    assert!(
        wrong.len() as u32 * 100 <= runs,
        "{} of {runs}: {wrong:#?}",
        wrong.len()
    );
}

#[test]
fn a_cable_between_switches_is_named_or_said_not_to_be_told_apart() {
    let known = clos();
    let bad = "leaf2/u2->spine2/d2";
    // With two leaves whatever goes up this cable comes down that one.
    let twin = "spine2/d3->leaf3/u2";
    let mut wrong = Vec::new();
    for seed in 0..seeds(50) {
        let nights = nights(&known, seed, 0.02, &[bad], 11, 0.15);
        let certificate = decide(&asked(), &[], &nights, &known);
        let said = is_right(&certificate, &[bad, twin], 11);
        let names_both = certificate
            .incidents
            .first()
            .is_some_and(|one| [bad, twin].iter().all(|name| one.sentence.contains(name)));
        if said.is_err() || !names_both {
            wrong.push(format!("seed {seed}: {said:?}"));
        }
    }
    assert!(wrong.len() <= allowed(1, 50), "{wrong:#?}");
}

#[test]
fn healthy_fabrics_are_accepted() {
    let known = clos();
    let mut wrong = Vec::new();
    let runs = seeds(100);
    for sigma in [0.01, 0.02, 0.03] {
        for seed in 0..runs {
            let nights = nights(&known, 1000 + seed, sigma, &[], 99, 0.0);
            let certificate = decide(&asked(), &[], &nights, &known);
            if certificate.ruling != Ruling::Accept {
                wrong.push(format!("sigma {sigma}, seed {seed}: {}", certificate.summary));
            }
        }
    }
    assert!(wrong.len() as u64 * 100 <= 3 * runs, "{wrong:#?}");
}

#[test]
fn a_cable_that_loses_a_little_every_cycle_is_told_as_a_slope() {
    let known = clos();
    let bad = "h1/rail0->leaf0/p1";
    let mut wrong = Vec::new();
    for seed in 0..seeds(30) {
        let mut noise = Noise::new(seed);
        let nights: Vec<Night> = (1..=60)
            .map(|number| {
                let rate = |link: &str| {
                    let lost = if link == bad {
                        0.004 * f64::from(number)
                    } else {
                        0.0
                    };
                    RATE * (1.0 - lost) * (1.0 + 0.01 * noise.normal())
                };
                cycle(&known, number, rate)
            })
            .collect();
        let certificate = decide(&asked(), &[], &nights, &known);
        match certificate.incidents.as_slice() {
            [one]
                if one.part == bad
                    && one.kind == FindingKind::SlowLink
                    && one.sentence.contains("per hour") => {}
            others => wrong.push(format!(
                "{seed}: {:?}",
                others.iter().map(|one| &one.sentence).collect::<Vec<_>>()
            )),
        }
    }
    assert!(wrong.len() <= allowed(1, 30), "{wrong:#?}");
}

#[test]
fn a_host_all_of_whose_cables_fall_at_once_is_the_host() {
    let known = clos();
    let bad = ["h2/rail0->leaf1/p0", "h2/rail1->leaf3/p0"];
    let certificate = decide(&asked(), &[], &nights(&known, 3, 0.02, &bad, 11, 0.2), &known);
    assert_eq!(certificate.incidents.len(), 1, "{:#?}", certificate.incidents);
    assert_eq!(certificate.incidents[0].part, "h2");
    let rejected: Vec<&str> = certificate
        .nodes
        .iter()
        .filter(|node| node.ruling == Ruling::Reject)
        .map(|node| node.part.as_str())
        .collect();
    assert_eq!(rejected, ["h2"]);
}

#[test]
fn a_cable_whose_flows_all_cross_a_bad_one_follows_it() {
    // Only h0 sends across leaves on rail0, so the cables between switches are read from its flows alone.
    let mut known = clos();
    known.flows.retain(|flow| {
        let across = flow.len() == 4;
        !across || !flow[0].contains("rail0") || flow[0].starts_with("h0/") || flow[3].contains("h0/")
    });
    let bad = "h0/rail0->leaf0/p0";
    let certificate = decide(&asked(), &[], &nights(&known, 7, 0.02, &[bad], 11, 0.15), &known);
    is_right(&certificate, &[bad], 11).unwrap();
    let evidence = certificate.incidents[0].evidence.join("\n");
    assert!(evidence.contains("leaf0/u0->spine0/d0"), "{evidence}");
    let follower = certificate
        .links
        .iter()
        .find(|link| link.part == "leaf0/u0->spine0/d0")
        .unwrap();
    assert_eq!(follower.ruling, Ruling::Extend, "{}", follower.why);
}

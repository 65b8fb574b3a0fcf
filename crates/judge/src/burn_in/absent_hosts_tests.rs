//! Burn-ins in which a host is away for long, and what is said of those that stayed.

use super::absent_hosts::{MissingHosts, is_of};
use super::fixture::{asked, clos, cycle, line};
use super::tests::{RATE, ruling};
use super::*;
use record::{FindingKind, Journal};

/// Both directions of the cable that degrades: without h2 every flow of h0 and h3 crosses it.
const SLOW: [&str; 2] = ["h1/rail0->leaf0/p1", "leaf0/p1->h1/rail0"];

/// The fabric with few pairs: h0 and h3 talk to h1 and h2 only.
fn few_pairs() -> PartCatalog {
    let mut known = clos();
    let is_between = |flow: &[String], a: &str, b: &str| {
        is_of(flow, &MissingHosts::from([a.to_string()])) && is_of(flow, &MissingHosts::from([b.to_string()]))
    };
    let pairs = [("h0", "h1"), ("h0", "h2"), ("h3", "h1"), ("h3", "h2")];
    known
        .flows
        .retain(|flow| pairs.iter().any(|(a, b)| is_between(flow, a, b)));
    known
}

/// What is left of it without a host.
fn without(known: &PartCatalog, host: &str) -> PartCatalog {
    let mut left = known.clone();
    left.flows
        .retain(|flow| !is_of(flow, &MissingHosts::from([host.to_string()])));
    left.links
        .retain(|link| left.flows.iter().any(|flow| flow.contains(&link.name)));
    left
}

/// So many cycles in which h2 is away from one until before another, and a cable degrades in a third.
fn burn_in(known: &PartCatalog, count: u32, away: std::ops::Range<u32>, degrades: u32) -> Vec<Night> {
    let few = without(known, "h2");
    let night = |number: u32| {
        let is_slow = |link: &str| number >= degrades && SLOW.contains(&link);
        let here = if away.contains(&number) { &few } else { known };
        cycle(
            here,
            number,
            |link| if is_slow(link) { 0.85 * RATE } else { RATE },
        )
    };
    (1..=count).map(night).collect()
}

fn journal(away: &std::ops::Range<u32>, count: u32) -> Vec<JournalLine> {
    let hosts = vec!["h2".to_string()];
    let lost = Journal::Lost {
        cycle: away.start,
        hosts: hosts.clone(),
        reason: "its process ended".into(),
    };
    let back = Journal::Returned {
        cycle: away.end,
        hosts,
    };
    let mut journal = vec![line(u64::from(away.start) * 60, lost)];
    if away.end <= count {
        journal.push(line(u64::from(away.end) * 60, back));
    }
    journal
}

/// Who is accused for being slow, and since when.
fn slow(certificate: &Certificate) -> Vec<(String, u32)> {
    let counting = certificate.incidents.iter().filter(|incident| incident.counts);
    counting
        .filter(|incident| incident.kind == FindingKind::SlowLink)
        .map(|incident| (incident.part.clone(), incident.first.cycle))
        .collect()
}

fn decided(away: std::ops::Range<u32>, degrades: u32) -> Certificate {
    let known = few_pairs();
    let nights = burn_in(&known, 40, away.clone(), degrades);
    decide(&asked(), &journal(&away, 40), &nights, &known)
}

#[test]
fn neighbours_of_a_slow_cable_are_not_blamed_when_a_host_goes_that_had_hidden_it() {
    for (away, degrades) in [(20..30, 10), (20..22, 10), (20..41, 10)] {
        let certificate = decided(away.clone(), degrades);
        let slow = slow(&certificate);
        assert_eq!(slow.len(), 1, "{away:?}: {slow:#?}");
        assert!(
            SLOW.contains(&slow[0].0.as_str()) && slow[0].1 == degrades,
            "{away:?}: {slow:?}"
        );
        for host in ["h0", "h3"] {
            assert_ne!(
                ruling(&certificate.nodes, host),
                Ruling::Reject,
                "{away:?}: {host}"
            );
        }
    }
}

#[test]
fn a_cable_that_degrades_while_a_host_is_away_is_named_with_its_time() {
    for away in [15..35, 15..41] {
        let slow = slow(&decided(away.clone(), 25));
        assert_eq!(slow.len(), 1, "{away:?}: {slow:#?}");
        assert_eq!(slow[0].1, 25, "{away:?}: {slow:?}");
        assert!(SLOW.contains(&slow[0].0.as_str()), "{away:?}: {slow:?}");
    }
}

#[test]
fn a_cable_that_degrades_in_the_cycle_in_which_a_host_is_back_is_named() {
    let slow = slow(&decided(15..25, 25));
    assert_eq!(slow.len(), 1, "{slow:#?}");
    assert!(SLOW.contains(&slow[0].0.as_str()) && slow[0].1 == 25, "{slow:?}");
}

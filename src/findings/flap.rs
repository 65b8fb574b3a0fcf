//! A link that went down during the run and came back: what was measured went on, and still a cable is not to be trusted.
//!
//! Interfaces count how often their carrier changed (down and up are two), RDMA ports how often their link went down. Readings
//! are compared over the whole run, so that a flap between two cells counts, too. Where the link itself stayed up and something
//! further along the way went down, packets are sent again until they get through: a port that counts that, in a cell with an
//! iteration that stood still, tells of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Detector, Seen, phrase, repeat};
use crate::record::{CounterDelta, Event, Finding, FindingKind, Place};
use crate::units::Nanos;

/// Counters that say that the link itself went down, with how many steps one flap takes them.
const LINK: &[(&str, u64)] = &[("carrier_changes", 2), ("link_downed", 1)];

/// Counters that say that packets were sent again because nobody acknowledged them.
const SENT_AGAIN: &[&str] = &["completer_retry_err", "local_ack_timeout_err"];

/// An iteration this much longer than the cell's median stood still.
const STANDSTILL: Nanos = Nanos(500_000_000);

/// One finding per host and rail.
pub(super) struct Flap;

/// What is known about one end of a rail.
#[derive(Default)]
struct End<'a> {
    /// Counters of the link: the highest reading so far, and by how much they moved up to it.
    link: BTreeMap<&'a str, Moving>,
    /// Cells around which a counter of the link moved, or in which packets were sent again and an iteration stood still.
    cells: BTreeSet<u32>,
    /// Packets sent again in such cells, by counter.
    sent_again: BTreeMap<&'a str, u64>,
    /// The longest standstill.
    stood: Option<Nanos>,
    ranks: BTreeSet<u32>,
}

/// A counter over the run. One that goes back was reset, or read earlier by another rank: neither is a movement.
#[derive(Clone, Copy)]
struct Moving {
    highest: u64,
    by: u64,
}

impl Detector for Flap {
    fn question(&self) -> &'static str {
        "Did a link go down during the run and come back?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        let mut ends: BTreeMap<(&str, &str), End<'_>> = BTreeMap::new();
        let counters = seen.recorded.events.iter().filter_map(|event| match event {
            Event::Counter(counter) => Some(counter),
            _ => None,
        });
        for counter in counters {
            let Some(host) = seen.host(counter.rank) else {
                continue;
            };
            ends.entry((&counter.rail, host)).or_default().add(seen, counter);
        }
        let allowed = u64::from(seen.run().rule.flaps_allowed);
        let silent = |rail: &str, host: &str| {
            let mut rails = seen.silent_rails.iter();
            rails.any(|silence| silence.rail == rail && silence.hosts.iter().any(|guilty| guilty == host))
        };
        ends.iter()
            .filter(|((rail, host), end)| end.flaps() > allowed && !silent(rail, host))
            .map(|((rail, host), end)| finding(seen, rail, host, end))
            .collect()
    }
}

impl<'a> End<'a> {
    fn add(&mut self, seen: &Seen<'_>, counter: &'a CounterDelta) {
        let (Some(before), Some(after)) = (counter.before, counter.after) else {
            return;
        };
        self.ranks.insert(counter.rank);
        let name = counter.name.as_str();
        if LINK.iter().any(|(known, _)| *known == name) {
            let moving = self.link.entry(name).or_insert(Moving {
                highest: before,
                by: 0,
            });
            let above = before.max(after).saturating_sub(moving.highest);
            if above > 0 {
                self.cells.insert(counter.cell);
                moving.highest += above;
                moving.by = moving.by.saturating_add(above);
            }
        }
        let moved = after.saturating_sub(before);
        if SENT_AGAIN.contains(&name)
            && moved > 0
            && let Some(stood) = standstill(seen, counter.cell)
        {
            self.cells.insert(counter.cell);
            let most = self.sent_again.entry(name).or_default();
            *most = moved.max(*most);
            self.stood = self.stood.max(Some(stood));
        }
    }

    /// How often the link went down; once where only the standstill is known.
    fn flaps(&self) -> u64 {
        let of = |(name, steps): &(&str, u64)| self.moved(name).div_ceil(*steps);
        let counted = LINK.iter().map(of).max().unwrap_or(0);
        counted.max(u64::from(self.stood.is_some()))
    }

    fn moved(&self, name: &str) -> u64 {
        self.link.get(name).map_or(0, |moving| moving.by)
    }

    fn evidence(&self, rail: &str, host: &str) -> Vec<String> {
        let link = self.link.iter().map(|(name, moving)| (*name, moving.by));
        let link = link.filter(|(_, by)| *by > 0);
        let again = self.sent_again.iter().map(|(name, moved)| (*name, *moved));
        link.chain(again)
            .map(|(name, moved)| format!("{name} +{moved} on {host}/{rail}"))
            .collect()
    }
}

/// How long the longest iteration of a cell stood still, if it did.
fn standstill(seen: &Seen<'_>, cell: u32) -> Option<Nanos> {
    // In ascending order.
    let times = &seen.summaries[seen.place(cell)?].times;
    let (longest, median) = (times.last()?, times.get(times.len() / 2)?);
    Some(Nanos(longest.saturating_sub(*median))).filter(|stood| *stood >= STANDSTILL)
}

fn finding(seen: &Seen<'_>, rail: &str, host: &str, end: &End<'_>) -> Finding {
    let evidence = end.evidence(rail, host);
    let cells: Vec<u32> = end.cells.iter().copied().collect();
    let is_counted = end.link.values().any(|moving| moving.by > 0);
    let what = match (is_counted, end.flaps()) {
        (false, _) => "stopped passing packets on for a while and recovered".to_string(),
        (true, 1) => "went down and came back".to_string(),
        (true, flaps) => format!("went down and came back {flaps} times"),
    };
    let stood = match end.stood {
        Some(stood) => format!("; an iteration stood still for {stood}"),
        None => String::new(),
    };
    let place = cells.first().and_then(|cell| seen.cell(*cell));
    let during = place.map_or_else(String::new, |cell| format!(" during {}", cell.describe()));
    Finding {
        kind: FindingKind::Flap,
        sentence: format!(
            "{rail} at {host} {what}{during}: {}{stood}",
            phrase::list(&evidence)
        ),
        place: Place {
            hosts: vec![host.to_string()],
            ranks: end.ranks.iter().copied().collect(),
            rail: Some(rail.to_string()),
        },
        measured: None,
        expected: None,
        rule: format!(
            "flap: more than {} time{} down within the run, by carrier_changes or link_downed; or packets sent again for want \
             of an acknowledgement in a cell with an iteration at least {STANDSTILL} longer than its median",
            seen.run().rule.flaps_allowed,
            phrase::plural(seen.run().rule.flaps_allowed as usize)
        ),
        confirmation: None,
        not_told_apart_from: match is_counted {
            true => vec!["the port at the other end of that cable".to_string()],
            false => vec!["anything on the way from there to its peers".to_string()],
        },
        evidence,
        cells,
        next_step: format!(
            "look at {rail} of {host}: kernel log for link messages, seat and clean cable and transceiver, the switch port's \
             own log; then repeat"
        ),
        repeat: Some(repeat::command(seen.run(), &[("rail", rail)])),
    }
}

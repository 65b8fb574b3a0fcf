//! Which rail went silent, and at which end: packets that were retransmitted and never acknowledged.
//!
//! A rank that waits knows only that nothing arrives; the sender's kernel knows that nothing gets through. Every
//! stuck path has two ends. The end that most of them share is at fault, and an end whose interface has lost its
//! carrier is certainly at fault. A connection that broke at a rank whose own interface has no carrier broke because
//! of that; RDMA notices it before anything is retransmitted. Paths to and from a lost host are stuck because the
//! host is lost, and say nothing about its rails.

use std::collections::{BTreeMap, BTreeSet};

use record::{Event, Recorded, Stalled};

/// Consecutive retransmissions from which packets count as lost for good: one may be bad luck.
const ENOUGH_RETRIES: u32 = 2;

/// A path on which packets do not get through.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StuckPath {
    /// Sending world rank.
    pub(super) from: u32,
    /// Receiving world rank.
    pub(super) to: u32,
    /// Bytes sent and not acknowledged.
    pub(super) bytes: u64,
    /// How often the oldest was retransmitted; 0 without a connection.
    pub(super) retries: u32,
    /// What is known about a connection that broke.
    pub(super) broke: Option<String>,
}

/// A rail that went silent at one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SilentEnd {
    /// Rail by name.
    pub(super) rail: String,
    /// The host at fault, or both where the paths do not decide.
    pub(super) hosts: Vec<String>,
    /// Whether the interface there has no carrier.
    pub(super) without_carrier: bool,
    /// The paths that are stuck because of it.
    pub(super) paths: Vec<StuckPath>,
    /// Cells in which that was seen.
    pub(super) cells: BTreeSet<u32>,
}

/// Every rail that went silent during the run.
pub(super) fn silent_rails(recorded: &Recorded) -> Vec<SilentEnd> {
    let hosts = Hosts::of(recorded);
    let mut rails: BTreeMap<&str, Vec<(StuckPath, u32)>> = BTreeMap::new();
    let mut without_carrier: BTreeSet<(&str, &str)> = BTreeSet::new();
    for stall in stalls(recorded) {
        let Some(here) = hosts.name(stall.rank) else {
            continue;
        };
        without_carrier.extend(stall.no_carrier.iter().map(|rail| (rail.as_str(), here)));
        for stuck in &stall.stuck {
            let given_up =
                stuck.retransmits >= ENOUGH_RETRIES || (stuck.retransmits == 0 && stuck.bytes.0 == 0);
            let concerns_lost = hosts.is_lost(stall.rank) || hosts.is_lost(stuck.to);
            if given_up && !concerns_lost && hosts.name(stuck.to).is_some_and(|there| there != here) {
                let path = StuckPath {
                    from: stall.rank,
                    to: stuck.to,
                    bytes: stuck.bytes.0,
                    retries: stuck.retransmits,
                    broke: None,
                };
                rails.entry(&stuck.rail).or_default().push((path, stall.cell));
            }
        }
        let cell = recorded.run.cells.iter().find(|cell| cell.id == stall.cell);
        let rail_without_carrier =
            cell.and_then(|cell| cell.rails.iter().find(|rail| stall.no_carrier.contains(rail)));
        if let (Some(broke), Some(to), Some(rail)) = (&stall.broke, stall.waiting_for, rail_without_carrier)
            && hosts.name(to).is_some_and(|there| there != here)
            && !hosts.is_lost(stall.rank)
            && !hosts.is_lost(to)
        {
            let path = StuckPath {
                from: stall.rank,
                to,
                bytes: 0,
                retries: 0,
                broke: Some(broke.clone()),
            };
            rails.entry(rail).or_default().push((path, stall.cell));
        }
    }
    let mut silent = Vec::new();
    for (rail, mut paths) in rails {
        while !paths.is_empty() {
            silent.push(take_worst(rail, &mut paths, &without_carrier, &hosts));
        }
    }
    silent
}

/// What the ranks reported about where they stalled.
fn stalls(recorded: &Recorded) -> impl Iterator<Item = &Stalled> {
    recorded.events.iter().filter_map(|event| match event {
        Event::Stalled(stalled) => Some(stalled),
        _ => None,
    })
}

/// Takes the paths that one end explains out of `paths`: an end without carrier first, else the one that most share.
fn take_worst(
    rail: &str,
    paths: &mut Vec<(StuckPath, u32)>,
    without_carrier: &BTreeSet<(&str, &str)>,
    hosts: &Hosts<'_>,
) -> SilentEnd {
    let ends = |path: &StuckPath| [path.from, path.to].map(|rank| hosts.name(rank).unwrap_or_default());
    let mut others_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in paths.iter() {
        let [from, to] = ends(path);
        others_of.entry(from).or_default().insert(to);
        others_of.entry(to).or_default().insert(from);
    }
    let has_no_carrier = |host: &str| without_carrier.contains(&(rail, host));
    let rank_of = |host: &str| (has_no_carrier(host), others_of[host].len());
    let most = others_of
        .keys()
        .map(|host| rank_of(host))
        .max()
        .unwrap_or((false, 0));
    let worst: Vec<&str> = others_of
        .keys()
        .copied()
        .filter(|host| rank_of(host) == most)
        .collect();
    // The two ends of a single path are ambiguous. Of several equal candidates the first is taken, the others come
    // next.
    let guilty: Vec<String> = match (worst.as_slice(), most) {
        ([one, other], (false, 1)) => vec![one.to_string(), other.to_string()],
        _ => worst.first().map(|host| host.to_string()).into_iter().collect(),
    };
    let concerns = |path: &StuckPath| ends(path).iter().any(|end| guilty.iter().any(|host| host == end));
    let (mine, rest): (Vec<_>, Vec<_>) = paths.drain(..).partition(|(path, _)| concerns(path));
    *paths = rest;
    let mut own: Vec<StuckPath> = mine.iter().map(|(path, _)| path.clone()).collect();
    own.sort();
    own.dedup_by_key(|path| (path.from, path.to));
    SilentEnd {
        rail: rail.to_string(),
        without_carrier: guilty.iter().any(|host| has_no_carrier(host)),
        hosts: guilty,
        paths: own,
        cells: mine.into_iter().map(|(_, cell)| cell).collect(),
    }
}

/// Ranks by host, and which hosts were lost.
struct Hosts<'a> {
    of: BTreeMap<u32, &'a str>,
    lost: BTreeSet<&'a str>,
}

impl<'a> Hosts<'a> {
    fn of(recorded: &'a Recorded) -> Hosts<'a> {
        let of: BTreeMap<u32, &str> = recorded
            .run
            .ranks
            .iter()
            .map(|record| (record.rank, record.host.as_str()))
            .collect();
        let lost = recorded.events.iter().filter_map(|event| match event {
            Event::Lost(lost) => of.get(&lost.rank).copied(),
            _ => None,
        });
        Hosts {
            lost: lost.collect(),
            of,
        }
    }

    fn name(&self, rank: u32) -> Option<&'a str> {
        self.of.get(&rank).copied()
    }

    fn is_lost(&self, rank: u32) -> bool {
        self.name(rank).is_some_and(|host| self.lost.contains(host))
    }
}

//! Findings over the nights: which are new, still there, back, gone.
//!
//! Nothing is remembered between runs: what was said before follows from the row of nights alone.

use super::severity::SeverityRule;
use record::{
    EndReason, FindingKind, FindingSummary, IssueStatus, Night, Part, PartKind, PartReading, Severity,
};

/// One finding over the nights.
#[derive(Debug, Clone)]
pub(super) struct FindingTrack {
    /// What was found, as it was said last.
    pub(super) found: FindingSummary,
    /// The run that showed it first.
    pub(super) first: usize,
    /// Where it stands after the last night.
    pub(super) status: IssueStatus,
    /// How loudly it is said.
    pub(super) severity: Severity,
    /// Whether it is to be said.
    pub(super) due: bool,
    /// Nights in a row.
    streak: u32,
    /// The night that did not find it any more.
    gone: Option<usize>,
    /// When it was last said.
    reported: Option<usize>,
}

/// Every finding that tonight or the night before knows.
pub(super) fn of(nights: &[Night], rule: &SeverityRule) -> Vec<FindingTrack> {
    let mut tracks: Vec<FindingTrack> = Vec::new();
    for (run, night) in nights.iter().enumerate() {
        let mut is_found = vec![false; tracks.len()];
        for found in &night.readings.findings {
            if found.kind == FindingKind::IncompleteCoverage {
                continue;
            }
            match tracks.iter().position(|track| is_same(&track.found, found)) {
                // Two findings of one night that are the same issue are one.
                Some(at) if is_found[at] => {}
                Some(at) => {
                    is_found[at] = true;
                    tracks[at].goes_on(found, run, nights, rule);
                }
                None => {
                    tracks.push(FindingTrack::begun(found, run, rule));
                    is_found.push(true);
                }
            }
        }
        for (track, _) in tracks.iter_mut().zip(is_found).filter(|(_, is_found)| !is_found) {
            track.is_missing(run, night, rule);
        }
        // What has been gone for long begins anew when it comes back.
        tracks.retain(|track| {
            track
                .gone
                .is_none_or(|gone| run - gone <= rule.again_within as usize)
        });
    }
    let last = nights.len().saturating_sub(1);
    tracks.retain(|track| track.gone.is_none_or(|gone| gone == last));
    tracks
}

impl FindingTrack {
    fn begun(found: &FindingSummary, run: usize, rule: &SeverityRule) -> FindingTrack {
        let severity = rule.of_finding(found.kind, &IssueStatus::New);
        FindingTrack {
            found: found.clone(),
            first: run,
            status: IssueStatus::New,
            severity,
            due: true,
            streak: 1,
            gone: None,
            reported: Some(run),
        }
    }

    fn goes_on(&mut self, found: &FindingSummary, run: usize, nights: &[Night], rule: &SeverityRule) {
        self.status = match self.gone.take() {
            None => {
                self.streak += 1;
                IssueStatus::Still { night: self.streak }
            }
            Some(gone) => {
                self.streak = 1;
                let away = (run - gone) as u32;
                IssueStatus::Again { away }
            }
        };
        self.found = found.clone();
        self.severity = rule.of_finding(found.kind, &self.status);
        self.due = self
            .reported
            .is_none_or(|reported| rule.is_time(&nights[reported], &nights[run]));
        if self.due {
            self.reported = Some(run);
        }
    }

    fn is_missing(&mut self, run: usize, night: &Night, rule: &SeverityRule) {
        if self.gone.is_some() {
            return;
        }
        let is_gone = was_measured(&self.found, night);
        self.status = match is_gone {
            true => IssueStatus::Gone { nights: self.streak },
            false => IssueStatus::Unknown { nights: self.streak },
        };
        self.severity = rule.of_finding(self.found.kind, &self.status);
        self.due = is_gone;
        if is_gone {
            self.gone = Some(run);
        }
    }
}

/// Whether two findings of different nights are one issue: the same kind and the same part, or parts that are ambiguous.
fn is_same(a: &FindingSummary, b: &FindingSummary) -> bool {
    let names = |one: &FindingSummary, other: &FindingSummary| one.not_told_apart_from.contains(&other.part);
    a.kind == b.kind && (a.part == b.part || names(a, b) || names(b, a))
}

/// Whether a run measured the part that a finding is about: then not finding it means that it is gone.
pub(super) fn was_measured(found: &FindingSummary, night: &Night) -> bool {
    let place = &found.place;
    let is_nowhere =
        place.hosts.is_empty() && place.rail.is_none() && place.link.is_none() && place.switch.is_none();
    let readings = &night.readings;
    // Ranks of one machine have no ends of rails between hosts: what such a run says, it says of all of it.
    let of_hosts = [PartKind::Link, PartKind::RailEnd, PartKind::Node];
    let is_whole = !readings
        .parts
        .iter()
        .any(|reading| of_hosts.contains(&reading.kind));
    if is_nowhere || is_whole {
        return readings.ended == Some(EndReason::Finished) && readings.iterations > 0;
    }
    let was_loaded = readings
        .loads
        .iter()
        .any(|load| load.link == found.part && load.share.is_some());
    was_loaded || readings.parts.iter().any(|reading| is_about(found, reading))
}

/// Whether a reading is one of the part that a finding accuses.
pub(super) fn is_about(found: &FindingSummary, reading: &PartReading) -> bool {
    is_about_part(found, reading.kind, &reading.part)
}

/// Whether that part is the one that a finding accuses.
pub(super) fn is_about_part(found: &FindingSummary, kind: PartKind, part: &str) -> bool {
    let place = &found.place;
    if found.part == part || found.not_told_apart_from.iter().any(|other| other == part) {
        return true;
    }
    if let Some(link) = &place.link {
        return link == part;
    }
    let part = Part::parse(kind, part);
    if let Some(switch) = &place.switch {
        return matches!(part, Some(Part::Link(link)) if link.touches(switch));
    }
    let is_host = |host: &str| place.hosts.iter().any(|named| named == host);
    let is_rail = |rail: &str| place.rail.as_ref().is_none_or(|named| named == rail);
    match part {
        Some(Part::RailEnd(end)) => (place.hosts.is_empty() || is_host(end.host)) && is_rail(end.rail),
        Some(Part::Host(host)) => place.rail.is_none() && is_host(host),
        Some(Part::Rail(rail)) => place.hosts.is_empty() && place.rail.as_deref() == Some(rail),
        _ => false,
    }
}

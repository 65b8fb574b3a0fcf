//! What a finding is called by: the same part on the page, on the terminal, in a pipeline and on a dashboard.

use crate::record::Finding;

/// The part that a finding names: its first suspect, else the most precise place that it has. Not escaped.
pub fn part(finding: &Finding) -> String {
    if let Some(suspect) = finding.suspects.first() {
        return suspect.part.clone();
    }
    let place = &finding.place;
    let hosts = || match place.hosts.as_slice() {
        [] => None,
        [host] => Some(host.clone()),
        [first, second] => Some(format!("{first} and {second}")),
        [first, rest @ ..] => Some(format!("{first} and {} more hosts", rest.len())),
    };
    let named = [place.link.clone(), place.switch.clone(), hosts()]
        .into_iter()
        .flatten()
        .next();
    match (named, &place.rail) {
        (Some(named), Some(rail)) if place.link.is_none() && place.switch.is_none() => {
            format!("{named} on {rail}")
        }
        (Some(named), _) => named,
        (None, Some(rail)) => rail.clone(),
        (None, None) => match place.ranks.as_slice() {
            [] => "the whole run".into(),
            [rank] => format!("rank {rank}"),
            [first, rest @ ..] => format!("rank {first} and {} more", rest.len()),
        },
    }
}

/// The finding that a reader should see first: they are kept in that order, worst first.
pub fn worst(findings: &[Finding]) -> Option<&Finding> {
    findings.first()
}

//! What a finding is called by: the part that it names.

use super::Finding;

impl Finding {
    /// The part that this finding names: its first suspect, else the most precise place that it has. Not escaped.
    pub fn part(&self) -> String {
        if let Some(suspect) = self.suspects.first() {
            return suspect.part.clone();
        }
        let place = &self.place;
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
}

//! Parts of the twin that are slow, or lose packets, on purpose.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::hash;
use topology::graph::{DirectedLink, Graph, LinkId};

/// What may be left of a link that a seed chose.
const SHARES: [f64; 3] = [0.8, 0.6, 0.3];

/// One direction of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Host to leaf, leaf to spine.
    Away,
    /// Spine to leaf, leaf to host.
    Towards,
}

/// All parts there are.
const ALL: &str = "all";

/// A directed link of which only a share is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowLink {
    /// Which.
    pub link: LinkId,
    /// What is left of its rate.
    pub share: f64,
    /// In which share of all slots: 1 when always.
    pub often: f64,
    /// Links of one part come and go together.
    pub part: u64,
}

impl SlowLink {
    /// A link that is slow all the time.
    pub fn always(link: LinkId, share: f64) -> SlowLink {
        SlowLink {
            link,
            share,
            often: 1.0,
            part: 0,
        }
    }

    /// As a record says what was injected: `slow:h2/rail1->rail1-leaf1/p0=60%`, with `@80%` where it is not always slow.
    pub fn injected(&self, graph: &Graph) -> String {
        let always = format!("slow:{}={:.0}%", graph.name(self.link), self.share * 100.0);
        match self.often < 1.0 {
            true => format!("{always}@{:.0}%", self.often * 100.0),
            false => always,
        }
    }
}

/// A part of which only a share is left: `h2-rail1:away=60%`, or `=60%@80%` in four of five slots. A cable, all cables of a host, switch or rail, or of the fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowPart {
    /// The cable, host, switch or rail by name, or `all`.
    pub part: String,
    /// Which direction of its cables; both when none is named.
    pub direction: Option<Direction>,
    /// What is left of its rate, above 0 and below 1.
    pub share: f64,
    /// In which share of all slots, above 0; each is drawn for all its links together.
    pub often: f64,
}

impl SlowPart {
    /// The links it is about, with what is left of them.
    pub fn links(&self, graph: &Graph) -> Result<Vec<SlowLink>, String> {
        let slow = |link| SlowLink {
            link,
            share: self.share,
            often: self.often,
            part: hash(&self.part),
        };
        let links = links_of(graph, &self.part, self.direction)?;
        Ok(links.into_iter().map(slow).collect())
    }
}

/// A directed link that loses packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossyLink {
    /// Which.
    pub link: LinkId,
    /// The share of its packets.
    pub share: f64,
}

impl LossyLink {
    /// As a record says what was injected: `loss:h2/rail1->rail1-leaf1/p0=0.1%`.
    pub fn injected(&self, graph: &Graph) -> String {
        format!("loss:{}={}%", graph.name(self.link), self.share * 100.0)
    }
}

/// A part that loses packets: `h2-rail1:away=0.1%`. A cable, or all cables of a host, switch or rail, or of the fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct LossyPart {
    /// The cable, host, switch or rail by name, or `all`.
    pub part: String,
    /// Which direction of its cables; both when none is named.
    pub direction: Option<Direction>,
    /// The share of its packets that it loses, above 0 and below 1.
    pub share: f64,
}

impl LossyPart {
    /// The links it is about.
    pub fn links(&self, graph: &Graph) -> Result<Vec<LossyLink>, String> {
        let lossy = |link| LossyLink {
            link,
            share: self.share,
        };
        let links = links_of(graph, &self.part, self.direction)?;
        Ok(links.into_iter().map(lossy).collect())
    }
}

impl FromStr for LossyPart {
    type Err = String;

    fn from_str(text: &str) -> Result<LossyPart, String> {
        let bad =
            || format!("`{text}` is not a lossy part; write PART=0.1%, PART:away=0.1% or PART:towards=0.1%");
        let (which, share) = text.rsplit_once('=').ok_or_else(bad)?;
        let share = share.trim().strip_suffix('%').ok_or_else(bad)?;
        let share = share.trim().parse::<f64>().map_err(|_| bad())? / 100.0;
        let (part, direction) = direction_of(which);
        if part.is_empty() || !(share > 0.0 && share < 1.0) {
            return Err(bad());
        }
        Ok(LossyPart {
            part: part.to_string(),
            direction,
            share,
        })
    }
}

/// A part and its direction: names of cables may hold colons themselves.
pub(super) fn direction_of(text: &str) -> (&str, Option<Direction>) {
    match text.rsplit_once(':') {
        Some((part, "away")) => (part, Some(Direction::Away)),
        Some((part, "towards")) => (part, Some(Direction::Towards)),
        _ => (text, None),
    }
}

/// The directed links of a part.
pub(super) fn links_of(
    graph: &Graph,
    part: &str,
    direction: Option<Direction>,
) -> Result<Vec<LinkId>, String> {
    let is_cable = graph.cable(part).is_some();
    let is_of_part = |link: &DirectedLink| match is_cable {
        true => link.cable == part,
        false => {
            let names = [Some(&link.from.node), Some(&link.to.node), link.rail.as_ref()];
            part == ALL || names.iter().flatten().any(|name| *name == part)
        }
    };
    let is_in_direction = |link: &DirectedLink| match direction {
        Some(Direction::Away) => link.is_upward,
        Some(Direction::Towards) => !link.is_upward,
        None => true,
    };
    let links = graph
        .links()
        .filter(|(_, link)| is_of_part(link) && is_in_direction(link));
    let links: Vec<LinkId> = links.map(|(link, _)| link).collect();
    if !links.is_empty() {
        return Ok(links);
    }
    let names = graph.links().flat_map(|(_, link)| {
        [&link.cable, &link.from.node, &link.to.node]
            .into_iter()
            .chain(&link.rail)
    });
    let known: BTreeSet<&str> = names.map(String::as_str).collect();
    let near = known
        .into_iter()
        .min_by_key(|name| strsim::damerau_levenshtein(name, part));
    let hint = near.map(|near| format!("; did you mean `{near}`?"));
    Err(format!(
        "the fabric has no cable, host, switch or rail `{part}`{}",
        hint.unwrap_or_default()
    ))
}

/// `count` different links of hosts that take part and of the switches between them, chosen by a seed.
pub fn random_faults(graph: &Graph, count: usize, seed: u64) -> Vec<SlowLink> {
    let mut candidates: Vec<LinkId> = graph
        .links()
        .map(|(id, _)| id)
        .filter(|id| graph.host_without_ranks(*id).is_none())
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
    let mut chosen = Vec::new();
    while chosen.len() < count && !candidates.is_empty() {
        let link = candidates.swap_remove(below(candidates.len()));
        chosen.push(SlowLink::always(link, SHARES[below(SHARES.len())]));
    }
    chosen.sort_by_key(|slow| slow.link);
    chosen
}

impl FromStr for SlowPart {
    type Err = String;

    fn from_str(text: &str) -> Result<SlowPart, String> {
        let bad = || {
            format!(
                "`{text}` is not a slow part; write PART=60%, PART:away=60%, PART:towards=60%, or PART=60%@80%"
            )
        };
        let (which, share) = text.rsplit_once('=').ok_or_else(bad)?;
        let (share, often) = share.split_once('@').unwrap_or((share, "100%"));
        let percent = |text: &str| {
            let percent = text.trim().strip_suffix('%').ok_or_else(bad)?;
            Ok::<f64, String>(percent.trim().parse::<f64>().map_err(|_| bad())? / 100.0)
        };
        let (share, often) = (percent(share)?, percent(often)?);
        if !(share > 0.0 && share < 1.0) {
            return Err(format!(
                "`{text}`: what is left of a slow part is above 0% and below 100%"
            ));
        }
        if !(often > 0.0 && often <= 1.0) {
            return Err(format!(
                "`{text}`: a part is slow in more than 0% of the slots and in 100% at most"
            ));
        }
        let (part, direction) = direction_of(which);
        if part.is_empty() {
            return Err(bad());
        }
        Ok(SlowPart {
            part: part.to_string(),
            direction,
            share,
            often,
        })
    }
}

impl Direction {
    /// As it is written behind a part.
    pub(super) fn suffix(direction: Option<Direction>) -> &'static str {
        match direction {
            Some(Direction::Away) => ":away",
            Some(Direction::Towards) => ":towards",
            None => "",
        }
    }
}

impl fmt::Display for LossyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = Direction::suffix(self.direction);
        write!(f, "{}{direction}={}%", self.part, self.share * 100.0)
    }
}

impl fmt::Display for SlowPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = Direction::suffix(self.direction);
        write!(f, "{}{direction}={}%", self.part, self.share * 100.0)?;
        match self.often < 1.0 {
            true => write!(f, "@{}%", self.often * 100.0),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::{Shape, clos};

    fn graph() -> Graph {
        let (topology, ranks) = clos(&"8x2".parse::<Shape>().unwrap());
        Graph::of(&topology, &ranks).unwrap()
    }

    #[test]
    fn a_slow_part_is_written_as_it_is_read() {
        for text in [
            "h1-rail0=60%",
            "h1-rail0:away=30%",
            "a:b:towards=12.5%",
            "h1=50%@80%",
        ] {
            assert_eq!(text.parse::<SlowPart>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "h1",
            "h1=60",
            "=60%",
            "h1=0%",
            "h1=100%",
            "h1=nan%",
            ":away=10%",
            "h1=50%@",
            "h1=50%@0%",
            "h1=50%@101%",
        ] {
            assert!(text.parse::<SlowPart>().is_err(), "{text}");
        }
    }

    #[test]
    fn directions_are_seen_from_the_hosts() {
        let graph = graph();
        let name = |text: &str| {
            let links = text.parse::<SlowPart>().unwrap().links(&graph).unwrap();
            links.iter().map(|slow| graph.name(slow.link)).collect::<Vec<_>>()
        };
        assert_eq!(name("h2-rail1-leaf1:away=60%"), ["h2/rail1->rail1-leaf1/p0"]);
        assert_eq!(
            name("rail0-leaf0-spine1:towards=60%"),
            ["rail0-spine1/d0->rail0-leaf0/u1"]
        );
        assert_eq!(name("h2-rail1-leaf1=60%").len(), 2);
        // Two rails; four leaves of two hosts on each.
        assert_eq!(name("h2=60%").len(), 4);
        assert_eq!(name("rail0-spine1=60%").len(), 8);
        assert_eq!(name("rail0-spine1:towards=60%").len(), 4);
        assert_eq!(name("rail0=60%").len() * 2, name("all=60%").len());
        assert_eq!(name("all=60%").len(), graph.link_count());
        let error = "h2-rial1-leaf1=60%"
            .parse::<SlowPart>()
            .unwrap()
            .links(&graph)
            .unwrap_err();
        assert_eq!(
            error,
            "the fabric has no cable, host, switch or rail `h2-rial1-leaf1`; did you mean `h2-rail1-leaf1`?"
        );
    }

    #[test]
    fn a_seed_chooses_different_links_and_always_the_same() {
        let graph = graph();
        let chosen = random_faults(&graph, 20, 7);
        assert_eq!(chosen.len(), 20);
        assert!(chosen.windows(2).all(|pair| pair[0].link < pair[1].link));
        assert_eq!(chosen, random_faults(&graph, 20, 7));
        assert_ne!(chosen, random_faults(&graph, 20, 8));
        assert_eq!(random_faults(&graph, 10_000, 7).len(), graph.link_count());
    }
}

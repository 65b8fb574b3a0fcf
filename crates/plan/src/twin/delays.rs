//! Links that hold packets up now and then, as a port does that is paused: they stop once in some seconds, and what waits is not lost.
//!
//! All flows over such a link meet the same stop of a second. A probe waits when it comes while the link stands still: the packets of a flow are
//! evenly spread, so the first of them that does waits the longest. What comes behind the stop finds the line as it was: the queue of a stop is
//! not simulated, nor what a stop costs flows that are timed.

use std::fmt;
use std::str::FromStr;

use super::faults::{Direction, direction_of, links_of};
use super::{Twin, hash};
use record::units::Nanos;
use topology::graph::{Crossing, Graph, LinkId};

/// The longest stop: half of the second in which it is.
const LONGEST: Nanos = Nanos(500_000_000);

/// A directed link that stops now and then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayingLink {
    /// Which.
    pub link: LinkId,
    /// For how long it stops.
    pub wait: Nanos,
    /// In which share of seconds: 1 when in every one.
    pub often: f64,
}

impl DelayingLink {
    /// As a record says what was injected: `delay:h2/rail1->rail1-leaf1/p0=5ms@50%`.
    pub fn injected(&self, graph: &Graph) -> String {
        format!("delay:{}={}", graph.name(self.link), terms(self.wait, self.often))
    }
}

/// A part that holds packets up: `h2-rail1-leaf1:away=5ms`, or `=5ms@50%` in half of all seconds. A cable, or all cables of a host, switch or rail.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayingPart {
    /// The cable, host, switch or rail by name, or `all`.
    pub part: String,
    /// Which direction of its cables; both when none is named.
    pub direction: Option<Direction>,
    /// For how long it stops.
    pub wait: Nanos,
    /// In which share of seconds, above 0; each link for itself.
    pub often: f64,
}

impl DelayingPart {
    /// The links it is about.
    pub fn links(&self, graph: &Graph) -> Result<Vec<DelayingLink>, String> {
        let delaying = |link| DelayingLink {
            link,
            wait: self.wait,
            often: self.often,
        };
        let links = links_of(graph, &self.part, self.direction)?;
        Ok(links.into_iter().map(delaying).collect())
    }
}

impl FromStr for DelayingPart {
    type Err = String;

    fn from_str(text: &str) -> Result<DelayingPart, String> {
        let bad = || {
            format!(
                "`{text}` is not a part that holds packets up; write PART=5ms, PART:away=5ms, PART:towards=5ms, or PART=5ms@50%"
            )
        };
        let (which, terms) = text.rsplit_once('=').ok_or_else(bad)?;
        let (wait, often) = terms.split_once('@').unwrap_or((terms, "100%"));
        let wait: Nanos = wait.trim().parse().map_err(|_| bad())?;
        let often = often.trim().strip_suffix('%').ok_or_else(bad)?;
        let often = often.trim().parse::<f64>().map_err(|_| bad())? / 100.0;
        if wait.0 == 0 || wait > LONGEST {
            return Err(format!(
                "`{text}`: a part stops for more than 0 ms and for 500 ms at most"
            ));
        }
        if !(often > 0.0 && often <= 1.0) {
            return Err(format!(
                "`{text}`: a part stops in more than 0% of all seconds and in 100% at most"
            ));
        }
        let (part, direction) = direction_of(which);
        if part.is_empty() {
            return Err(bad());
        }
        Ok(DelayingPart {
            part: part.to_string(),
            direction,
            wait,
            often,
        })
    }
}

impl fmt::Display for DelayingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = Direction::suffix(self.direction);
        write!(f, "{}{direction}={}", self.part, terms(self.wait, self.often))
    }
}

/// `5ms@50%`.
fn terms(wait: Nanos, often: f64) -> String {
    let wait = wait.0 as f64 / 1e6;
    match often < 1.0 {
        true => format!("{wait}ms@{}%", often * 100.0),
        false => format!("{wait}ms"),
    }
}

impl Twin<'_> {
    /// The longest that a packet of a flow waits in a second, where it sends so many of them evenly over `window`.
    pub(super) fn held_up_on(
        &self,
        path: &[Crossing],
        (slot, round, iter): (u32, u16, u32),
        (flow, packets, window): (u32, u32, Nanos),
    ) -> f64 {
        let share = |drawn: u64| (drawn >> 11) as f64 / (1u64 << 53) as f64;
        let mut longest: f64 = 0.0;
        for (link, crossed) in path {
            for delaying in self.delaying.iter().filter(|delaying| delaying.link == *link) {
                let second = (self.seed, "stop", link.index(), slot, round, iter);
                if share(hash(second)) >= delaying.often {
                    continue;
                }
                // From when the link stops until the flow's next packet comes there.
                let gap = window.0 as f64 / (f64::from(packets) * crossed).max(f64::MIN_POSITIVE);
                let until = share(hash((second, flow))) * gap;
                longest = longest.max(delaying.wait.0 as f64 - until);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::{Noise, Shape, clos};

    #[test]
    fn a_part_that_holds_packets_up_is_written_as_it_is_read() {
        for text in [
            "h1-rail0=5ms",
            "h1-rail0:away=0.5ms@50%",
            "a:b:towards=500ms@12.5%",
            "h1=20ms@80%",
        ] {
            assert_eq!(text.parse::<DelayingPart>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "h1",
            "h1=60%",
            "=5ms",
            "h1=0ms",
            "h1=501ms",
            "h1=5",
            ":away=5ms",
            "h1=5ms@",
            "h1=5ms@0%",
            "h1=5ms@101%",
            "h1=5ms@nan%",
        ] {
            assert!(text.parse::<DelayingPart>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_flow_waits_in_as_many_seconds_as_its_link_stops_and_others_do_not() {
        let (topology, ranks) = clos(&"8x1".parse::<Shape>().unwrap());
        let graph = Graph::of(&topology, &ranks).unwrap();
        let part: DelayingPart = "h2-rail0-leaf1:away=5ms@40%".parse().unwrap();
        let links = part.links(&graph).unwrap();
        let [stopped] = links.as_slice() else {
            panic!("{links:?}")
        };
        let twin = Twin::new(&graph, &[], Noise::named("quiet").unwrap(), 7).with_delays(&links);
        let waits = |path: &[Crossing], packets: u32| -> Vec<f64> {
            let second = |iter| twin.held_up_on(path, (3, 0, iter), (0, packets, Nanos(1_000_000_000)));
            (0..10_000).map(second).collect()
        };
        let late = |waits: &[f64]| waits.iter().filter(|wait| **wait > 0.0).count();
        // A packet comes every millisecond: every stop is seen, and for nearly all of its time.
        let often = waits(&[(stopped.link, 1.0)], 1000);
        assert!((3_800..4_200).contains(&late(&often)), "{}", late(&often));
        assert!(
            often
                .iter()
                .all(|wait| *wait == 0.0 || (4e6..=5e6).contains(wait))
        );
        // One every 20 ms: a quarter of the stops.
        let seldom = waits(&[(stopped.link, 1.0)], 50);
        assert!((850..1_150).contains(&late(&seldom)), "{}", late(&seldom));
        assert_eq!(late(&waits(&[(stopped.link.reverse(), 1.0)], 1000)), 0);
    }
}

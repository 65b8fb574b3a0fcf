//! What flows of unknown path cross: the probability of every link, given the switches that are known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::paths::{MOST_HOPS, UNREACHABLE};
use super::{Graph, LinkId, Path};
use record::CrossedSwitch;

/// A switch that a flow is known to have crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossedHop<'n> {
    /// Its name.
    pub switch: &'n str,
    /// The link by which the flow came to it, where that is known.
    pub by: Option<LinkId>,
}

impl Graph {
    /// The probability that a flow from one rank to another crosses each link, when every switch draws one of its links that lead
    /// nearer and all are equally likely; of a flow that is sprayed, the share that crosses it. Sorted by link; empty where no path
    /// leads.
    pub fn crossing_probabilities(&self, from: u32, to: u32, rail: &str) -> Vec<(LinkId, f64)> {
        self.probabilities_where(from, to, rail, |_, _| true)
    }

    /// The same for a flow of which some switches are known, with the links by which it came to them where those are known: `seen` for
    /// the first switch of its path, the second and so on. Empty where no path fits.
    pub fn crossing_probabilities_given(
        &self,
        from: u32,
        to: u32,
        rail: &str,
        seen: &[Option<CrossedHop<'_>>],
    ) -> Vec<(LinkId, f64)> {
        self.probabilities_where(from, to, rail, |step, id| {
            seen.get(step).copied().flatten().is_none_or(|hop| {
                let switch = &self.nodes[self.ends[id.index()][1] as usize].name;
                switch == hop.switch && hop.by.is_none_or(|by| by == id)
            })
        })
    }

    /// Switches of a record, and the links by which a flow came to them, as this graph knows them.
    pub fn hops_of_record<'r>(
        &self,
        hops: impl Iterator<Item = Option<&'r CrossedSwitch>>,
    ) -> Vec<Option<CrossedHop<'r>>> {
        let hop = |seen: &'r CrossedSwitch| CrossedHop {
            switch: &seen.switch,
            by: seen.link.as_ref().and_then(|link| self.named(link)),
        };
        hops.map(|seen| seen.map(hop)).collect()
    }

    /// The same the other way round.
    pub fn record_of_hop(&self, hop: CrossedHop<'_>) -> CrossedSwitch {
        CrossedSwitch {
            switch: hop.switch.to_string(),
            link: hop.by.map(|link| self.name(link)),
        }
    }

    /// The switches that answered a trace, and the links from other switches by which it came to them where an answer names a port.
    pub fn crossed_hops(&self, hops: &[Option<IpAddr>]) -> Vec<Option<CrossedHop<'_>>> {
        let one = |address: IpAddr| {
            let node = *self.by_address.get(&address)?;
            let is_arrival = |id: &LinkId| self.arrivals[id.index()] == Some(address);
            let leaving = &self.switch_links[node as usize];
            let by = leaving.iter().map(|id| id.reverse()).find(is_arrival);
            Some(CrossedHop {
                switch: &self.nodes[node as usize].name,
                by: by.filter(|_| !self.answers_name_switches),
            })
        };
        hops.iter().map(|hop| hop.and_then(one)).collect()
    }

    /// The switches, counted from 1 at the sender, whose answers tell the paths between two ranks apart, as far as answers do: as few as
    /// will do, those at the receiver's end first. Many senders ask them about few flows each; those in the middle hear from all.
    pub fn telling_switches(&self, from: u32, to: u32, rail: &str) -> Vec<u8> {
        self.telling_among(from, to, rail, u8::MAX)
    }

    /// The one switch before the last whose answer alone tells as much as those of all switches; none where there is no such switch.
    pub fn telling_in_the_middle(&self, from: u32, to: u32, rail: &str) -> Option<u8> {
        let paths = self.paths(from, to, rail);
        let all = self.telling_switches(from, to, rail);
        let before = all.iter().min()? - 1;
        let alone = self.telling_among(from, to, rail, before);
        let tells_as_much = alone.len() == 1 && self.told(&paths, &alone) == self.told(&paths, &all);
        alone.first().copied().filter(|_| tells_as_much)
    }

    /// How many of these paths the answers of these switches tell apart.
    fn told(&self, paths: &[Path], asked: &[u8]) -> usize {
        let answer = |path: &Path, number: u8| {
            let id = *path.get(usize::from(number) - 1)?;
            match self.answers_name_switches {
                true => Some(self.ends[id.index()][1]),
                false => Some(id.0),
            }
        };
        let answers = paths
            .iter()
            .map(|path| asked.iter().map(|number| answer(path, *number)).collect());
        answers.collect::<BTreeSet<Vec<Option<u32>>>>().len()
    }

    /// The same among the first `most` switches.
    fn telling_among(&self, from: u32, to: u32, rail: &str, most: u8) -> Vec<u8> {
        let paths = self.paths(from, to, rail);
        // The last link of a path leads to the receiver.
        let switches = paths.iter().map(|path| path.len().saturating_sub(1)).max();
        let mut asked: Vec<u8> = Vec::new();
        for number in (1..=(switches.unwrap_or(0) as u8).min(most)).rev() {
            let with: Vec<u8> = asked.iter().copied().chain([number]).collect();
            if self.told(&paths, &with) > self.told(&paths, &asked) {
                asked = with;
            }
        }
        asked
    }

    /// The probabilities given that at every step of the path, the first of which leads to the sender's switch, the link `fits`: those
    /// of all ways to a link, times those of all ways from it to the end, by the sum over all paths.
    fn probabilities_where(
        &self,
        from: u32,
        to: u32,
        rail: &str,
        fits: impl Fn(usize, LinkId) -> bool,
    ) -> Vec<(LinkId, f64)> {
        let (Some(here), Some(there)) = (self.attachment(from, rail), self.attachment(to, rail)) else {
            return Vec::new();
        };
        let distances = self.distances(there, [rail; 2]);
        let is_cut_off = here.host == there.host || distances[here.switch as usize] == UNREACHABLE;
        if is_cut_off || !fits(0, here.up) {
            return Vec::new();
        }
        // Per step: every link that may be taken there, from a switch that is reached with a probability.
        let mut steps: Vec<Vec<(LinkId, f64, f64)>> = Vec::new();
        let mut reached = BTreeMap::from([(here.switch, 1.0)]);
        for step in 1..=MOST_HOPS {
            let mut next: BTreeMap<u32, f64> = BTreeMap::new();
            let mut taken = Vec::new();
            for (node, probability) in reached.into_iter().filter(|(node, _)| *node != there.switch) {
                let hops: Vec<LinkId> = self.next_hops(node, there, &distances, [rail; 2]).collect();
                let each = 1.0 / hops.len() as f64;
                for id in hops.into_iter().filter(|id| fits(step, *id)) {
                    taken.push((id, probability, each));
                    *next.entry(self.ends[id.index()][1]).or_default() += probability * each;
                }
            }
            if taken.is_empty() {
                break;
            }
            steps.push(taken);
            reached = next;
        }
        // Backwards: the probability of arriving from every switch.
        let mut crossed: BTreeMap<LinkId, f64> = BTreeMap::new();
        let mut arriving = BTreeMap::from([(there.switch, 1.0)]);
        for taken in steps.iter().rev() {
            let mut before = BTreeMap::from([(there.switch, 1.0)]);
            for (id, probability, each) in taken {
                let [node, next] = self.ends[id.index()];
                let arrives = each * arriving.get(&next).copied().unwrap_or_default();
                *before.entry(node).or_default() += arrives;
                *crossed.entry(*id).or_default() += probability * arrives;
            }
            arriving = before;
        }
        let whole = arriving.get(&here.switch).copied().unwrap_or_default();
        if whole <= 0.0 {
            return Vec::new();
        }
        crossed.values_mut().for_each(|probability| *probability /= whole);
        crossed.retain(|_, probability| *probability > 0.0);
        crossed.extend([(here.up, 1.0), (there.up.reverse(), 1.0)]);
        crossed.into_iter().collect()
    }
}

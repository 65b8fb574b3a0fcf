//! Which links the flows of some cells of probes tell apart.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::crossed;
use record::{Cell, ProbeFlow, Untested};
use topology::graph::{Graph, LinkId};

/// Whether every two links can be told from every other two is looked at where that takes so many steps at most.
const MOST_WORK_ON_PAIRS: usize = 500_000_000;

/// Which links the flows of some cells of probes tell apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identifiability {
    /// Directed links that are crossed by a flow of known path.
    pub crossed: usize,
    /// Those that are not.
    pub uncrossed: Vec<LinkId>,
    /// Sets of links that the same flows cross: one of them is as likely as another.
    pub alike: Vec<Vec<LinkId>>,
    /// Pairs of links that would make the same flows lose packets as another pair does; none where there are too many links to tell.
    pub pairs_alike: Option<usize>,
}

impl Identifiability {
    /// Of all cells together.
    pub fn of(cells: &[Cell], graph: &Graph) -> Identifiability {
        let flows = cells.iter().filter_map(|cell| cell.probes.as_ref());
        let flows: Vec<&ProbeFlow> = flows.flat_map(|terms| &terms.flows).collect();
        let mut of_link: BTreeMap<LinkId, Vec<u32>> = BTreeMap::new();
        for (number, flow) in (0..).zip(&flows) {
            for (link, probability) in crossed(flow, graph) {
                if probability >= 1.0 - 1e-9 {
                    of_link.entry(link).or_default().push(number);
                }
            }
        }
        let uncrossed = graph.links().map(|(link, _)| link);
        let uncrossed =
            uncrossed.filter(|link| !of_link.contains_key(link) && graph.host_without_ranks(*link).is_none());
        let mut alike: BTreeMap<&[u32], Vec<LinkId>> = BTreeMap::new();
        for (link, flows) in &of_link {
            alike.entry(flows).or_default().push(*link);
        }
        let distinct: Vec<&[u32]> = alike.keys().copied().collect();
        let pairs = distinct.len() * distinct.len() / 2;
        let is_little = pairs * flows.len().div_ceil(64) <= MOST_WORK_ON_PAIRS;
        let pairs_alike = is_little.then(|| pairs_alike(&distinct, flows.len()));
        Identifiability {
            crossed: of_link.len(),
            uncrossed: uncrossed.collect(),
            alike: alike.into_values().filter(|links| links.len() > 1).collect(),
            pairs_alike,
        }
    }

    /// What stays untested, or ambiguous.
    pub fn untested(&self, graph: &Graph) -> Vec<Untested> {
        let mut found = Vec::new();
        if let Some(first) = self.uncrossed.first() {
            found.push(Untested {
                what: format!(
                    "probes over {} of {} directed links, such as {}",
                    self.uncrossed.len(),
                    self.uncrossed.len() + self.crossed,
                    graph.name(*first)
                ),
                why: "no probe is known beforehand to cross them: they are judged by probabilities"
                    .to_string(),
            });
        }
        if let Some(first) = self.alike.first() {
            let names: Vec<String> = first.iter().map(|link| graph.name(*link)).collect();
            let others = match self.alike.len() {
                1 => String::new(),
                more => format!(", and {} more such sets", more - 1),
            };
            found.push(Untested {
                what: format!("telling {} apart by probes{others}", record::text::list(&names)),
                why: "the same probes cross them".to_string(),
            });
        }
        found
    }

    /// In words, for a progress line.
    pub fn in_words(&self) -> String {
        let apart = self.crossed - self.alike.iter().map(Vec::len).sum::<usize>();
        let pairs = match self.pairs_alike {
            Some(0) => ", and every two of them from every other two".to_string(),
            Some(pairs) => format!(
                "; {} of two links cannot be told from another",
                record::text::counted(pairs, "pair")
            ),
            None => String::new(),
        };
        format!(
            "probes cross {} directed links and tell {apart} of them apart{pairs}",
            self.crossed
        )
    }
}

/// Pairs of sets of so many flows whose union is that of another pair, or one of the sets.
fn pairs_alike(sets: &[&[u32]], flows: usize) -> usize {
    let bits = |set: &&[u32]| {
        let mut bits = vec![0u64; flows.div_ceil(64)];
        set.iter()
            .for_each(|flow| bits[*flow as usize / 64] |= 1 << (flow % 64));
        bits
    };
    let sets: Vec<Vec<u64>> = sets.iter().map(bits).collect();
    let hash = |words: &mut dyn Iterator<Item = u64>| {
        let mut hasher = DefaultHasher::new();
        words.for_each(|word| word.hash(&mut hasher));
        hasher.finish()
    };
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for set in &sets {
        *seen.entry(hash(&mut set.iter().copied())).or_default() += 1;
    }
    for (number, one) in sets.iter().enumerate() {
        for other in &sets[number + 1..] {
            let union = &mut one.iter().zip(other).map(|(a, b)| a | b);
            *seen.entry(hash(union)).or_default() += 1;
        }
    }
    seen.values().filter(|count| **count > 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lossy_links_are_two_others_only_where_their_flows_together_are_the_same() {
        let sets: [&[u32]; 3] = [&[0], &[1], &[0, 1]];
        // The third is as the first two together, and as any of them with it.
        assert_eq!(pairs_alike(&sets, 2), 4);
        let apart: [&[u32]; 3] = [&[0], &[1], &[70]];
        assert_eq!(pairs_alike(&apart, 71), 0);
    }
}

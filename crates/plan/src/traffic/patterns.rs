//! Who sends to whom: patterns drawn by lot, and those that fabrics are known to dislike.
//!
//! A permutation has every host send once at most, and receive once at most, and never to itself. Groups of leaves exchange among each other: there a host
//! has several flows, and its own cable is shared by them. Hosts are given leaf by leaf, one for every cable.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use record::PatternKind;

/// Partners behind the other leaf that a host of two leaves has, at most.
const PARTNERS: usize = 4;

/// Who sends to whom at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Its name, once on a rail.
    pub name: String,
    /// How it was made.
    pub kind: PatternKind,
    /// Senders and receivers, in the order of senders.
    pub pairs: Vec<(u32, u32)>,
}

impl Pattern {
    /// A pattern without those that would send to themselves.
    pub fn new(
        name: impl Into<String>,
        kind: PatternKind,
        pairs: impl IntoIterator<Item = (u32, u32)>,
    ) -> Pattern {
        let pairs: BTreeSet<(u32, u32)> = pairs.into_iter().filter(|(from, to)| from != to).collect();
        Pattern {
            name: name.into(),
            kind,
            pairs: pairs.into_iter().collect(),
        }
    }

    /// Whether nobody sends or receives twice.
    pub fn is_permutation(&self) -> bool {
        let distinct = |ranks: BTreeSet<u32>| ranks.len() == self.pairs.len();
        distinct(self.pairs.iter().map(|(from, _)| *from).collect())
            && distinct(self.pairs.iter().map(|(_, to)| *to).collect())
    }
}

/// Permutations drawn by lot: all hosts in one circle, so that nobody is left out.
pub fn random(leaves: &[Vec<u32>], count: u16, random: &mut ChaCha8Rng) -> Vec<Pattern> {
    let mut hosts = leaves.concat();
    let drawn = (1..=count).map(|number| {
        hosts.shuffle(random);
        let next = hosts.iter().cycle().skip(1).copied();
        Pattern::new(
            format!("random-{number}"),
            PatternKind::Random,
            hosts.iter().copied().zip(next),
        )
    });
    drawn.collect()
}

/// The leaf shifts that are tried: to the next leaf, and to the one across.
pub fn leaf_shifts(leaves: usize) -> Vec<usize> {
    match leaves {
        0 | 1 => Vec::new(),
        2 | 3 => vec![1],
        more => vec![1, more / 2],
    }
}

/// Patterns that fabrics are known to dislike, each once; none without hosts behind two leaves.
pub fn structured(leaves: &[Vec<u32>]) -> Vec<Pattern> {
    let hosts = leaves.concat();
    let count = hosts.len();
    if leaves.len() < 2 || leaves.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let mut patterns: Vec<Pattern> = Vec::new();
    for shift in [1, count / 2] {
        let pairs = (0..count).map(|at| (hosts[at], hosts[(at + shift) % count]));
        patterns.push(Pattern::new(format!("shift-{shift}"), PatternKind::Shift, pairs));
    }
    for shift in leaf_shifts(leaves.len()) {
        let pairs = (0..leaves.len()).flat_map(|leaf| {
            let other = &leaves[(leaf + shift) % leaves.len()];
            leaves[leaf].iter().copied().zip(other.iter().copied())
        });
        patterns.push(Pattern::new(
            format!("leaf-shift-{shift}"),
            PatternKind::LeafShift,
            pairs,
        ));
    }
    patterns.push(bit_reverse(&hosts));
    patterns.push(transposition(leaves));
    patterns.push(leaf_pairs(leaves));
    patterns.push(leaf_triples(leaves));
    let mut distinct: Vec<Pattern> = Vec::new();
    for pattern in patterns {
        let is_new = distinct.iter().all(|known| known.pairs != pattern.pairs);
        if is_new && !pattern.pairs.is_empty() {
            distinct.push(pattern);
        }
    }
    distinct
}

/// As many hosts as the largest power of two that fits; the others rest.
fn bit_reverse(hosts: &[u32]) -> Pattern {
    let bits = hosts.len().max(1).ilog2();
    let reversed = |number: usize| (0..bits).fold(0, |all, bit| all << 1 | (number >> bit & 1));
    let pairs = (0..1usize << bits).map(|number| (hosts[number], hosts[reversed(number)]));
    Pattern::new("bit-reverse", PatternKind::BitReverse, pairs)
}

/// Host `place` of leaf `leaf` sends to where it would be if leaves were columns. Leaves with more hosts than others leave some out.
fn transposition(leaves: &[Vec<u32>]) -> Pattern {
    let places = leaves.iter().map(Vec::len).min().unwrap_or(0);
    let matrix: Vec<u32> = leaves
        .iter()
        .flat_map(|leaf| leaf[..places].iter().copied())
        .collect();
    let pairs = (0..matrix.len()).map(|at| {
        let (leaf, place) = (at / places, at % places);
        (matrix[at], matrix[place * leaves.len() + leaf])
    });
    Pattern::new("transposition", PatternKind::Transposition, pairs)
}

fn leaf_pairs(leaves: &[Vec<u32>]) -> Pattern {
    let pairs = leaves.chunks_exact(2).flat_map(|both| {
        let (a, b) = (&both[0], &both[1]);
        let partners = PARTNERS.min(a.len()).min(b.len());
        (0..a.len().max(b.len())).flat_map(move |place| {
            (0..partners).flat_map(move |further| {
                let (one, other) = (a[place % a.len()], b[(place + further) % b.len()]);
                [(one, other), (other, one)]
            })
        })
    });
    Pattern::new("leaf-pairs", PatternKind::LeafPairs, pairs)
}

fn leaf_triples(leaves: &[Vec<u32>]) -> Pattern {
    let pairs = leaves.chunks_exact(3).flat_map(|three| {
        let places = three.iter().map(Vec::len).min().unwrap_or(0);
        (0..places).flat_map(move |place| {
            let hosts = [0, 1, 2].map(|leaf: usize| three[leaf][place]);
            hosts
                .into_iter()
                .flat_map(move |from| hosts.into_iter().map(move |to| (from, to)))
        })
    });
    Pattern::new("leaf-triples", PatternKind::LeafTriples, pairs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    fn fabric(sizes: &[usize]) -> Vec<Vec<u32>> {
        let mut next = 0;
        let leaf = |size: &usize| -> Vec<u32> {
            let hosts = (next..next + *size as u32).collect();
            next += *size as u32;
            hosts
        };
        sizes.iter().map(leaf).collect()
    }

    fn named<'p>(patterns: &'p [Pattern], name: &str) -> &'p Pattern {
        patterns.iter().find(|pattern| pattern.name == name).unwrap()
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        let patterns = structured(&fabric(&[2, 2, 2, 2]));
        assert_eq!(named(&patterns, "shift-1").pairs[..2], [(0, 1), (1, 2)]);
        assert_eq!(
            named(&patterns, "leaf-shift-1").pairs[..3],
            [(0, 2), (1, 3), (2, 4)]
        );
        assert_eq!(named(&patterns, "shift-4").pairs[0], (0, 4));
        // A shift by two leaves is one by four hosts here: measured once.
        assert!(patterns.iter().all(|pattern| pattern.name != "leaf-shift-2"));
        assert_eq!(
            named(&patterns, "bit-reverse").pairs,
            [(1, 4), (3, 6), (4, 1), (6, 3)]
        );
        // Rows of two become columns: host 1 (leaf 0, place 1) goes to number 4.
        assert_eq!(named(&patterns, "transposition").pairs[0], (1, 4));
        let triples = named(&patterns, "leaf-triples");
        assert_eq!(triples.pairs[..2], [(0, 2), (0, 4)]);
        assert_eq!(
            triples.pairs.len(),
            12,
            "three leaves of two: two groups of three"
        );
        let pairs = named(&patterns, "leaf-pairs");
        assert!(pairs.pairs.contains(&(0, 2)) && pairs.pairs.contains(&(3, 0)));
        assert!(!pairs.pairs.contains(&(0, 4)));
    }

    #[test]
    fn nothing_is_made_of_one_leaf() {
        assert!(structured(&fabric(&[8])).is_empty());
        assert!(structured(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn a_permutation_has_nobody_send_or_receive_twice_nor_to_itself(
            sizes in proptest::collection::vec(1usize..9, 2..9),
            seed in 0u64..1000,
        ) {
            let leaves = fabric(&sizes);
            let hosts: u32 = sizes.iter().sum::<usize>() as u32;
            let mut drawn = random(&leaves, 3, &mut ChaCha8Rng::seed_from_u64(seed));
            for pattern in &drawn {
                prop_assert_eq!(pattern.pairs.len() as u32, hosts, "everybody sends");
            }
            drawn.extend(structured(&leaves));
            let names: BTreeSet<&str> = drawn.iter().map(|pattern| pattern.name.as_str()).collect();
            prop_assert_eq!(names.len(), drawn.len());
            for pattern in &drawn {
                let is_group = matches!(pattern.kind, PatternKind::LeafPairs | PatternKind::LeafTriples);
                prop_assert!(is_group || pattern.is_permutation(), "{:?}", pattern);
                prop_assert!(pattern.pairs.iter().all(|(from, to)| from != to && *from < hosts && *to < hosts));
            }
        }
    }
}

//! The in-order binary tree that tree collectives run on.
//!
//! Positions are numbered so that walking the tree in order counts them: neighbours in the tree are near each other in
//! rank, and the tree's shape is bit arithmetic. Position `p` is read as the label `p + 1`; the number of trailing zeros
//! of a label is its height above the lowest level, so even positions are leaves and odd positions are interior. With 6
//! ranks (positions below):
//!
//! ```text
//!           3
//!         /   \
//!       1       5
//!      / \     /
//!     0   2   4
//! ```
//!
//! No position is deeper than `floor(log2 n)`. Ranks are dealt to positions by a rotation or a mirror, which yields trees
//! with a given root and pairs of trees with disjoint interiors.

/// A binary tree over ranks `0..ranks`.
#[derive(Debug, Clone, Copy)]
pub struct BinaryTree {
    ranks: usize,
    /// The position of rank 0, before mirroring.
    shift: usize,
    mirrored: bool,
}

impl BinaryTree {
    /// Rank `r` at position `r`: odd ranks are interior, even ranks are leaves.
    pub fn in_order(ranks: usize) -> BinaryTree {
        BinaryTree {
            ranks,
            shift: 0,
            mirrored: false,
        }
    }

    /// Its complement: even ranks are interior, odd ranks are leaves, so no rank is interior in both.
    ///
    /// An even number of ranks is mirrored. An odd number is shifted by one, because there a mirror keeps parity; the last
    /// rank then takes position 0, a leaf.
    pub fn complement(ranks: usize) -> BinaryTree {
        let even = ranks.is_multiple_of(2);
        BinaryTree {
            ranks,
            shift: usize::from(!even) % ranks,
            mirrored: even,
        }
    }

    /// Rotated so that `root` is the root.
    pub fn rooted_at(ranks: usize, root: usize) -> BinaryTree {
        let shift = (top_label(ranks) - 1 + ranks - root % ranks) % ranks;
        BinaryTree {
            ranks,
            shift,
            mirrored: false,
        }
    }

    /// The parent that a rank sends to; none for the root.
    pub fn parent(&self, rank: usize) -> Option<usize> {
        let mut label = self.label(rank);
        let top = top_label(self.ranks);
        // The parent in the full tree may be cut off; then its nearest ancestor that is not takes its place.
        while label != top {
            let bit = lowest_bit(label);
            label = (label ^ bit) | (bit << 1);
            if label <= self.ranks {
                return Some(self.rank(label));
            }
        }
        None
    }

    /// The children that a rank receives from, the lower position first.
    pub fn children(&self, rank: usize) -> impl Iterator<Item = usize> {
        let tree = *self;
        let label = self.label(rank);
        let reach = lowest_bit(label) >> 1;
        let below = (reach > 0).then(|| label - reach);
        // The upper subtree may be cut off at its top; what is left of it hangs lower.
        let above = std::iter::successors(Some(reach), |reach| Some(reach >> 1))
            .take_while(|&reach| reach > 0)
            .map(|reach| label + reach)
            .find(|&label| label <= tree.ranks);
        below.into_iter().chain(above).map(move |label| tree.rank(label))
    }

    /// Every edge as (child, parent).
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let tree = *self;
        (0..self.ranks).filter_map(move |rank| tree.parent(rank).map(|parent| (rank, parent)))
    }

    fn label(&self, rank: usize) -> usize {
        let position = (rank + self.shift) % self.ranks;
        1 + if self.mirrored {
            self.ranks - 1 - position
        } else {
            position
        }
    }

    fn rank(&self, label: usize) -> usize {
        let position = if self.mirrored {
            self.ranks - label
        } else {
            label - 1
        };
        (position + self.ranks - self.shift) % self.ranks
    }
}

/// The root's label: the highest power of two within the tree.
fn top_label(ranks: usize) -> usize {
    1 << ranks.ilog2()
}

fn lowest_bit(label: usize) -> usize {
    label & label.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(tree: BinaryTree, rank: usize) -> usize {
        std::iter::successors(tree.parent(rank), |&rank| tree.parent(rank)).count()
    }

    fn every_tree(ranks: usize) -> Vec<BinaryTree> {
        let rooted = (0..ranks).map(|root| BinaryTree::rooted_at(ranks, root));
        rooted
            .chain([BinaryTree::in_order(ranks), BinaryTree::complement(ranks)])
            .collect()
    }

    #[test]
    fn a_parent_names_as_children_exactly_the_ranks_that_name_it_as_parent() {
        for ranks in 1..=130 {
            for tree in every_tree(ranks) {
                assert_eq!(tree.edges().count(), ranks - 1, "{tree:?} has one root");
                for rank in 0..ranks {
                    let mut named: Vec<usize> = tree.children(rank).collect();
                    let mut naming: Vec<usize> = (0..ranks)
                        .filter(|&child| tree.parent(child) == Some(rank))
                        .collect();
                    named.sort();
                    naming.sort();
                    assert_eq!(named, naming, "{tree:?} at rank {rank}");
                }
            }
        }
    }

    #[test]
    fn latency_grows_with_the_logarithm_of_the_rank_count() {
        for ranks in 1..=257usize {
            for tree in [BinaryTree::in_order(ranks), BinaryTree::complement(ranks)] {
                let deepest = (0..ranks).map(|rank| depth(tree, rank)).max().unwrap();
                assert!(
                    deepest <= ranks.ilog2() as usize,
                    "{deepest} levels for {ranks} ranks"
                );
            }
        }
    }

    #[test]
    fn no_rank_pays_for_interior_work_in_both_trees() {
        for ranks in 1..=257 {
            let (tree, complement) = (BinaryTree::in_order(ranks), BinaryTree::complement(ranks));
            for rank in 0..ranks {
                let interior = |tree: BinaryTree| tree.children(rank).next().is_some();
                assert!(
                    !(interior(tree) && interior(complement)),
                    "rank {rank} of {ranks}"
                );
            }
        }
    }

    #[test]
    fn a_broadcast_tree_starts_at_the_root_that_was_asked_for() {
        for ranks in 1..=64 {
            for root in 0..ranks {
                assert_eq!(BinaryTree::rooted_at(ranks, root).parent(root), None);
            }
        }
    }
}

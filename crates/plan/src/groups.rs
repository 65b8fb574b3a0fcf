//! Groups that follow the fabric: pairs alone are not enough, a group across leaves may collapse while every pair is fine.
//!
//! Where a group over two leaves is slow and each leaf by itself is not, it is what lies between them; halves of both, mixed,
//! say whether it is all of it. Groups of one leaf each have no link in common, so they run at the same time.

use std::collections::{BTreeMap, BTreeSet};

use super::PlanError;
use super::layout::{Slot, TestLayout};
use record::{Cell, GroupKind, Load};
use topology::graph::Graph;

/// The leaves of one rail with their ranks, pod by pod.
type Pods = Vec<Vec<Vec<u32>>>;

impl TestLayout<'_> {
    /// Every group of the kinds asked for, on every rail.
    pub(super) fn fabric_groups(&mut self) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let graph = self.known.graph.clone().filter(|graph| !graph.is_inferred());
        let Some(graph) = graph else {
            let why = "which ranks share a leaf is not known; give a topology with --topology FILE";
            self.leave_out("all of it", why);
            return Ok(Vec::new());
        };
        let world = self.world();
        let at_once = self.fabric.is_one_rank_per_host();
        let mut slots = Vec::new();
        for rail in self.rails {
            let pods = pods(&graph, &world, rail);
            for kind in self.test.fabric_groups.clone() {
                let groups = groups(kind, &pods);
                if let Some(why) = why_none(kind, &pods).filter(|_| groups.is_empty()) {
                    self.leave_out(&format!("{kind} groups on {rail}"), why);
                }
                self.check_count(groups.len())?;
                let together = at_once && kind == GroupKind::Leaf && groups.len() > 1;
                let load = if together { Load::Together } else { Load::Alone };
                let mut of_work: BTreeMap<usize, Slot> = BTreeMap::new();
                for group in &groups {
                    for (number, work) in self.work(group.len())?.into_iter().enumerate() {
                        let cell = Cell {
                            group: Some(kind),
                            ..self.cell(work, group.clone(), vec![rail.clone()], load)
                        };
                        match together {
                            true => of_work.entry(number).or_default().push(cell),
                            false => slots.push(vec![cell]),
                        }
                    }
                }
                slots.extend(of_work.into_values());
            }
        }
        Ok(slots)
    }
}

/// Why there is no group of a kind.
fn why_none(kind: GroupKind, pods: &Pods) -> Option<&'static str> {
    let one_leaf = pods.iter().all(|leaves| leaves.len() < 2);
    match kind {
        _ if pods.is_empty() => Some("no rank has a cable to a leaf there"),
        GroupKind::Leaf => Some("no two ranks share a leaf"),
        _ if one_leaf => Some("no two leaves reach each other over a spine"),
        GroupKind::MixedHalves => Some("no two neighbouring leaves have two ranks each"),
        GroupKind::CrossLeaf | GroupKind::CrossSpine | GroupKind::Pod => None,
    }
}

/// The groups of one kind.
fn groups(kind: GroupKind, pods: &Pods) -> Vec<Vec<u32>> {
    let groups: Vec<Vec<u32>> = match kind {
        GroupKind::Leaf => pods.iter().flatten().cloned().collect(),
        GroupKind::CrossLeaf => neighbours(pods)
            .map(|(a, b)| [a.as_slice(), b.as_slice()].concat())
            .collect(),
        GroupKind::MixedHalves => neighbours(pods)
            .filter(|(a, b)| a.len() >= 2 && b.len() >= 2)
            .flat_map(|(a, b)| {
                let (first_a, second_a) = a.split_at(a.len() / 2);
                let (first_b, second_b) = b.split_at(b.len() / 2);
                [[first_a, first_b].concat(), [second_a, second_b].concat()]
            })
            .collect(),
        GroupKind::CrossSpine => pods
            .iter()
            .flat_map(|leaves| {
                let deepest = leaves.iter().map(Vec::len).max().unwrap_or(0);
                (0..deepest).map(|at| leaves.iter().filter_map(|leaf| leaf.get(at).copied()).collect())
            })
            .collect(),
        GroupKind::Pod => pods
            .iter()
            .filter(|leaves| leaves.len() > 1)
            .map(|leaves| leaves.concat())
            .collect(),
    };
    groups.into_iter().filter(|group| group.len() >= 2).collect()
}

/// Every two leaves of a pod that follow each other, round to the first.
fn neighbours(pods: &Pods) -> impl Iterator<Item = (&Vec<u32>, &Vec<u32>)> {
    pods.iter().flat_map(|leaves| {
        let pairs = match leaves.len() {
            0 | 1 => 0,
            2 => 1,
            more => more,
        };
        (0..pairs).map(move |at| (&leaves[at], &leaves[(at + 1) % leaves.len()]))
    })
}

/// The leaves of a rail that these ranks are on; leaves that share a switch above them are in one pod.
fn pods(graph: &Graph, world: &[u32], rail: &str) -> Pods {
    let mut leaves: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rank in world {
        if let Some(leaf) = graph.leaf_of(*rank, rail) {
            leaves.entry(leaf).or_default().push(*rank);
        }
    }
    let mut above: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, link) in graph.links() {
        if link.is_upward && leaves.contains_key(link.from.node.as_str()) {
            above.entry(&link.from.node).or_default().insert(&link.to.node);
        }
    }
    let mut pods: Vec<(BTreeSet<&str>, Vec<Vec<u32>>)> = Vec::new();
    for (leaf, ranks) in leaves {
        let spines = above.remove(leaf).unwrap_or_default();
        match pods.iter_mut().find(|(known, _)| !known.is_disjoint(&spines)) {
            Some((known, leaves)) => {
                known.extend(spines);
                leaves.push(ranks);
            }
            None => pods.push((spines, vec![ranks])),
        }
    }
    pods.into_iter().map(|(_, leaves)| leaves).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    fn pod(leaves: &[&[u32]]) -> Vec<Vec<u32>> {
        leaves.iter().map(|leaf| leaf.to_vec()).collect()
    }

    #[test]
    fn groups_are_what_their_names_say() {
        let pods = vec![pod(&[&[0, 1, 2], &[3, 4, 5], &[6, 7]]), pod(&[&[8, 9]])];
        assert_eq!(
            groups(GroupKind::Leaf, &pods),
            [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7], vec![8, 9]]
        );
        assert_eq!(
            groups(GroupKind::CrossLeaf, &pods),
            [vec![0, 1, 2, 3, 4, 5], vec![3, 4, 5, 6, 7], vec![6, 7, 0, 1, 2]]
        );
        assert_eq!(
            groups(GroupKind::MixedHalves, &pods)[..2],
            [vec![0, 3], vec![1, 2, 4, 5]]
        );
        assert_eq!(
            groups(GroupKind::CrossSpine, &pods),
            [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]
        );
        assert_eq!(groups(GroupKind::Pod, &pods), [vec![0, 1, 2, 3, 4, 5, 6, 7]]);
    }

    #[test]
    fn what_cannot_be_formed_has_a_reason() {
        let single = vec![pod(&[&[0], &[1]])];
        assert!(groups(GroupKind::Leaf, &single).is_empty());
        assert!(groups(GroupKind::MixedHalves, &single).is_empty());
        assert_eq!(groups(GroupKind::CrossLeaf, &single), [vec![0, 1]]);
        let alone = vec![pod(&[&[0, 1]])];
        for kind in GroupKind::iter() {
            for pods in [&single, &alone, &Vec::new()] {
                let none = groups(kind, pods).is_empty();
                assert!(!none || why_none(kind, pods).is_some(), "{kind} {pods:?}");
            }
        }
    }

    #[test]
    fn every_group_has_two_ranks_or_more_and_each_once() {
        for kind in GroupKind::iter() {
            for leaves in 1..6u32 {
                for each in 1..5u32 {
                    let pods = vec![
                        (0..leaves)
                            .map(|leaf| (0..each).map(|at| leaf * each + at).collect())
                            .collect(),
                    ];
                    for group in groups(kind, &pods) {
                        let members: BTreeSet<u32> = group.iter().copied().collect();
                        assert!(
                            group.len() >= 2 && members.len() == group.len(),
                            "{kind}: {group:?}"
                        );
                    }
                }
            }
        }
    }
}

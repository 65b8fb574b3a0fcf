//! The switches that had a choice: which equal links each one chose among, for which flows, and what it chose.
//!
//! A switch has a choice where several of its links lead nearer to the receiver. The first on a path is tier 1, the
//! next tier 2. A spine with parallel cables has one choice for every leaf it leads to; those are its *sets* of
//! members.

use std::collections::HashMap;

use topology::graph::{Graph, LinkId, Path};

/// What one switch chose for one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Number of the chooser.
    pub(super) chooser: usize,
    /// Which of its sets of members.
    pub(super) set: usize,
    /// The position of the chosen one; none when that is not known.
    pub(super) member: Option<usize>,
    /// The link by which the flow came in.
    pub(super) came_by: Option<LinkId>,
}

/// A switch that had a choice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chooser {
    /// Its name.
    pub(super) switch: String,
    /// The ordinal of this choice on the path: 1 for the first.
    pub(super) tier: u8,
    /// What it chose among, one list for every direction, each in the order of names.
    pub(super) sets: Vec<Vec<LinkId>>,
}

impl Chooser {
    /// All its members in the order of names, each once.
    pub(super) fn members(&self) -> Vec<LinkId> {
        let mut members: Vec<LinkId> = Vec::new();
        for link in self.sets.iter().flatten() {
            if !members.contains(link) {
                members.push(*link);
            }
        }
        members
    }
}

/// All choosers of a rail.
#[derive(Debug, Default)]
pub(super) struct Choosers {
    /// In order of first use.
    pub(super) all: Vec<Chooser>,
    number_of: HashMap<(u32, u8), usize>,
    set_of: HashMap<(usize, LinkId, usize), usize>,
}

impl Choosers {
    /// The choices on the path of a flow, up to the first that is not known; and the whole path, when none is left
    /// open.
    pub(super) fn choices(
        &mut self,
        graph: &Graph,
        (from, to): (u32, u32),
        rail: &str,
        path: &[LinkId],
    ) -> (Vec<Choice>, Option<Path>) {
        let mut choices = Vec::new();
        let (mut step, mut tier) = (0, 0u8);
        let whole = graph.route(from, to, rail, |node, nearer| {
            let came_by = path.get(step).copied();
            step += 1;
            if nearer.len() < 2 {
                return 0;
            }
            tier = tier.saturating_add(1);
            let number = *self.number_of.entry((node, tier)).or_insert_with(|| {
                self.all.push(Chooser {
                    switch: graph.link(nearer[0]).from.node.clone(),
                    tier,
                    sets: Vec::new(),
                });
                self.all.len() - 1
            });
            let key = (number, nearer[0], nearer.len());
            let set = *self.set_of.entry(key).or_insert_with(|| {
                let mut members = nearer.to_vec();
                members.sort_by_cached_key(|link| {
                    let port = &graph.link(*link).from.interface;
                    (port.len(), port.clone())
                });
                self.all[number].sets.push(members);
                self.all[number].sets.len() - 1
            });
            let taken = path.get(step).and_then(|link| {
                let place = nearer.iter().position(|near| near == link)?;
                let member = self.all[number].sets[set].iter().position(|near| near == link)?;
                Some((place, member))
            });
            choices.push(Choice {
                chooser: number,
                set,
                member: taken.map(|(_, member)| member),
                came_by,
            });
            // Where a path is lost it is not followed any further: no link has this number.
            taken.map_or(usize::MAX, |(place, _)| place)
        });
        (choices, whole)
    }
}

//! What moved together, in as few lines as possible: a thousand slower cells of one rail are that rail.
//!
//! The part that explains most of what is left comes first, when nearly all of its clear cells moved the same way;
//! then the next, until nothing is left. Only cells similar to those that moved count for that: a cable that is slow
//! with large messages is not cleared by small ones. A cell that shares no wider part is listed on its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};

use record::stats::Ordered;
use record::{Cell, CommonPart};

/// The fraction of a part's cells that must have moved for the part to be named.
pub(super) const NEARLY_ALL: f64 = 0.75;
/// The same for the run as a whole, which must not hide a healthy rail.
const ALL: f64 = 0.9;

/// A cell that is not unclear.
pub(super) struct Member<'a> {
    /// The cell.
    pub(super) cell: &'a Cell,
    /// Its hosts, where they are few.
    pub(super) hosts: Vec<&'a str>,
    /// Whether it moved.
    pub(super) moved: bool,
}

/// Cells that moved together.
#[derive(Debug)]
pub(super) struct Group {
    /// What they have in common.
    pub(super) common: CommonPart,
    /// Its name.
    pub(super) part: String,
    /// Their positions among the members.
    pub(super) moved: Vec<usize>,
    /// Members that have it in common at all.
    pub(super) of: u32,
}

/// A part by name; the order is the preference among parts that explain the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartKey<'a> {
    Rail(&'a str),
    Everything,
    Port(&'a str, &'a str),
    Host(&'a str),
    Link(&'a str),
    Hosts(Vec<&'a str>, usize, &'a [String]),
}

impl PartKey<'_> {
    fn common(&self) -> CommonPart {
        match self {
            PartKey::Rail(_) => CommonPart::Rail,
            PartKey::Everything => CommonPart::Everything,
            PartKey::Port(..) => CommonPart::Port,
            PartKey::Host(_) => CommonPart::Host,
            PartKey::Link(_) => CommonPart::Link,
            PartKey::Hosts(..) => CommonPart::Hosts,
        }
    }

    fn name(&self) -> String {
        match self {
            PartKey::Rail(rail) => (*rail).to_string(),
            PartKey::Everything => "everything".to_string(),
            PartKey::Port(host, rail) => format!("{host} on {rail}"),
            PartKey::Host(host) => (*host).to_string(),
            PartKey::Link(link) => (*link).to_string(),
            PartKey::Hosts(hosts, ranks, rails) => {
                let who = match hosts.as_slice() {
                    [] => format!("{ranks} ranks"),
                    hosts => hosts.join(" and "),
                };
                match rails {
                    [] => who,
                    rails => format!("{who} on {}", rails.join("+")),
                }
            }
        }
    }
}

/// What is known of one part.
#[derive(Default)]
struct GroupTally {
    moved: Vec<usize>,
    /// Members like those that moved.
    alike: u32,
    of: u32,
    /// Moved members that no other part explains yet.
    left: u32,
}

impl GroupTally {
    fn share(&self) -> f64 {
        self.moved.len() as f64 / f64::from(self.alike.max(1))
    }

    fn explains(&self, part: &PartKey<'_>) -> bool {
        self.left > 0
            && match part {
                PartKey::Rail(_) => self.share() >= NEARLY_ALL,
                PartKey::Everything => self.share() >= ALL,
                // One cell alone says nothing about a part that others share.
                PartKey::Port(..) | PartKey::Host(_) | PartKey::Link(_) => {
                    self.share() >= NEARLY_ALL && self.moved.len() > 1
                }
                PartKey::Hosts(..) => true,
            }
    }
}

/// The members that moved, grouped by what they have in common: the largest group first.
pub(super) fn group(members: &[Member<'_>]) -> Vec<Group> {
    let classes: HashSet<_> = members
        .iter()
        .filter(|member| member.moved)
        .map(|member| member.cell.peer_key())
        .collect();
    let mut tallies: BTreeMap<PartKey<'_>, GroupTally> = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        let is_alike = classes.contains(&member.cell.peer_key());
        for part in parts(member) {
            let tally = tallies.entry(part).or_default();
            tally.of += 1;
            tally.alike += u32::from(is_alike);
            if member.moved {
                tally.moved.push(place);
                tally.left += 1;
            }
        }
    }
    // In the order of names, for binary search.
    let mut tallies: Vec<(PartKey<'_>, GroupTally)> = tallies
        .into_iter()
        .filter(|(part, tally)| tally.explains(part))
        .collect();
    // What is left of a part only shrinks: the first of the heap is the best unless its count is outdated.
    let mut heap: BinaryHeap<(u32, Ordered, Reverse<usize>)> = tallies
        .iter()
        .enumerate()
        .map(|(number, (_, tally))| (tally.left, Ordered(tally.share()), Reverse(number)))
        .collect();
    let mut explained = vec![false; members.len()];
    let mut groups = Vec::new();
    while let Some((left, share, Reverse(number))) = heap.pop() {
        let (part, tally) = &tallies[number];
        if tally.left != left {
            if tally.left > 0 {
                heap.push((tally.left, share, Reverse(number)));
            }
            continue;
        }
        let moved: Vec<usize> = tally
            .moved
            .iter()
            .copied()
            .filter(|place| !explained[*place])
            .collect();
        groups.push(Group {
            common: part.common(),
            part: part.name(),
            of: tally.of,
            moved: moved.clone(),
        });
        for place in moved {
            explained[place] = true;
            for part in parts(&members[place]) {
                if let Ok(number) = tallies.binary_search_by(|(known, _)| known.cmp(&part)) {
                    tallies[number].1.left -= 1;
                }
            }
        }
    }
    groups
}

/// Every part that a member has something to do with, each once.
pub(super) fn parts<'a>(member: &Member<'a>) -> BTreeSet<PartKey<'a>> {
    let cell = member.cell;
    let mut parts = BTreeSet::from([PartKey::Everything]);
    parts.extend(cell.path.iter().map(|link| PartKey::Link(link)));
    parts.extend(member.hosts.iter().map(|host| PartKey::Host(host)));
    // A payload that is striped over several rails is evidence against none of them alone.
    if let [rail] = cell.rails.as_slice() {
        let other = cell.to_rail.as_ref().unwrap_or(rail);
        parts.extend([PartKey::Rail(rail), PartKey::Rail(other)]);
        let ends = member.hosts.iter().enumerate();
        parts.extend(ends.map(|(number, host)| PartKey::Port(host, if number == 0 { rail } else { other })));
    }
    let mut hosts = member.hosts.clone();
    hosts.sort_unstable();
    parts.insert(PartKey::Hosts(hosts, cell.ranks.len(), &cell.rails));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::fixture::Fixture;

    /// Every cell of `ranks` hosts' pairs as a member that moved or did not.
    fn named(ranks: u32, moved: impl Fn(&Cell) -> bool) -> Vec<(String, usize)> {
        let run = Fixture::pairs(ranks).run;
        let hosts: Vec<String> = (0..ranks).map(|rank| format!("h{rank}")).collect();
        let members: Vec<Member<'_>> = run
            .cells
            .iter()
            .map(|cell| Member {
                cell,
                hosts: cell
                    .ranks
                    .iter()
                    .map(|rank| hosts[*rank as usize].as_str())
                    .collect(),
                moved: moved(cell),
            })
            .collect();
        let groups = group(&members);
        let total: usize = groups.iter().map(|group| group.moved.len()).sum();
        let flagged = members.iter().filter(|member| member.moved).count();
        assert_eq!(total, flagged, "every cell that moved is in one line and no more");
        groups
            .into_iter()
            .map(|group| (group.part, group.moved.len()))
            .collect()
    }

    #[test]
    fn two_hosts_are_two_lines_and_a_stray_pair_is_a_third() {
        let groups = named(9, |cell| {
            cell.ranks.contains(&2) || cell.ranks.contains(&5) || cell.ranks == [0, 1]
        });
        let parts: Vec<&str> = groups.iter().map(|(part, _)| part.as_str()).collect();
        assert_eq!(parts, ["h2 on rail0", "h5 on rail0", "h0 and h1 on rail0"]);
        assert_eq!(groups[0].1 + groups[1].1, 30);
    }

    #[test]
    fn a_payload_over_two_rails_accuses_neither_alone() {
        let mut run = Fixture::rails(2).run;
        run.cells[0].rails = vec!["rail0".into(), "rail1".into()];
        let members: Vec<Member<'_>> = run
            .cells
            .iter()
            .map(|cell| Member {
                cell,
                hosts: Vec::new(),
                moved: cell.id < 2,
            })
            .collect();
        let parts: Vec<String> = group(&members).into_iter().map(|group| group.part).collect();
        assert_eq!(parts, ["rail0", "4 ranks on rail0+rail1"]);
    }

    #[test]
    fn thousands_of_strays_are_each_named() {
        // Half of all pairs, none of whose hosts stands out.
        let groups = named(90, |cell| {
            cell.ranks[0] < cell.ranks[1] && (cell.ranks[0] + cell.ranks[1]) % 2 == 0
        });
        assert_eq!(groups.len(), groups.iter().map(|(_, cells)| cells).sum::<usize>());
        assert!(groups.len() > 1000, "{}", groups.len());
    }
}

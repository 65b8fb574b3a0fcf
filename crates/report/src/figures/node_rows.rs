//! Rows of a table of hosts: each has its own while they are few; in large fabrics failing hosts have their own and the
//! others are grouped.

use super::canvas::clip;

/// Letters of a label.
const LONGEST: usize = 30;

/// One row, or one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeRow {
    /// What it is called.
    pub(super) label: String,
    /// Whose it is, by number.
    pub(super) hosts: Vec<usize>,
    /// Whether it is about failing hosts.
    pub(super) is_failing: bool,
}

/// The rows of these hosts: at most `most_failing` of the failing ones (worst first) and at most `groups` groups each of failing
/// ones that are left and of the others. With room for all of them, each has its own, in order.
pub(super) fn rows(names: &[&str], failing: &[usize], most_failing: usize, groups: usize) -> Vec<NodeRow> {
    let mut is_failing = vec![false; names.len()];
    failing.iter().for_each(|host| is_failing[*host] = true);
    let own = |host: usize| NodeRow {
        label: clip(names[host], LONGEST),
        hosts: vec![host],
        is_failing: is_failing[host],
    };
    if names.len() <= most_failing + groups {
        return (0..names.len()).map(own).collect();
    }
    let (first, squeezed) = failing.split_at(failing.len().min(most_failing));
    let mut rows: Vec<NodeRow> = first.iter().copied().map(own).collect();
    let mut squeezed = squeezed.to_vec();
    squeezed.sort_unstable();
    rows.extend(grouped(names, &squeezed, groups, true));
    let others: Vec<usize> = (0..names.len()).filter(|host| !is_failing[*host]).collect();
    rows.extend(grouped(names, &others, groups, false));
    rows
}

/// Neighbours together, in groups of one size.
fn grouped(names: &[&str], hosts: &[usize], groups: usize, is_failing: bool) -> Vec<NodeRow> {
    let size = hosts.len().div_ceil(groups.max(1)).max(1);
    let row = |members: &[usize]| {
        let label = match members {
            [] => String::new(),
            [one] => clip(names[*one], LONGEST),
            [first, .., last] => {
                let end = |host: &usize| clip(names[*host], LONGEST / 2 - 3);
                format!("{}..{} ({})", end(first), end(last), members.len())
            }
        };
        NodeRow {
            label,
            hosts: members.to_vec(),
            is_failing,
        }
    };
    hosts.chunks(size).map(row).collect()
}

/// Pixels that labels need at the left of a table.
pub(super) fn label_width(rows: &[NodeRow]) -> i32 {
    let longest = rows.iter().map(|row| row.label.chars().count()).max();
    (longest.unwrap_or(0) as i32 * 7 + 52).clamp(110, 280)
}

/// How hosts were grouped into rows; empty when each host has its own.
pub(super) fn grouping_note(rows: &[NodeRow], failing: usize) -> String {
    let together = rows.iter().filter(|row| row.hosts.len() > 1);
    let (groups, hosts) = together.fold((0, 0), |(groups, hosts), row| {
        (groups + 1, hosts + row.hosts.len())
    });
    if groups == 0 {
        return String::new();
    }
    let squeezed: usize = rows
        .iter()
        .filter(|row| row.is_failing && row.hosts.len() > 1)
        .map(|row| row.hosts.len())
        .sum();
    let own = failing.saturating_sub(squeezed);
    let who = match (failing, squeezed) {
        (0, _) => "no node fails".to_string(),
        (1, _) => "the failing node has its own row".to_string(),
        (_, 0) => format!("each of the {failing} failing nodes has its own row"),
        _ => format!(
            "the worst {own} of {failing} failing nodes have their own rows, the other {squeezed} are in groups of failing nodes only"
        ),
    };
    format!(" {hosts} nodes are drawn in {groups} groups of neighbours; {who}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_host_has_a_place_and_nobody_who_fails_hides_among_the_healthy(
            hosts in 0usize..300,
            failing in proptest::collection::btree_set(0usize..300, 0..80),
        ) {
            let names: Vec<String> = (0..hosts).map(|host| format!("n{host}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let failing: Vec<usize> = failing.into_iter().filter(|host| *host < hosts).collect();
            let rows = rows(&names, &failing, 20, 10);
            prop_assert!(rows.len() <= 40);
            let mut seen: Vec<usize> = rows.iter().flat_map(|row| row.hosts.iter().copied()).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..hosts).collect::<Vec<_>>());
            for row in &rows {
                let fail = row.hosts.iter().filter(|host| failing.contains(host)).count();
                prop_assert!(fail == 0 || fail == row.hosts.len() && row.is_failing);
            }
            let alone = rows.iter().filter(|row| row.is_failing && row.hosts.len() == 1).count();
            prop_assert!(alone >= failing.len().min(20));
        }
    }

    #[test]
    fn groups_are_counted_and_named_by_their_ends() {
        let names: Vec<String> = (0..2048).map(|host| format!("node{host:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let rows = rows(&names, &[7], 64, 24);
        assert_eq!(rows[0].label, "node0007");
        assert_eq!(rows[1].label, "node0000..node0086 (86)");
        assert!(
            grouping_note(&rows, 1).contains("2047 nodes are drawn in 24 groups"),
            "{}",
            grouping_note(&rows, 1)
        );
        assert_eq!(grouping_note(&rows[..1], 1), "");
    }
}

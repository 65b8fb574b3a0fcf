//! Tables of the spread over equal paths: groups, the load of their paths, and who sent what over which.

use super::groups::{counted_shares, is_outside, port_of};
use crate::table::{Entry, Table, Tone, figure, text};
use record::text::whole_percent;
use record::{EcmpCause, EcmpVerdict};

/// Members of one group, as rows.
pub(crate) const MOST_MEMBERS: usize = 64;
/// Members of one group, as columns of the table of pairs.
const MOST_COLUMNS: usize = 16;
/// Pairs of a group at fault, and of one that is not.
const MOST_PAIRS: usize = 32;
const MOST_HEALTHY_PAIRS: usize = 8;

/// These groups, what each comes to and on what that rests.
pub(crate) fn table(groups: &[&EcmpVerdict]) -> Table {
    let columns = [
        text("switch"),
        text("rail"),
        figure("tier"),
        text("verdict"),
        figure("flows"),
        figure("paths used"),
        figure("busiest / mean"),
        text("statistic"),
        figure("value"),
        figure("median under a fair hash"),
        figure("p"),
        figure("p of counted bytes"),
        figure("goodput lost"),
    ];
    let mut table = Table::new("Groups of equal-cost paths", columns);
    for group in groups {
        table.row([
            Entry::from(group.switch.as_deref().unwrap_or("unknown")),
            Entry::from(&group.rail),
            Entry::ours(group.tier),
            Entry::ours(group.cause).toned(tone(group.cause)),
            Entry::ours(group.flows),
            Entry::ours(format!("{} of {}", group.paths_used, paths(group))),
            Entry::ours(format!("{:.2}", group.max_over_mean)),
            Entry::from(&group.statistic),
            Entry::ours(format!("{:.3}", group.value)),
            Entry::ours(format!("{:.3}", group.null_median)),
            Entry::ours(chance_of(group.p_value)),
            Entry::or_dash(group.counted_p_value.map(chance_of)),
            Entry::or_dash(group.lost.map(whole_percent)),
        ]);
    }
    table
}

/// What a cause means.
fn tone(cause: EcmpCause) -> Tone {
    match cause {
        EcmpCause::ExpectedCollision | EcmpCause::AdaptiveRouting => Tone::Good,
        EcmpCause::Unjudged => Tone::Unclear,
        _ => Tone::Bad,
    }
}

/// How many paths there are to use: a switch that has some for every receiver has more of them than any one flow.
fn paths(group: &EcmpVerdict) -> usize {
    group.members.len().max(group.paths as usize)
}

/// The load of every path of a group, as far as they are shown.
pub(crate) fn members(group: &EcmpVerdict) -> Table {
    let columns = [
        text("path"),
        figure("flows"),
        figure("delivering"),
        figure("share"),
        figure("99 % band"),
        figure("counted by the switch"),
        figure("delivered"),
        figure("expected"),
    ];
    let mut table = Table::new("Load of each path", columns);
    let counted = counted_shares(&group.members);
    for (member, share) in group.members.iter().zip(&counted).take(MOST_MEMBERS) {
        let counted = match (member.counted, share) {
            (Some(bytes), Some(share)) => Some(format!("{bytes} ({})", whole_percent(*share))),
            _ => None,
        };
        let share = match is_outside(member) {
            true => Entry::ours(format!("{} (!)", whole_percent(member.share))).toned(Tone::Bad),
            false => Entry::ours(whole_percent(member.share)),
        };
        table.row([
            Entry::from(&member.link),
            Entry::ours(member.flows),
            Entry::ours(member.delivering),
            share,
            Entry::ours(format!(
                "{} to {}",
                whole_percent(member.band.0),
                whole_percent(member.band.1)
            )),
            Entry::or_dash(counted),
            Entry::or_dash(member.rate),
            Entry::or_dash(member.expected),
        ]);
    }
    table
}

/// Pairs of a group that are shown.
pub(crate) fn most_pairs(group: &EcmpVerdict) -> usize {
    match group.cause.is_fault() {
        true => MOST_PAIRS,
        false => MOST_HEALTHY_PAIRS,
    }
}

/// How many flows of every pair took every path, as far as pairs are shown.
pub(crate) fn pairs(group: &EcmpVerdict) -> Table {
    let is_narrow = group.members.len() <= MOST_COLUMNS;
    let columns: Vec<&str> = match is_narrow {
        true => group.members.iter().map(|member| port_of(&member.link)).collect(),
        false => vec!["paths used", "most flows on one path"],
    };
    let figures = columns.iter().chain(&["unknown path", "dead"]);
    let head = std::iter::once(text("pair")).chain(figures.map(|name| figure(name)));
    let mut table = Table::new("Flows of each pair by path", head.collect::<Vec<_>>());
    let mut rows: Vec<_> = group.pairs.iter().collect();
    rows.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
    for pair in rows.into_iter().take(most_pairs(group)) {
        let mut row = vec![Entry::from(format!("{} to {}", pair.from, pair.to))];
        match is_narrow {
            true => row.extend((0..columns.len()).map(|at| Entry::or_dash(pair.flows.get(at)))),
            false => {
                let used = pair.flows.iter().filter(|flows| **flows > 0).count();
                row.push(Entry::ours(used));
                row.push(Entry::or_dash(pair.flows.iter().max()));
            }
        }
        row.push(Entry::ours(pair.unknown));
        row.push(Entry::ours(pair.dead));
        table.row(row);
    }
    table
}

fn chance_of(p: f64) -> String {
    match p < 0.001 {
        true => "< 0.001".to_string(),
        false => format!("{p:.3}"),
    }
}

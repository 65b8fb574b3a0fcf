//! The cables of a run: who is suspected, which carried what they should, which were never crossed.

use super::table::{Entry, Table, Tone, figure, text};
use record::{Coverage, Finding, LinkCoverage, LinkState};

/// A link on which only a loss so many times as large as the usual one would show is counted apart.
const UNLIKE_OTHERS: f64 = 1.5;

/// The suspects of a finding; none when no part was localised.
pub(super) fn suspects(finding: &Finding) -> Option<Table> {
    let columns = [
        text("suspect"),
        text("type"),
        text("direction"),
        figure("confidence"),
        text("why"),
    ];
    let mut table = Table::new("Suspects, most likely first", columns);
    for suspect in &finding.suspects {
        table.row([
            Entry::from(suspect.cable.as_ref().unwrap_or(&suspect.part)),
            Entry::ours(suspect.kind),
            Entry::from(suspect.direction.as_deref().unwrap_or("")),
            Entry::ours(format!("{:.2}", suspect.confidence)),
            Entry::from(&suspect.why),
        ]);
    }
    (!finding.suspects.is_empty()).then_some(table)
}

/// All links: those that are not healthy first, then the least loaded of those that are.
pub(super) fn in_order(coverage: &Coverage) -> Vec<&LinkCoverage> {
    let mut rows: Vec<&LinkCoverage> = coverage.links.iter().collect();
    let share = |link: &LinkCoverage| link.share.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        urgency(a.state)
            .cmp(&urgency(b.state))
            .then(share(a).total_cmp(&share(b)))
    });
    rows
}

/// What was asked of these links.
pub(super) fn table(links: &[&LinkCoverage]) -> Table {
    let columns = [
        text("link"),
        text("state"),
        figure("highest rate"),
        figure("share of its rate"),
        figure("flows"),
        figure("loss that would show"),
    ];
    let mut table = Table::new("Links (cables, per direction)", columns);
    for link in links {
        let why = link
            .why
            .as_ref()
            .map_or_else(String::new, |why| format!(": {why}"));
        table.row([
            Entry::from(&link.link),
            Entry::from(format!("{}{why}", link.state)).toned(tone(link.state)),
            Entry::or_dash(link.most),
            Entry::or_dash(link.share.map(|share| format!("{:.0} %", share * 100.0))),
            Entry::ours(link.flows),
            Entry::or_dash(link.smallest_loss.map(percent_rounded_up)),
        ]);
    }
    table
}

/// What the state of a link means.
pub(super) fn tone(state: LinkState) -> Tone {
    match state {
        LinkState::Slow => Tone::Bad,
        LinkState::Suspected | LinkState::Untested | LinkState::Underloaded => Tone::Unclear,
        LinkState::Healthy => Tone::Good,
    }
}

/// `62 of 64 directed links carried what they should, 1 slow, 1 untested`; none when links are not known.
pub(super) fn in_one_line(coverage: &Coverage) -> Option<String> {
    let count = |state: LinkState| coverage.links.iter().filter(|link| link.state == state).count();
    let all = coverage.links.len();
    let others = [
        LinkState::Slow,
        LinkState::Suspected,
        LinkState::Underloaded,
        LinkState::Untested,
    ];
    let others = others
        .iter()
        .map(|state| (count(*state), state))
        .filter(|(count, _)| *count > 0);
    let mut parts = vec![format!(
        "{} of {all} directed links carried their rate",
        count(LinkState::Healthy)
    )];
    parts.extend(others.map(|(count, state)| format!("{count} {state}")));
    let mut line = parts.join(", ");
    if let Some(found) = losses_in_words(coverage) {
        line = format!("{line}; {found}");
    }
    (all > 0).then_some(line)
}

/// `on 120 of them a loss of 12 % would have been found with probability 0.9, on 8 one of 25 %`; none where that is known of no link.
fn losses_in_words(coverage: &Coverage) -> Option<String> {
    let links = coverage
        .links
        .iter()
        .filter(|link| link.state < LinkState::Suspected);
    let mut losses: Vec<f64> = links.filter_map(|link| link.smallest_loss).collect();
    losses.sort_by(f64::total_cmp);
    let usual = losses.get(losses.len() / 2)? * UNLIKE_OTHERS;
    let (most, rest) = losses.split_at(losses.partition_point(|loss| *loss <= usual));
    let mut words = format!(
        "on {} of them a loss of {} would have been found with probability 0.9",
        most.len(),
        percent_rounded_up(*most.last()?)
    );
    if let Some(worst) = rest.last() {
        words = format!("{words}, on {} one of {}", rest.len(), percent_rounded_up(*worst));
    }
    Some(words)
}

/// A loss is never made to look smaller.
pub(crate) fn percent_rounded_up(loss: f64) -> String {
    format!("{:.0} %", (loss * 100.0 - 1e-9).ceil())
}

/// What is worst comes first; a healthy link comes last.
fn urgency(state: LinkState) -> u8 {
    match state {
        LinkState::Slow => 0,
        LinkState::Suspected => 1,
        LinkState::Untested => 2,
        LinkState::Underloaded => 3,
        LinkState::Healthy => 4,
    }
}

//! A rail on which nothing gets through, while the ranks at its ends are alive.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use super::silence::{SilentEnd, StuckPath};
use record::text;
use record::units::Bytes;
use record::{Finding, FindingKind, Place};

/// One finding per silent rail and end.
pub(super) struct SilentRail;

impl Detector for SilentRail {
    fn question(&self) -> &'static str {
        "Did a rail go silent while the ranks at its ends were alive?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        analysis
            .silent_rails
            .iter()
            .map(|silence| finding(analysis, silence))
            .collect()
    }
}

fn finding(analysis: &RunAnalysis<'_>, silence: &SilentEnd) -> Finding {
    let rail = &silence.rail;
    let at = match silence.hosts.as_slice() {
        [one] => format!("at {one}"),
        hosts => format!("between {}", hosts.join(" and ")),
    };
    let mut ranks: Vec<u32> = silence
        .paths
        .iter()
        .flat_map(|path| [path.from, path.to])
        .collect();
    ranks.retain(|rank| {
        analysis
            .host(*rank)
            .is_some_and(|host| silence.hosts.iter().any(|guilty| guilty == host))
    });
    ranks.sort_unstable();
    ranks.dedup();
    let name = |rank: u32| {
        analysis
            .host(rank)
            .map_or_else(|| format!("rank {rank}"), str::to_string)
    };
    let path = |path: &StuckPath| {
        let (from, to) = (name(path.from), name(path.to));
        match (path.retries, &path.broke) {
            (_, Some(broke)) => format!("{from} to {to}: {broke}"),
            (0, None) => format!("{from} to {to}: no connection"),
            (retries, None) => format!(
                "{from} to {to}: {} not acknowledged, retransmitted {retries} times in a row",
                Bytes(path.bytes)
            ),
        }
    };
    let paths: Vec<String> = silence.paths.iter().map(path).collect();
    let cell = silence.cells.first().and_then(|cell| analysis.cell(*cell));
    let carrier = if silence.without_carrier {
        "; its interface there has no carrier"
    } else {
        ""
    };
    let others: usize = silence.paths.len().saturating_sub(1);
    let more = match others {
        0 => String::new(),
        more => format!(" and {more} more path{}", text::plural(more)),
    };
    let place = Place {
        hosts: silence.hosts.clone(),
        ranks,
        rail: Some(rail.clone()),
        ..Place::default()
    };
    Finding::new(FindingKind::SilentRail, place)
        .with_sentence(format!(
            "{rail} {at} went silent{}: {}{more}{carrier}; all its ranks are alive",
            cell.map_or_else(String::new, |cell| format!(" in {}", cell.describe())),
            paths.first().map_or("", String::as_str),
        ))
        .with_rule(
            "silent: packets retransmitted until the deadline and never acknowledged, or a connection \
             that broke at an interface without carrier, while both ranks answer",
        )
        .ambiguous_with(match (silence.without_carrier, silence.hosts.len()) {
            (true, _) => vec!["the port at the other end of that cable".to_string()],
            (false, 1) => vec!["the switch port behind it".to_string()],
            _ => vec!["anything on the path between the two".to_string()],
        })
        .with_evidence(paths)
        .with_cells(silence.cells.iter().copied())
        .with_next_step(format!(
            "look at {rail} {at}: link state, cable, transceiver, switch port; then routes and filters on \
             the path"
        ))
        .with_repeat(repeat::command(analysis.run(), &[("rail", rail)]))
}

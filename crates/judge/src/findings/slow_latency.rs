//! Round trips that take longer than those of the peers: a latency floor, named by the rank or the pairs that have it.

use std::collections::BTreeMap;

use super::analysis::RunAnalysis;
use super::blame::shared_rank;
use super::detector::Detector;
use super::repeat;
use super::slow_cells::{slow_places, worst_of};
use record::text;
use record::units::Nanos;
use record::{Finding, FindingKind};

/// One finding per rail, for the rank that all slow pairs share or for the pairs.
pub(super) struct SlowLatency;

impl Detector for SlowLatency {
    fn question(&self) -> &'static str {
        "Do round trips take longer than they should?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let mut by_rail: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        for place in &analysis.blame.latency {
            let rails = analysis.summaries[*place].cell.rails.as_slice();
            by_rail.entry(rails).or_default().push(*place);
        }
        let found = by_rail
            .iter()
            .filter_map(|(rails, places)| one(analysis, rails, places));
        found.collect()
    }
}

fn one(analysis: &RunAnalysis<'_>, rails: &[String], places: &[usize]) -> Option<Finding> {
    let rail = match rails {
        [rail] => Some(rail.as_str()),
        _ => None,
    };
    let mut finding = slow_places(analysis, FindingKind::LatencyFloor, places, rail)?;
    let worst = worst_of(analysis, places)?;
    let (summary, comparison) = (&analysis.summaries[worst], analysis.speeds[worst].comparison()?);
    let time = summary.time(analysis.run().rule.confidence)?;
    let expected = summary.wire.bytes()?.0 as f64 * 1e9 / comparison.expected.0;
    let cell = summary.cell;
    let who = match shared_rank(places.iter().map(|place| analysis.summaries[*place].cell)) {
        Some(rank) => {
            finding.place.ranks = vec![rank];
            finding.place.hosts = analysis.hosts(&[rank]);
            format!("{} with all partners", analysis.run().rank_name(rank))
        }
        None => text::list(
            &places
                .iter()
                .map(|place| {
                    let ranks = &analysis.summaries[*place].cell.ranks;
                    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
                    format!("ranks {}", names.join(" <-> "))
                })
                .collect::<Vec<_>>(),
        ),
    };
    let prefix = rail.map_or_else(String::new, |rail| format!("{rail}, "));
    finding.sentence = format!(
        "{prefix}{who}: {} round trip {} [{}, {}] of {} expected ({})",
        cell.size,
        Nanos(time.median as u64),
        Nanos(time.lower),
        Nanos(time.upper),
        Nanos(expected as u64),
        comparison.from
    );
    finding.not_told_apart_from = vec![
        "settings of the hosts at its ends".to_string(),
        "a longer path through the fabric".to_string(),
    ];
    finding.next_step = format!(
        "{prefix}{who}: compare power management, interrupt placement, NUMA \
         node, PCIe settings and the number of hops with a healthy peer; then \
         repeat"
    );
    finding.repeat = Some(repeat::command(analysis.run(), &[("test", cell.test.as_str())]));
    Some(finding)
}

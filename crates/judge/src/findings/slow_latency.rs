//! Round trips that take longer than those of the peers: a latency floor, named by the rank or the pairs that have it.

use std::collections::BTreeMap;

use super::blame::shared_rank;
use super::slow_rail::slow_places;
use super::{Detector, Seen, repeat};
use record::text;
use record::units::Nanos;
use record::{Finding, FindingKind};

/// One finding per rail, for the rank that all slow pairs share or for the pairs.
pub(super) struct SlowLatency;

impl Detector for SlowLatency {
    fn question(&self) -> &'static str {
        "Do round trips take longer than they should?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        let mut by_rail: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        for place in &seen.blame.latency {
            let rails = seen.summaries[*place].cell.rails.as_slice();
            by_rail.entry(rails).or_default().push(*place);
        }
        let found = by_rail
            .iter()
            .filter_map(|(rails, places)| one(seen, rails, places));
        found.collect()
    }
}

fn one(seen: &Seen<'_>, rails: &[String], places: &[usize]) -> Option<Finding> {
    let rail = match rails {
        [rail] => Some(rail.as_str()),
        _ => None,
    };
    let mut finding = slow_places(seen, FindingKind::LatencyFloor, places, rail)?;
    let ratio = |place: &usize| {
        let comparison = seen.speeds[*place].comparison();
        comparison.map_or(f64::INFINITY, |comparison| comparison.ratio())
    };
    let worst = places.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let (summary, comparison) = (&seen.summaries[*worst], seen.speeds[*worst].comparison()?);
    let time = summary.time(seen.run().rule.confidence)?;
    let expected = summary.wire.bytes()?.0 as f64 * 1e9 / comparison.expected.0;
    let cell = summary.cell;
    let who = match shared_rank(places.iter().map(|place| seen.summaries[*place].cell)) {
        Some(rank) => {
            finding.place.ranks = vec![rank];
            finding.place.hosts = seen.hosts(&[rank]);
            format!("{} with everybody", seen.run().rank_name(rank))
        }
        None => text::list(
            &places
                .iter()
                .map(|place| {
                    let ranks = &seen.summaries[*place].cell.ranks;
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
        "a longer way through the fabric".to_string(),
    ];
    finding.next_step = format!(
        "{prefix}{who}: compare power management, interrupt placement, NUMA node, PCIe settings and the number of hops with a \
         healthy peer; then repeat"
    );
    finding.repeat = Some(repeat::command(seen.run(), &[("test", cell.test.as_str())]));
    Some(finding)
}

//! A pair of ranks below its reference, each direction judged on its own; or one rank slow with all its partners.

use super::counters::cause::{self, Cause};
use super::slow_rail::slow_places;
use super::{Detector, Seen, repeat};
use record::text;
use record::{Collective, Finding, FindingKind};

/// One finding per slow pair and direction, or one for a rank that all slow pairs share.
pub(super) struct SlowPair;

impl Detector for SlowPair {
    fn question(&self) -> &'static str {
        "Is the path between two ranks slower than it should be?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        let pairs = seen
            .blame
            .pair
            .iter()
            .filter_map(|(pair, places)| one_pair(seen, *pair, places));
        let shared = seen
            .blame
            .shared_rank
            .iter()
            .filter_map(|(rank, places)| one_rank(seen, *rank, places));
        pairs.chain(shared).collect()
    }
}

fn one_pair(seen: &Seen<'_>, (from, to): (u32, u32), places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(seen, FindingKind::SlowPair, places, common_rail(seen, places))?;
    let is_one_way = is_one_way(seen, places);
    let arrow = if is_one_way { "->" } else { "<->" };
    let (source, sink) = (seen.run().rank_name(from), seen.run().rank_name(to));
    let cause = cause_of(seen, &mut finding);
    finding.sentence = format!("{source} {arrow} {sink}: {}", finding.sentence);
    finding.place.ranks = vec![from, to];
    if is_one_way && !seen.blame.pair.contains_key(&(to, from)) {
        finding.evidence.push(format!("{sink} -> {source} is not slow"));
    }
    finding.not_told_apart_from = vec![
        format!("the sending side of {source}"),
        format!("the receiving side of {sink}"),
        "any link on the path between them".into(),
    ];
    finding.next_step = format!(
        "check cable, port and routing between {source} and {sink}; measure each against another healthy partner to see \
         which end it is"
    );
    if let Some(cause) = cause {
        cause.tell(&mut finding);
    }
    let pair = format!("{from}:{to}");
    let test = seen.summaries[*places.first()?].cell.test.as_str();
    finding.repeat = Some(repeat::command(seen.run(), &[("test", test), ("pair", &pair)]));
    Some(finding)
}

fn one_rank(seen: &Seen<'_>, rank: u32, places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(seen, FindingKind::SlowPair, places, common_rail(seen, places))?;
    let name = seen.run().rank_name(rank);
    let partners: Vec<u32> = finding
        .place
        .ranks
        .iter()
        .copied()
        .filter(|other| *other != rank)
        .collect();
    let with = text::ranks(&partners);
    let cause = cause_of(seen, &mut finding);
    finding.sentence = format!(
        "{name} with {with}: {}; all slow pairs share it",
        finding.sentence
    );
    finding
        .evidence
        .push(format!("every slow pair has {name} at one end"));
    finding.place.ranks = vec![rank];
    finding.place.hosts = seen.hosts(&[rank]);
    finding.not_told_apart_from = vec![
        format!("{name} itself"),
        format!("its NIC or cable"),
        format!("each path to {with}"),
    ];
    finding.next_step = format!(
        "check the NIC, cable, switch port and CPU placement of {name}: everything its pairs have in common"
    );
    if let Some(cause) = cause {
        cause.tell(&mut finding);
    }
    let test = seen.summaries[*places.first()?].cell.test.as_str();
    finding.repeat = Some(repeat::command(
        seen.run(),
        &[("test", test), ("rank", &rank.to_string())],
    ));
    Some(finding)
}

/// What counters of the ranks of these cells say, with what moved in the sentence already.
fn cause_of(seen: &Seen<'_>, finding: &mut Finding) -> Option<Cause> {
    let rail = finding.place.rail.clone()?;
    let ranks = finding.place.ranks.clone();
    let cause = cause::of(seen, &rail, &finding.cells, &|rank| ranks.contains(&rank));
    finding.sentence = format!("{}; {}", finding.sentence, cause.facts.join("; "));
    Some(cause)
}

/// The rail that all of these cells run on, when it is one.
fn common_rail<'a>(seen: &Seen<'a>, places: &[usize]) -> Option<&'a str> {
    let [rail] = seen.summaries[*places.first()?].cell.rails.as_slice() else {
        return None;
    };
    let is_on_it = |place: &usize| seen.summaries[*place].cell.rails == [rail.as_str()];
    places.iter().all(is_on_it).then_some(rail.as_str())
}

fn is_one_way(seen: &Seen<'_>, places: &[usize]) -> bool {
    places
        .iter()
        .all(|place| seen.summaries[*place].cell.collective == Collective::PointToPoint)
}

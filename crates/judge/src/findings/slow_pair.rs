//! A pair of ranks below its reference, each direction judged on its own; or one rank slow with all its partners.

use super::analysis::RunAnalysis;
use super::counters::diagnosis::{self, CounterDiagnosis};
use super::detector::Detector;
use super::repeat;
use super::slow_cells::slow_places;
use record::text;
use record::{Collective, Finding, FindingKind};

/// One finding per slow pair and direction, or one for a rank that all slow pairs share.
pub(super) struct SlowPair;

impl Detector for SlowPair {
    fn question(&self) -> &'static str {
        "Is the path between two ranks slower than it should be?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let pairs = analysis
            .blame
            .pair
            .iter()
            .filter_map(|(pair, places)| one_pair(analysis, *pair, places));
        let shared = analysis
            .blame
            .shared_rank
            .iter()
            .filter_map(|(rank, places)| one_rank(analysis, *rank, places));
        pairs.chain(shared).collect()
    }
}

fn one_pair(analysis: &RunAnalysis<'_>, (from, to): (u32, u32), places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(
        analysis,
        FindingKind::SlowPair,
        places,
        common_rail(analysis, places),
    )?;
    let is_one_way = is_one_way(analysis, places);
    let arrow = if is_one_way { "->" } else { "<->" };
    let (source, sink) = (analysis.run().rank_name(from), analysis.run().rank_name(to));
    let diagnosis = diagnose(analysis, &mut finding);
    finding.sentence = format!("{source} {arrow} {sink}: {}", finding.sentence);
    finding.place.ranks = vec![from, to];
    if is_one_way && !analysis.blame.pair.contains_key(&(to, from)) {
        finding.evidence.push(format!("{sink} -> {source} is not slow"));
    }
    finding.not_told_apart_from = vec![
        format!("the sending side of {source}"),
        format!("the receiving side of {sink}"),
        "any link on the path between them".into(),
    ];
    finding.next_step = format!(
        "check cable, port and routing between {source} and {sink}; measure \
         each against another healthy partner to see which end it is"
    );
    if let Some(diagnosis) = diagnosis {
        diagnosis.add_to(&mut finding);
    }
    let pair = format!("{from}:{to}");
    let test = analysis.summaries[*places.first()?].cell.test.as_str();
    finding.repeat = Some(repeat::command(
        analysis.run(),
        &[("test", test), ("pair", &pair)],
    ));
    Some(finding)
}

fn one_rank(analysis: &RunAnalysis<'_>, rank: u32, places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(
        analysis,
        FindingKind::SlowPair,
        places,
        common_rail(analysis, places),
    )?;
    let name = analysis.run().rank_name(rank);
    let partners: Vec<u32> = finding
        .place
        .ranks
        .iter()
        .copied()
        .filter(|other| *other != rank)
        .collect();
    let with = text::ranks(&partners);
    let diagnosis = diagnose(analysis, &mut finding);
    finding.sentence = format!(
        "{name} with {with}: {}; all slow pairs share it",
        finding.sentence
    );
    finding
        .evidence
        .push(format!("every slow pair has {name} at one end"));
    finding.place.ranks = vec![rank];
    finding.place.hosts = analysis.hosts(&[rank]);
    finding.not_told_apart_from = vec![
        format!("{name} itself"),
        format!("its NIC or cable"),
        format!("each path to {with}"),
    ];
    finding.next_step = format!(
        "check the NIC, cable, switch port and CPU placement of {name}: everything its pairs have in common"
    );
    if let Some(diagnosis) = diagnosis {
        diagnosis.add_to(&mut finding);
    }
    let test = analysis.summaries[*places.first()?].cell.test.as_str();
    finding.repeat = Some(repeat::command(
        analysis.run(),
        &[("test", test), ("rank", &rank.to_string())],
    ));
    Some(finding)
}

/// What the counters of the ranks of these cells say; what moved is added to the sentence.
fn diagnose(analysis: &RunAnalysis<'_>, finding: &mut Finding) -> Option<CounterDiagnosis> {
    let rail = finding.place.rail.clone()?;
    let ranks = finding.place.ranks.clone();
    let diagnosis = diagnosis::of(analysis, &rail, &finding.cells, &|rank| ranks.contains(&rank));
    finding.sentence = format!("{}; {}", finding.sentence, diagnosis.facts.join("; "));
    Some(diagnosis)
}

/// The rail that all of these cells run on, when it is one.
fn common_rail<'a>(analysis: &RunAnalysis<'a>, places: &[usize]) -> Option<&'a str> {
    let [rail] = analysis.summaries[*places.first()?].cell.rails.as_slice() else {
        return None;
    };
    let is_on_it = |place: &usize| analysis.summaries[*place].cell.rails == [rail.as_str()];
    places.iter().all(is_on_it).then_some(rail.as_str())
}

fn is_one_way(analysis: &RunAnalysis<'_>, places: &[usize]) -> bool {
    places
        .iter()
        .all(|place| analysis.summaries[*place].cell.collective == Collective::PointToPoint)
}

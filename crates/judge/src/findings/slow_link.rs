//! A cable, switch or host that slows down everything that crosses it.

use std::collections::BTreeMap;

use super::analysis::RunAnalysis;
use super::counters::diagnosis;
use super::detector::Detector;
use super::localise::{FaultyPart, Localisation};
use super::repeat;
use super::slow_cells::worst_of;
use record::text;
use record::{
    BOTH_DIRECTIONS, Confirmation, Finding, FindingKind, LinkName, LinkState, Place, Question, Suspect,
    SuspectKind,
};

/// Other suspects are named in the sentence from this fraction of the first one's confidence on.
const LIKELY: f64 = 0.1;

/// One finding per part that is accused.
pub(super) struct SlowLink;

impl Detector for SlowLink {
    fn question(&self) -> &'static str {
        "Which cable, switch or host slows down what crosses it?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let Some(localisation) = &analysis.localisation else {
            return Vec::new();
        };
        let accused = localisation.faulty_parts(analysis.run());
        accused
            .iter()
            .filter_map(|fault| one_part(analysis, localisation, fault))
            .collect()
    }
}

/// The cables of a switch to those above it.
pub(super) fn uplinks_in_words(switch: &str, cables: usize, suspect: &Suspect) -> String {
    format!(
        "{cables} cables between {switch} and the switches above it ({})",
        suspect.direction.as_deref().unwrap_or_default()
    )
}

fn one_part(analysis: &RunAnalysis<'_>, localisation: &Localisation, fault: &FaultyPart) -> Option<Finding> {
    let causes = fault.causes.iter().map(|cause| &localisation.causes[*cause]);
    let mut places: Vec<usize> = causes.clone().flat_map(|cause| cause.places.clone()).collect();
    for cause in &fault.causes {
        places.extend(analysis.blame.link.get(cause).into_iter().flatten());
    }
    places.sort_unstable();
    places.dedup();
    let first = &localisation.causes[*fault.causes.first()?];
    let suspect = fault.suspects.first()?;
    let is_of_rail = fault.link.is_some() || fault.is_one_of || suspect.kind == SuspectKind::Rail;
    let rail = rail_of(analysis, &first.places).filter(|_| is_of_rail);
    let name = match (&fault.switch, fault.is_one_of) {
        (Some(switch), true) => format!("one of {}", uplinks_in_words(switch, fault.links.len(), suspect)),
        _ => in_words(suspect),
    };
    let worst = worst_of(analysis, &first.places)?;
    let expected = analysis.speeds[worst].comparison()?.expected;
    let normal = normal_beside(localisation, fault, rail.as_deref());
    let mut evidence: Vec<String> = vec![format!("{}: {}", name, suspect.why)];
    evidence.extend(normal.clone());
    let hosts = hosts_of(localisation, fault, suspect);
    let at_the_suspect = |rank: u32| {
        let host = analysis.host(rank);
        host.is_some_and(|host| hosts.iter().any(|other| other == host))
    };
    let diagnosis = rail.as_ref().map(|rail| match hosts.is_empty() {
        true => diagnosis::between_switches(analysis, rail, &analysis.ids(&places)),
        false => diagnosis::of(analysis, rail, &analysis.ids(&places), &at_the_suspect),
    });
    let others: Vec<&Suspect> = fault.suspects.iter().skip(1).collect();
    let is_named = |other: &Suspect| fault.is_one_of && other.kind == suspect.kind;
    let likely = others
        .iter()
        .filter(|other| other.confidence >= suspect.confidence * LIKELY && !is_named(other));
    let likely: Vec<String> = likely.map(|other| in_words(other)).collect();
    let either = match likely.len() {
        0 => String::new(),
        _ => format!(", or {}", text::list(&likely)),
    };
    let prefix = rail.as_ref().map_or_else(String::new, |rail| format!("{rail}, "));
    let now_and_then = first.intermittent.map_or_else(String::new, |(slow, all)| {
        format!("slow in {slow} of {all} crossings: ")
    });
    let mut facts = vec![format!(
        "{now_and_then}{} of {} expected, confidence {:.2}",
        first.carried, expected, suspect.confidence
    )];
    facts.extend(normal);
    facts.extend(diagnosis.iter().flat_map(|diagnosis| diagnosis.facts.clone()));
    let ranks = analysis.run().ranks.iter();
    let at_hosts = ranks.filter(|record| hosts.contains(&record.host));
    let place = Place {
        ranks: at_hosts.map(|record| record.rank).collect(),
        hosts,
        link: fault.link.map(|link| localisation.graph.name(link)),
        switch: fault.switch.clone(),
        rail: rail.clone(),
        links: match fault.links.as_slice() {
            [_] => Vec::new(),
            links => links.iter().map(|link| localisation.graph.name(*link)).collect(),
        },
        cables: Vec::new(),
    };
    let test = analysis.summaries[*first.places.first()?].cell.test.as_str();
    let mut terms = vec![("test", test)];
    terms.extend(rail.as_deref().map(|rail| ("rail", rail)));
    // What has no name in the fabric cannot be asked for.
    let is_named = !matches!(suspect.kind, SuspectKind::Rail | SuspectKind::Fabric);
    let part = is_named.then(|| suspect.cable.as_ref().unwrap_or(&suspect.part));
    let kind = match first.intermittent {
        Some(_) => FindingKind::Intermittent,
        None => FindingKind::SlowLink,
    };
    let mut finding = Finding::new(kind, place)
        .with_sentence(format!("{prefix}{name}{either}: {}", facts.join("; ")))
        .with_rate(Some(first.carried), Some(expected))
        .with_rule(rule(analysis, localisation, fault))
        .with_confirmation(Confirmation {
            rounds: u16::try_from(first.measurements).unwrap_or(u16::MAX),
            p_value: causes.map(|cause| cause.p_value).fold(0.0, f64::max),
            comparisons: first.family,
        })
        .ambiguous_with(ambiguous_with(suspect, &others))
        .with_evidence(evidence)
        .with_cells(analysis.ids(&places))
        .with_next_step(next_step(suspect))
        .with_repeat(repeat::command_about(
            analysis.run(),
            &terms,
            part.map(String::as_str),
            rail.as_deref(),
        ))
        .with_suspects(fault.suspects.clone());
    if let Some(diagnosis) = &diagnosis {
        diagnosis.add_to(&mut finding);
    }
    Some(finding)
}

/// `h2 -> rail1-leaf1 (h2-rail1-leaf1, away from the host)`.
pub(super) fn in_words(suspect: &Suspect) -> String {
    let direction = suspect.direction.as_deref();
    match (&suspect.cable, direction) {
        (Some(cable), Some(BOTH_DIRECTIONS)) => format!("cable {cable}, {BOTH_DIRECTIONS}"),
        (Some(cable), Some(direction)) => {
            let nodes = match LinkName::parse(&suspect.part) {
                Some(link) => format!("{} -> {}", link.from.node, link.to.node),
                None => suspect.part.clone(),
            };
            format!("{nodes} (cable {cable}, {direction})")
        }
        (_, Some(direction)) => format!("{} ({direction})", suspect.part),
        _ => suspect.part.clone(),
    }
}

/// The rail all of these cells run on, when it is one.
fn rail_of(analysis: &RunAnalysis<'_>, places: &[usize]) -> Option<String> {
    let rails = |place: &usize| analysis.summaries[*place].cell.rails.first();
    let first = rails(places.first()?)?;
    places
        .iter()
        .all(|place| rails(place) == Some(first))
        .then(|| first.clone())
}

/// How many other parts of its kind are healthy: directed links beside a cable, switches beside a switch, hosts beside a host.
fn normal_beside(localisation: &Localisation, fault: &FaultyPart, rail: Option<&str>) -> Option<String> {
    if fault.link.is_none() {
        return normal_nodes(localisation, fault.suspects.first()?, rail);
    }
    let of_rail = localisation
        .graph
        .links()
        .filter(|(_, link)| rail.is_none() || link.rail.is_none() || link.rail.as_deref() == rail);
    let (mut healthy, mut all) = (0, 0);
    for (id, _) in of_rail {
        all += 1;
        healthy += usize::from(localisation.state(id) == LinkState::Healthy);
    }
    let of_what = rail.map_or_else(String::new, |rail| format!(" of {rail}"));
    Some(format!(
        "{healthy} of {} other directed links{of_what} normal",
        all - fault.links.len()
    ))
}

/// How many other switches of its tier, or other hosts, have links that are healthy and none that is slow.
fn normal_nodes(localisation: &Localisation, suspect: &Suspect, rail: Option<&str>) -> Option<String> {
    let graph = &localisation.graph;
    let tier = graph.tier_of(&suspect.part);
    let is_host = matches!(suspect.kind, SuspectKind::Node);
    if matches!(suspect.kind, SuspectKind::Rail | SuspectKind::Fabric) {
        let is_of_rail = |of: &Option<String>| rail.is_none() || of.is_none() || of.as_deref() == rail;
        let of_hosts = graph
            .links()
            .filter(|(_, link)| link.is_host && is_of_rail(&link.rail));
        let states: Vec<LinkState> = of_hosts.map(|(id, _)| localisation.state(id)).collect();
        let normal = states
            .iter()
            .filter(|state| **state == LinkState::Healthy)
            .count();
        return (normal > 0).then(|| {
            let all = states.len();
            format!("within leaves {normal} of {all} directed links of hosts are normal")
        });
    }
    if tier.is_none() && !is_host {
        return None;
    }
    let mut others: BTreeMap<&str, Vec<LinkState>> = BTreeMap::new();
    for (id, link) in graph.links() {
        let ends = [&link.from.node, &link.to.node];
        let alike = ends.into_iter().filter(|node| match is_host {
            true => link.is_host && link.lower_node() == *node,
            false => graph.tier_of(node) == tier,
        });
        for node in alike.filter(|node| **node != suspect.part) {
            others.entry(node).or_default().push(localisation.state(id));
        }
    }
    let is_normal =
        |states: &&Vec<LinkState>| states.contains(&LinkState::Healthy) && !states.contains(&LinkState::Slow);
    let what = match suspect.kind {
        SuspectKind::Spine => "spines",
        SuspectKind::Core => "cores",
        SuspectKind::Leaf => "leaves",
        _ => "hosts",
    };
    let normal = others.values().filter(is_normal).count();
    (!others.is_empty()).then(|| format!("{normal} of {} other {what} normal", others.len()))
}

fn hosts_of(localisation: &Localisation, fault: &FaultyPart, suspect: &Suspect) -> Vec<String> {
    match (fault.link.map(|link| localisation.graph.link(link)), suspect.kind) {
        (Some(link), _) if link.is_host => {
            vec![if link.is_upward {
                link.from.node.clone()
            } else {
                link.to.node.clone()
            }]
        }
        (None, SuspectKind::Node) => vec![suspect.part.clone()],
        _ => Vec::new(),
    }
}

fn rule(analysis: &RunAnalysis<'_>, localisation: &Localisation, fault: &FaultyPart) -> String {
    let rule = &analysis.run().rule;
    let cause = &localisation.causes[fault.causes[0]];
    if let Some((slow, all)) = cause.intermittent {
        return format!(
            "intermittent: {slow} of {all} flows over it miss their threshold, at different times and with {} \
             different partners; the probability of as many disturbances, corrected for {} parts, is below {}",
            cause.partners,
            cause.family,
            rule.budget_of(Question::IntermittentParts)
        );
    }
    format!(
        "slow link: every flow it explains misses its threshold, in {} measurements (at least {}), with {} different \
         partners, and the probability that healthy ones are that slow or that disturbed, corrected for {} parts, \
         is below {}; every other part of their paths carried more at another \
         time, unless it is named as a suspect",
        cause.measurements,
        u32::from(rule.remeasure) + 1,
        cause.partners,
        cause.family,
        rule.budget_of(Question::Parts)
    )
}

pub(super) fn next_step(suspect: &Suspect) -> String {
    match suspect.kind {
        SuspectKind::HostCable | SuspectKind::FabricCable | SuspectKind::Port => format!(
            "look at both ends of {}: link speed, width, error counters, optics; \
             reseat or replace the cable or move it to another port, then repeat",
            suspect.cable.as_deref().unwrap_or(&suspect.part)
        ),
        SuspectKind::Node | SuspectKind::Gpu => format!(
            "look at {} itself: PCIe generation and width, CPU and memory \
             placement, other load; then repeat",
            suspect.part
        ),
        SuspectKind::Leaf | SuspectKind::Spine | SuspectKind::Core => format!(
            "look at switch {}: its load, buffers, firmware and configuration \
             against its neighbours; then repeat",
            suspect.part
        ),
        SuspectKind::Rail | SuspectKind::Fabric => format!(
            "look at what all cables of {} share: configuration, MTU, firmware, the spec; then repeat",
            suspect.part
        ),
        SuspectKind::Path => "probe the path, or give the topology, then repeat".to_string(),
    }
}

pub(super) fn ambiguous_with(suspect: &Suspect, others: &[&Suspect]) -> Vec<String> {
    let mut parts: Vec<String> = others
        .iter()
        .map(|other| format!("{} (confidence {:.2})", in_words(other), other.confidence))
        .collect();
    if let Some(cable) = &suspect.cable {
        parts.push(format!(
            "the ports at both ends of {cable}, and the NIC where one is a host's"
        ));
    }
    parts
}

//! Parts that lose packets, as findings.

use super::optics::{self, CableEvidence};
use super::{LossCause, PacketLoss};
use crate::findings::analysis::RunAnalysis;
use crate::findings::counters::diagnosis;
use crate::findings::detector::Detector;
use crate::findings::repeat;
use crate::findings::slow_link::{ambiguous_with, in_words, next_step, uplinks_in_words};
use record::{Confirmation, Finding, FindingKind, Place, Suspect, SuspectKind};
use topology::graph::{Graph, LinkId};

/// Other suspects are named in the sentence from this fraction of the first one's confidence on.
const LIKELY: f64 = 0.1;

/// One finding per part that loses packets.
pub(in crate::findings) struct LossyLink;

impl Detector for LossyLink {
    fn question(&self) -> &'static str {
        "Which cable, switch or host loses packets?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        of(analysis, &analysis.packet_loss, FindingKind::LossyLink)
    }
}

/// One finding per part that holds packets up now and then.
pub(in crate::findings) struct SlowHop;

impl Detector for SlowHop {
    fn question(&self) -> &'static str {
        "Which cable, switch or host holds packets up?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        of(analysis, &analysis.stalls, FindingKind::SlowHop)
    }
}

fn of(analysis: &RunAnalysis<'_>, losses: &PacketLoss, kind: FindingKind) -> Vec<Finding> {
    let causes = losses.confirmed();
    causes
        .filter_map(|cause| one(analysis, losses, cause, kind))
        .collect()
}

fn one(
    analysis: &RunAnalysis<'_>,
    losses: &PacketLoss,
    cause: &LossCause,
    kind: FindingKind,
) -> Option<Finding> {
    let run = analysis.run();
    let suspects = losses.suspects(cause, run);
    let suspect = suspects.first()?;
    let (links, graph) = losses.links(cause, run)?;
    let mut rails: Vec<&str> = links
        .iter()
        .filter_map(|link| graph.link(*link).rail.as_deref())
        .collect();
    rails.dedup();
    let rail = match rails.as_slice() {
        [rail] => Some(rail.to_string()),
        _ => None,
    };
    let hosts = hosts(&links, suspect, graph);
    let at_the_suspect = |rank: u32| {
        let host = analysis.host(rank);
        host.is_some_and(|host| hosts.iter().any(|other| other == host))
    };
    let cells = analysis.ids(&cause.places);
    let diagnosis = rail.as_ref().map(|rail| match hosts.is_empty() {
        true => diagnosis::between_switches(analysis, rail, &cells),
        false => diagnosis::of(analysis, rail, &cells, &at_the_suspect),
    });
    // Of cables that are alike any may be the one.
    let is_one_of = suspect.kind == SuspectKind::FabricCable && links.len() > 1 && !is_cable(&links);
    let is_named = |other: &Suspect| is_one_of && other.kind == suspect.kind;
    let uplinks =
        is_one_of.then(|| uplinks_in_words(graph.link(links[0]).lower_node(), links.len(), suspect));
    let (name_of_part, confidence) = match &uplinks {
        Some(uplinks) => {
            let alike = suspects.iter().filter(|other| is_named(other));
            (
                format!("one of {uplinks}"),
                alike.map(|other| other.confidence).sum(),
            )
        }
        None => (in_words(suspect), suspect.confidence),
    };
    let others: Vec<&Suspect> = suspects.iter().skip(1).collect();
    let likely = others
        .iter()
        .filter(|other| other.confidence >= suspect.confidence * LIKELY && !is_named(other));
    let likely: Vec<String> = likely.map(|other| in_words(other)).collect();
    let either = match likely.is_empty() {
        true => String::new(),
        false => format!(", or {}", record::text::list(&likely)),
    };
    let prefix = rail.as_ref().map_or_else(String::new, |rail| format!("{rail}, "));
    let (share, lower, upper) = cause.share;
    let (lost, elsewhere) = (cause.over_it, losses.elsewhere);
    let interval = format!("[{}, {}]", percent(lower), percent(upper));
    let what = match kind {
        FindingKind::SlowHop => format!(
            "in {} of all seconds {interval} it holds packets up, for up to {}",
            percent(share),
            cause.waited
        ),
        _ => format!("loses {} of its packets {interval}", percent(share)),
    };
    let mut facts = vec![
        format!("{what}, confidence {confidence:.2}"),
        format!(
            "{} of {} {} over it, {} of {} elsewhere",
            lost.lost, lost.sent, cause.unit, elsewhere.lost, elsewhere.sent
        ),
    ];
    facts.extend(diagnosis.iter().flat_map(|diagnosis| diagnosis.facts.clone()));
    let of_cable = match links.as_slice() {
        [link] => Some(optics::of(analysis, graph, graph.link(*link))),
        links if is_cable(links) => Some(optics::of(analysis, graph, graph.link(links[0]))),
        _ => None,
    };
    let CableEvidence { lines, wrong } = of_cable.unwrap_or_default();
    facts.extend(wrong);
    let ranks = run.ranks.iter().filter(|record| hosts.contains(&record.host));
    let place = Place {
        ranks: ranks.map(|record| record.rank).collect(),
        link: match links.as_slice() {
            [link] => Some(graph.name(*link)),
            links if is_cable(links) => links.first().map(|link| graph.name(*link)),
            _ => None,
        },
        links: match links.as_slice() {
            [_] => Vec::new(),
            links => links.iter().map(|link| graph.name(*link)).collect(),
        },
        switch: match suspect.kind {
            SuspectKind::Leaf | SuspectKind::Spine | SuspectKind::Core => Some(suspect.part.clone()),
            // One of several of its cables.
            SuspectKind::FabricCable if is_one_of => Some(graph.link(links[0]).lower_node().to_string()),
            _ => None,
        },
        hosts,
        rail: rail.clone(),
        cables: Vec::new(),
    };
    let test = analysis.summaries[*cause.places.first()?].cell.test.as_str();
    let mut terms = vec![("test", test)];
    terms.extend(rail.as_deref().map(|rail| ("rail", rail)));
    let is_named = !matches!(suspect.kind, SuspectKind::Rail | SuspectKind::Fabric);
    let part = is_named.then(|| suspect.cable.as_ref().unwrap_or(&suspect.part));
    let (name, happened) = match kind {
        FindingKind::SlowHop => ("slow hop", "were late"),
        _ => ("lossy link", "lost packets"),
    };
    let mut finding = Finding::new(kind, place)
        .with_sentence(format!("{prefix}{name_of_part}{either}: {}", facts.join("; ")))
        .with_rule(format!(
            "{name}: flows over it {happened}{} in {} slots (at least {}), with {} different partners, and the probability of that much on \
             healthy ones, corrected for {} parts, is below {}; what the other parts of their paths do does not explain it, unless \
             they are named as suspects",
            losses.what_is_late(),
            cause.slots,
            super::FEWEST_SLOTS,
            cause.partners,
            cause.family,
            losses.budget
        ))
        .with_confirmation(Confirmation {
            rounds: u16::try_from(cause.slots).unwrap_or(u16::MAX),
            p_value: cause.p_value,
            comparisons: u32::try_from(cause.family).unwrap_or(u32::MAX),
        })
        .ambiguous_with(ambiguous_with(suspect, &others))
        .with_evidence(vec![format!("{name_of_part}: {}", suspect.why)])
        .with_cells(cells)
        .with_next_step(match uplinks {
            Some(uplinks) => format!(
                "read error and discard counters at both ends of the {uplinks}: flows go over all of them and do not tell which it is; then repeat"
            ),
            None => next_step(suspect),
        })
        .with_repeat(repeat::command_about(
            run,
            &terms,
            part.map(String::as_str),
            rail.as_deref(),
        ))
        .with_suspects(suspects.clone());
    if let Some(diagnosis) = &diagnosis {
        diagnosis.add_to(&mut finding);
    }
    finding.evidence.extend(lines);
    Some(finding)
}

/// Whether links are the two directions of one cable.
fn is_cable(links: &[LinkId]) -> bool {
    matches!(links, [link, other] if *other == link.reverse())
}

/// The hosts at whose ends the part is.
fn hosts(links: &[LinkId], suspect: &Suspect, graph: &Graph) -> Vec<String> {
    match (links, suspect.kind) {
        (_, SuspectKind::Node) => vec![suspect.part.clone()],
        ([link, ..], SuspectKind::HostCable) => vec![graph.link(*link).lower_node().to_string()],
        _ => Vec::new(),
    }
}

/// `0.98 %`, `0.020 %`: two digits that say something.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent {
        percent if percent <= 0.0 => 0,
        percent => (1 - percent.log10().floor() as i32).clamp(0, 6),
    };
    format!("{percent:.*} %", digits as usize)
}

//! An issue in words: what, where, from when to when, how often.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{AccusedPart, CatalogIndex};
use super::degradations::{Degradation, DegradedSeries, Shape};
use super::describe::{cycles, when};
use super::family::Family;
use super::issues::PartIssue;
use super::losses::LossyPart;
use super::timeline::Timeline;
use crate::findings::small_percent;
use record::text::{counted, first_of, p_value, percent, plural};
use record::units::Rate;
use record::{EndDirection, FindingKind, Incident, Quantity, RailEndName, exit_code};

/// More facts than this do not help.
const MOST_EVIDENCE: usize = 6;

/// The issue as the certificate tells it.
pub(super) fn incident(
    issue: &PartIssue<'_, '_>,
    timeline: &Timeline<'_>,
    known: &CatalogIndex<'_>,
) -> Incident {
    let (first, last) = issue.moments(timeline);
    let part = part_of(issue, known);
    Incident {
        kind: kind_of(issue),
        part_kind: issue.parts(known).first().map(|(kind, _)| *kind),
        sentence: sentence(issue, &part, timeline),
        part,
        first,
        last,
        cycles: issue.cycles.iter().copied().collect(),
        of_cycles: u32::try_from(issue.of_cycles.len()).unwrap_or(u32::MAX),
        is_still_there: issue.is_still_there(),
        counts: issue.counts,
        evidence: evidence(issue),
        next_step: next_step(issue),
        repeat: issue
            .seen
            .iter()
            .rev()
            .find_map(|finding| finding.found.repeat.clone()),
    }
}

/// The kind with the worst exit code among what was seen, the most frequent of those.
fn kind_of(issue: &PartIssue<'_, '_>) -> FindingKind {
    let mut kinds: BTreeMap<FindingKind, usize> = BTreeMap::new();
    for finding in &issue.seen {
        *kinds.entry(finding.found.kind).or_default() += 1;
    }
    let worst = kinds
        .into_iter()
        .max_by_key(|(kind, count)| (exit_code::severity(kind.exit_code()), *count));
    match (worst, issue.family, &issue.accused) {
        (_, Family::Lost, _) => FindingKind::LostRank,
        (_, Family::Slow, AccusedPart::Cable(_) | AccusedPart::End { .. }) if issue.degradation.is_some() => {
            FindingKind::SlowLink
        }
        (_, Family::Slow, _) if issue.loss.is_some() => FindingKind::LossyLink,
        (Some((kind, _)), _, _) => kind,
        (None, Family::Slow, AccusedPart::Gpu(_) | AccusedPart::Node(_)) => FindingKind::StragglerRank,
        (None, _, _) => FindingKind::SlowLink,
    }
}

/// The name of what it accuses: the direction of a cable that most findings name.
fn part_of(issue: &PartIssue<'_, '_>, known: &CatalogIndex<'_>) -> String {
    let fell = issue
        .degradation
        .and_then(|degradation| degradation.parts.first())
        .map(|degraded| degraded.part.clone())
        .or_else(|| issue.loss.map(|loss| loss.name.clone()));
    let names = issue.parts(known);
    if let Some(name) = fell.filter(|name| names.iter().any(|(_, part)| part == name)) {
        return name;
    }
    let mut named: BTreeMap<&str, usize> = names.iter().map(|(_, name)| (name.as_str(), 0)).collect();
    for finding in &issue.seen {
        let found = finding.found;
        for name in [Some(&found.part), found.place.link.as_ref()]
            .into_iter()
            .flatten()
        {
            if let Some(count) = named.get_mut(name.as_str()) {
                *count += 1;
            }
        }
    }
    // Where no finding says, the direction away from the host.
    let is_out =
        |name: &str| RailEndName::parse(name).is_some_and(|end| end.direction == Some(EndDirection::Out));
    let is_away = |name: &str| known.link(name).is_some_and(|link| link.away) || is_out(name);
    let most = named
        .into_iter()
        .max_by_key(|(name, count)| (*count, is_away(name)));
    match most {
        Some((name, _)) => name.to_string(),
        None => known
            .names_of(&issue.accused)
            .into_iter()
            .next()
            .unwrap_or_default(),
    }
}

fn sentence(issue: &PartIssue<'_, '_>, part: &str, timeline: &Timeline<'_>) -> String {
    if let Some(degradation) = issue.degradation {
        return degraded(degradation, part, timeline);
    }
    if !issue.absences.is_empty() {
        return lost(issue, part);
    }
    if let Some(loss) = issue.loss {
        return loses(loss, part, timeline);
    }
    let (first, _) = issue.moments(timeline);
    let (count, of) = (issue.cycles.len(), issue.of_cycles.len());
    let details = issue
        .seen
        .last()
        .map_or("", |finding| finding.found.sentence.as_str());
    let what = match issue.family {
        Family::Corruption => "delivered wrong data",
        Family::Lost => "was lost",
        Family::Flap => "went down",
        Family::PortErrors | Family::GpuErrors => "made errors",
        Family::Throttled => "had its clocks held down",
        Family::Slow
            if issue
                .seen
                .iter()
                .all(|finding| finding.found.kind == FindingKind::LossyLink) =>
        {
            "was found to lose packets"
        }
        Family::Slow
            if issue
                .seen
                .iter()
                .all(|finding| finding.found.kind == FindingKind::SlowHop) =>
        {
            "was found to hold packets up"
        }
        Family::Slow => "was found slow",
        Family::Sporadic => "was slow now and then",
        Family::Inventory => "is not as it should be",
    };
    let often = match count {
        1 => format!("once, in {}", when(&first)),
        _ => format!("in {count} of {of} cycles since {}", when(&first)),
    };
    let counted = match (issue.counts, issue.family) {
        (true, _) | (_, Family::Inventory) => "",
        (false, Family::Slow) if count == 1 => "; seen once, not counted",
        (false, Family::Slow) => "; no more than chance does, not counted",
        (false, _) => "; within what is accepted",
    };
    let details = if details.is_empty() {
        String::new()
    } else {
        format!(": {details}")
    };
    format!("{part} {what} {often}{counted}{details}")
}

fn lost(issue: &PartIssue<'_, '_>, host: &str) -> String {
    let each: Vec<String> = issue
        .absences
        .iter()
        .map(|absence| {
            let back = match &absence.returned {
                Some(moment) => format!("and was back in {}", when(moment)),
                None => "and did not come back".to_string(),
            };
            let reason = if absence.reason.is_empty() {
                String::new()
            } else {
                format!(": {}", absence.reason)
            };
            format!("was lost in {} {back}{reason}", when(&absence.lost))
        })
        .collect();
    format!("{host} {}", each.join("; it "))
}

/// `h2/rail1->leaf1/p0 lost 15.2 % of its bandwidth in cycle 11 (...): 24.9 MB/s before, 21.1 MB/s since`.
fn degraded(degradation: &Degradation, part: &str, timeline: &Timeline<'_>) -> String {
    let Some(worst) = degradation.parts.first() else {
        return format!("{part} got slower");
    };
    let what = quantity(worst.quantity);
    let (before, after) = (figure(worst, worst.at_first), figure(worst, worst.at_last));
    let mut details = match worst.shape {
        Shape::Step => format!(
            "{part} lost {} of its {what} in {}: {before} before, {after} in the {} cycle{} since",
            percent(-worst.effect),
            when(&timeline.moment(degradation.since())),
            worst.cycles,
            plural(worst.cycles)
        ),
        Shape::Slope(by, lower, upper) => format!(
            "{part} loses {} of its {what} per hour [{}, {}], {} over the whole burn-in: {before} at first, {after} at last",
            percent(-by),
            percent(-upper),
            percent(-lower),
            percent(-worst.effect)
        ),
    };
    // One that fell while a host was away, and again when it was back, is named once.
    let names: BTreeSet<String> = degradation
        .parts
        .iter()
        .skip(1)
        .map(|degraded| degraded.part.clone())
        .filter(|name| name != part)
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    if !names.is_empty() {
        details.push_str(&format!(
            "; together with {}",
            first_of(&names, 3, ", ", String::clone)
        ));
    }
    if !degradation.apart.is_empty() {
        details.push_str(&format!(
            "; ambiguous with {}",
            first_of(&degradation.apart, 3, ", ", String::clone)
        ));
    }
    details
}

/// `h2/rail1->leaf1/p0 loses 0.021 % of its packets [0.012 %, 0.033 %] since cycle 3 (...): 19 of 91,200 probes over it in the last 40 cycles, 1 of 1,368,000 elsewhere`.
fn loses(loss: &LossyPart, part: &str, timeline: &Timeline<'_>) -> String {
    let (share, at_least, at_most) = loss.share;
    let ((lost, sent), (lost_elsewhere, sent_elsewhere)) = (loss.over_it, loss.elsewhere);
    let either = match loss.or.is_empty() {
        true => String::new(),
        false => format!("; ambiguous with {}", first_of(&loss.or, 3, ", ", String::clone)),
    };
    format!(
        "{part} loses {} of its packets [{}, {}] since {}: {lost} of {sent} probes over it in the last {}, {lost_elsewhere} of \
         {sent_elsewhere} elsewhere; {}{either}",
        small_percent(share),
        small_percent(at_least),
        small_percent(at_most),
        when(&timeline.moment(loss.lossy_cycles.0)),
        counted(loss.cycles as usize, "cycle"),
        p_value(loss.p_value)
    )
}

fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Bandwidth => "bandwidth",
        Quantity::Latency => "latency",
        Quantity::Tail => "99th percentile",
        Quantity::Temperature => "temperature",
        Quantity::Clock => "clock",
    }
}

fn figure(degraded: &DegradedSeries, value: f64) -> String {
    match degraded.quantity {
        Quantity::Bandwidth => Rate(value).to_string(),
        Quantity::Clock => format!("{value:.0} MHz"),
        _ => format!("{value:.3}"),
    }
}

fn evidence(issue: &PartIssue<'_, '_>) -> Vec<String> {
    let mut evidence = Vec::new();
    // Beside a fall, a loss is told here.
    if let (Some(loss), Some(_)) = (issue.loss, issue.degradation) {
        let (lost, sent) = loss.over_it;
        evidence.push(format!("{}: {lost} of {sent} probes lost over it", loss.name));
    }
    if let Some(degradation) = issue.degradation {
        for degraded in degradation.parts.iter().chain(&degradation.followers) {
            let (before, after) = (
                figure(degraded, degraded.at_first),
                figure(degraded, degraded.at_last),
            );
            let away: Vec<String> = degraded.without.iter().cloned().collect();
            let away = match away.is_empty() {
                true => String::new(),
                false => format!(", without {}", first_of(&away, 3, ", ", String::clone)),
            };
            evidence.push(format!("{}{away}: {before} before, {after} after", degraded.part));
        }
    }
    let mut sentences: BTreeSet<&str> = BTreeSet::new();
    for finding in &issue.seen {
        if sentences.insert(&finding.found.sentence) {
            evidence.push(format!("cycle {}: {}", finding.cycle, finding.found.sentence));
        }
    }
    let more = evidence.len().saturating_sub(MOST_EVIDENCE);
    evidence.truncate(MOST_EVIDENCE);
    if more > 0 {
        evidence.push(format!("and {more} more like these"));
    }
    let mut explained: BTreeMap<(FindingKind, &str), BTreeSet<u32>> = BTreeMap::new();
    for finding in &issue.explained {
        let key = (finding.found.kind, finding.found.part.as_str());
        explained.entry(key).or_default().insert(finding.cycle);
    }
    let others: Vec<String> = explained
        .into_iter()
        .map(|((kind, part), numbers)| format!("{kind} of {part} in {}", cycles(&numbers)))
        .collect();
    if !others.is_empty() {
        evidence.push(format!(
            "it explains {}",
            first_of(&others, MOST_EVIDENCE, ", ", String::clone)
        ));
    }
    evidence
}

fn next_step(issue: &PartIssue<'_, '_>) -> String {
    let said = issue.seen.last().map(|finding| finding.found.next_step.clone());
    let explained = || {
        issue
            .explained
            .iter()
            .find(|finding| finding.family == issue.family)
    };
    if let Some(step) = said.or_else(|| explained().map(|finding| finding.found.next_step.clone())) {
        return step;
    }
    match (&issue.accused, issue.family) {
        (AccusedPart::Node(host), Family::Lost) => {
            format!("look on {host} for why it went: console, kernel log, power, scheduler; then load it again")
        }
        (AccusedPart::Gpu(gpu), _) => format!("look at {gpu}: clocks, temperature, power and errors; then load it again"),
        (AccusedPart::Node(host), _) => {
            format!("look at {host}: what all its rails share (PCIe, memory, other processes); then load it again")
        }
        _ => "clean and seat the cable and its transceivers, look at the ports at both ends, replace the cable; then load it again"
            .to_string(),
    }
}

/// How long a part was under load, in words.
pub(super) fn under_load(load: record::units::Nanos, cycles: u32) -> String {
    format!(
        "{} under load in {cycles} cycle{}",
        load.in_words(),
        plural(cycles as usize)
    )
}

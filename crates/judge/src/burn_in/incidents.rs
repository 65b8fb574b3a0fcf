//! A matter in words: what, where, from when to when, how often.

use std::collections::{BTreeMap, BTreeSet};

use super::falls::{Fall, Fallen, Shape};
use super::family::Family;
use super::known::{Blamed, Index};
use super::matters::Matter;
use super::phrase::{cycles, list, percent, plural, when};
use super::timeline::Timeline;
use record::units::Rate;
use record::{EndDirection, FindingKind, Incident, Quantity, RailEndName};

/// More facts than this do not help.
const MOST_EVIDENCE: usize = 6;

/// The matter as the certificate tells it.
pub(super) fn incident(matter: &Matter<'_, '_>, timeline: &Timeline<'_>, known: &Index<'_>) -> Incident {
    let (first, last) = matter.moments(timeline);
    let part = part_of(matter, known);
    Incident {
        kind: kind_of(matter),
        part_kind: matter.parts(known).first().map(|(kind, _)| *kind),
        sentence: sentence(matter, &part, timeline),
        part,
        first,
        last,
        cycles: matter.cycles.iter().copied().collect(),
        of_cycles: u32::try_from(matter.of_cycles.len()).unwrap_or(u32::MAX),
        is_still_there: matter.is_still_there(),
        counts: matter.counts,
        evidence: evidence(matter),
        next_step: next_step(matter),
        repeat: matter
            .seen
            .iter()
            .rev()
            .find_map(|sighting| sighting.found.repeat.clone()),
    }
}

/// The kind with the highest exit code among what was seen, the most frequent of those.
fn kind_of(matter: &Matter<'_, '_>) -> FindingKind {
    let mut kinds: BTreeMap<FindingKind, usize> = BTreeMap::new();
    for sighting in &matter.seen {
        *kinds.entry(sighting.found.kind).or_default() += 1;
    }
    let worst = kinds
        .into_iter()
        .max_by_key(|(kind, count)| (kind.exit_code(), *count));
    match (worst, matter.family, &matter.blamed) {
        (_, Family::Lost, _) => FindingKind::LostRank,
        (_, Family::Slow, Blamed::Cable(_) | Blamed::End { .. }) if matter.fall.is_some() => {
            FindingKind::SlowLink
        }
        (Some((kind, _)), _, _) => kind,
        (None, Family::Slow, Blamed::Gpu(_) | Blamed::Node(_)) => FindingKind::StragglerRank,
        (None, _, _) => FindingKind::SlowLink,
    }
}

/// The name of what it accuses: the direction of a cable that most findings name.
fn part_of(matter: &Matter<'_, '_>, known: &Index<'_>) -> String {
    let fell = matter
        .fall
        .and_then(|fall| fall.parts.first())
        .map(|fallen| fallen.part.clone());
    let names = matter.parts(known);
    if let Some(name) = fell.filter(|name| names.iter().any(|(_, part)| part == name)) {
        return name;
    }
    let mut named: BTreeMap<&str, usize> = names.iter().map(|(_, name)| (name.as_str(), 0)).collect();
    for sighting in &matter.seen {
        let found = sighting.found;
        for name in [Some(&found.part), found.place.link.as_ref()]
            .into_iter()
            .flatten()
        {
            if let Some(count) = named.get_mut(name.as_str()) {
                *count += 1;
            }
        }
    }
    // Where nobody says, the direction away from the host.
    let is_out =
        |name: &str| RailEndName::parse(name).is_some_and(|end| end.direction == Some(EndDirection::Out));
    let is_away = |name: &str| known.link(name).is_some_and(|link| link.away) || is_out(name);
    let most = named
        .into_iter()
        .max_by_key(|(name, count)| (*count, is_away(name)));
    match most {
        Some((name, _)) => name.to_string(),
        None => known
            .names_of(&matter.blamed)
            .into_iter()
            .next()
            .unwrap_or_default(),
    }
}

fn sentence(matter: &Matter<'_, '_>, part: &str, timeline: &Timeline<'_>) -> String {
    if let Some(fall) = matter.fall {
        return fallen(fall, part, timeline);
    }
    if !matter.absences.is_empty() {
        return lost(matter, part);
    }
    let (first, _) = matter.moments(timeline);
    let (count, of) = (matter.cycles.len(), matter.of_cycles.len());
    let told = matter
        .seen
        .last()
        .map_or("", |sighting| sighting.found.sentence.as_str());
    let what = match matter.family {
        Family::Corruption => "delivered wrong data",
        Family::Lost => "was lost",
        Family::Flap => "went down",
        Family::PortErrors | Family::GpuErrors => "made errors",
        Family::Throttled => "had its clocks held down",
        Family::Slow => "was found slow",
        Family::Sporadic => "was slow now and then",
        Family::Inventory => "is not as it should be",
    };
    let often = match count {
        1 => format!("once, in {}", when(&first)),
        _ => format!("in {count} of {of} cycles since {}", when(&first)),
    };
    let counted = match (matter.counts, matter.family) {
        (true, _) | (_, Family::Inventory) => "",
        (false, Family::Slow) if count == 1 => "; seen once, not counted",
        (false, Family::Slow) => "; no more than chance does, not counted",
        (false, _) => "; within what is accepted",
    };
    let told = if told.is_empty() {
        String::new()
    } else {
        format!(": {told}")
    };
    format!("{part} {what} {often}{counted}{told}")
}

fn lost(matter: &Matter<'_, '_>, host: &str) -> String {
    let each: Vec<String> = matter
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
fn fallen(fall: &Fall, part: &str, timeline: &Timeline<'_>) -> String {
    let Some(worst) = fall.parts.first() else {
        return format!("{part} got slower");
    };
    let what = quantity(worst.quantity);
    let (before, after) = (figure(worst, worst.at_first), figure(worst, worst.at_last));
    let mut told = match worst.shape {
        Shape::Step => format!(
            "{part} lost {} of its {what} in {}: {before} before, {after} in the {} cycle{} since",
            percent(-worst.effect),
            when(&timeline.moment(fall.since())),
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
    let names: BTreeSet<String> = fall
        .parts
        .iter()
        .skip(1)
        .map(|fallen| fallen.part.clone())
        .filter(|name| name != part)
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    if !names.is_empty() {
        told.push_str(&format!("; together with {}", list(&names, 3)));
    }
    if !fall.apart.is_empty() {
        told.push_str(&format!("; not told apart from {}", list(&fall.apart, 3)));
    }
    told
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

fn figure(fallen: &Fallen, value: f64) -> String {
    match fallen.quantity {
        Quantity::Bandwidth => Rate(value).to_string(),
        Quantity::Clock => format!("{value:.0} MHz"),
        _ => format!("{value:.3}"),
    }
}

fn evidence(matter: &Matter<'_, '_>) -> Vec<String> {
    let mut evidence = Vec::new();
    if let Some(fall) = matter.fall {
        for fallen in fall.parts.iter().chain(&fall.followers) {
            let (before, after) = (figure(fallen, fallen.at_first), figure(fallen, fallen.at_last));
            let away: Vec<String> = fallen.without.iter().cloned().collect();
            let away = match away.is_empty() {
                true => String::new(),
                false => format!(", without {}", list(&away, 3)),
            };
            evidence.push(format!("{}{away}: {before} before, {after} after", fallen.part));
        }
    }
    let mut sentences: BTreeSet<&str> = BTreeSet::new();
    for sighting in &matter.seen {
        if sentences.insert(&sighting.found.sentence) {
            evidence.push(format!("cycle {}: {}", sighting.cycle, sighting.found.sentence));
        }
    }
    let more = evidence.len().saturating_sub(MOST_EVIDENCE);
    evidence.truncate(MOST_EVIDENCE);
    if more > 0 {
        evidence.push(format!("and {more} more like these"));
    }
    let mut explained: BTreeMap<(FindingKind, &str), BTreeSet<u32>> = BTreeMap::new();
    for sighting in &matter.explained {
        let key = (sighting.found.kind, sighting.found.part.as_str());
        explained.entry(key).or_default().insert(sighting.cycle);
    }
    let others: Vec<String> = explained
        .into_iter()
        .map(|((kind, part), numbers)| format!("{kind} of {part} in {}", cycles(&numbers)))
        .collect();
    if !others.is_empty() {
        evidence.push(format!("it explains {}", list(&others, MOST_EVIDENCE)));
    }
    evidence
}

fn next_step(matter: &Matter<'_, '_>) -> String {
    let said = matter
        .seen
        .last()
        .map(|sighting| sighting.found.next_step.clone());
    let explained = || {
        matter
            .explained
            .iter()
            .find(|sighting| sighting.family == matter.family)
    };
    if let Some(step) = said.or_else(|| explained().map(|sighting| sighting.found.next_step.clone())) {
        return step;
    }
    match (&matter.blamed, matter.family) {
        (Blamed::Node(host), Family::Lost) => {
            format!("look on {host} for why it went: console, kernel log, power, scheduler; then load it again")
        }
        (Blamed::Gpu(gpu), _) => format!("look at {gpu}: clocks, temperature, power and errors; then load it again"),
        (Blamed::Node(host), _) => {
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

//! Tables of a certificate, shared by the page and Markdown.

use crate::table::{Entry, Table, Tone, figure, text};
use record::text::{counted, percent};
use record::units::Rate;
use record::{BurnInTrend, Certificate, Criteria, EndReason, PartDecision, PartKind, Quantity, Ruling};

/// The word for a decision.
pub(super) fn word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Accept => "accepted",
        Ruling::Extend => "extend",
        Ruling::Reject => "rejected",
    }
}

/// What a decision means, for formats that have colour.
pub(super) fn tone(ruling: Ruling) -> Tone {
    match ruling {
        Ruling::Accept => Tone::Good,
        Ruling::Extend => Tone::Unclear,
        Ruling::Reject => Tone::Bad,
    }
}

/// What was loaded how long, as name and value.
pub(super) fn facts(certificate: &Certificate) -> Vec<(&'static str, String)> {
    let ended = match (&certificate.ended, &certificate.ended_at) {
        (Some(EndReason::Finished), Some(at)) => format!("{at}, after the full load time"),
        (Some(reason), Some(at)) => format!("{at}: {}", format!("{reason:?}").to_lowercase()),
        _ => "not ended, or interrupted".to_string(),
    };
    let share = match certificate.iterations {
        0 => String::new(),
        all => format!(" ({})", percent(certificate.verified as f64 / all as f64)),
    };
    let resumed = match certificate.resumed {
        0 => String::new(),
        1 => ", resumed once".to_string(),
        2 => ", resumed twice".to_string(),
        times => format!(", resumed {times} times"),
    };
    vec![
        ("suite", certificate.suite.clone()),
        (
            "under load",
            format!(
                "{} of {} asked for",
                certificate.load_ns.in_words(),
                certificate.wanted_ns.in_words()
            ),
        ),
        ("cycles", format!("{} complete{resumed}", certificate.cycles)),
        (
            "data checked",
            format!(
                "{} of {} timed iterations{share}",
                certificate.verified, certificate.iterations
            ),
        ),
        ("started", certificate.started.clone()),
        ("ended", ended),
        ("exit code", certificate.exit_code.to_string()),
    ]
}

/// How many parts of each kind are accepted, extended and rejected.
pub(super) fn counts(certificate: &Certificate) -> Table {
    let columns = [
        text("parts"),
        figure("accepted"),
        figure("extend"),
        figure("rejected"),
    ];
    let mut table = Table::new("Decisions", columns);
    let ends = certificate
        .links
        .first()
        .is_some_and(|link| link.kind == PartKind::RailEnd);
    let links = if ends {
        "rail ends"
    } else {
        "cables, each direction"
    };
    for (name, parts) in [
        ("nodes", &certificate.nodes),
        (links, &certificate.links),
        ("GPUs", &certificate.gpus),
    ] {
        if !parts.is_empty() {
            let count = |ruling: Ruling| parts.iter().filter(|part| part.ruling == ruling).count();
            table.row([
                Entry::ours(name),
                Entry::ours(count(Ruling::Accept)),
                Entry::ours(count(Ruling::Extend)),
                Entry::ours(count(Ruling::Reject)),
            ]);
        }
    }
    table
}

/// Parts with their decisions, rejected ones first.
pub(super) fn parts(
    caption: &str,
    parts: &[PartDecision],
    is_wanted: impl Fn(&PartDecision) -> bool,
) -> Table {
    let columns = [
        text("part"),
        text("decision"),
        text("why"),
        figure("under load"),
        figure("cycles"),
        text("first and last"),
        text("identity"),
    ];
    let mut table = Table::new(caption, columns);
    let mut sorted: Vec<&PartDecision> = parts.iter().filter(|part| is_wanted(part)).collect();
    sorted.sort_by_key(|part| std::cmp::Reverse(part.ruling));
    for part in sorted {
        table.row([
            Entry::from(&part.part),
            Entry::ours(word(part.ruling)).toned(tone(part.ruling)),
            Entry::from(&part.why),
            Entry::ours(part.load_ns.in_words()),
            Entry::ours(part.cycles),
            Entry::ours(moved(&part.courses)),
            Entry::from(part.identity.as_deref().unwrap_or("-")),
        ]);
    }
    table
}

/// The figures of the first cycles and the last, as far as they are judged.
fn moved(courses: &[BurnInTrend]) -> String {
    let values: Vec<String> = courses
        .iter()
        .filter_map(|course| match course.quantity {
            Quantity::Bandwidth => Some(format!("{}, {}", Rate(course.at_first), Rate(course.at_last))),
            Quantity::Clock => Some(format!("{:.0} MHz, {:.0} MHz", course.at_first, course.at_last)),
            Quantity::Temperature => Some(format!("{:.0} C, {:.0} C", course.at_first, course.at_last)),
            Quantity::Latency | Quantity::Tail => None,
        })
        .collect();
    match values.is_empty() {
        true => "-".to_string(),
        false => values.join("; "),
    }
}

/// Every criterion with its reason.
pub(super) fn criteria(criteria: &Criteria) -> Table {
    let mut table = Table::new(
        "Acceptance criteria",
        [text("criterion"), text("accepted"), text("reason")],
    );
    let all: [(&str, String, &str); 14] = [
        (
            "least_load",
            format!("{} under load or more", criteria.least_load.value.in_words()),
            &criteria.least_load.reason,
        ),
        (
            "least_cycles",
            format!(
                "{} or more",
                counted(criteria.least_cycles.value as usize, "cycle")
            ),
            &criteria.least_cycles.reason,
        ),
        (
            "least_share",
            format!(
                "a cable counts as loaded from {} of its rate",
                percent(criteria.least_share.value)
            ),
            &criteria.least_share.reason,
        ),
        (
            "least_covered",
            format!(
                "loaded in {} of cycles or more",
                percent(criteria.least_covered.value)
            ),
            &criteria.least_covered.reason,
        ),
        (
            "corruption",
            counted(criteria.corruption.value as usize, "wrong element"),
            &criteria.corruption.reason,
        ),
        (
            "flaps",
            counted(criteria.flaps.value as usize, "time") + " down",
            &criteria.flaps.reason,
        ),
        (
            "losses",
            counted(criteria.losses.value as usize, "time") + " lost",
            &criteria.losses.reason,
        ),
        (
            "drift",
            format!("less than {}", percent(criteria.drift.value)),
            &criteria.drift.reason,
        ),
        (
            "slow_cycles",
            counted(criteria.slow_cycles.value as usize, "slow cycle"),
            &criteria.slow_cycles.reason,
        ),
        (
            "sporadic",
            format!("in {} of cycles", percent(criteria.sporadic.value)),
            &criteria.sporadic.reason,
        ),
        (
            "error_cycles",
            counted(criteria.error_cycles.value as usize, "cycle") + " with errors",
            &criteria.error_cycles.reason,
        ),
        (
            "throttled",
            format!("in {} of cycles", percent(criteria.throttled.value)),
            &criteria.throttled.reason,
        ),
        (
            "lossy",
            format!("{} of packets", percent(criteria.lossy.value)),
            &criteria.lossy.reason,
        ),
        (
            "raw_cycles",
            format!(
                "samples of the last {} are kept",
                counted(criteria.raw_cycles.value as usize, "cycle")
            ),
            &criteria.raw_cycles.reason,
        ),
    ];
    for (name, value, reason) in all {
        table.row([Entry::ours(name), Entry::ours(value), Entry::from(reason)]);
    }
    table
}

/// What could not be loaded.
pub(super) fn untested(certificate: &Certificate) -> Table {
    let mut table = Table::new("Not loaded or measured", [text("what"), text("why")]);
    for one in &certificate.untested {
        table.row([Entry::from(&one.what), Entry::from(&one.why)]);
    }
    table
}

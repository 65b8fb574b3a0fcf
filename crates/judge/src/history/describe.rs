//! Changes and statuses in words.

use record::text::{counted, ordinal, signed_percent};
use record::units::{Nanos, Rate};
use record::{ChangeShape, IssueStatus, PartChange, PartKind, Quantity};

/// A figure in its unit.
pub fn figure(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Bandwidth => Rate(value).to_string(),
        Quantity::Latency | Quantity::Tail => {
            Nanos(value.clamp(0.0, u64::MAX as f64).round() as u64).to_string()
        }
        Quantity::Temperature => format!("{value:.0} °C"),
        Quantity::Clock => format!("{value:.0} MHz"),
    }
}

/// What a part is, before its name.
pub fn kind(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Link => "link",
        PartKind::RailEnd => "rail end",
        PartKind::Rail => "rail",
        PartKind::Node => "host",
        PartKind::Gpu => "GPU",
        PartKind::Collective => "collective",
    }
}

/// The whole change in one sentence.
pub(super) fn change(change: &PartChange, is_common: bool) -> String {
    let name = match is_common {
        true => format!("{}, median", change.part),
        false => format!("{} {}", kind(change.kind), change.part),
    };
    let (lower, upper) = change.effect_interval;
    let by = format!(
        "{} [{:+.1}, {:+.1}]",
        signed_percent(change.effect),
        100.0 * lower,
        100.0 * upper
    );
    let figures = match is_common {
        true => String::new(),
        false => format!(
            ", {} where {} is usual",
            figure(change.quantity, change.after),
            figure(change.quantity, change.before)
        ),
    };
    let quantity = change.quantity;
    match change.shape {
        ChangeShape::Step => format!(
            "{name}: {quantity} {by} since {} ({} runs){figures}",
            change.since, change.runs
        ),
        ChangeShape::Slope => format!(
            "{name}: {quantity} {by} bit by bit since {} ({} runs){figures}",
            change.since, change.runs
        ),
        ChangeShape::Blip => format!(
            "{name}: {quantity} {} in this run only so far{figures}",
            signed_percent(change.effect)
        ),
    }
}

/// Where an issue stands, in a few words.
pub fn status(status: &IssueStatus) -> String {
    let nights = |nights: u32| counted(nights as usize, "night");
    match status {
        IssueStatus::New => "new tonight".to_string(),
        IssueStatus::Still { night } => format!("{} night", ordinal(*night)),
        IssueStatus::Again { away } => format!("again, after {} without", nights(*away)),
        IssueStatus::Gone { nights: there } => format!("gone, after {}", nights(*there)),
        IssueStatus::Unknown { nights: there } => {
            format!("not measured tonight; there for {}", nights(*there))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_read_as_people_say_them() {
        assert_eq!(status(&IssueStatus::Still { night: 3 }), "third night");
        assert_eq!(status(&IssueStatus::Still { night: 21 }), "21st night");
        assert_eq!(status(&IssueStatus::Still { night: 112 }), "112th night");
        assert_eq!(status(&IssueStatus::Gone { nights: 1 }), "gone, after 1 night");
        assert_eq!(
            status(&IssueStatus::Again { away: 2 }),
            "again, after 2 nights without"
        );
    }

    #[test]
    fn figures_have_their_unit_and_strange_ones_do_no_harm() {
        assert_eq!(figure(Quantity::Bandwidth, 48e9), "48.00 GB/s");
        assert_eq!(figure(Quantity::Temperature, 61.4), "61 °C");
        assert_eq!(figure(Quantity::Latency, f64::NAN), Nanos(0).to_string());
    }
}

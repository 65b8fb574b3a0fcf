//! What patterns of traffic delivered: a table for the report and a line for the terminal.

use super::table::{Entry, Table, figure, text};
use record::{Judgement, TrafficOutcome, TrafficRow};

/// What the table shows, in a sentence.
pub(super) const ABOUT: &str = "All flows of a pattern at the same time. Should: what the topology carries if every flow is split evenly over its equal paths. Paths give: what it carries over the \
     paths that the flows take. The share is that of the flows over the full link that get least of what they should. Flows that collide are no fault of a part: other source ports, more flows (queue \
     pairs) per pair, another hash or seed of the switches, or adaptive routing spread them. Who sends to whom is in findings.json (`traffic`).";

/// The table of these patterns.
pub(super) fn table(rows: &[TrafficRow]) -> Table {
    let columns = [
        text("test"),
        text("rail"),
        text("pattern"),
        text("outcome"),
        figure("flows"),
        figure("delivered"),
        figure("should"),
        figure("paths give"),
        figure("share"),
        figure("by paths"),
        figure("by design"),
        text("full link"),
        figure("its flows"),
        figure("rounds"),
        text("repeat"),
    ];
    let mut table = Table::new("Patterns of traffic", columns);
    for row in rows {
        table.row([
            Entry::from(&row.test),
            Entry::from(&row.rail),
            Entry::from(&row.pattern),
            Entry::ours(outcome(row.outcome)),
            Entry::ours(row.flows),
            Entry::ours(row.delivered),
            Entry::ours(row.ideal),
            Entry::ours(
                row.predicted
                    .map_or_else(|| "-".to_string(), |rate| rate.to_string()),
            ),
            Entry::ours(percent(row.worst_share)),
            Entry::ours(row.predicted_share.map_or_else(|| "-".to_string(), percent)),
            Entry::ours(percent(row.by_design)),
            Entry::from(row.cable.as_deref().unwrap_or("-")),
            Entry::ours(row.sharing),
            Entry::ours(row.rounds),
            Entry::from(&row.repeat),
        ]);
    }
    table
}

/// How many patterns came to what, and the worst one, in a line.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let rows = &judgement.traffic;
    let by_share = |a: &&TrafficRow, b: &&TrafficRow| a.worst_share.total_cmp(&b.worst_share);
    let worst = rows.iter().filter(|row| row.rounds > 0).min_by(by_share)?;
    let outcomes = [
        TrafficOutcome::BelowFloor,
        TrafficOutcome::BelowPrediction,
        TrafficOutcome::Unclear,
        TrafficOutcome::Collides,
        TrafficOutcome::ByDesign,
        TrafficOutcome::Carried,
    ];
    let counted = outcomes.into_iter().filter_map(|wanted| {
        let count = rows.iter().filter(|row| row.outcome == wanted).count();
        (count > 0).then(|| format!("{count} {}", outcome(wanted)))
    });
    let counted: Vec<String> = counted.collect();
    Some(format!(
        "patterns: {}; worst: {}",
        counted.join(", "),
        worst.sentence
    ))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn outcome(outcome: TrafficOutcome) -> &'static str {
    match outcome {
        TrafficOutcome::Carried => "carried",
        TrafficOutcome::ByDesign => "oversubscribed by design",
        TrafficOutcome::Collides => "collides as the hash predicts",
        TrafficOutcome::BelowFloor => "below the suite's floor",
        TrafficOutcome::BelowPrediction => "below what paths explain",
        TrafficOutcome::Unclear => "unclear",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::findings::fixture::Fixture;
    use judge::findings::judge;
    use record::PatternKind;
    use record::units::Rate;

    fn row(pattern: &str, outcome: TrafficOutcome, share: f64) -> TrafficRow {
        TrafficRow {
            test: "patterns".into(),
            rail: "rail0".into(),
            pattern: pattern.into(),
            kind: PatternKind::Searched,
            outcome,
            flows: 16,
            rounds: 2,
            delivered: Rate(4e9),
            ideal: Rate(16e9),
            predicted: None,
            worst_share: share,
            predicted_share: Some(share),
            by_design: 1.0,
            cable: Some("leaf|0/u1->spine0/d0".into()),
            sharing: 4,
            sentence: format!("`{pattern}` on rail0: said"),
            pairs: String::new(),
            cells: vec![0],
            repeat: "railgauge run worst-traffic --only pattern=worst-1".into(),
        }
    }

    #[test]
    fn the_worst_pattern_and_how_many_collide_are_said_in_a_line_and_the_cable_in_the_table() {
        let judgement = Judgement {
            traffic: vec![
                row("worst-1", TrafficOutcome::Collides, 0.25),
                row("random-1", TrafficOutcome::Carried, 0.99),
            ],
            ..judge(&Fixture::rails(2).recorded())
        };
        assert_eq!(
            summary(&judgement).unwrap(),
            "patterns: 1 collides as the hash predicts, 1 carried; worst: `worst-1` on rail0: said"
        );
        let mut out = String::new();
        table(&judgement.traffic).markdown(&mut out).unwrap();
        assert!(out.contains("25 %") && out.contains("u1-"), "{out}");
        assert!(!out.contains("leaf|0"), "names are escaped: {out}");
        assert!(out.contains("pattern=worst-1"), "{out}");
        assert_eq!(summary(&judge(&Fixture::rails(2).recorded())), None);
    }
}

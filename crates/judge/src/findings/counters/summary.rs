//! What moved over the whole run, the worst first.

use std::collections::BTreeMap;

use super::breach::{breaches, level};
use crate::findings::analysis::RunAnalysis;
use record::counters::named;
use record::{CounterReport, CounterState, MovedCounter, Question, UnreadCounter};

/// Rows that a judgement keeps; the record has all.
const MOST_ROWS: usize = 1000;

/// The counters of all ends; none where none was read.
pub(in crate::findings) fn of(analysis: &RunAnalysis<'_>) -> Option<CounterReport> {
    let ends = analysis.ends();
    if ends.is_empty() {
        return None;
    }
    let level = level(analysis.run().rule.budget_of(Question::Counters), ends);
    let mut moved: Vec<MovedCounter> = Vec::new();
    let mut unread: BTreeMap<(&str, Option<&str>), u32> = BTreeMap::new();
    for ((rail, host), end) in ends {
        let broken = breaches(end, &analysis.counter_rules, level);
        for (name, by) in end.trouble() {
            let breach = broken.iter().find(|breach| breach.counter == name);
            moved.push(MovedCounter {
                host: host.to_string(),
                rail: rail.to_string(),
                name: name.to_string(),
                kind: named(name).map(|counter| counter.kind.to_string()),
                moved: by.by,
                or_more: by.or_more,
                watched_ns: end.watched,
                rule: breach.map(|breach| breach.rule.name.clone()),
                severity: breach.map(|breach| breach.rule.severity.to_string()),
                measured: breach.and_then(|breach| breach.measured.clone()),
                bound: breach.map(|breach| breach.rule.bound.to_string()),
            });
        }
        for (name, state) in &end.missing {
            match state {
                CounterState::Unreadable(why) => *unread.entry((name, Some(why))).or_default() += 1,
                // A driver that lacks one counter is normal; one without any counters is worth a row.
                CounterState::Absent if name.ends_with("/*") => *unread.entry((name, None)).or_default() += 1,
                CounterState::Absent | CounterState::Present => {}
            }
        }
    }
    let severity = |counter: &MovedCounter| match counter.severity.as_deref() {
        Some("bad") => 0,
        Some(_) => 1,
        None => 2,
    };
    moved.sort_by(|a, b| {
        let key = |counter: &MovedCounter| (severity(counter), std::cmp::Reverse(counter.moved));
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.host, &a.rail, &a.name).cmp(&(&b.host, &b.rail, &b.name)))
    });
    let more = moved.len().saturating_sub(MOST_ROWS);
    moved.truncate(MOST_ROWS);
    let unread = unread
        .into_iter()
        .take(MOST_ROWS)
        .map(|((name, why), ports)| UnreadCounter {
            name: name.to_string(),
            why: why.map(str::to_string),
            ports,
        });
    Some(CounterReport {
        ports: u32::try_from(ends.len()).unwrap_or(u32::MAX),
        moved,
        more: u32::try_from(more).unwrap_or(u32::MAX),
        unread: unread.collect(),
        trouble: analysis.counter_rules.trouble.clone(),
    })
}

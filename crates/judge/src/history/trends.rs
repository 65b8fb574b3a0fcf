//! Every part over all runs: what `railgauge trend` shows.

use std::collections::HashMap;

use super::changes;
use super::dated_change::DatedChange;
use super::episode::Ending;
use super::fleet::Fleet;
use super::part_histories::PartHistories;
use super::rule::Rule;
use super::series::Series;
use record::{Night, PartKind, PastChange, Quantity, SCHEMA, Trend, TrendRun, Trends};

/// Every part over the nights, which are in the order of their start and of one suite.
pub fn trends(nights: &[Night]) -> Trends {
    trends_by(nights, &Rule::default())
}

/// The same by another rule.
pub fn trends_by(nights: &[Night], rule: &Rule) -> Trends {
    let histories = PartHistories::of(nights, rule);
    let lasting = changes::lasting(&histories, nights);
    let values = values(nights);
    let mut series: Vec<Trend> = Vec::new();
    for fleet in &histories.fleets {
        for (part, one) in &fleet.series {
            let key = (fleet.kind, part.as_str(), fleet.quantity);
            series.push(trend(fleet, part, one, values.get(&key), &lasting, rule));
        }
    }
    series.sort_by(|a, b| (a.kind, &a.part, a.quantity).cmp(&(b.kind, &b.part, b.quantity)));
    let worse = lasting.iter().filter(|dated| dated.change.is_worse).count();
    let exit_code = match (worse, histories.compared) {
        (1.., _) => 12,
        (0, 0) => 20,
        (0, _) => 0,
    };
    Trends {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        suite: nights
            .last()
            .map(|night| night.readings.suite.clone())
            .unwrap_or_default(),
        runs: nights
            .iter()
            .map(|night| TrendRun {
                name: night.name.clone(),
                started: night.readings.started.clone(),
            })
            .collect(),
        summary: summary(&histories, &lasting, nights.len(), rule),
        exit_code,
        compared: histories.compared,
        young: histories.young,
        over: changes::over(&histories, nights)
            .into_iter()
            .filter_map(|dated| past(dated, nights))
            .collect(),
        changed: lasting.into_iter().map(|dated| dated.change).collect(),
        series,
        replaced: histories
            .replaced
            .into_iter()
            .map(|(_, replaced)| replaced)
            .collect(),
        skipped: Vec::new(),
    }
}

type Values<'a> = HashMap<(PartKind, &'a str, Quantity), Vec<Option<f64>>>;

fn values(nights: &[Night]) -> Values<'_> {
    let mut values: Values<'_> = HashMap::new();
    for (run, night) in nights.iter().enumerate() {
        for reading in &night.readings.parts {
            let key = (reading.kind, reading.part.as_str(), reading.quantity);
            let row = values.entry(key).or_insert_with(|| vec![None; nights.len()]);
            row[run] = Some(reading.value).filter(|value| value.is_finite() && *value > 0.0);
        }
    }
    values
}

fn trend(
    fleet: &Fleet,
    part: &str,
    series: &Series,
    values: Option<&Vec<Option<f64>>>,
    lasting: &[DatedChange],
    rule: &Rule,
) -> Trend {
    let values = values.cloned().unwrap_or_default();
    let last = values.last().copied().flatten();
    let usual = series.usual(rule).filter(|usual| usual.runs >= rule.least_runs);
    let level = fleet.level();
    let at = |log: f64| (log + level).exp();
    let is_of = |dated: &DatedChange| {
        let change = &dated.change;
        let is_it = change.kind == fleet.kind && change.quantity == fleet.quantity && change.part == part;
        is_it && !dated.is_common || change.with.iter().any(|with| with == part)
    };
    let is_changed = series.episode().is_some();
    let usual_figure = usual.map(|usual| at(usual.median));
    Trend {
        kind: fleet.kind,
        part: part.to_string(),
        quantity: fleet.quantity,
        runs: values.iter().flatten().count() as u32,
        usual: usual_figure,
        usual_band: usual.map(|usual| {
            let half = 1.96 * fleet.spread_of(&usual);
            (at(usual.median - half), at(usual.median + half))
        }),
        last,
        deviation: last.zip(usual_figure).map(|(last, usual)| last / usual - 1.0),
        change: lasting
            .iter()
            .position(is_of)
            .filter(|_| is_changed)
            .map(|at| at as u32),
        values,
    }
}

fn past(dated: DatedChange, nights: &[Night]) -> Option<PastChange> {
    let (run, ending) = dated.ended?;
    let ending = match ending {
        Ending::Gone => "gone",
        Ending::Replaced => "replaced",
        Ending::Settled => "settled",
        Ending::Superseded => "superseded",
    };
    Some(PastChange {
        change: dated.change,
        until: nights.get(run)?.name.clone(),
        ending: ending.to_string(),
    })
}

fn summary(histories: &PartHistories, lasting: &[DatedChange], runs: usize, rule: &Rule) -> String {
    if histories.compared == 0 {
        let needed = rule.least_runs + 1;
        return format!(
            "too few runs to say: {runs} of one suite, and a part needs {needed} to be compared with its own past"
        );
    }
    let worse = lasting.iter().filter(|dated| dated.change.is_worse).count();
    let better = lasting.len() - worse;
    let compared = format!("{} readings compared over {runs} runs", histories.compared);
    match (lasting.iter().find(|dated| dated.change.is_worse), better) {
        (Some(first), _) if worse == 1 => format!("worse than it was: {}; {compared}", first.change.sentence),
        (Some(first), _) => format!(
            "{worse} are worse than they were, first of all {}; {compared}",
            first.change.sentence
        ),
        (None, 0) => format!("nothing changed; {compared}"),
        (None, better) => format!("nothing is worse than it was, {better} better; {compared}"),
    }
}

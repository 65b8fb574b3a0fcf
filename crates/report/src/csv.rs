//! `cells.csv`: one row per cell, for spreadsheets and data frames; written when asked for.
//!
//! Held true: the form is RFC 4180; numbers are in bytes, nanoseconds and bytes per second, as their columns say; what is not known
//! is empty, never 0; no text that came from a run is a formula, whichever sign the spreadsheet separates columns with.

use std::io;

use super::escape::line;
use crate::verdict_words::verdict_words;
use crate::writer::Writer;
use record::units::Rate;
use record::{CellVerdict, Judgement, Recorded, files};

/// The columns, in order. New ones are added at the end.
const COLUMNS: &[&str] = &[
    "cell",
    "test",
    "verdict",
    "reason",
    "collective",
    "algorithm",
    "engine",
    "transport",
    "device",
    "load",
    "slot",
    "ranks",
    "rails",
    "to_rail",
    "flows",
    "size_bytes",
    "dtype",
    "op",
    "placement",
    "batch",
    "iterations",
    "rounds",
    "verified",
    "outliers",
    "time_median_ns",
    "time_lower_ns",
    "time_upper_ns",
    "time_min_ns",
    "time_p95_ns",
    "time_p99_ns",
    "time_max_ns",
    "algorithm_bytes_per_second",
    "bus_bytes_per_second",
    "wire_median_bytes_per_second",
    "wire_lower_bytes_per_second",
    "wire_upper_bytes_per_second",
    "expected_bytes_per_second",
    "expected_from",
    "slowest_rank",
    "slowest_rank_share",
    "path",
];

/// Cells as rows.
pub(super) struct Csv;

impl Writer for Csv {
    fn file(&self) -> &'static str {
        files::CSV
    }

    fn render(&self, _: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut rows = ::csv::WriterBuilder::new()
            .terminator(::csv::Terminator::CRLF)
            .from_writer(Vec::new());
        rows.write_record(COLUMNS)?;
        for cell in &judgement.cells {
            rows.write_record(row(cell))?;
        }
        let bytes = rows.into_inner().map_err(|error| error.into_error())?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

fn row(verdict: &CellVerdict) -> Vec<String> {
    let cell = &verdict.cell;
    let (word, why) = verdict_words(&verdict.verdict);
    let ranks: Vec<String> = cell.ranks.iter().map(u32::to_string).collect();
    let (time, spread, wire) = (verdict.time, verdict.percentiles, verdict.wire_rate);
    let rate = |rate: Option<Rate>| known(rate.map(|rate| rate.0).filter(|rate| rate.is_finite()));
    vec![
        cell.id.to_string(),
        text(&cell.test),
        word.to_string(),
        text(why.unwrap_or_default()),
        cell.collective.to_string(),
        cell.algorithm.to_string(),
        cell.engine.to_string(),
        cell.transport.to_string(),
        cell.device.to_string(),
        cell.load.name().to_string(),
        cell.slot.to_string(),
        ranks.join(" "),
        text(&cell.rails.join("+")),
        text(cell.to_rail.as_deref().unwrap_or_default()),
        cell.flows.to_string(),
        cell.size.0.to_string(),
        cell.dtype.to_string(),
        cell.op.to_string(),
        cell.placement.to_string(),
        cell.batch.to_string(),
        verdict.iterations.to_string(),
        verdict.rounds.to_string(),
        verdict.verified.to_string(),
        verdict.outliers.to_string(),
        known(time.map(|time| time.median.0)),
        known(time.map(|time| time.lower.0)),
        known(time.map(|time| time.upper.0)),
        known(spread.map(|spread| spread.min.0)),
        known(spread.map(|spread| spread.p95.0)),
        known(spread.map(|spread| spread.p99.0)),
        known(spread.map(|spread| spread.max.0)),
        rate(verdict.algorithm_rate),
        rate(verdict.bus_rate),
        rate(wire.map(|wire| wire.median)),
        rate(wire.map(|wire| wire.lower)),
        rate(wire.map(|wire| wire.upper)),
        rate(verdict.expected),
        text(verdict.expected_from.as_deref().unwrap_or_default()),
        known(verdict.slowest_rank.map(|(rank, _)| rank)),
        known(verdict.slowest_rank.map(|(_, share)| share)),
        text(&cell.path.join(" ")),
    ]
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Text that no spreadsheet takes for a formula: an apostrophe is put before every sign that could begin one, at the start and behind
/// everything that some program takes for the end of a column.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut may_begin = true;
    for c in line(text).chars() {
        if may_begin && matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠') {
            out.push('\'');
        }
        may_begin = matches!(c, ',' | ';' | '|' | '"') || (may_begin && c.is_whitespace());
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use judge::findings::fixture::Fixture;
    use judge::findings::judge;

    #[test]
    fn no_name_becomes_a_formula() {
        for (name, inert) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-2", "'-2"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("  =1", "  '=1"),
            ("\t=1", " '=1"),
            ("a;=1", "a;'=1"),
            ("a\",=1", "a\",'=1"),
            ("＝1", "'＝1"),
            ("rail-0", "rail-0"),
            ("h2/rail1->leaf1/p0", "h2/rail1->leaf1/p0"),
        ] {
            assert_eq!(text(name), inert, "{name}");
        }
    }

    #[test]
    fn every_cell_is_a_row_and_what_is_unknown_is_empty() {
        let mut recorded = Fixture::rails(2).recorded();
        recorded.run.tests[0].name = "a, \"quoted\" name".into();
        for cell in &mut recorded.run.cells {
            cell.test = "a, \"quoted\" name".into();
        }
        let last = recorded.run.cells.len() as u32 - 1;
        recorded.samples.retain(|sample| sample.cell != last);
        let judgement = judge(&recorded);
        let text = Csv.render(&recorded, &judgement).unwrap();
        assert!(text.ends_with("\r\n") && text.starts_with("cell,test,"), "{text}");
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), judgement.cells.len());
        let at = |name: &str| COLUMNS.iter().position(|column| *column == name).unwrap();
        for (row, cell) in rows.iter().zip(&judgement.cells) {
            assert_eq!(row.len(), COLUMNS.len());
            assert_eq!(&row[at("test")], "a, \"quoted\" name");
            assert_eq!(row[at("size_bytes")].parse(), Ok(cell.cell.size.0));
            let wire = row[at("wire_median_bytes_per_second")].parse().ok();
            assert_eq!(wire, cell.wire_rate.map(|rate| rate.median.0));
        }
        assert_eq!(&rows[last as usize][at("time_median_ns")], "");
    }

    proptest! {
        #[test]
        fn whatever_a_name_is_it_begins_no_formula_and_only_apostrophes_are_added(name in "[-=+@;,|\" a\\t\\n]{0,30}") {
            let inert = text(&name);
            for field in inert.split([',', ';', '|', '"']) {
                prop_assert!(!field.trim_start().starts_with(['=', '+', '-', '@']), "{inert}");
            }
            prop_assert_eq!(inert.replace('\'', ""), line(&name));
        }
    }
}

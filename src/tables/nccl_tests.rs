//! nccl-tests' names, columns and footer, as existing wrappers parse them.

use std::str::FromStr;

use strum::{IntoEnumIterator, VariantNames};

use engine::measure::CellResult;
use record::stats::{median_of_sorted, spread};
use record::units::{Bytes, Nanos};
use record::{Algorithm, Bandwidths, DType, Engine, Placement, ReduceOp};
use topology::suite::nearest;

/// One or all values of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrAll<T>(pub Vec<T>);

/// nccl's names of our types, for those that have one.
const NCCL_TYPES: &[(&str, DType)] = &[
    ("float", DType::F32),
    ("double", DType::F64),
    ("half", DType::F16),
    ("bfloat16", DType::Bf16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("uint32", DType::U32),
    ("uint8", DType::U8),
];

/// A type by our name or nccl's, or all of them. A mistyped one is an error, never float.
pub fn parse_types(text: &str) -> Result<OneOrAll<DType>, String> {
    if let Some((_, dtype)) = NCCL_TYPES.iter().find(|(name, _)| *name == text) {
        return Ok(OneOrAll(vec![*dtype]));
    }
    parse(text).map_err(|problem| {
        let nccl: Vec<&str> = NCCL_TYPES.iter().map(|(name, _)| *name).collect();
        format!("{problem} (or nccl's names {})", nccl.join(", "))
    })
}

/// An operator, or all of them.
pub fn parse_ops(text: &str) -> Result<OneOrAll<ReduceOp>, String> {
    parse(text)
}

fn parse<T: FromStr + VariantNames + IntoEnumIterator>(text: &str) -> Result<OneOrAll<T>, String> {
    if text == "all" {
        return Ok(OneOrAll(T::iter().collect()));
    }
    text.parse().map(|one| OneOrAll(vec![one])).map_err(|_| {
        let near = nearest(text, T::VARIANTS.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        format!("`{text}` is not one of {}, all{near}", T::VARIANTS.join(", "))
    })
}

/// The header above the rows.
pub fn header(percentiles: bool, engines: bool) -> String {
    let engine = if engines { "  engine" } else { "" };
    let more = |text: &str| {
        if percentiles {
            text.to_string()
        } else {
            String::new()
        }
    };
    let lines = [
        format!("#{:>62}{:>35}", "out-of-place", "in-place"),
        format!(
            "#{:>12}{:>14}{:>10}{:>8}{:>8}{}{}{}{engine}",
            "size",
            "count",
            "type",
            "redop",
            "root",
            "     time   algbw   busbw  #wrong",
            "     time   algbw   busbw  #wrong",
            more("        p50       p95       p99       max  algorithm  ")
        ),
        format!(
            "#{:>12}{:>14}{:>10}{:>8}{:>8}{}{}{}",
            "(B)",
            "(elements)",
            "",
            "",
            "",
            "     (us)  (GB/s)  (GB/s)        ",
            "     (us)  (GB/s)  (GB/s)        ",
            more("       (us)      (us)      (us)      (us)")
        ),
    ];
    lines.map(|line| line.trim_end().to_string() + "\n").concat()
}

/// One measurement of one size.
#[derive(Debug, Clone)]
pub struct CellRow {
    size: Bytes,
    count: usize,
    dtype: DType,
    op: ReduceOp,
    algorithm: Algorithm,
    placement: Placement,
    engine: Engine,
    time: Option<Nanos>,
    rates: Bandwidths,
    wrong: Option<u64>,
    percentiles: Option<[Nanos; 4]>,
}

impl CellRow {
    /// From what a cell came to.
    pub fn of(result: &CellResult<'_>) -> CellRow {
        let cell = result.cell;
        let time = median_of_sorted(result.times).map(|median| Nanos(median.round() as u64));
        let percentiles = spread(result.times).map(|spread| {
            [
                Nanos(spread.p50),
                Nanos(spread.p95),
                Nanos(spread.p99),
                Nanos(spread.max),
            ]
        });
        CellRow {
            size: cell.size,
            count: cell.elements(),
            dtype: cell.dtype,
            op: cell.op,
            algorithm: cell.algorithm,
            placement: cell.placement,
            engine: cell.engine,
            time,
            rates: Bandwidths::of(cell, time.unwrap_or_default()),
            wrong: result.wrong,
            percentiles,
        }
    }

    fn columns(&self) -> String {
        let micros = |time: Nanos| match time.as_micros_f64() {
            us if us >= 10_000.0 => format!("{us:.0}"),
            us if us >= 100.0 => format!("{us:.1}"),
            us => format!("{us:.2}"),
        };
        let rate = |rate: Option<record::units::Rate>| rate.map_or(0.0, |rate| rate.gb_per_s());
        let wrong = self
            .wrong
            .map_or_else(|| "N/A".to_string(), |wrong| wrong.to_string());
        format!(
            "  {:>7}  {:>6.2}  {:>6.2}  {:>6}",
            self.time.map_or_else(|| "N/A".to_string(), micros),
            rate(self.rates.algorithm),
            rate(self.rates.bus),
            wrong
        )
    }
}

/// Rows so far.
#[derive(Debug, Default)]
pub struct NcclTable {
    /// Out-of-place rows whose in-place row is still to come, at most one per engine.
    waiting: Vec<CellRow>,
    /// Whether lines end in the engine, because there is more than ours.
    engines: bool,
    bus: Vec<(Engine, f64)>,
    wrong: u64,
    checked: bool,
}

impl NcclTable {
    /// From now on lines end in the engine that ran them.
    pub fn name_engines(&mut self) {
        self.engines = true;
    }

    /// Takes a measurement; a line when out of place and in place of one size are both there.
    pub fn add(&mut self, row: CellRow, percentiles: bool) -> Option<String> {
        let bus = row.rates.bus.map_or(0.0, |rate| rate.gb_per_s());
        self.bus.push((row.engine, bus));
        self.wrong += row.wrong.unwrap_or(0);
        self.checked |= row.wrong.is_some();
        if row.placement == Placement::OutOfPlace {
            self.waiting.retain(|waiting| waiting.engine != row.engine);
            self.waiting.push(row);
            return None;
        }
        let at = self
            .waiting
            .iter()
            .position(|waiting| waiting.engine == row.engine)?;
        let out = self.waiting.swap_remove(at);
        let name = NCCL_TYPES
            .iter()
            .find(|(_, dtype)| *dtype == out.dtype)
            .map_or("", |(name, _)| *name);
        let facts = format!(
            "{:>13}{:>14}{name:>10}{:>8}{:>8}",
            out.size.0,
            out.count,
            out.op.to_string(),
            -1
        );
        let mut line = format!("{facts}{}{}", out.columns(), row.columns());
        if percentiles && let Some(percentiles) = out.percentiles {
            line.extend(percentiles.map(|time| format!("  {:>8.2}", time.as_micros_f64())));
            line.push_str(&format!("  {:<11}", out.algorithm.to_string()));
        }
        if self.engines {
            line.push_str(&format!("  {}", out.engine));
        }
        line.truncate(line.trim_end().len());
        Some(line)
    }

    /// The two lines that wrappers look for.
    pub fn footer(&self) -> String {
        let verdict = match (self.checked, self.wrong) {
            (_, 1..) => "FAILED",
            (true, 0) => "OK",
            (false, 0) => "OK (not checked)",
        };
        let average = |engine: Engine| {
            let of_engine = self.bus.iter().filter(|(of, _)| *of == engine);
            let rates: Vec<f64> = of_engine.map(|(_, rate)| *rate).collect();
            (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
        };
        let (first, second) = match (average(Engine::Ours), average(Engine::Nccl)) {
            (Some(ours), nccl) => (ours, nccl),
            (None, nccl) => (nccl.unwrap_or(0.0), None),
        };
        let second = second.map_or_else(String::new, |nccl| {
            format!("# the same by NCCL     : {nccl:.6}\n")
        });
        format!(
            "# Out of bounds values : {} {verdict}\n# Avg bus bandwidth    : {first:.6}\n{second}#\n",
            self.wrong
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_type_never_becomes_float() {
        assert_eq!(parse_types("float"), Ok(OneOrAll(vec![DType::F32])));
        assert_eq!(parse_types("bf16"), Ok(OneOrAll(vec![DType::Bf16])));
        assert_eq!(parse_types("all").unwrap().0.len(), 8);
        let error = parse_types("flaot").unwrap_err();
        assert!(error.contains("f32") && error.contains("bfloat16"), "{error}");
        let error = parse_ops("summ").unwrap_err();
        assert!(error.contains("sum, prod, min, max, avg"), "{error}");
    }

    #[test]
    fn the_footer_is_what_wrappers_look_for() {
        let table = NcclTable {
            bus: vec![(Engine::Ours, 1.0), (Engine::Ours, 3.0)],
            checked: true,
            ..NcclTable::default()
        };
        assert_eq!(
            table.footer(),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 2.000000\n#\n"
        );
        let mut both = NcclTable {
            bus: table.bus.clone(),
            ..NcclTable::default()
        };
        both.bus.push((Engine::Nccl, 8.0));
        assert!(
            both.footer()
                .ends_with("# Avg bus bandwidth    : 2.000000\n# the same by NCCL     : 8.000000\n#\n"),
            "one engine's rates never enter the other's average: {}",
            both.footer()
        );
        let table = NcclTable {
            wrong: 7,
            checked: true,
            ..table
        };
        assert!(table.footer().starts_with("# Out of bounds values : 7 FAILED\n"));
    }
}

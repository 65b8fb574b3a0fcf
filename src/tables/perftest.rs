//! The tables of `railgauge link`: ours in decimal units, and perftest's own for scripts that read those.

use crate::terminal;
use engine::measure::{LatencySummary, LinkObserver, LinkRow};
use engine::transport::verbs::stream::TrialKind;
use record::FlowRecord;
use record::units::Nanos;

/// perftest's "MB".
const MIB: f64 = (1u64 << 20) as f64;

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableStyle {
    /// Decimal units, named in the header.
    Ours,
    /// perftest's columns and units, in which a MB has 2^20 bytes.
    Perftest,
}

/// The line above the rows.
fn header(question: TrialKind, style: TableStyle) -> String {
    match (question, style) {
        (TrialKind::Latency, TableStyle::Ours) => format!(
            " {:<10} {:<12} {:>11} {:>11} {:>15} {:>11} {:>13} {:>11} {:>11} {:>7}",
            "#bytes",
            "#iterations",
            "t_min[us]",
            "t_max[us]",
            "t_typical[us]",
            "t_avg[us]",
            "t_stdev[us]",
            "99%[us]",
            "99.9%[us]",
            "#wrong"
        ),
        (_, TableStyle::Ours) => format!(
            " {:<10} {:<12} {:>13} {:>16} {:>16} {:>14} {:>7}",
            "#bytes",
            "#iterations",
            "BW peak[GB/s]",
            "BW average[GB/s]",
            "BW average[Gb/s]",
            "MsgRate[Mpps]",
            "#wrong"
        ),
        (TrialKind::Latency, TableStyle::Perftest) => {
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
             99% percentile[usec]   99.9% percentile[usec]"
                .to_string()
        }
        (_, TableStyle::Perftest) => {
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]".to_string()
        }
    }
}

/// A row.
fn line(row: &LinkRow, style: TableStyle) -> String {
    let (size, iterations, wrong) = (row.size.0, row.iterations, row.wrong_bytes);
    if let Some(latency) = &row.latency {
        let LatencySummary {
            min,
            max,
            typical,
            average,
            deviation,
            p99,
            p999,
            ..
        } = *latency;
        let [min, max, typical, average, deviation, p99, p999] =
            [min, max, typical, average, deviation, p99, p999].map(Nanos::as_micros_f64);
        return match style {
            TableStyle::Ours => format!(
                " {size:<10} {iterations:<12} {min:>11.2} {max:>11.2} {typical:>15.2} {average:>11.2} {deviation:>13.2} \
                 {p99:>11.2} {p999:>11.2} {wrong:>7}"
            ),
            TableStyle::Perftest => format!(
                " {size:<7} {iterations:<10}     {min:<7.2}        {max:<7.2}      {typical:<7.2}\t       \
                 {average:<7.2}     \t{deviation:<7.2}\t\t{p99:<7.2} \t\t{p999:<7.2}"
            ),
        };
    }
    let (peak, average, rate) = row.bandwidth.map_or((0.0, 0.0, 0.0), |bandwidth| {
        (bandwidth.peak.0, bandwidth.average.0, bandwidth.messages_per_s)
    });
    match style {
        TableStyle::Ours => format!(
            " {size:<10} {iterations:<12} {:>13.4} {:>16.4} {:>16.4} {:>14.6} {wrong:>7}",
            peak / 1e9,
            average / 1e9,
            average * 8.0 / 1e9,
            rate / 1e6
        ),
        TableStyle::Perftest => format!(
            " {size:<7}    {iterations:<10}       {:<7.2}            {:<7.2}\t\t   {:<7.6}",
            peak / MIB,
            average / MIB,
            rate / 1e6
        ),
    }
}

/// Prints rows as they are measured, and keeps them for JSON.
pub struct LinkPrinter {
    silent: bool,
    style: TableStyle,
    rows: Vec<LinkRow>,
    flows: Vec<FlowRecord>,
}

impl LinkPrinter {
    /// Prints nothing but JSON when `silent`.
    pub fn new(silent: bool, style: TableStyle) -> LinkPrinter {
        LinkPrinter {
            silent,
            style,
            rows: Vec::new(),
            flows: Vec::new(),
        }
    }

    /// Prints the lines above the rows.
    pub fn header(&self, title: &str, question: TrialKind) {
        if self.silent {
            return;
        }
        println!("{title}");
        let units = match question {
            TrialKind::Latency => "times are half round trips, for reads whole ones",
            _ => "GB is 1e9 bytes, Gb 1e9 bits (perftest's MB is 2^20 bytes)",
        };
        if self.style == TableStyle::Ours {
            println!("# {units}; #wrong counts wrong bytes of the verified data");
        }
        println!("{}", header(question, self.style));
    }

    /// Prints wrong data and, when silent, everything as JSON; the exit code.
    pub fn finish(self, broken: Option<String>) -> u8 {
        let wrong: u64 = self.rows.iter().map(|row| row.wrong_bytes).sum();
        for row in &self.rows {
            if let Some(first) = &row.first_wrong {
                let (bytes, size, rail) = (row.wrong_bytes, row.size, &row.rail);
                terminal::warn(format_args!(
                    "{bytes} wrong bytes at {size} on {rail}; the first: {first}"
                ));
            }
        }
        if self.silent {
            let whole = serde_json::json!({
                "schema": 1,
                "rows": self.rows,
                "flows": self.flows,
                "broken": broken,
            });
            println!("{whole:#}");
        }
        match (wrong, broken) {
            (1.., _) => 22,
            (0, Some(_)) => 21,
            (0, None) => 0,
        }
    }
}

impl LinkObserver for LinkPrinter {
    fn connected(&mut self, flows: &[FlowRecord]) {
        self.flows.extend_from_slice(flows);
    }

    fn row(&mut self, row: LinkRow) {
        if !self.silent {
            println!("{}", line(&row, self.style));
        }
        self.rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::measure::Bandwidth;
    use engine::transport::verbs::stream::Operation;
    use record::units::{Bytes, Rate};

    fn row() -> LinkRow {
        LinkRow {
            rail: "rail0".to_string(),
            from: 0,
            to: 1,
            operation: Operation::Write,
            question: TrialKind::Bandwidth,
            size: Bytes(65_536),
            queue_pairs: 1,
            iterations: 5000,
            bandwidth: Some(Bandwidth {
                peak: Rate(2.0 * MIB * 1000.0),
                average: Rate(1e9),
                messages_per_s: 1e9 / 65_536.0,
            }),
            latency: None,
            checked_messages: 1,
            wrong_bytes: 0,
            first_wrong: None,
        }
    }

    #[test]
    fn our_units_are_decimal_and_perftests_are_its_own() {
        let words = |style| {
            let line = line(&row(), style);
            line.split_whitespace().map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(
            words(TableStyle::Ours),
            ["65536", "5000", "2.0972", "1.0000", "8.0000", "0.015259", "0"]
        );
        assert_eq!(
            words(TableStyle::Perftest),
            ["65536", "5000", "2000.00", "953.67", "0.015259"]
        );
    }

    #[test]
    fn every_column_has_a_head() {
        let latency = LatencySummary {
            count: 1000,
            min: Nanos(1500),
            max: Nanos(9000),
            typical: Nanos(1600),
            average: Nanos(1700),
            deviation: Nanos(100),
            p99: Nanos(2000),
            p999: Nanos(3000),
        };
        let timed = LinkRow {
            question: TrialKind::Latency,
            bandwidth: None,
            latency: Some(latency),
            ..row()
        };
        for row in [row(), timed] {
            let head = header(row.question, TableStyle::Ours);
            assert_eq!(
                head.replace("BW ", "BW").split_whitespace().count(),
                line(&row, TableStyle::Ours).split_whitespace().count()
            );
        }
    }
}

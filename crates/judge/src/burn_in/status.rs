//! `status.json` and `metrics.prom`: how a burn-in is going, for whoever watches over it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use strum::Display;

use record::units::Nanos;
use record::{EndReason, Ruling};

/// What it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum BurnInPhase {
    /// Ranks are meeting.
    Meeting,
    /// Cells are measured.
    Measuring,
    /// A cycle is judged and written down.
    Judging,
    /// It is over.
    Ended,
}

/// How it is going.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this format.
    pub schema: u32,
    /// When this was written, RFC 3339 in UTC: older than a minute means that its writer is gone.
    pub at: String,
    /// Process that writes it.
    pub pid: u32,
    /// Memory it uses, bytes; none when that is unknown.
    pub resident: Option<u64>,
    /// Name of the suite.
    pub suite: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// What it is doing.
    pub doing: BurnInPhase,
    /// The cycle, from 1; 0 before the first.
    pub cycle: u32,
    /// Complete cycles.
    pub cycles_done: u32,
    /// Cells measured in this cycle.
    pub cells_done: u32,
    /// Cells planned in this cycle, those that are measured again included.
    pub cells: u32,
    /// Time under load.
    pub load_ns: Nanos,
    /// How long it is to be loaded.
    pub wanted_ns: Nanos,
    /// When a cell was last measured to its end, RFC 3339 in UTC: older than a cell's longest time means that it hangs.
    pub last_progress: String,
    /// Hosts that take part.
    pub hosts: Vec<String>,
    /// Hosts that are lost and have not come back.
    pub lost: Vec<String>,
    /// What would be decided now; none before the first cycle is complete.
    pub ruling: Option<Ruling>,
    /// Parts that would be rejected now.
    pub rejected: u32,
    /// What was seen that counts, one sentence each, the worst first.
    pub incidents: Vec<String>,
    /// Why it ended, when it did.
    pub ended: Option<EndReason>,
}

impl Status {
    /// The same as OpenMetrics. Names of hosts and parts stay in `status.json`: series must not grow without bound.
    pub fn metrics(&self, now: f64, last_progress: f64) -> String {
        let ruling = |ruling: Ruling| f64::from(u8::from(self.ruling == Some(ruling)));
        let families: [(&str, &str, f64); 12] = [
            ("timestamp_seconds", "When this was written", now),
            (
                "last_progress_timestamp_seconds",
                "When a cell was last measured",
                last_progress,
            ),
            ("cycle", "The cycle that is measured", f64::from(self.cycle)),
            ("cycles_done", "Complete cycles", f64::from(self.cycles_done)),
            (
                "cells_done",
                "Cells measured in this cycle",
                f64::from(self.cells_done),
            ),
            ("cells", "Cells planned in this cycle", f64::from(self.cells)),
            ("load_seconds", "Time under load", self.load_ns.as_secs_f64()),
            (
                "wanted_seconds",
                "How long it is to be loaded",
                self.wanted_ns.as_secs_f64(),
            ),
            ("hosts", "Hosts that take part", self.hosts.len() as f64),
            (
                "lost_hosts",
                "Hosts that are lost and have not come back",
                self.lost.len() as f64,
            ),
            (
                "rejected_parts",
                "Parts that would be rejected now",
                f64::from(self.rejected),
            ),
            (
                "ended",
                "Whether it is over",
                f64::from(u8::from(self.ended.is_some())),
            ),
        ];
        let mut out = String::new();
        for (name, help, value) in families {
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "# TYPE railgauge_burn_in_{name} gauge\n# HELP railgauge_burn_in_{name} {help}\nrailgauge_burn_in_{name} {value}\n"
            );
        }
        if let Some(resident) = self.resident {
            let name = "railgauge_burn_in_resident_bytes";
            let _ = write!(
                out,
                "# TYPE {name} gauge\n# HELP {name} Memory of the coordinator\n{name} {resident}\n"
            );
        }
        let name = "railgauge_burn_in_ruling";
        let _ = write!(
            out,
            "# TYPE {name} gauge\n# HELP {name} 1 for what would be decided now\n"
        );
        for each in [Ruling::Accept, Ruling::Extend, Ruling::Reject] {
            let _ = writeln!(out, "{name}{{ruling=\"{each}\"}} {}", ruling(each));
        }
        out.push_str("# EOF\n");
        out
    }
}

//! Every metric there is. Names, labels and units are a promise to dashboards and alerts: they are added, never changed.
//!
//! All are gauges: a file is about one run, and nothing in it is a running count. All have the label `suite`, so that the files of
//! several suites can lie in one folder.

/// One metric: its name, unit, labels and what it says.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// The name ends with it; empty for plain numbers.
    pub(super) unit: &'static str,
    /// Besides `suite`, in this order.
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

const fn family(
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        unit,
        labels,
        help,
    }
}

pub(super) const RUN_INFO: Family = family(
    "railgauge_run_info",
    "",
    &["version", "recorded_by", "ended"],
    "Always 1. The versions that judged and recorded the run, and how it ended.",
);
pub(super) const RUN_START: Family = family(
    "railgauge_run_start_timestamp_seconds",
    "seconds",
    &[],
    "When the run began.",
);
pub(super) const RUN_END: Family = family(
    "railgauge_run_end_timestamp_seconds",
    "seconds",
    &[],
    "When the run ended; absent when it was cut off.",
);
pub(super) const RUN_VERDICT: Family = family(
    "railgauge_run_verdict",
    "",
    &["verdict"],
    "1 for the verdict of the run, 0 for the others.",
);
pub(super) const RUN_EXIT_CODE: Family = family(
    "railgauge_run_exit_code",
    "",
    &[],
    "0 pass, 10 drift, 11 ECMP imbalance, 12 slow, 20 inconclusive, 21 hang or lost rank, 22 corrupt data.",
);
pub(super) const RUN_INJECTED: Family = family(
    "railgauge_run_injected_faults",
    "",
    &[],
    "Faults injected on purpose; a run with any is a negative control.",
);
pub(super) const RUN_HOSTS: Family = family("railgauge_run_hosts", "", &[], "Hosts that took part.");
pub(super) const RUN_RANKS: Family = family("railgauge_run_ranks", "", &[], "Ranks that took part.");
pub(super) const FINDINGS: Family = family(
    "railgauge_findings",
    "",
    &["kind"],
    "Findings of each kind. 0 says that none was found, not that everything was looked at.",
);
pub(super) const FINDINGS_FOLDED: Family = family(
    "railgauge_findings_folded",
    "",
    &["kind"],
    "Findings whose parts have no series of their own, because there are too many.",
);
pub(super) const PART_FINDINGS: Family = family(
    "railgauge_part_findings",
    "",
    &["kind", "part", "rail"],
    "Findings that name this part.",
);
pub(super) const PART_MEASURED: Family = family(
    "railgauge_part_measured_bytes_per_second",
    "bytes_per_second",
    &["kind", "part", "rail"],
    "The wire rate that was measured, the worst where several findings name the part.",
);
pub(super) const PART_EXPECTED: Family = family(
    "railgauge_part_expected_bytes_per_second",
    "bytes_per_second",
    &["kind", "part", "rail"],
    "The wire rate that was expected instead.",
);
pub(super) const WORST_SHARE: Family = family(
    "railgauge_worst_share_ratio",
    "ratio",
    &[],
    "Measured over expected wire rate of the cell that is furthest below; absent when nothing was expected.",
);
pub(super) const TESTS: Family = family(
    "railgauge_tests",
    "",
    &["verdict"],
    "Tests of the suite by their verdict.",
);
pub(super) const TESTS_FOLDED: Family = family(
    "railgauge_tests_folded",
    "",
    &[],
    "Tests that have no series of their own, because there are too many.",
);
pub(super) const TEST_VERDICT: Family = family(
    "railgauge_test_verdict",
    "",
    &["test", "verdict"],
    "1 for the verdict of the test, 0 for the others.",
);
pub(super) const TEST_PLANNED: Family = family(
    "railgauge_test_planned_cells",
    "",
    &["test"],
    "Cells that the test planned.",
);
pub(super) const TEST_MEASURED: Family = family(
    "railgauge_test_measured_cells",
    "",
    &["test"],
    "Cells of the test that were measured.",
);
pub(super) const CELLS: Family = family(
    "railgauge_cells",
    "",
    &["verdict"],
    "Cells of the run by their verdict.",
);
pub(super) const PLANNED: Family = family("railgauge_planned_cells", "", &[], "Cells that were planned.");
pub(super) const MEASURED: Family = family(
    "railgauge_measured_cells",
    "",
    &[],
    "Cells that were measured to their end.",
);
pub(super) const COVERAGE: Family = family(
    "railgauge_coverage_ratio",
    "ratio",
    &[],
    "Measured over planned cells; absent when none was planned.",
);
pub(super) const UNTESTED: Family = family(
    "railgauge_untested_things",
    "",
    &[],
    "What the plan left out or the record does not allow to judge.",
);
pub(super) const LINKS: Family = family(
    "railgauge_links",
    "",
    &["state"],
    "Cables in each direction by what is known of them; absent when the run was not told which cable is where.",
);
pub(super) const SMALLEST_LOSS: Family = family(
    "railgauge_smallest_loss_ratio",
    "ratio",
    &["rail"],
    "The smallest loss of rate that the run finds with probability 0.9 on every cable of a rail that it tested, in each direction; absent where that cannot be said.",
);
pub(super) const RAIL_MEDIAN: Family = family(
    "railgauge_rail_wire_median_bytes_per_second",
    "bytes_per_second",
    &["test", "rail", "load", "engine"],
    "Median wire rate over the cells of a rail with the largest messages.",
);
pub(super) const RAIL_LOWEST: Family = family(
    "railgauge_rail_wire_lowest_bytes_per_second",
    "bytes_per_second",
    &["test", "rail", "load", "engine"],
    "Wire rate of the slowest of those cells.",
);
pub(super) const RAIL_EXPECTED: Family = family(
    "railgauge_rail_expected_bytes_per_second",
    "bytes_per_second",
    &["test", "rail", "load", "engine"],
    "Median of what those cells were compared with; absent when there was nothing.",
);
pub(super) const RAIL_SIZE: Family = family(
    "railgauge_rail_message_bytes",
    "bytes",
    &["test", "rail", "load", "engine"],
    "The largest message size of a rail, which its rates are of.",
);
pub(super) const RAIL_CELLS: Family = family(
    "railgauge_rail_cells",
    "",
    &["test", "rail", "load", "engine"],
    "Cells of that size that have a wire rate.",
);
pub(super) const RAILS_FOLDED: Family = family(
    "railgauge_rails_folded",
    "",
    &[],
    "Combinations of test, rail, load and engine that have no series of their own, because there are too many.",
);
pub(super) const ITERATIONS: Family = family(
    "railgauge_iterations",
    "",
    &[],
    "Timed iterations that are complete on all ranks.",
);
pub(super) const VERIFIED: Family = family(
    "railgauge_verified_iterations",
    "",
    &[],
    "Timed iterations whose data was checked.",
);
pub(super) const SAMPLES: Family = family(
    "railgauge_samples",
    "",
    &[],
    "Recorded samples: one per timed iteration and rank.",
);
pub(super) const CORRUPT: Family = family(
    "railgauge_corrupt_results",
    "",
    &[],
    "Checked results that were wrong.",
);
pub(super) const LOST: Family = family("railgauge_lost_ranks", "", &[], "Ranks that stopped answering.");
pub(super) const ECMP: Family = family(
    "railgauge_ecmp_choices",
    "",
    &["cause"],
    "Switches that choose among equal paths, per test and rail, by what their spread comes to; absent without such a test.",
);
pub(super) const ECMP_LOST: Family = family(
    "railgauge_ecmp_lost_ratio",
    "ratio",
    &[],
    "The largest share of the goodput of an even spread that was lost.",
);
pub(super) const DRIFT: Family = family(
    "railgauge_drift_deviations",
    "",
    &[],
    "Firmware, drivers and settings that are not as they should be; absent without an inventory.",
);

pub(super) const HISTORY_NIGHTS: Family = family(
    "railgauge_history_nights",
    "",
    &[],
    "Earlier runs of this suite that the run was compared with; absent when it was compared with none.",
);
pub(super) const HISTORY_SERIES: Family = family(
    "railgauge_history_series",
    "",
    &["state"],
    "Figures of parts that were compared with their own past, and those with too few nights.",
);
pub(super) const HISTORY_ISSUES: Family = family(
    "railgauge_history_matters",
    "",
    &["standing", "severity"],
    "Findings and changes over the nights, by where they stand tonight and how loudly they are said.",
);
pub(super) const HISTORY_REPLACED: Family = family(
    "railgauge_history_replaced_parts",
    "",
    &[],
    "Parts that are others than before under the same name, and begin a new history.",
);

/// All of them, in the order of the file.
pub(super) const ALL: &[&Family] = &[
    &RUN_INFO,
    &RUN_START,
    &RUN_END,
    &RUN_VERDICT,
    &RUN_EXIT_CODE,
    &RUN_INJECTED,
    &RUN_HOSTS,
    &RUN_RANKS,
    &FINDINGS,
    &FINDINGS_FOLDED,
    &PART_FINDINGS,
    &PART_MEASURED,
    &PART_EXPECTED,
    &WORST_SHARE,
    &TESTS,
    &TESTS_FOLDED,
    &TEST_VERDICT,
    &TEST_PLANNED,
    &TEST_MEASURED,
    &CELLS,
    &PLANNED,
    &MEASURED,
    &COVERAGE,
    &UNTESTED,
    &LINKS,
    &SMALLEST_LOSS,
    &RAIL_MEDIAN,
    &RAIL_LOWEST,
    &RAIL_EXPECTED,
    &RAIL_SIZE,
    &RAIL_CELLS,
    &RAILS_FOLDED,
    &ITERATIONS,
    &VERIFIED,
    &SAMPLES,
    &CORRUPT,
    &LOST,
    &ECMP,
    &ECMP_LOST,
    &DRIFT,
    &HISTORY_NIGHTS,
    &HISTORY_SERIES,
    &HISTORY_ISSUES,
    &HISTORY_REPLACED,
];

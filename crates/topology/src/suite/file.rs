//! A suite file that is TOML and whose every key is known; what the values mean is checked afterwards.

use toml::Spanned;
use toml::de::DeTable;

use super::error::SuiteError;
use super::reader::{Section, Source};
use super::{VerbsSettings, burn_in};

/// A parsed suite file.
#[derive(Debug)]
pub struct SuiteFile<'t> {
    source: Source<'t>,
    root: Spanned<DeTable<'t>>,
}

/// The keys of each table: what is not listed here does not exist.
mod keys {
    pub const SUITE: &[&str] = &["name", "description", "run", "verbs", "rule", "burn-in", "test"];
    pub const RUN: &[&str] = &[
        "ranks",
        "procs",
        "transport",
        "device",
        "engine",
        "rails",
        "seed",
        "deadline",
        "budget",
        "join_deadline",
        "data_port",
        "switch_counters",
        "golden",
        "since",
        "switch_inventory",
        "counter_rules",
    ];
    pub const RULE: &[&str] = &[
        "confidence",
        "false_positive_budget",
        "remeasure",
        "straggler_factor",
        "flaps_allowed",
        "marks",
        "dip",
        "floor_factor",
        "ramp_factor",
        "stall",
        "lost",
        "gap",
    ];
    pub const TEST: &[&str] = &[
        "name",
        "kind",
        "collective",
        "algorithm",
        "sizes",
        "type",
        "op",
        "placement",
        "transport",
        "engine",
        "batch",
        "groups",
        "senders",
        "schedule",
        "rails",
        "stripe",
        "flows",
        "source_port",
        "source_ports",
        "sets",
        "window",
        "share",
        "packets_per_second",
        "partners",
        "flows_per_link",
        "sprayed_only",
        "random",
        "worst",
        "pairs",
        "root",
        "directions",
        "warmup",
        "iterations",
        "tight",
        "budget",
        "verify",
        "expect",
    ];
    pub const SIZES: &[&str] = &["from", "to", "factor", "step"];
    pub const ITERATIONS: &[&str] = &["min", "max"];
    pub const SCHEDULE: &[&str] = &["random"];
    pub const EXPECT: &[&str] = &["spec", "peers", "baseline", "margin", "at_least"];
}

impl<'t> SuiteFile<'t> {
    /// Parses `text`; `origin` is what errors call it.
    pub fn parse(text: &'t str, origin: &'t str) -> Result<SuiteFile<'t>, SuiteError> {
        let source = Source { origin, text };
        let file = SuiteFile {
            root: source.parse()?,
            source,
        };
        file.refuse_unknown_keys()?;
        Ok(file)
    }

    /// The whole file.
    pub(super) fn suite(&self) -> Section<'_> {
        Section::root(self.source, "a suite", &self.root)
    }

    /// The `[[test]]` tables.
    pub(super) fn tests(&self) -> Result<Vec<Section<'_>>, SuiteError> {
        let tests = self.suite().require("test")?;
        tests
            .list("a list of tables, each written [[test]]")?
            .iter()
            .map(|test| test.must_be_section("[[test]]"))
            .collect()
    }

    fn refuse_unknown_keys(&self) -> Result<(), SuiteError> {
        let suite = self.suite();
        suite.refuse_unknown_keys(keys::SUITE)?;
        let tables = [
            ("run", "[run]", keys::RUN),
            ("verbs", "[verbs]", VerbsSettings::KEYS),
            ("rule", "[rule]", keys::RULE),
            ("burn-in", burn_in::TITLE, burn_in::KEYS),
        ];
        for (key, title, known) in tables {
            if let Some(item) = suite.get(key) {
                item.must_be_section(title)?.refuse_unknown_keys(known)?;
            }
        }
        let within_a_test = [
            ("sizes", "`sizes`", keys::SIZES),
            ("iterations", "`iterations`", keys::ITERATIONS),
            ("schedule", "`schedule`", keys::SCHEDULE),
            ("expect", "[test.expect]", keys::EXPECT),
        ];
        for test in self.tests()? {
            test.refuse_unknown_keys(keys::TEST)?;
            for (key, title, known) in within_a_test {
                if let Some(table) = test.get(key).and_then(|item| item.section(title)) {
                    table.refuse_unknown_keys(known)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error that parsing `text` gives, as a user sees it.
    fn complaint(text: &str) -> String {
        SuiteFile::parse(text, "suites/x.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_mistyped_key_at_any_level_is_found_with_its_place_and_the_key_that_was_meant() {
        let test = "name = \"s\"\n[[test]]\nname = \"t\"\n";
        let cases = [
            (
                "nam = 1\n".to_string(),
                "suites/x.toml:1:1: unknown key `nam` in a suite; did you mean `name`?",
            ),
            (
                "[run]\nrank = 4\n".to_string(),
                "suites/x.toml:2:1: unknown key `rank` in [run]; did you mean `ranks`?",
            ),
            (
                "[rule]\nconfidense = 1\n".to_string(),
                "suites/x.toml:2:1: unknown key `confidense` in [rule]; did you mean `confidence`?",
            ),
            (
                format!("{test}  algoritm = \"ring\"\n"),
                "suites/x.toml:4:3: unknown key `algoritm` in [[test]]; did you mean `algorithm`?",
            ),
            (
                format!("{test}sizes = {{ from = 8, too = 16 }}\n"),
                "suites/x.toml:4:21: unknown key `too` in `sizes`; did you mean `to`?",
            ),
            (
                format!("{test}iterations = {{ mim = 8 }}\n"),
                "suites/x.toml:4:16: unknown key `mim` in `iterations`; did you mean `min`?",
            ),
            (
                format!("{test}[test.expect]\nperrs = \"5%\"\n"),
                "suites/x.toml:5:1: unknown key `perrs` in [test.expect]; did you mean `peers`?",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(complaint(&text), wanted);
        }
    }

    #[test]
    fn a_key_that_resembles_none_lists_those_there_are() {
        assert!(
            complaint("zzz = 1").ends_with("known are name, description, run, verbs, rule, burn-in, test")
        );
    }

    #[test]
    fn broken_toml_is_placed_where_it_breaks() {
        assert!(complaint("name = \"s\"\nrun = = 3\n").starts_with("suites/x.toml:2:7: "));
        assert!(complaint("name = \"unclosed\ntest = 1").starts_with("suites/x.toml:1:"));
    }

    #[test]
    fn a_suite_without_tests_is_not_a_suite() {
        assert_eq!(
            complaint("name = \"s\""),
            "suites/x.toml:1:1: a suite needs `test`"
        );
        assert!(complaint("test = []").contains("empty list"));
        assert!(complaint("test = 3").contains("[[test]]"));
        assert!(complaint("run = 3\n[[test]]\n").contains("a table, written [run]"));
    }
}

//! From a parsed file to a suite: the settings of the run as a whole.

use std::collections::HashSet;

use super::error::SuiteError;
use super::reader::Section;
use super::{RunSettings, Suite, SuiteFile, VerbsSettings, burn_in, case_check};
use record::{Criteria, DecisionRule, ShapeRule};

impl SuiteFile<'_> {
    /// Interprets every value, or says which one is wrong and why.
    pub fn check(&self) -> Result<Suite, SuiteError> {
        let suite = self.suite();
        let mut tests = Vec::new();
        let mut names = HashSet::new();
        for section in self.tests()? {
            let test = case_check::read(&section)?;
            if !names.insert(test.name.clone()) {
                let item = section.require("name")?;
                return Err(item.error(format!(
                    "two tests are called `{}`; findings could not distinguish them",
                    test.name
                )));
            }
            tests.push(test);
        }
        Ok(Suite {
            name: suite.name()?,
            description: match suite.get("description") {
                Some(item) => item.text()?.to_string(),
                None => String::new(),
            },
            run: match suite.get("run") {
                Some(item) => run(&item.must_be_section("[run]")?)?,
                None => RunSettings::default(),
            },
            verbs: match suite.get("verbs") {
                Some(item) => VerbsSettings::read(&item.must_be_section("[verbs]")?)?,
                None => VerbsSettings::default(),
            },
            rule: match suite.get("rule") {
                Some(item) => rule(&item.must_be_section("[rule]")?)?,
                None => DecisionRule::default(),
            },
            burn_in: match suite.get("burn-in") {
                Some(item) => burn_in::read(&item.must_be_section(burn_in::TITLE)?)?,
                None => Criteria::default(),
            },
            tests,
        })
    }
}

fn run(section: &Section<'_>) -> Result<RunSettings, SuiteError> {
    let mut settings = RunSettings {
        deadline: section.duration("deadline")?,
        budget: section.duration("budget")?,
        join_deadline: section.duration("join_deadline")?,
        ..Default::default()
    };
    if let Some(item) = section.get("ranks") {
        settings.ranks = Some(item.whole(1..=RunSettings::MOST_RANKS)?);
    }
    if let Some(item) = section.get("procs") {
        settings.procs = Some(item.flag()?);
    }
    if let Some(item) = section.get("transport") {
        settings.transport = Some(item.word()?);
    }
    if let Some(item) = section.get("device") {
        settings.device = Some(item.word()?);
    }
    if let Some(item) = section.get("engine") {
        settings.engine = Some(item.word()?);
    }
    if let Some(item) = section.get("data_port") {
        settings.data_port = Some(item.whole(1..=u16::MAX)?);
    }
    for (key, flag, setting) in [
        (
            "switch_counters",
            "--switch-counters",
            &mut settings.switch_counters,
        ),
        (
            "switch_inventory",
            "--switch-inventory",
            &mut settings.switch_inventory,
        ),
    ] {
        if let Some(item) = section.get(key) {
            let source = item.text()?;
            // A suite from somebody else must not be able to run commands here.
            if source.starts_with("exec:") {
                return Err(item.error(format!(
                    "a suite names files, not commands: write {flag} exec:... on the command line"
                )));
            }
            *setting = Some(source.to_string());
        }
    }
    for (key, setting) in [
        ("golden", &mut settings.golden),
        ("since", &mut settings.since),
        ("counter_rules", &mut settings.counter_rules),
    ] {
        if let Some(item) = section.get(key) {
            *setting = Some(item.text()?.to_string());
        }
    }
    if let Some(item) = section.get("seed") {
        settings.seed = Some(item.whole(0..=u64::MAX)?);
    }
    if let Some(item) = section.get("rails") {
        let mut rails = Vec::new();
        for rail in item.list("a list such as [\"rail0=10.0.0.1\", \"eth1\"]")? {
            rails.push(rail.text()?.to_string());
        }
        settings.rails = Some(rails);
    }
    Ok(settings)
}

fn rule(section: &Section<'_>) -> Result<DecisionRule, SuiteError> {
    let mut rule = DecisionRule::default();
    if let Some(item) = section.get("confidence") {
        rule.confidence = item.share(0.5, 1.0)?;
    }
    if let Some(item) = section.get("false_positive_budget") {
        rule.false_positive_budget = item.share(0.0, 1.0)?;
    }
    if let Some(item) = section.get("remeasure") {
        rule.remeasure = item.whole(0..=100)?;
    }
    if let Some(item) = section.get("straggler_factor") {
        rule.straggler_factor = item.number()?;
        if rule.straggler_factor <= 1.0 {
            return Err(item.expected("more than 1: a straggler is slower than the others"));
        }
    }
    if let Some(item) = section.get("flaps_allowed") {
        rule.flaps_allowed = item.whole(0..=1_000_000)?;
    }
    if let Some(item) = section.get("marks") {
        rule.marks = item.word()?;
    }
    shapes(section, &mut rule.shapes)?;
    Ok(rule)
}

/// The limits beyond which the shape of a curve over message size is a finding.
fn shapes(section: &Section<'_>, rule: &mut ShapeRule) -> Result<(), SuiteError> {
    if let Some(item) = section.get("dip") {
        rule.dip = item.share(0.0, 1.0)?;
    }
    for (key, factor) in [
        ("floor_factor", &mut rule.floor_factor),
        ("ramp_factor", &mut rule.ramp_factor),
    ] {
        if let Some(item) = section.get(key) {
            *factor = item.number()?;
            if *factor <= 1.0 {
                return Err(item.expected("more than 1: reaching what its peers reach is not a fault"));
            }
        }
    }
    if let Some(stall) = section.duration("stall")? {
        rule.stall = stall;
    }
    if let Some(item) = section.get("lost") {
        rule.lost = item.share(0.0, 1.0)?;
    }
    if let Some(item) = section.get("gap") {
        rule.gap = item.share(0.0, 10.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{EngineChoice, TransportChoice};
    use record::DeviceKind;
    use record::units::Nanos;

    const TEST: &str = "[[test]]\nname = \"t\"\nsizes = [\"8\"]\n";

    fn check(text: &str) -> Result<Suite, String> {
        let file = SuiteFile::parse(text, "x.toml").map_err(|error| error.to_string())?;
        file.check().map_err(|error| error.to_string())
    }

    /// The complaint about a suite whose `[run]` or `[rule]` table has this line (line 3).
    fn complaint(table: &str, line: &str) -> String {
        check(&format!("name = \"s\"\n[{table}]\n{line}\n{TEST}")).unwrap_err()
    }

    #[test]
    fn what_a_suite_says_about_the_run_arrives() {
        let text = "name = \"s\"\n[run]\nranks = 4\nprocs = true\ntransport = \"tcp\"\ndevice = \"host\"\nengine = \"both\"\n\
                    rails = [\"a=127.0.1.1\"]\nseed = 9\ndeadline = \"5s\"\nbudget = \"1m\"\n\
                    join_deadline = \"2m\"\ndata_port = 30000\nswitch_counters = \"/run/switches\"\n\
                    golden = \"golden.toml\"\nsince = \"reports/last\"\nswitch_inventory = \"/run/inventory\"\n\
                    counter_rules = \"counters.toml\"\n\
                    [rule]\nconfidence = \"99%\"\nremeasure = 2\nflaps_allowed = 3\nmarks = \"none\"\n\
                    dip = \"30%\"\nfloor_factor = 2\nramp_factor = 3.5\nstall = \"100ms\"\nlost = \"20%\"\ngap = 0.4\n";
        let suite = check(&format!("{text}{TEST}")).unwrap();
        assert_eq!(suite.run.ranks, Some(4));
        assert_eq!(suite.run.procs, Some(true));
        assert_eq!(suite.run.transport, Some(TransportChoice::Tcp));
        assert_eq!(suite.run.device, Some(DeviceKind::Host));
        assert_eq!(suite.run.engine, Some(EngineChoice::Both));
        assert_eq!(suite.run.rails, Some(vec!["a=127.0.1.1".to_string()]));
        assert_eq!(suite.run.seed, Some(9));
        assert_eq!(suite.run.deadline, Some(Nanos::from_secs(5)));
        assert_eq!(suite.run.budget, Some(Nanos::from_secs(60)));
        assert_eq!(suite.run.join_deadline, Some(Nanos::from_secs(120)));
        assert_eq!(suite.run.data_port, Some(30_000));
        assert_eq!(suite.run.switch_counters.as_deref(), Some("/run/switches"));
        assert_eq!(suite.run.golden.as_deref(), Some("golden.toml"));
        assert_eq!(suite.run.since.as_deref(), Some("reports/last"));
        assert_eq!(suite.run.switch_inventory.as_deref(), Some("/run/inventory"));
        assert_eq!(suite.run.counter_rules.as_deref(), Some("counters.toml"));
        assert_eq!(suite.rule.confidence, 0.99);
        assert_eq!(suite.rule.remeasure, 2);
        assert_eq!(suite.rule.flaps_allowed, 3);
        assert_eq!(suite.rule.marks, record::MarksRule::None);
        let shapes = ShapeRule {
            dip: 0.3,
            floor_factor: 2.0,
            ramp_factor: 3.5,
            stall: Nanos(100_000_000),
            lost: 0.2,
            gap: 0.4,
        };
        assert_eq!(suite.rule.shapes, shapes);
        assert_eq!(
            suite.rule.straggler_factor,
            DecisionRule::default().straggler_factor
        );
    }

    #[test]
    fn a_wrong_setting_is_placed_and_says_what_would_be_right() {
        let cases = [
            (
                "run",
                "ranks = 0",
                "x.toml:3:9: `ranks` must be a whole number from 1 to 1024, found `0`",
            ),
            (
                "run",
                "ranks = \"4\"",
                "x.toml:3:9: `ranks` must be a whole number from 1 to 1024, found the text `4`",
            ),
            (
                "run",
                "procs = 1",
                "x.toml:3:9: `procs` must be `true` or `false`, found `1`",
            ),
            (
                "run",
                "transport = \"tpc\"",
                "x.toml:3:13: unknown transport `tpc`; known are auto, shm, tcp, peer, verbs; did you mean `tcp`?",
            ),
            (
                "run",
                "device = \"gpu\"",
                "x.toml:3:10: unknown device `gpu`; known are host, cuda",
            ),
            (
                "run",
                "rails = \"eth0\"",
                "x.toml:3:9: `rails` must be a list such as",
            ),
            ("run", "rails = []", "x.toml:3:9: `rails` is an empty list"),
            (
                "run",
                "deadline = \"30\"",
                "x.toml:3:12: `deadline`: `30` is not a duration; write it like 250us",
            ),
            (
                "run",
                "switch_counters = \"exec:reboot\"",
                "x.toml:3:19: a suite names files, not commands",
            ),
            (
                "run",
                "budget = \"0s\"",
                "x.toml:3:10: `budget` must be longer than 0",
            ),
            (
                "rule",
                "confidence = 95",
                "x.toml:3:14: `confidence` must be a percentage above 50% and below 100%",
            ),
            (
                "rule",
                "false_positive_budget = \"0%\"",
                "x.toml:3:25: `false_positive_budget` must be a percentage",
            ),
            (
                "rule",
                "floor_factor = 1",
                "x.toml:3:16: `floor_factor` must be more than 1",
            ),
            (
                "rule",
                "stall = \"0s\"",
                "x.toml:3:9: `stall` must be longer than 0",
            ),
            (
                "rule",
                "straggler_factor = 1",
                "x.toml:3:20: `straggler_factor` must be more than 1",
            ),
        ];
        for (table, line, wanted) in cases {
            let found = complaint(table, line);
            assert!(
                found.starts_with(wanted),
                "{line}\n  found  {found}\n  wanted {wanted}"
            );
        }
    }

    #[test]
    fn two_tests_of_one_name_are_refused_at_the_second() {
        let found = check(&format!("name = \"s\"\n{TEST}{TEST}")).unwrap_err();
        assert!(
            found.starts_with("x.toml:6:8: two tests are called `t`"),
            "{found}"
        );
    }

    #[test]
    fn a_name_that_would_escape_the_reports_folder_is_refused() {
        for name in ["../x", "", "a b", "a/b", ".hidden", &"x".repeat(65)] {
            let found = check(&format!("name = \"{name}\"\n{TEST}")).unwrap_err();
            assert!(found.starts_with("x.toml:1:8: `name` must be"), "{found}");
        }
    }
}

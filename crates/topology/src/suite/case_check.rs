//! From a `[[test]]` table to a test case.
//!
//! A key that its kind of test would ignore is an error.

use super::error::SuiteError;
use super::kind_keys;
use super::reader::{Item, Section};
use super::sweep::{LARGEST_SIZE, MOST_SIZES, Step, Sweep};
use super::{
    AlgorithmChoice, BaselineChoice, EcmpSettings, Expectation, Groups, ProbeSettings, Schedule, SpecChoice,
    Striping, TestCase, TrafficSettings, TransportChoice,
};
use record::units::Bytes;
use record::{Algorithm, Collective, TestKind};

/// The most iterations, and the most warm-up iterations, of one cell.
const MOST_ITERATIONS: u32 = 1_000_000;

/// The highest rank a group may name.
const HIGHEST_RANK: u32 = 999_999;

/// What the payload of a probe may be: it carries a header, and must fit in any frame.
const PROBE_SIZES: (Bytes, Bytes) = (Bytes(32), Bytes(1400));

/// The accepted distance below a recorded run, unless the suite gives one.
const DEFAULT_MARGIN: f64 = 0.05;

/// Reads one `[[test]]`.
pub(super) fn read(section: &Section<'_>) -> Result<TestCase, SuiteError> {
    let kind = match section.get("kind") {
        Some(item) => item.word()?,
        None => TestKind::default(),
    };
    kind_keys::refuse_others(section, kind)?;
    let sizes = match kind {
        // The streams run for a time, not for a size.
        TestKind::Ecmp | TestKind::Fairness | TestKind::Permutation => vec![Bytes(0)],
        TestKind::Probe => vec![probe_size(section)?],
        _ => sizes(&section.require("sizes")?)?,
    };
    let mut test = TestCase::new(section.name()?, kind, sizes);
    read_operation(section, &mut test)?;
    read_engine(section, &mut test)?;
    read_ranks_and_rails(section, &mut test)?;
    read_duration(section, &mut test)?;
    if let Some(item) = section.get("expect").filter(|_| kind != TestKind::Permutation) {
        test.expect = expectation(&item.must_be_section("[test.expect]")?)?;
    }
    if test.combinations() > MOST_SIZES {
        return Err(section.error(format!(
            "test `{}` has {} combinations of size, type, operator, algorithm and placement; at most {MOST_SIZES} are accepted",
            test.name,
            test.combinations()
        )));
    }
    Ok(test)
}

fn read_operation(section: &Section<'_>, test: &mut TestCase) -> Result<(), SuiteError> {
    if let Some(item) = section.get("directions") {
        test.directions = item.word()?;
        test.collectives = test.directions.collectives().to_vec();
    }
    if let Some(item) = section.get("collective") {
        test.collectives = item.words()?;
        if let Some(collective) = test.collectives.iter().find(|c| c.is_pairwise()) {
            let kind = match collective {
                Collective::RoundTrip => TestKind::Latency,
                Collective::Streams => TestKind::Ecmp,
                Collective::Probes => TestKind::Probe,
                _ => TestKind::Pairs,
            };
            return Err(item.error(format!(
                "{collective} takes exactly two ranks: write a test of kind = \"{kind}\""
            )));
        }
    }
    if let Some(item) = section.get("algorithm") {
        test.algorithms = algorithms(&item, &test.collectives)?;
    }
    if let Some(item) = section.get("type") {
        test.dtypes = item.words()?;
    }
    if let Some(item) = section.get("op") {
        test.ops = item.words()?;
    }
    if let Some(item) = section.get("placement") {
        test.placements = item.words()?;
    }
    Ok(())
}

fn read_engine(section: &Section<'_>, test: &mut TestCase) -> Result<(), SuiteError> {
    if let Some(item) = section.get("engine") {
        test.engine = Some(item.word()?);
    }
    if let Some(item) = section.get("batch") {
        test.batch = item.whole(1..=TestCase::MOST_IN_A_BATCH)?;
    }
    Ok(())
}

fn read_ranks_and_rails(section: &Section<'_>, test: &mut TestCase) -> Result<(), SuiteError> {
    if let Some(item) = section.get("transport") {
        let transport = item.word()?;
        if test.kind.needs_rails() && transport == TransportChoice::Shm {
            return Err(item.error(format!(
                "shared memory has no rails: a test of kind \"{}\" runs over tcp or verbs",
                test.kind
            )));
        }
        test.transport = Some(transport);
    }
    match section.get("groups") {
        Some(item) if test.kind == TestKind::Groups => test.fabric_groups = item.words()?,
        Some(item) => test.groups = groups(&item)?,
        None => {}
    }
    if let Some(item) = section.get("schedule") {
        test.schedule = schedule(&item)?;
        if test.schedule == Schedule::Adaptive && test.kind != TestKind::Pairs {
            return Err(
                item.error("an adaptive schedule locates slow links; use it in a test of kind \"pairs\"")
            );
        }
    }
    if let Some(item) = section.get("rails") {
        test.pairing = item.word()?;
        let may_cross = matches!(test.schedule, Schedule::Tournament | Schedule::Random(_));
        if test.pairing.has_cross() && !may_cross {
            return Err(item.error(format!(
                "pairs across rails are chosen by a tournament or at random, not by the {} schedule",
                test.schedule
            )));
        }
    }
    if let Some(item) = section.get("senders") {
        test.senders = Some(item.whole(1..=HIGHEST_RANK)?);
    }
    if let Some(item) = section.get("stripe") {
        test.stripe = if item.flag()? {
            Striping::EachAndAll
        } else {
            Striping::Each
        };
    }
    if test.kind == TestKind::Probe {
        test.probe = ProbeSettings::read(section)?;
    }
    if test.kind == TestKind::Fairness
        && let Some(window) = section.duration("window")?
    {
        test.ecmp.window = window;
    }
    if test.kind == TestKind::Ecmp {
        test.ecmp = EcmpSettings::read(section)?;
    } else if test.kind == TestKind::Permutation {
        (test.traffic, test.flows) = TrafficSettings::read(section)?;
    } else if let Some(item) = section.get("flows") {
        test.flows = item.whole(1..=256)?;
        if test.schedule.needs_paths() && test.flows > 1 {
            return Err(item.error(
                "this schedule chooses the path of every flow by its source port: several connections would take several paths",
            ));
        }
    }
    if let Some(item) = section.get("source_port") {
        test.source_port = Some(item.whole(1024..=u16::MAX)?);
    }
    if let Some(item) = section.get("root") {
        test.root = item.whole(0..=HIGHEST_RANK)?;
    }
    Ok(())
}

fn read_duration(section: &Section<'_>, test: &mut TestCase) -> Result<(), SuiteError> {
    if let Some(item) = section.get("warmup") {
        test.warmup = item.whole(0..=MOST_ITERATIONS)?;
    }
    if let Some(item) = section.get("iterations") {
        (test.min_iterations, test.max_iterations) = iterations(&item)?;
    }
    if let Some(item) = section.get("tight") {
        test.tight = item.share(0.0, 1.0)?;
    }
    if let Some(budget) = section.duration("budget")? {
        test.budget = budget;
    }
    if let Some(item) = section.get("verify") {
        test.verify_every = verify_every(&item)?;
    }
    Ok(())
}

fn size(item: &Item<'_>) -> Result<Bytes, SuiteError> {
    let size = match item.integer() {
        Some(bytes) => u64::try_from(bytes).map(Bytes).ok(),
        None => Some(item.quantity()?),
    };
    size.filter(|size| *size <= LARGEST_SIZE)
        .ok_or_else(|| item.expected(&format!("a size from 0 to {LARGEST_SIZE}")))
}

fn sizes(item: &Item<'_>) -> Result<Vec<Bytes>, SuiteError> {
    let Some(sweep) = item.section("`sizes`") else {
        let mut sizes: Vec<Bytes> = Vec::new();
        for member in item.one_or_many()? {
            let size = size(&member)?;
            if !sizes.contains(&size) {
                sizes.push(size);
            }
            if sizes.len() > MOST_SIZES {
                return Err(item.error(format!("more than {MOST_SIZES} sizes")));
            }
        }
        return Ok(sizes);
    };
    let from = size(&sweep.require("from")?)?;
    let to = size(&sweep.require("to")?)?;
    let (step, given_by) = match (sweep.get("factor"), sweep.get("step")) {
        (Some(_), Some(step)) => return Err(step.error("a sweep has either `factor` or `step`, not both")),
        (Some(factor), None) => (Step::Factor(factor.whole(2..=u64::MAX)?), factor),
        (None, Some(step)) => (Step::Add(size(&step)?), step),
        (None, None) => return Err(item.error("a sweep needs `factor` or `step`")),
    };
    let place = if from > to {
        sweep.require("from")?
    } else {
        given_by
    };
    let sweep = Sweep::new(from, to, step).map_err(|error| place.error(error.to_string()))?;
    Ok(sweep.sizes())
}

/// The one size of a test's probes, without the headers of UDP.
fn probe_size(section: &Section<'_>) -> Result<Bytes, SuiteError> {
    let Some(item) = section.get("sizes") else {
        return Ok(ProbeSettings::SIZE);
    };
    let (least, most) = PROBE_SIZES;
    match sizes(&item)?.as_slice() {
        [size] if (least..=most).contains(size) => Ok(*size),
        [_] => Err(item.expected(&format!("a list of one size from {} B to {} B", least.0, most.0))),
        _ => Err(item.expected("a list of one size")),
    }
}

fn algorithms(item: &Item<'_>, collectives: &[Collective]) -> Result<AlgorithmChoice, SuiteError> {
    if item.text() == Ok("all") {
        return Ok(AlgorithmChoice::All);
    }
    let algorithms: Vec<Algorithm> = item.words()?;
    for (algorithm, member) in algorithms.iter().zip(item.one_or_many()?) {
        for collective in collectives {
            let exist = collective.algorithms();
            if !exist.contains(algorithm) {
                let exist: Vec<&str> = exist.iter().map(|algorithm| algorithm.into()).collect();
                let message = format!(
                    "{collective} has no algorithm {algorithm}; use one of: {}",
                    exist.join(", ")
                );
                return Err(member.error(message));
            }
        }
    }
    Ok(AlgorithmChoice::These(algorithms))
}

/// `"tournament"`, `"topology"`, `"cover"`, `"adaptive"` or `{ random = 8 }`.
fn schedule(item: &Item<'_>) -> Result<Schedule, SuiteError> {
    if let Some(table) = item.section("`schedule`") {
        let rounds = table.require("random")?.whole(1..=Schedule::MOST_ROUNDS)?;
        return Ok(Schedule::Random(rounds));
    }
    let words = ["tournament", "topology", "cover", "adaptive"];
    let word = item.text()?;
    match words.contains(&word).then(|| word.parse()) {
        Some(Ok(schedule)) => Ok(schedule),
        _ => Err(item.unknown_word(word, "schedule", &words)),
    }
}

fn groups(item: &Item<'_>) -> Result<Groups, SuiteError> {
    if let Ok(word) = item.text() {
        return match word {
            "world" => Ok(Groups::World),
            "pairs" => Ok(Groups::Pairs),
            "halves" => Ok(Groups::Halves),
            _ => Err(item.unknown_word(word, "groups", &["world", "pairs", "halves"])),
        };
    }
    let mut groups = Vec::new();
    for member in item.list("world, pairs, halves or lists of ranks such as [[0, 1], [2, 3]]")? {
        let mut group = Vec::new();
        for rank in member.list("a list of ranks such as [0, 1]")? {
            let number = rank.whole(0..=HIGHEST_RANK)?;
            if group.contains(&number) {
                return Err(rank.error(format!("rank {number} is in this group twice")));
            }
            group.push(number);
        }
        groups.push(group);
    }
    Ok(Groups::Listed(groups))
}

fn iterations(item: &Item<'_>) -> Result<(u32, u32), SuiteError> {
    let Some(table) = item.section("`iterations`") else {
        let fixed = item.whole(1..=MOST_ITERATIONS)?;
        return Ok((fixed, fixed));
    };
    let min = table.require("min")?.whole(1..=MOST_ITERATIONS)?;
    let max = table.require("max")?.whole(1..=MOST_ITERATIONS)?;
    if min > max {
        return Err(item.error(format!("`min` ({min}) is more than `max` ({max})")));
    }
    Ok((min, max))
}

fn verify_every(item: &Item<'_>) -> Result<u32, SuiteError> {
    let every = match item.text()? {
        "every" => Some(1),
        "never" => Some(0),
        text => text
            .strip_prefix("1/")
            .and_then(|every| every.parse().ok())
            .filter(|every| (1..=MOST_ITERATIONS).contains(every)),
    };
    every.ok_or_else(|| item.expected("\"every\", \"never\" or a fraction such as \"1/8\""))
}

fn expectation(section: &Section<'_>) -> Result<Expectation, SuiteError> {
    let mut expect = Expectation::default();
    if let Some(item) = section.get("at_least") {
        return Err(item.error("`at_least` is for tests of kind \"permutation\""));
    }
    if let Some(item) = section.get("spec") {
        expect.spec = Some(match item.text()? {
            "auto" => SpecChoice::Auto,
            "" => return Err(item.expected("\"auto\" or the id of a row in suites/specs")),
            row => SpecChoice::Row(row.to_string()),
        });
    }
    if let Some(item) = section.get("peers") {
        expect.peers = Some(item.share(0.0, 1.0)?);
    }
    let margin = section.get("margin");
    if let Some(item) = section.get("baseline") {
        let run = item.text()?.to_string();
        if run.is_empty() {
            return Err(item.expected("the folder of a recorded run"));
        }
        expect.baseline = Some(BaselineChoice {
            run,
            margin: match &margin {
                Some(margin) => margin.share(0.0, 1.0)?,
                None => DEFAULT_MARGIN,
            },
        });
    } else if let Some(margin) = margin {
        return Err(margin
            .error("`margin` is the accepted distance below a `baseline`; add a `baseline` or remove it"));
    }
    Ok(expect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SuiteFile;
    use record::GroupKind;

    /// A test of this kind with this line (line 6).
    fn check(kind: &str, line: &str) -> Result<TestCase, String> {
        let text =
            format!("name = \"s\"\n[[test]]\nname = \"t\"\nkind = \"{kind}\"\nsizes = [\"8\"]\n{line}\n");
        let file = SuiteFile::parse(&text, "x.toml").map_err(|error| error.to_string())?;
        let suite = file.check().map_err(|error| error.to_string())?;
        Ok(suite.tests[0].clone())
    }

    #[test]
    fn what_the_new_kinds_say_arrives() {
        assert_eq!(check("incast", "senders = 7").unwrap().senders, Some(7));
        let groups = check("groups", "groups = [\"leaf\", \"cross-spine\"]").unwrap();
        assert_eq!(groups.fabric_groups, [GroupKind::Leaf, GroupKind::CrossSpine]);
        assert_eq!(check("groups", "").unwrap().fabric_groups.len(), 5);
        assert_eq!(check("latency", "").unwrap().collectives, [Collective::RoundTrip]);
        assert_eq!(
            check("all-to-all", "").unwrap().collectives,
            [Collective::AllToAll]
        );
    }

    #[test]
    fn a_schedule_is_a_word_or_a_number_of_random_rounds() {
        let schedule = |line: &str| check("pairs", line).map(|test| test.schedule);
        assert_eq!(schedule(""), Ok(Schedule::Tournament));
        assert_eq!(schedule("schedule = \"topology\""), Ok(Schedule::Topology));
        assert_eq!(schedule("schedule = \"cover\""), Ok(Schedule::Cover));
        assert_eq!(schedule("schedule = { random = 4 }"), Ok(Schedule::Random(4)));
        assert_eq!(schedule("schedule = \"adaptive\""), Ok(Schedule::Adaptive));
        let several = schedule("schedule = \"adaptive\"\nflows = 4").unwrap_err();
        assert!(
            several.contains("several connections would take several paths"),
            "{several}"
        );
        let found = schedule("schedule = \"turnament\"").unwrap_err();
        assert!(found.starts_with("x.toml:6:12: unknown schedule"), "{found}");
        assert!(found.contains("did you mean `tournament`?"), "{found}");
        assert!(
            schedule("schedule = { random = 0 }")
                .unwrap_err()
                .contains("from 1")
        );
        assert!(
            schedule("schedule = { rounds = 3 }")
                .unwrap_err()
                .contains("unknown key `rounds`")
        );
        let found = check("latency", "schedule = \"adaptive\"").unwrap_err();
        assert!(found.contains("kind \"pairs\""), "{found}");
        for text in ["tournament", "topology", "cover", "adaptive", "random=7"] {
            let typed: Schedule = text.parse().unwrap();
            assert_eq!(typed.to_string().replace(' ', ""), text);
        }
        assert!("random=0".parse::<Schedule>().is_err());
    }

    #[test]
    fn pairs_across_rails_are_asked_for_by_name() {
        assert!(check("pairs", "rails = \"both\"").unwrap().pairing.has_cross());
        assert!(!check("pairs", "").unwrap().pairing.has_cross());
        assert!(!check("pairs", "rails = \"cross\"").unwrap().pairing.has_same());
        let found = check("pairs", "schedule = \"topology\"\nrails = \"cross\"").unwrap_err();
        assert!(found.starts_with("x.toml:7:9: pairs across rails"), "{found}");
        assert!(
            check("latency", "rails = \"same\"")
                .unwrap_err()
                .contains("does not use")
        );
    }

    #[test]
    fn a_margin_belongs_to_a_baseline() {
        let expect = check("pairs", "[test.expect]\nbaseline = \"runs/a\"")
            .unwrap()
            .expect;
        assert_eq!(expect.baseline.unwrap().margin, 0.05);
        let found = check("pairs", "[test.expect]\nmargin = \"5%\"").unwrap_err();
        assert!(found.starts_with("x.toml:7:10: `margin`"), "{found}");
    }

    #[test]
    fn a_key_that_a_kind_would_ignore_is_refused_where_it_stands() {
        for (kind, line) in [
            ("incast", "directions = \"both\""),
            ("all-to-all", "senders = 3"),
            ("latency", "op = \"sum\""),
            ("groups", "stripe = true"),
            ("pairs", "senders = 3"),
        ] {
            let found = check(kind, line).unwrap_err();
            assert!(
                found.starts_with("x.toml:6:") && found.contains("does not use"),
                "{found}"
            );
        }
        let found = check("groups", "groups = [\"leafs\"]").unwrap_err();
        assert!(found.contains("did you mean `leaf`?"), "{found}");
        let found = check("collective", "collective = \"round-trip\"").unwrap_err();
        assert!(found.contains("kind = \"latency\""), "{found}");
    }
}

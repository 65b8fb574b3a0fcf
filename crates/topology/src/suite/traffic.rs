//! The patterns of a test of kind `permutation`.

use super::error::SuiteError;
use super::reader::{Item, Section};
use record::pairs_of_words;
use record::units::Nanos;

/// The most patterns of one kind that are drawn or searched for on a rail.
const MOST_PATTERNS: u16 = 32;
/// The most connections between two ranks of a pattern.
const MOST_FLOWS: u16 = 16;

/// Patterns of traffic of a test of kind `permutation`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficSettings {
    /// Permutations drawn by lot, what others are compared with.
    pub random: u16,
    /// The worst patterns that are searched for.
    pub worst: u16,
    /// How long flows are watched in one iteration.
    pub window: Nanos,
    /// Who sends to whom, where only this is measured; empty otherwise.
    pub pairs: Vec<(u32, u32)>,
    /// The percentage of what the topology should carry that a pattern must get.
    pub at_least: Option<u8>,
}

impl Default for TrafficSettings {
    fn default() -> TrafficSettings {
        TrafficSettings {
            random: 3,
            worst: 2,
            window: Nanos(400_000_000),
            pairs: Vec::new(),
            at_least: None,
        }
    }
}

impl TrafficSettings {
    /// Keys that no other kind of test has, or only some.
    pub(super) const KEYS: [&'static str; 4] = ["random", "worst", "pairs", "window"];

    /// Reads the settings of a `[[test]]` of that kind, and how many flows each of its pairs has.
    pub(super) fn read(section: &Section<'_>) -> Result<(TrafficSettings, u16), SuiteError> {
        let mut settings = TrafficSettings::default();
        if let Some(item) = section.get("random") {
            settings.random = item.whole(0..=MOST_PATTERNS)?;
        }
        if let Some(item) = section.get("worst") {
            settings.worst = item.whole(0..=MOST_PATTERNS)?;
        }
        if let Some(window) = section.duration("window")? {
            settings.window = window;
        }
        if let Some(item) = section.get("pairs") {
            settings.pairs = pairs(&item)?;
        }
        if let Some(item) = section.get("expect") {
            let expect = item.must_be_section("[test.expect]")?;
            for key in ["spec", "peers", "baseline", "margin"] {
                if let Some(item) = expect.get(key) {
                    return Err(item.error(format!(
                        "patterns of traffic are compared with what the topology should carry; use `at_least`, not `{key}`"
                    )));
                }
            }
            if let Some(item) = expect.get("at_least") {
                settings.at_least = Some((item.share(0.0, 1.0)? * 100.0).round() as u8);
            }
        }
        let flows = section.get("flows").map(|item| item.whole(1..=MOST_FLOWS));
        Ok((settings, flows.transpose()?.unwrap_or(1)))
    }
}

fn pairs(item: &Item<'_>) -> Result<Vec<(u32, u32)>, SuiteError> {
    let pairs = pairs_of_words(item.text()?).map_err(|word| {
        item.error(format!(
            "`{word}` is not two different ranks; write who sends to whom, as \"0>3 1>2\""
        ))
    })?;
    match pairs.is_empty() {
        true => Err(item.expected("who sends to whom, as \"0>3 1>2\"")),
        false => Ok(pairs),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SuiteFile;
    use super::*;
    use record::TestKind;

    fn first(test: &str) -> Result<super::super::TestCase, String> {
        let text = format!("name = \"s\"\n[[test]]\nname = \"t\"\n{test}\n");
        let file = SuiteFile::parse(&text, "x.toml").map_err(|error| error.to_string())?;
        let suite = file.check().map_err(|error| error.to_string())?;
        Ok(suite.tests[0].clone())
    }

    #[test]
    fn what_a_test_says_about_its_patterns_arrives() {
        let test = first(
            "kind = \"permutation\"\nrandom = 5\nworst = 0\nflows = 4\nwindow = \"250ms\"\npairs = \"0>3 1>2\"\n[test.expect]\nat_least = \"50%\"",
        )
        .unwrap();
        assert_eq!((test.kind, test.flows), (TestKind::Permutation, 4));
        let settings = TrafficSettings {
            random: 5,
            worst: 0,
            window: Nanos(250_000_000),
            pairs: vec![(0, 3), (1, 2)],
            at_least: Some(50),
        };
        assert_eq!(test.traffic, settings);
        assert_eq!(
            first("kind = \"permutation\"").unwrap().traffic,
            TrafficSettings::default()
        );
    }

    #[test]
    fn what_means_nothing_for_patterns_is_refused() {
        let cases = [
            ("kind = \"permutation\"\nsizes = [\"1M\"]", "does not use `sizes`"),
            (
                "kind = \"permutation\"\nsource_port = 20000",
                "does not use `source_port`",
            ),
            (
                "kind = \"permutation\"\npairs = \"0>3 2\"",
                "`2` is not two different ranks",
            ),
            ("kind = \"permutation\"\npairs = \"\"", "who sends to whom"),
            (
                "kind = \"permutation\"\n[test.expect]\npeers = \"5%\"",
                "use `at_least`, not `peers`",
            ),
            (
                "kind = \"pairs\"\nsizes = [\"1M\"]\n[test.expect]\nat_least = \"5%\"",
                "`at_least` is for tests of kind \"permutation\"",
            ),
            (
                "kind = \"pairs\"\nsizes = [\"1M\"]\nworst = 2",
                "does not use `worst`",
            ),
            (
                "kind = \"permutation\"\ntransport = \"shm\"",
                "shared memory has no rails",
            ),
        ];
        for (test, wanted) in cases {
            let found = first(test).unwrap_err();
            assert!(
                found.contains(wanted),
                "{test}\n  found  {found}\n  wanted {wanted}"
            );
        }
    }
}

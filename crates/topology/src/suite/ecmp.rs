//! The stream settings of a test of kind `ecmp`.

use strum::{Display, EnumString, VariantNames};

use super::error::SuiteError;
use super::reader::Section;
use record::units::Nanos;

/// The most streams between two ranks.
const MOST_FLOWS: u16 = 1024;
/// The most sets of source ports.
const MOST_SETS: u16 = 64;

/// Whether each of a sender's streams has a source port of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum SourcePorts {
    /// Every stream has its own port.
    #[default]
    Varied,
    /// All come from one port, so that no switch can distinguish them.
    One,
}

/// The streams of a test of kind `ecmp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EcmpSettings {
    /// Streams between two ranks: one measurement for each number.
    pub flows: Vec<u16>,
    /// Sets of source ports, each with another partner where there is one.
    pub sets: u16,
    /// How long streams are watched in one iteration.
    pub window: Nanos,
    /// Whether each stream has a source port of its own.
    pub source_ports: SourcePorts,
}

impl Default for EcmpSettings {
    fn default() -> EcmpSettings {
        EcmpSettings {
            flows: vec![8, 32],
            sets: 4,
            window: Nanos(400_000_000),
            source_ports: SourcePorts::default(),
        }
    }
}

impl EcmpSettings {
    /// Keys that no other kind of test has, or only some.
    pub(super) const KEYS: [&'static str; 3] = ["sets", "window", "source_ports"];

    /// Reads the settings of a `[[test]]` of that kind.
    pub(super) fn read(section: &Section<'_>) -> Result<EcmpSettings, SuiteError> {
        let mut settings = EcmpSettings::default();
        if let Some(item) = section.get("flows") {
            settings.flows.clear();
            for member in item.one_or_many()? {
                let flows = member.whole(1..=MOST_FLOWS)?;
                if !settings.flows.contains(&flows) {
                    settings.flows.push(flows);
                }
            }
        }
        if let Some(item) = section.get("sets") {
            settings.sets = item.whole(1..=MOST_SETS)?;
        }
        if let Some(window) = section.duration("window")? {
            settings.window = window;
        }
        if let Some(item) = section.get("source_ports") {
            settings.source_ports = item.word()?;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use record::TestKind;

    use super::super::SuiteFile;
    use super::*;

    fn first(test: &str) -> Result<super::super::TestCase, String> {
        let text = format!("name = \"s\"\n[[test]]\nname = \"t\"\n{test}\n");
        let file = SuiteFile::parse(&text, "x.toml").map_err(|error| error.to_string())?;
        let suite = file.check().map_err(|error| error.to_string())?;
        Ok(suite.tests[0].clone())
    }

    #[test]
    fn what_a_test_says_about_its_streams_arrives() {
        let test = first(
            "kind = \"ecmp\"\nflows = [4, 16, 4]\nsets = 3\nwindow = \"250ms\"\nsource_ports = \"one\"\nsource_port = 30000",
        )
        .unwrap();
        assert_eq!(test.kind, TestKind::Ecmp);
        let settings = EcmpSettings {
            flows: vec![4, 16],
            sets: 3,
            window: Nanos(250_000_000),
            source_ports: SourcePorts::One,
        };
        assert_eq!(test.ecmp, settings);
        assert_eq!(test.source_port, Some(30000));
        assert_eq!(first("kind = \"ecmp\"").unwrap().ecmp, EcmpSettings::default());
    }

    #[test]
    fn keys_that_mean_nothing_for_the_kind_are_refused() {
        let cases = [
            (
                "kind = \"ecmp\"\nsizes = [\"1M\"]",
                "a test of kind \"ecmp\" does not use `sizes`",
            ),
            (
                "kind = \"ecmp\"\nflows = 0",
                "`flows` must be a whole number from 1 to 1024",
            ),
            (
                "kind = \"ecmp\"\nwindow = \"0s\"",
                "`window` must be longer than 0",
            ),
            (
                "kind = \"ecmp\"\nsource_ports = \"all\"",
                "unknown source_ports `all`",
            ),
            (
                "kind = \"ecmp\"\nsource_ports = \"one\"\ntransport = \"shm\"",
                "shared memory has no rails",
            ),
            (
                "kind = \"pairs\"\nsizes = [\"1M\"]\nsets = 2",
                "a test of kind \"pairs\" does not use `sets`",
            ),
            ("kind = \"pairs\"\ndirections = \"one-way\"", "`sizes`"),
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

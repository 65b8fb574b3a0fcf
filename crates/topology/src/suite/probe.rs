//! The settings of a test of kind `probe`.

use super::error::SuiteError;
use super::reader::Section;
use record::units::{Bytes, Nanos};

/// The most packets that a rank may be told to send on a rail in a second.
const MOST_PACKETS: u32 = 1_000_000;
/// The most partners of a rank at the same time.
const MOST_PARTNERS: u16 = 256;
/// The most sets of partners.
const MOST_SETS: u16 = 1000;
/// The most flows that every link may be asked to be crossed by.
const MOST_PER_LINK: u16 = 64;
/// Probes may take up to this much of a cable.
const MOST_SHARE: f64 = 0.2;

/// Small packets between many ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeSettings {
    /// The most of a cable that probes take, as a share of its rate.
    pub share: f64,
    /// The most packets that a rank sends on a rail in a second.
    pub packets_per_second: u32,
    /// To how many others a rank sends at the same time.
    pub partners: u16,
    /// Sets of partners, one after another.
    pub sets: u16,
    /// How many flows cross every link: of those to all partners only so many are sent, where paths are known. All of them where it is not said.
    pub flows_per_link: Option<u16>,
    /// How long an iteration takes.
    pub window: Nanos,
    /// Only on rails over which packets are sprayed: TCP takes packets that overtake each other for lost, so that its own counts say little there.
    pub sprayed_only: bool,
}

impl Default for ProbeSettings {
    fn default() -> ProbeSettings {
        ProbeSettings {
            share: 0.01,
            packets_per_second: 2000,
            partners: 4,
            sets: 16,
            flows_per_link: None,
            window: Nanos::from_secs(1),
            sprayed_only: false,
        }
    }
}

impl ProbeSettings {
    /// Payload of a packet, unless the suite gives one.
    pub const SIZE: Bytes = Bytes(32);

    /// Keys that no other kind of test has, or only some.
    pub(super) const KEYS: [&'static str; 7] = [
        "share",
        "packets_per_second",
        "partners",
        "sets",
        "flows_per_link",
        "window",
        "sprayed_only",
    ];

    /// Reads the settings of a `[[test]]` of that kind.
    pub(super) fn read(section: &Section<'_>) -> Result<ProbeSettings, SuiteError> {
        let mut settings = ProbeSettings::default();
        if let Some(item) = section.get("share") {
            settings.share = item.share(0.0, MOST_SHARE)?;
        }
        if let Some(item) = section.get("packets_per_second") {
            settings.packets_per_second = item.whole(1..=MOST_PACKETS)?;
        }
        if let Some(item) = section.get("partners") {
            settings.partners = item.whole(1..=MOST_PARTNERS)?;
        }
        if let Some(item) = section.get("sets") {
            settings.sets = item.whole(1..=MOST_SETS)?;
        }
        if let Some(item) = section.get("flows_per_link") {
            settings.flows_per_link = Some(item.whole(1..=MOST_PER_LINK)?);
        }
        if let Some(window) = section.duration("window")? {
            settings.window = window;
        }
        if let Some(item) = section.get("sprayed_only") {
            settings.sprayed_only = item.flag()?;
        }
        Ok(settings)
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
    fn what_a_test_says_about_its_probes_arrives() {
        let test = first(
            "kind = \"probe\"\nshare = \"0.5%\"\npackets_per_second = 500\npartners = 2\nsets = 6\nflows_per_link = 1\nwindow = \"250ms\"\nsprayed_only = true\nsizes = [\"200\"]",
        )
        .unwrap();
        assert_eq!(test.kind, TestKind::Probe);
        let settings = ProbeSettings {
            share: 0.005,
            packets_per_second: 500,
            partners: 2,
            sets: 6,
            flows_per_link: Some(1),
            window: Nanos(250_000_000),
            sprayed_only: true,
        };
        assert_eq!(test.probe, settings);
        assert_eq!(test.sizes, [record::units::Bytes(200)]);
        let plain = first("kind = \"probe\"").unwrap();
        assert_eq!(plain.probe, ProbeSettings::default());
        assert_eq!(
            (plain.warmup, plain.min_iterations, plain.max_iterations),
            (0, 3, 3)
        );
    }

    #[test]
    fn what_probes_cannot_be_is_refused() {
        let cases = [
            ("kind = \"probe\"\nshare = \"0%\"", "above 0% and below 20%"),
            ("kind = \"probe\"\nshare = \"30%\"", "`share`"),
            ("kind = \"probe\"\npartners = 0", "from 1 to 256"),
            ("kind = \"probe\"\nflows_per_link = 0", "from 1 to 64"),
            (
                "kind = \"probe\"\ntransport = \"tcp\"",
                "does not use `transport`",
            ),
            ("kind = \"probe\"\nsizes = [\"16\"]", "from 32 B to 1400 B"),
            ("kind = \"probe\"\nsizes = [\"64\", \"128\"]", "one size"),
            (
                "kind = \"probe\"\nsource_ports = \"one\"",
                "does not use `source_ports`",
            ),
            ("kind = \"ecmp\"\npartners = 3", "does not use `partners`"),
            (
                "kind = \"pairs\"\nsizes = [\"1M\"]\nshare = \"1%\"",
                "does not use `share`",
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

//! RDMA settings, from a suite's `[verbs]` table and from the command line. The command line wins.

use strum::{Display, EnumString, VariantNames};

use super::error::SuiteError;
use super::reader::Section;
use record::{Completion, MemoryPath, VerbsTerms};

/// How completions are noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum CompletionChoice {
    /// By events where ranks share cores, else by polling.
    #[default]
    Auto,
    /// By polling the completion queue.
    Poll,
    /// By sleeping until a completion event.
    Event,
}

/// Whether NICs access GPU memory directly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum GpuDirectChoice {
    /// Where the NICs of every rank can.
    #[default]
    Auto,
    /// They must; a run in which they cannot is refused.
    On,
    /// Never: data is staged through pinned host memory.
    Off,
}

/// RDMA settings; `None` is not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerbsSettings {
    /// Service level, or priority.
    pub service_level: Option<u8>,
    /// Traffic class of the packets' IP header.
    pub traffic_class: Option<u8>,
    /// Largest packet payload in bytes.
    pub path_mtu: Option<u16>,
    /// Which of the port's addresses.
    pub gid_index: Option<u8>,
    /// How completions are noticed.
    pub completion: Option<CompletionChoice>,
    /// Whether NICs access GPU memory directly.
    pub gpudirect: Option<GpuDirectChoice>,
}

impl VerbsSettings {
    /// The keys of the table.
    pub(super) const KEYS: &'static [&'static str] = &[
        "service_level",
        "traffic_class",
        "path_mtu",
        "gid_index",
        "completion",
        "gpudirect",
    ];
    /// The highest service level there is.
    pub const HIGHEST_LEVEL: u8 = 15;
    /// The packet payloads that there are.
    pub const PATH_MTUS: [u16; 5] = [256, 512, 1024, 2048, 4096];

    /// Reads a `[verbs]` table.
    pub(super) fn read(section: &Section<'_>) -> Result<VerbsSettings, SuiteError> {
        let mut settings = VerbsSettings::default();
        if let Some(item) = section.get("service_level") {
            settings.service_level = Some(item.whole(0..=Self::HIGHEST_LEVEL)?);
        }
        if let Some(item) = section.get("traffic_class") {
            settings.traffic_class = Some(item.whole(0..=u8::MAX)?);
        }
        if let Some(item) = section.get("path_mtu") {
            let mtu = item.integer().and_then(|bytes| u16::try_from(bytes).ok());
            let mtu = mtu.filter(|mtu| Self::PATH_MTUS.contains(mtu));
            settings.path_mtu = Some(mtu.ok_or_else(|| item.expected("256, 512, 1024, 2048 or 4096"))?);
        }
        if let Some(item) = section.get("gid_index") {
            settings.gid_index = Some(item.whole(0..=u8::MAX)?);
        }
        if let Some(item) = section.get("completion") {
            settings.completion = Some(item.word()?);
        }
        if let Some(item) = section.get("gpudirect") {
            settings.gpudirect = Some(item.word()?);
        }
        Ok(settings)
    }

    /// These settings, overridden by those that `stronger` sets.
    pub fn overridden_by(&self, stronger: &VerbsSettings) -> VerbsSettings {
        VerbsSettings {
            service_level: stronger.service_level.or(self.service_level),
            traffic_class: stronger.traffic_class.or(self.traffic_class),
            path_mtu: stronger.path_mtu.or(self.path_mtu),
            gid_index: stronger.gid_index.or(self.gid_index),
            completion: stronger.completion.or(self.completion),
            gpudirect: stronger.gpudirect.or(self.gpudirect),
        }
    }

    /// Whether NICs access GPU memory directly.
    pub fn gpudirect(&self) -> GpuDirectChoice {
        self.gpudirect.unwrap_or_default()
    }

    /// The terms of cells that use this memory path.
    pub fn terms(&self, memory: MemoryPath) -> VerbsTerms {
        VerbsTerms {
            memory,
            service_level: self.service_level.unwrap_or(0),
            traffic_class: self.traffic_class.unwrap_or(0),
            path_mtu: self.path_mtu,
            gid_index: self.gid_index,
            completion: match self.completion.unwrap_or_default() {
                CompletionChoice::Auto => None,
                CompletionChoice::Poll => Some(Completion::Poll),
                CompletionChoice::Event => Some(Completion::Event),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SuiteFile;

    fn read(lines: &str) -> Result<VerbsSettings, String> {
        let text = format!("name = \"s\"\n[verbs]\n{lines}\n[[test]]\nname = \"t\"\nsizes = [\"8\"]\n");
        let file = SuiteFile::parse(&text, "x.toml").map_err(|error| error.to_string())?;
        Ok(file.check().map_err(|error| error.to_string())?.verbs)
    }

    #[test]
    fn the_terms_a_suite_states_are_those_of_its_cells() {
        let settings = read(
            "service_level = 3\ntraffic_class = 106\npath_mtu = 1024\ngid_index = 0\ncompletion = \"poll\"\n\
             gpudirect = \"off\"",
        )
        .unwrap();
        assert_eq!(settings.gpudirect(), GpuDirectChoice::Off);
        let terms = settings.terms(MemoryPath::Staged);
        assert_eq!((terms.service_level, terms.traffic_class), (3, 106));
        assert_eq!((terms.path_mtu, terms.gid_index), (Some(1024), Some(0)));
        assert_eq!(
            (terms.completion, terms.memory),
            (Some(Completion::Poll), MemoryPath::Staged)
        );
        let auto = read("completion = \"auto\"").unwrap();
        assert_eq!(auto.terms(MemoryPath::Host), VerbsTerms::default());
    }

    #[test]
    fn terms_that_no_queue_pair_has_are_refused_where_they_stand() {
        let cases = [
            (
                "service_level = 16",
                "x.toml:3:17: `service_level` must be a whole number from 0 to 15, found `16`",
            ),
            (
                "traffic_class = 256",
                "x.toml:3:17: `traffic_class` must be a whole number from 0 to 255, found `256`",
            ),
            (
                "path_mtu = 1500",
                "x.toml:3:12: `path_mtu` must be 256, 512, 1024, 2048 or 4096, found `1500`",
            ),
            (
                "gid_index = -1",
                "x.toml:3:13: `gid_index` must be a whole number",
            ),
            (
                "completion = \"pol\"",
                "x.toml:3:14: unknown completion `pol`; known are auto, poll, event; did you mean `poll`?",
            ),
            (
                "gpudirect = true",
                "x.toml:3:13: `gpudirect` must be a text, found `true`",
            ),
            (
                "gid_indx = 3",
                "x.toml:3:1: unknown key `gid_indx` in [verbs]; did you mean `gid_index`?",
            ),
        ];
        for (line, wanted) in cases {
            let found = read(line).unwrap_err();
            assert!(found.starts_with(wanted), "{found}\nwanted {wanted}");
        }
    }

    #[test]
    fn the_command_line_wins_and_leaves_the_rest_of_the_table_alone() {
        let table = read("path_mtu = 1024\nservice_level = 3").unwrap();
        let typed = VerbsSettings {
            path_mtu: Some(4096),
            ..VerbsSettings::default()
        };
        let merged = table.overridden_by(&typed);
        assert_eq!((merged.path_mtu, merged.service_level), (Some(4096), Some(3)));
    }
}

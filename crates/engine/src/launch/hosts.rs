//! A hosts file: one host per line, `slots=N` ranks on it, `#` starts a comment.
//!
//! Ranks are counted down the file: the first host has ranks 0 to slots-1. A machine finds its line by its host name or by
//! one of its addresses.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;

use super::MOST_RANKS;

/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// A parsed hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsFile {
    lines: Vec<(String, u32)>,
}

/// How this machine may be named in a hosts file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalHost {
    /// Its host name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl HostsFile {
    /// Reads the file at `path`; an error names the file and the line.
    pub fn read(path: &Path) -> Result<HostsFile, String> {
        let name = path.display();
        let mut text = String::new();
        let file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
        let read = file.take(LARGEST + 1).read_to_string(&mut text);
        read.map_err(|error| format!("{name}: {error}"))?;
        if text.len() as u64 > LARGEST {
            return Err(format!(
                "{name}: larger than {LARGEST} bytes, the limit of a hosts file"
            ));
        }
        HostsFile::parse(&text).map_err(|problem| format!("{name}:{problem}"))
    }

    /// Parses the text of a hosts file; an error begins with its line.
    pub fn parse(text: &str) -> Result<HostsFile, String> {
        let mut lines: Vec<(String, u32)> = Vec::new();
        let mut ranks = 0u32;
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(host) = words.next() else { continue };
            topology::nodelist::check_host(host).map_err(|problem| format!("{number}: {problem}"))?;
            if lines.iter().any(|(known, _)| known == host) {
                return Err(format!(
                    "{number}: {host} is listed twice; write slots=N for several ranks"
                ));
            }
            let mut slots = 1;
            for word in words {
                let count = word.strip_prefix("slots=").and_then(|count| count.parse().ok());
                slots = count
                    .filter(|count| (1..=MOST_RANKS).contains(count))
                    .ok_or_else(|| {
                        format!("{number}: `{word}`: only slots=N (1 to {MOST_RANKS}) may follow a host")
                    })?;
            }
            ranks += slots;
            if ranks > MOST_RANKS {
                return Err(format!("{number}: more than {MOST_RANKS} ranks"));
            }
            lines.push((host.to_string(), slots));
        }
        match lines.is_empty() {
            true => Err("1: no host is listed".to_string()),
            false => Ok(HostsFile { lines }),
        }
    }

    /// Ranks of the world.
    pub fn world(&self) -> u32 {
        self.lines.iter().map(|(_, slots)| slots).sum()
    }

    /// The first host, where rank 0 listens.
    pub fn first(&self) -> &str {
        &self.lines[0].0
    }

    /// The host of every rank.
    pub fn by_rank(&self) -> Vec<String> {
        let of_line = |(host, slots): &(String, u32)| std::iter::repeat_n(host.clone(), *slots as usize);
        self.lines.iter().flat_map(of_line).collect()
    }

    /// The rank of this machine, if it has exactly one.
    pub fn rank_of(&self, here: &LocalHost) -> Result<u32, String> {
        let mut first = 0;
        for (host, slots) in &self.lines {
            if here.is(host) && *slots > 1 {
                let last = first + slots - 1;
                return Err(format!(
                    "{host} has ranks {first} to {last}: choose one with --rank or RAILGAUGE_RANK"
                ));
            }
            if here.is(host) {
                return Ok(first);
            }
            first += slots;
        }
        Err(format!(
            "none of its hosts is this machine (`{}`): add its name or address, or give --rank",
            here.name
        ))
    }
}

impl LocalHost {
    /// Whether `host` names this machine. A name with and without its domain are the same.
    fn is(&self, host: &str) -> bool {
        match host.parse::<IpAddr>() {
            Ok(address) => self.addresses.contains(&address),
            Err(_) => {
                let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
                let both_long = host.contains('.') && self.name.contains('.');
                host.eq_ignore_ascii_case(&self.name) || (!both_long && first(host) == first(&self.name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "# the rack\nh0 slots=2\n\n10.0.0.2  # by address\nh2.cluster slots=1\n";

    fn here(name: &str, addresses: &[&str]) -> LocalHost {
        LocalHost {
            name: name.to_string(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn every_machine_finds_its_rank() {
        let file = HostsFile::parse(FILE).unwrap();
        assert_eq!((file.world(), file.first()), (4, "h0"));
        assert_eq!(file.by_rank(), ["h0", "h0", "10.0.0.2", "h2.cluster"]);
        assert_eq!(file.rank_of(&here("x", &["127.0.0.1", "10.0.0.2"])), Ok(2));
        assert_eq!(file.rank_of(&here("h2", &[])), Ok(3));
        assert!(
            file.rank_of(&here("h0", &[]))
                .unwrap_err()
                .contains("ranks 0 to 1")
        );
        assert!(
            file.rank_of(&here("h2.elsewhere", &[]))
                .unwrap_err()
                .contains("h2.elsewhere")
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, problem) in [
            ("", "1: no host is listed"),
            ("h0\nh0", "2: h0 is listed twice"),
            ("h0\n\nh1 slots=0", "3: `slots=0`"),
            ("h0 cpus=3", "1: `cpus=3`"),
            ("h0\nh;1", "2: a host name"),
            ("h0 slots=4096\nh1", "2: more than"),
        ] {
            let error = HostsFile::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_within_bounds(text in "([a-c0-9.# =\n]|slots=|\\PC){0,80}") {
            if let Ok(file) = HostsFile::parse(&text) {
                prop_assert!((1..=MOST_RANKS).contains(&file.world()));
                prop_assert_eq!(file.by_rank().len() as u32, file.world());
            }
        }

        #[test]
        fn slots_add_up_to_the_world(slots in proptest::collection::vec(1u32..9, 1..40)) {
            let lines = slots.iter().enumerate().map(|(host, slots)| format!("h{host} slots={slots}\n"));
            let file = HostsFile::parse(&lines.collect::<String>()).unwrap();
            prop_assert_eq!(file.world(), slots.iter().sum::<u32>());
        }
    }
}

//! Topology files: which cable joins which ports, and how fast it should be.
//!
//! Parsed, then checked: every link ends at a known node, no port holds two cables, no name or address is used twice.
//! Writing a topology and reading it again yields the same topology. The line of every part is kept, so that a
//! later contradiction ([`graph`](super::graph)) can be located.
//!
//! ```toml
//! [[host]]
//! name = "h1"
//! [[switch]]
//! name = "rail0-leaf0"
//! tier = "leaf"
//! rail = "rail0"
//! [[link]]
//! name = "h1-rail0-leaf0"
//! ends = ["h1/rail0", "rail0-leaf0/p1"]
//! rate = "200 Mb/s"
//! rail = "rail0"
//! addresses = ["10.0.0.6", "10.0.0.5"]
//! [[forwarding]]
//! port = "rail0-leaf0/p1"
//! to = ["h1/rail0"]
//! ```

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::import;
use crate::model::{Forwarding, Host, Link, Port, SourceLines, Switch, Topology, TopologyError, check_name};
use crate::subnet::read_folder;
use crate::text_error::Lines;

/// Largest file that is read.
const LARGEST_FILE: u64 = 16 << 20;

/// The file as parsed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    each_rail: bool,
    #[serde(default)]
    host: Vec<Spanned<Host>>,
    #[serde(default)]
    switch: Vec<Spanned<Switch>>,
    #[serde(default)]
    link: Vec<Spanned<Link>>,
    #[serde(default)]
    forwarding: Vec<Spanned<Forwarding>>,
}

/// The file as written.
#[derive(Serialize)]
struct Written<'t> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    each_rail: bool,
    host: &'t [Host],
    switch: &'t [Switch],
    link: &'t [Link],
    #[serde(skip_serializing_if = "<[Forwarding]>::is_empty")]
    forwarding: &'t [Forwarding],
}

impl Topology {
    /// Reads and checks a file, or a folder about an InfiniBand subnet.
    pub fn read(path: &Path) -> Result<Topology, TopologyError> {
        if path.is_dir() {
            return Ok(read_folder(path)?.topology);
        }
        let origin = path.display().to_string();
        let error = |message: String| TopologyError {
            origin: origin.clone(),
            line: None,
            message,
        };
        let size = std::fs::metadata(path)
            .map_err(|cause| error(cause.to_string()))?
            .len();
        if size > LARGEST_FILE {
            return Err(error(format!(
                "the file has {size} bytes; a topology file has at most {LARGEST_FILE}"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|cause| error(cause.to_string()))?;
        Topology::parse(&origin, &text)
    }

    /// Parses and checks the text of a file: our own format, or that of another program. `origin` is what errors call it.
    pub fn parse(origin: &str, text: &str) -> Result<Topology, TopologyError> {
        if let Some(imported) = import::read(origin, text) {
            return imported;
        }
        let lines = Lines::of(text);
        let line_of = |offset: usize| lines.line(offset);
        let error = |at: Option<usize>, message: String| TopologyError {
            origin: origin.to_string(),
            line: at.map(line_of),
            message,
        };
        let file: File = toml::from_str(text).map_err(|cause| {
            let message = cause.message().lines().collect::<Vec<_>>().join("; ");
            error(cause.span().map(|span| span.start), message)
        })?;
        check(&file).map_err(|(at, message)| error(Some(at), message))?;
        let source = SourceLines {
            origin: origin.to_string(),
            hosts: file.host.iter().map(|host| line_of(host.span().start)).collect(),
            switches: file
                .switch
                .iter()
                .map(|switch| line_of(switch.span().start))
                .collect(),
            links: file.link.iter().map(|link| line_of(link.span().start)).collect(),
            forwarding: file
                .forwarding
                .iter()
                .map(|entry| line_of(entry.span().start))
                .collect(),
        };
        Ok(Topology {
            hosts: file.host.into_iter().map(Spanned::into_inner).collect(),
            switches: file.switch.into_iter().map(Spanned::into_inner).collect(),
            links: file.link.into_iter().map(Spanned::into_inner).collect(),
            forwarding: file.forwarding.into_iter().map(Spanned::into_inner).collect(),
            each_rail: file.each_rail,
            source,
        })
    }

    /// The text of a topology file.
    pub fn to_toml(&self) -> String {
        let written = Written {
            each_rail: self.each_rail,
            host: &self.hosts,
            switch: &self.switches,
            link: &self.links,
            forwarding: &self.forwarding,
        };
        toml::to_string(&written).unwrap_or_default()
    }
}

/// The first error: its byte offset and message.
fn check(file: &File) -> Result<(), (usize, String)> {
    let mut nodes: HashSet<&str> = HashSet::new();
    let hosts = file
        .host
        .iter()
        .map(|host| (host.span().start, host.get_ref().name.as_str()));
    let switches = file
        .switch
        .iter()
        .map(|switch| (switch.span().start, switch.get_ref().name.as_str()));
    for (at, name) in hosts.chain(switches) {
        check_name(name).map_err(|why| (at, why))?;
        if !nodes.insert(name) {
            return Err((at, format!("two nodes are called `{name}`")));
        }
    }
    let mut links: HashSet<&str> = HashSet::new();
    let mut ports: HashMap<&Port, &str> = HashMap::new();
    let mut addresses: HashMap<IpAddr, String> = HashMap::new();
    for spanned in &file.switch {
        let switch = spanned.get_ref();
        let holder = switch
            .address
            .and_then(|address| addresses.insert(address, switch.name.clone()));
        if let (Some(other), Some(address)) = (holder, switch.address) {
            let message = format!("`{other}` and `{}` both have the address {address}", switch.name);
            return Err((spanned.span().start, message));
        }
    }
    for spanned in &file.link {
        let (at, link) = (spanned.span().start, spanned.get_ref());
        check_name(&link.name).map_err(|why| (at, why))?;
        if !links.insert(&link.name) {
            return Err((at, format!("two links are called `{}`", link.name)));
        }
        for end in &link.ends {
            if !nodes.contains(end.node.as_str()) {
                let message = format!(
                    "link `{}` ends at `{end}`, but there is no host or switch `{}`",
                    link.name, end.node
                );
                return Err((at, message));
            }
            if let Some(other) = ports.insert(end, &link.name) {
                return Err((
                    at,
                    format!("port `{end}` holds two links: `{other}` and `{}`", link.name),
                ));
            }
        }
        for (end, address) in link.ends.iter().zip(link.addresses.iter().flatten()) {
            if let Some(other) = addresses.insert(*address, end.to_string()) {
                return Err((
                    at,
                    format!("`{other}` and `{end}` both have the address {address}"),
                ));
            }
        }
    }
    let hosts: HashSet<&str> = file
        .host
        .iter()
        .map(|host| host.get_ref().name.as_str())
        .collect();
    for spanned in &file.forwarding {
        let (at, entry) = (spanned.span().start, spanned.get_ref());
        if file.each_rail {
            let message = "a file that stands for every rail cannot say where switches send packets; remove `each_rail` or this";
            return Err((at, message.to_string()));
        }
        if hosts.contains(entry.port.node.as_str()) || !ports.contains_key(&entry.port) {
            return Err((
                at,
                format!("`{}` is not the port of a switch with a link", entry.port),
            ));
        }
        let is_target = |port: &&Port| hosts.contains(port.node.as_str()) && ports.contains_key(port);
        if let Some(port) = entry.to.iter().find(|port| !is_target(port)) {
            return Err((at, format!("`{port}` is not the port of a host with a link")));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;

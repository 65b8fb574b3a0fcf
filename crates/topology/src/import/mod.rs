//! Topologies as other programs write them: Slurm's topology.conf, ibnetdiscover, ibdiagnet's db_csv, LLDP neighbours.
//!
//! A file is recognised by what is in it, never by its name. What a format does not contain stays unknown: rates are left
//! out, and tiers follow from the distance to the hosts. Errors name the line.

mod cabling;
mod ibnetdiscover;
mod lldp;
mod slurm;

use super::model::{Topology, TopologyError};
use super::subnet::{Subnet, is_database};
use super::text_error::TextError;

pub(crate) use cabling::Cabling;
pub use cabling::{node_name, port_name};
pub use ibnetdiscover::{adapter_in_description, name_in_description};
pub(crate) use ibnetdiscover::{is_aggregation, subnet as subnet_of_ibnetdiscover};
pub use lldp::neighbours_of;

/// The program that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Slurm,
    Ibnetdiscover,
    Ibdiagnet,
    Lldp,
}

/// Reads a text that another program wrote; none when it is in none of these formats.
pub(super) fn read(origin: &str, text: &str) -> Option<Result<Topology, TopologyError>> {
    let read = match recognise(text)? {
        Format::Slurm => slurm::read(text),
        Format::Ibnetdiscover => ibnetdiscover::read(text),
        Format::Ibdiagnet => Subnet::of_database(text).and_then(|subnet| subnet.topology()),
        Format::Lldp => lldp::read(text),
    };
    let placed = read.map(|mut topology| {
        topology.source.origin = origin.to_string();
        topology
    });
    Some(placed.map_err(|error| TopologyError {
        origin: origin.to_string(),
        line: error.line,
        message: error.message,
    }))
}

/// Whether a text is what `ibnetdiscover` prints.
pub(crate) fn is_ibnetdiscover(text: &str) -> bool {
    recognise(text) == Some(Format::Ibnetdiscover)
}

fn recognise(text: &str) -> Option<Format> {
    if text.trim_start().starts_with('{') {
        return Some(Format::Lldp);
    }
    let mut lines = text.lines().map(str::trim_start);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let begins = |word: &str| {
        let head = first.get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    if begins("SwitchName=") || begins("BlockName=") {
        return Some(Format::Slurm);
    }
    if is_database(text) {
        return Some(Format::Ibdiagnet);
    }
    let of_infiniband = [
        "vendid=",
        "devid=",
        "sysimgguid=",
        "switchguid=",
        "caguid=",
        "Switch\t",
        "Switch ",
        "Ca\t",
        "Ca ",
    ];
    of_infiniband
        .iter()
        .any(|word| first.starts_with(word))
        .then_some(Format::Ibnetdiscover)
}

#[cfg(test)]
mod tests;

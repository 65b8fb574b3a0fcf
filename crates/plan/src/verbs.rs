//! Whether a run can go over RDMA, and on which terms.

use super::{Choices, PlanError, note};
use record::{DeviceKind, MemoryPath, TransportKind, Untested, VerbsTerms};
use topology::Fabric;
use topology::suite::{GpuDirectChoice, Suite};

/// How many ends of rails are named before the rest is counted.
const NAMED: usize = 4;

/// UDP source ports that RoCE packets can have.
pub(super) const ROCE_PORTS: std::ops::RangeInclusive<u16> = 0xC000..=0xFFFF;

/// Why the ranks cannot go over RDMA; none when they can.
pub(super) fn why_not(fabric: &Fabric, choices: &Choices) -> Option<String> {
    let ready = match &choices.verbs {
        Some(ready) => ready.clone(),
        None => Err("whether the ranks can use RDMA was not checked".to_string()),
    };
    if let Err(why) = ready {
        return Some(why);
    }
    let lacks: Vec<String> = lacks(fabric, choices);
    if lacks.is_empty() {
        return None;
    }
    let more = match lacks.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!(
        "{}{more}. Name rails with an RDMA port that is up with --rails",
        lacks[..lacks.len().min(NAMED)].join("; ")
    ))
}

/// Whether any rail has an RDMA device at all: only then a reader wonders why it was not used.
pub(super) fn is_in_sight(fabric: &Fabric) -> bool {
    let mut ends = fabric.ranks.iter().flat_map(|record| &record.rails);
    ends.any(|end| end.rdma.is_some())
}

/// Ends of rails that have no RDMA port, or one that is not up.
fn lacks(fabric: &Fabric, choices: &Choices) -> Vec<String> {
    let is_used = |rail: &&str| match &choices.rails {
        Some(chosen) => chosen.iter().any(|name| name == rail),
        None => true,
    };
    let mut lacks = Vec::new();
    for rail in fabric.common_rails().into_iter().filter(is_used) {
        let mut hosts = Vec::new();
        for (rank, end) in fabric.ends_of(rail) {
            // What one rank of a host lacks the others lack, too.
            let known = (&rank.host, &end.rdma);
            if hosts.contains(&known) {
                continue;
            }
            hosts.push(known);
            let who = fabric.rank_name(rank.rank);
            match &end.rdma {
                None => lacks.push(format!("rail {rail} has no RDMA device on {who}")),
                Some(port) => match port.state.as_deref() {
                    None | Some("ACTIVE") => {}
                    Some(state) => lacks.push(format!(
                        "rail {rail}: port {} of {} on {who} is {state}, not ACTIVE",
                        port.port, port.device
                    )),
                },
            }
        }
    }
    lacks
}

/// The terms of a test's cells, when they go over RDMA.
pub(super) fn terms(
    test: &str,
    transport: TransportKind,
    device: DeviceKind,
    suite: &Suite,
    choices: &Choices,
    untested: &mut Vec<Untested>,
) -> Result<Option<VerbsTerms>, PlanError> {
    if transport != TransportKind::Verbs {
        return Ok(None);
    }
    let impossible = |why: &str| PlanError::NoGpuDirect {
        test: test.to_string(),
        why: why.to_string(),
    };
    let possible = match &choices.gpudirect {
        Some(possible) => possible.clone(),
        None => Err("whether the NICs can use the GPUs' memory was not checked".to_string()),
    };
    let memory = match (device, suite.verbs.gpudirect(), possible) {
        (DeviceKind::Host, GpuDirectChoice::On, _) => {
            return Err(impossible("the data is in CPU memory; add --device cuda"));
        }
        (DeviceKind::Host, ..) => MemoryPath::Host,
        (DeviceKind::Cuda, GpuDirectChoice::On, Err(why)) => return Err(impossible(&why)),
        (DeviceKind::Cuda, GpuDirectChoice::On | GpuDirectChoice::Auto, Ok(())) => MemoryPath::GpuDirect,
        (DeviceKind::Cuda, GpuDirectChoice::Auto, Err(why)) => {
            note(untested, format!("test `{test}`: by GPUDirect"), why);
            MemoryPath::Staged
        }
        (DeviceKind::Cuda, GpuDirectChoice::Off, _) => MemoryPath::Staged,
    };
    Ok(Some(suite.verbs.terms(memory)))
}

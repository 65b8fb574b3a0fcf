//! The paths that connections took, asked for within them after they were measured.
//!
//! Where switches place every connection anew, or do not say which of two cables a flow takes, the path of a flow is not known before it is
//! measured. Its connection stays open, and is asked about with segments of its own.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::sleep;

use super::stream_paths::PACE;
use crate::error::CliError;
use engine::measure::{MeasureContext, PathQuestion, Session, TraceWanted, TracedFlow};
use plan::FabricKnowledge;
use record::{Cell, Collective, CrossedPath, Event, TransportKind};
use topology::graph::{Graph, WiringEvidence};

/// How often those that have not answered are asked again.
const MOST_ROUNDS: usize = 4;

/// Records what switches say within the connections of these cells, where their paths are not known.
pub fn record_crossed<'c>(
    session: &mut Session,
    known: &mut FabricKnowledge,
    cells: impl Iterator<Item = &'c Cell>,
    measuring: &mut MeasureContext<'_>,
) -> Result<(), CliError> {
    // Where no switch answered before, none will now.
    let Some(mut graph) = known.graph.clone().filter(|_| !known.controls.is_empty()) else {
        return Ok(());
    };
    let of_switches = Graph::clone(&graph).with_answers_of_switches();
    let (mut half_known, mut ids, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        if let Some(path) = known_before(cell, known) {
            half_known.push(path);
        } else if let Some(question) = question(cell, [&graph, &of_switches], known) {
            ids.push(cell.id);
            open.push(question);
        }
    }
    let flows: Vec<TraceWanted> = open.iter().map(|question| question.flow.clone()).collect();
    let mut hops: Vec<Vec<Option<IpAddr>>> = vec![Vec::new(); open.len()];
    for round in 0..MOST_ROUNDS {
        if open.iter().all(|open| open.ttls.is_empty()) {
            break;
        }
        if round > 0 {
            sleep(PACE);
        }
        let mut answers = 0;
        let traced = session.trace_open(&open)?;
        for ((open, known), TracedFlow { hops, .. }) in open.iter_mut().zip(&mut hops).zip(traced) {
            known.resize(known.len().max(hops.len()), None);
            for (place, hop) in hops.into_iter().enumerate().filter(|(_, hop)| hop.is_some()) {
                known[place] = hop;
                open.ttls.retain(|ttl| usize::from(*ttl) != place + 1);
                answers += 1;
            }
        }
        if answers == 0 {
            break;
        }
    }
    // Only within a connection does one switch follow another whatever the placement.
    let mut evidence = WiringEvidence::default();
    for (flow, hops) in flows.iter().zip(&hops) {
        evidence.note(&graph, flow.from, &flow.rail, hops);
    }
    if evidence.answers_leave_anywhere() {
        graph = Arc::new(of_switches);
        known.graph = Some(Arc::clone(&graph));
    }
    let paths: Vec<CrossedPath> = ids
        .into_iter()
        .zip(hops)
        .map(|(cell, hops)| CrossedPath {
            cell,
            hops: graph
                .crossed_hops(&hops)
                .into_iter()
                .map(|hop| hop.map(|hop| graph.record_of_hop(hop)))
                .collect(),
        })
        .chain(half_known)
        .filter(|path| path.hops.iter().any(Option::is_some))
        .collect();
    if !paths.is_empty() {
        measuring.sink.write(&Event::Crossed { paths })?;
        measuring.sink.flush()?;
    }
    Ok(())
}

/// What traces have said before about the port of a cell, whose switches are steady.
fn known_before(cell: &Cell, known: &FabricKnowledge) -> Option<CrossedPath> {
    let ([from, to], [rail], true) = (cell.ranks.as_slice(), cell.rails.as_slice(), cell.path.is_empty())
    else {
        return None;
    };
    let port = cell.port_of(*from, 0)?;
    let mut ports = known.paths.half_known(*from, *to, rail).iter();
    let (_, hops) = ports.find(|(known, _)| *known == port)?;
    Some(CrossedPath {
        cell: cell.id,
        hops: hops.clone(),
    })
}

/// What to ask within the connection of a cell; none where its path is known, or is not one path.
fn question(cell: &Cell, graphs: [&Graph; 2], known: &FabricKnowledge) -> Option<PathQuestion> {
    let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
        return None;
    };
    let is_flow = cell.collective == Collective::PointToPoint
        && cell.transport == TransportKind::Tcp
        && cell.to_rail.is_none()
        && cell.flows == 1
        && cell.path.is_empty();
    if !is_flow || known.paths.is_sprayed(graphs[0], *from, rail) {
        return None;
    }
    // Whether answers name ports or only switches may not be known yet.
    let telling = graphs.map(|graph| graph.telling_switches(*from, *to, rail));
    let ttls: BTreeSet<u8> = telling.concat().into_iter().collect();
    let ttls: Vec<u8> = ttls.into_iter().collect();
    let flow = TraceWanted {
        from: *from,
        to: *to,
        rail: rail.clone(),
        port: cell.port_of(*from, 0)?,
        transport: cell.transport,
    };
    (!ttls.is_empty()).then_some(PathQuestion { flow, ttls })
}

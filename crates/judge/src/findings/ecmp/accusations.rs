//! What one round says is wrong, part by part: this is what rounds must agree on.

use super::faults;
use super::flows::RailFlows;
use super::rail_view::RailView;
use record::{EcmpCause, EcmpVerdict};
use topology::graph::LinkId;

/// A part that a round accuses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Accused {
    Link(String),
    /// With the tier of its choice.
    Switch(String, u8),
    Host(String),
    /// Where no part can be named.
    Rail,
}

/// What one round accuses a part of.
#[derive(Debug, Clone)]
pub(super) struct Accusation {
    pub(super) cause: EcmpCause,
    /// The named part, then those that it is ambiguous with.
    pub(super) parts: Vec<Accused>,
    /// Ids of the cells concerned.
    pub(super) cells: Vec<u32>,
}

/// Everything that the flows of a rail with known paths say is wrong.
pub(super) fn of_view(view: &RailView<'_, '_>) -> Vec<Accusation> {
    let mut accusations = of_senders(view.rail);
    if view.rail.low_entropy.len() == view.rail.cells.len() {
        return accusations;
    }
    let of_link = |cause: EcmpCause, link: LinkId, or: &[LinkId]| Accusation {
        cause,
        parts: std::iter::once(&link)
            .chain(or)
            .map(|link| Accused::Link(view.graph.name(*link)))
            .collect(),
        cells: faults::cells_of_link(view, link),
    };
    let dead = view.dead.iter();
    accusations.extend(dead.map(|dead| of_link(EcmpCause::DeadMember, dead.link, &dead.or)));
    let slow = view.slow.iter();
    accusations.extend(slow.map(|slow| of_link(EcmpCause::SlowMember, slow.link, &slow.or)));
    for (number, chooser) in view.rail.choosers.all.iter().enumerate() {
        if is_of_switch(view, number) {
            accusations.push(Accusation {
                cause: view.causes[number],
                parts: vec![Accused::Switch(chooser.switch.clone(), chooser.tier)],
                cells: view.rail.of_chooser(number).map(|flow| flow.cell).collect(),
            });
        }
    }
    if view.unexplained_dead > 0 {
        accusations.push(Accusation {
            cause: EcmpCause::Unexplained,
            parts: vec![Accused::Rail],
            cells: faults::cells_of_dead_flows(view),
        });
    }
    accusations
}

/// Whether the cause of a chooser is one of the switch itself, not of a sender or a member.
pub(super) fn is_of_switch(view: &RailView<'_, '_>, number: usize) -> bool {
    let (dead, slow) = view.bad_members(number);
    match view.causes[number] {
        EcmpCause::NoEntropy => false,
        EcmpCause::DeadMember => dead.is_empty(),
        EcmpCause::SlowMember => slow.is_empty(),
        cause => cause.is_fault(),
    }
}

/// What is wrong with a rail whose paths are not known.
pub(super) fn of_unknown_paths(rail: &RailFlows<'_>, verdict: &EcmpVerdict) -> Vec<Accusation> {
    match verdict.cause {
        EcmpCause::NoEntropy => of_senders(rail),
        cause if cause.is_fault() => vec![Accusation {
            cause,
            parts: vec![Accused::Rail],
            cells: verdict.cells.clone(),
        }],
        _ => Vec::new(),
    }
}

/// Senders without entropy, each on its own.
fn of_senders(rail: &RailFlows<'_>) -> Vec<Accusation> {
    let mut accusations: Vec<Accusation> = Vec::new();
    for poor in &rail.low_entropy {
        let host = Accused::Host(poor.host.clone());
        match accusations.iter_mut().find(|known| known.parts[0] == host) {
            Some(known) => known.cells.push(poor.cell),
            None => accusations.push(Accusation {
                cause: EcmpCause::NoEntropy,
                parts: vec![host],
                cells: vec![poor.cell],
            }),
        }
    }
    accusations
}

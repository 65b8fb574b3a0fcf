//! A rail with only what all rounds agree on left to be accused.

use std::collections::HashMap;

use super::accusations::{Accused, is_of_switch};
use super::agreement::Agreement;
use super::rail_view::RailView;
use super::wording;
use record::EcmpCause;
use record::text::p_value;
use topology::graph::{Graph, LinkId};

/// Agreements by cause and part.
struct ByPart<'a>(HashMap<(EcmpCause, &'a Accused), &'a Agreement>);

impl<'a> ByPart<'a> {
    fn of(agreements: &'a [Agreement]) -> ByPart<'a> {
        let mut by_part = HashMap::new();
        let (confirmed, others): (Vec<_>, Vec<_>) =
            agreements.iter().partition(|agreement| agreement.is_confirmed());
        for agreement in confirmed.into_iter().chain(others) {
            for part in &agreement.parts {
                by_part.entry((agreement.cause, part)).or_insert(agreement);
            }
        }
        ByPart(by_part)
    }

    fn get(&self, cause: EcmpCause, part: &Accused) -> Option<&'a Agreement> {
        self.0.get(&(cause, part)).copied()
    }

    fn confirms(&self, cause: EcmpCause, part: &Accused) -> bool {
        self.get(cause, part)
            .is_some_and(|agreement| agreement.is_confirmed())
    }

    /// The agreement about a link or one of those that it is ambiguous with.
    fn about_link(
        &self,
        graph: &Graph,
        cause: EcmpCause,
        link: LinkId,
        or: &[LinkId],
    ) -> Option<&'a Agreement> {
        let mut links = std::iter::once(&link).chain(or);
        links.find_map(|link| self.get(cause, &Accused::Link(graph.name(*link))))
    }

    /// What is left of a link and those that it is ambiguous with; none when it is not confirmed.
    fn left_of(
        &self,
        graph: &Graph,
        cause: EcmpCause,
        link: LinkId,
        or: &[LinkId],
    ) -> Option<(LinkId, Vec<LinkId>)> {
        let agreement = self.about_link(graph, cause, link, or)?;
        let mut links = agreement.parts.iter().filter_map(|part| match part {
            Accused::Link(name) => graph.named(name),
            _ => None,
        });
        let named = links.next().filter(|_| agreement.is_confirmed())?;
        Some((named, links.collect()))
    }
}

impl RailView<'_, '_> {
    /// Takes back what is not confirmed: those switches stay unjudged, and say what they are suspected of.
    pub(super) fn keep_confirmed(&mut self, agreements: &[Agreement]) {
        let by_part = ByPart::of(agreements);
        let suspicions: Vec<Option<String>> = (0..self.causes.len())
            .map(|number| self.suspicion(number, &by_part))
            .collect();
        for (number, suspicion) in suspicions.into_iter().enumerate() {
            if suspicion.is_some() {
                self.causes[number] = EcmpCause::Unjudged;
                self.suspicions[number] = suspicion;
            }
        }
        let graph = self.graph;
        self.dead.retain_mut(|dead| {
            let left = by_part.left_of(graph, EcmpCause::DeadMember, dead.link, &dead.or);
            left.map(|(link, or)| (dead.link, dead.or) = (link, or)).is_some()
        });
        self.slow.retain_mut(|slow| {
            let left = by_part.left_of(graph, EcmpCause::SlowMember, slow.link, &slow.or);
            left.map(|(link, or)| (slow.link, slow.or) = (link, or)).is_some()
        });
        self.low_entropy
            .retain(|poor| by_part.confirms(EcmpCause::NoEntropy, &Accused::Host(poor.host.clone())));
        if !by_part.confirms(EcmpCause::Unexplained, &Accused::Rail) {
            self.unexplained_dead = 0;
        }
    }

    /// What a switch is suspected of, when none of it is confirmed.
    fn suspicion(&self, number: usize, by_part: &ByPart<'_>) -> Option<String> {
        let cause = self.causes[number];
        let chooser = &self.rail.choosers.all[number];
        let (dead, slow) = self.bad_members(number);
        let about: Vec<&Agreement> = match cause {
            _ if is_of_switch(self, number) => {
                let switch = Accused::Switch(chooser.switch.clone(), chooser.tier);
                by_part.get(cause, &switch).into_iter().collect()
            }
            EcmpCause::DeadMember => dead
                .iter()
                .filter_map(|dead| by_part.about_link(self.graph, cause, dead.link, &dead.or))
                .collect(),
            EcmpCause::SlowMember => slow
                .iter()
                .filter_map(|slow| by_part.about_link(self.graph, cause, slow.link, &slow.or))
                .collect(),
            EcmpCause::NoEntropy => wording::low_entropy_at(self, number)
                .into_iter()
                .filter_map(|host| by_part.get(cause, &Accused::Host(host)))
                .collect(),
            _ => Vec::new(),
        };
        let first = about.first()?;
        if about.iter().any(|agreement| agreement.is_confirmed()) {
            return None;
        }
        let deciding = wording::deciding(self, number);
        Some(format!(
            "{}: {}: {} {:.1}, median under a fair hash {:.1} ({})",
            chooser.switch,
            first.suspicion(),
            deciding.name,
            deciding.value,
            deciding.null_median,
            p_value(deciding.p_value)
        ))
    }
}

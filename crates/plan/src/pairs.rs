//! Pairs of ranks, one after another or in rounds of disjoint ones: the schedule chooses which.

use super::PlanError;
use super::adaptive::Adaptive;
use super::flow::load_of;
use super::layout::{Slot, TestLayout};
use super::schedule::{by_topology, random, tournament};
use record::{Cell, Collective, Load, TransportKind};
use topology::suite::Schedule;

/// How often an adaptive test crosses every link before it asks what is suspicious.
const OPENING: u32 = 2;
/// Rounds of random pairs that stand in for a topology: every end of a cable meets so many partners.
const COVERING: u32 = 4;

impl TestLayout<'_> {
    /// Every pair of ranks, on each rail. Where every rank has a host to itself the pairs of a round run at the same time;
    /// where ranks share a host they would measure each other, so pairs run one after another.
    pub(super) fn pairs(&mut self) -> Result<Vec<Slot>, PlanError> {
        let world = self.world();
        if world.len() < 2 {
            self.leave_out("all of it", "one rank alone has no partner");
            return Ok(Vec::new());
        }
        let random = match self.test.schedule {
            Schedule::Adaptive => return self.adaptive(&world),
            Schedule::Topology => return self.by_topology(&world),
            Schedule::Cover if self.knows_its_topology() => return self.by_topology(&world),
            Schedule::Cover => {
                let why = "no topology is known; give one with --topology FILE";
                self.leave_out("cables between switches", why);
                Some(COVERING)
            }
            Schedule::Random(rounds) => Some(rounds),
            Schedule::Tournament => None,
        };
        let rail_sets = self.pairs_of_rails();
        let partners = random.map_or(world.len() - 1, |rounds| rounds as usize);
        self.check_count(world.len() * partners * rail_sets.len())?;
        let at_once = self.fabric.is_one_rank_per_host() && world.len() > 3;
        let load = if at_once { Load::Together } else { Load::Alone };
        let mut slots = Vec::new();
        for work in self.work(2)? {
            for (number, (rails, to_rail)) in rail_sets.iter().enumerate() {
                let rounds = match random {
                    // Other pairs on every rail: together they say more.
                    Some(rounds) => {
                        random::rounds(world.len(), rounds, self.seed.wrapping_add(number as u64))
                    }
                    None => tournament::rounds(world.len()),
                };
                for round in rounds {
                    for forward in directions(work.collective) {
                        let cells = round.iter().map(|(a, b)| {
                            let (a, b) = (world[*a], world[*b]);
                            let ranks = if *forward { vec![a, b] } else { vec![b, a] };
                            Cell {
                                to_rail: to_rail.clone(),
                                ..self.cell(work, ranks, rails.clone(), load)
                            }
                        });
                        if at_once {
                            slots.push(cells.collect());
                        } else {
                            slots.extend(cells.map(|cell| vec![cell]));
                        }
                    }
                }
            }
        }
        Ok(slots)
    }

    /// Whether a topology is known, so that flows can follow it.
    fn knows_its_topology(&self) -> bool {
        let graph = self.known.graph.as_deref();
        self.transport.has_rails() && graph.is_some_and(|graph| !graph.is_inferred())
    }

    /// The rails of the two ranks of a pair: the first one's, and the second one's where it is another.
    fn pairs_of_rails(&mut self) -> Vec<(Vec<String>, Option<String>)> {
        if !self.transport.has_rails() {
            return vec![(Vec::new(), None)];
        }
        let mut sets = Vec::new();
        if self.test.pairing.has_same() {
            sets.extend(self.rails.iter().map(|rail| (vec![rail.clone()], None)));
        }
        if self.test.pairing.has_cross() {
            if self.transport != TransportKind::Tcp {
                let why = format!(
                    "transport {} has pairs on one rail only; use --transport tcp",
                    self.transport
                );
                self.leave_out("pairs across rails", &why);
                return sets;
            }
            if self.rails.len() < 2 {
                self.leave_out("pairs across rails", "there is one rail only");
            }
            for rail in self.rails {
                let others = self.rails.iter().filter(|other| *other != rail);
                sets.extend(others.map(|other| (vec![rail.clone()], Some(other.clone()))));
            }
        }
        sets
    }

    /// Whether its transport crosses no links, so that there is nothing to choose paths over; that is noted.
    pub(super) fn has_no_links(&mut self) -> bool {
        let has_links = self.transport.has_rails();
        if !has_links {
            let why = format!(
                "transport {} has no links; use --transport tcp or verbs",
                self.transport
            );
            self.leave_out("all of it", &why);
        }
        !has_links
    }

    /// Neighbours on a leaf, then leaf to leaf over every path; slots that ask no link for more than it carries.
    fn by_topology(&mut self, world: &[u32]) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let known = self.known;
        let Some(graph) = known.graph.as_deref().filter(|graph| !graph.is_inferred()) else {
            let why = "its schedule needs a topology; give one with --topology FILE";
            self.leave_out("all of it", why);
            return Ok(Vec::new());
        };
        let mut slots = Vec::new();
        for rail in self.rails {
            let matchings = by_topology::matchings(graph, &known.paths, world, rail);
            let flows = matchings.iter().map(Vec::len).sum();
            self.check_count(flows)?;
            if matchings.iter().flatten().any(|flow| flow.path.is_empty()) {
                let why = "which source port leads over which spine is not known";
                self.leave_out(&format!("every path between leaves of {rail}"), why);
            }
            for work in self.work(2)? {
                for flows in &matchings {
                    // What goes both ways at once is measured once.
                    let both_ways = work.collective != Collective::PointToPoint;
                    let flows: Vec<_> = flows
                        .iter()
                        .filter(|flow| !both_ways || flow.from < flow.to)
                        .collect();
                    let load = match flows.len() {
                        0 | 1 => Load::Alone,
                        _ => Load::Together,
                    };
                    let cells = flows.iter().map(|flow| {
                        let cell = self.cell(work, vec![flow.from, flow.to], vec![rail.clone()], load);
                        flow.as_cell(cell, graph)
                    });
                    slots.push(cells.collect());
                }
            }
        }
        slots.retain(|slot: &Slot| !slot.is_empty());
        if slots.is_empty() {
            self.leave_out("all of it", "no two hosts have a path between them on a rail");
        }
        Ok(slots)
    }

    /// Flows that cross every link a few times; the flows that distinguish suspects are chosen while measuring.
    fn adaptive(&mut self, world: &[u32]) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let graph = self.known.graph_or_inferred(&self.fabric.ranks);
        let graph = graph.as_ref();
        let mut slots = Vec::new();
        for work in self.work(2)? {
            let mut adaptive = Adaptive::new(graph, &self.known.paths, world, self.rails, self.seed);
            for flows in adaptive.opening(OPENING, self.focus) {
                let load = load_of(&flows, graph, &self.known.paths);
                let cells = flows.iter().map(|flow| {
                    let cell = self.cell(work, vec![flow.from, flow.to], vec![flow.rail.clone()], load);
                    flow.as_cell(cell, graph)
                });
                slots.push(cells.collect());
            }
        }
        if slots.is_empty() {
            self.leave_out("all of it", "no two hosts have a path between them on a rail");
        }
        Ok(slots)
    }
}

/// Whether a pair is measured from the first to the second, or that and back.
fn directions(collective: Collective) -> &'static [bool] {
    match collective {
        Collective::PointToPoint => &[true, false],
        _ => &[true],
    }
}

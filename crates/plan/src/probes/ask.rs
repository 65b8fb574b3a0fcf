//! Aimed probes where flows are few: each step asks what the flows so far left open, by as few more flows as can answer it (docs/loss.md, "Few flows").
//!
//! A flow that lost packets is a question: which of its links? Of these links, those that the fewest clean flows crossed are the likeliest. Each gets a flow of its own, and
//! one that is left alone several, until a part is accused or every link of the question is cleared. What breaks it: losses that stop meanwhile, and links so little lossy
//! that two flows over them were spared.

use std::collections::{HashMap, HashSet};

use super::aim::{ProbeMeasurer, are_paths_known, candidates, flows_of, one_more_set};
use super::known_links;
use crate::Plan;
use judge::findings::{OpenProbes, open_probes};
use record::{EndReason, ProbeFlow};
use topology::graph::{Graph, LinkId};

/// More steps than this tell nothing new.
const MOST_STEPS: u64 = 6;
/// A link that so many clean flows crossed is no answer.
const CLEARED: usize = 2;
/// Flows over the one link that may be the answer: its losses must be beyond chance.
const SURE: usize = 3;
/// No more flows than this share of the planned ones are added, but so many on any fabric.
const MOST_MORE: f64 = 0.45;
const LEAST_MORE: usize = 128;
/// Where no spare flow crosses a link, so many of those that are tried should, and so many are tried at most in a step.
const SPARE: f64 = 2.0;
const MOST_TRIED: usize = 4_096;

/// Sends sets of aimed probes until nothing is open that they could tell, or as many flows as may be were added.
pub(super) fn ask<M: ProbeMeasurer>(
    measurer: &mut M,
    graph: &Graph,
    plan: &Plan,
) -> Result<EndReason, M::Error> {
    let mut left = most_more(flows_of(&plan.cells).count());
    let mut pool = Pool::default();
    pool.add(plan.spare_probes.iter().cloned(), graph);
    for step in 0..MOST_STEPS {
        let recorded = measurer.recorded()?;
        let cells = &recorded.run.cells;
        if left == 0 || !are_paths_known(cells, graph) {
            break;
        }
        let asked = Asked::of(&open_probes(&recorded), graph);
        let short = pool.short_of(&asked, |flow| measurer.can_send(flow));
        if !short.is_empty() {
            let seed = plan.seed.wrapping_add(1 + step);
            let known = (
                cells.as_slice(),
                plan.spare_probes.as_slice(),
                recorded.run.ranks.as_slice(),
            );
            let tried = candidates(known, graph, &short, (SPARE, MOST_TRIED), seed);
            if !tried.is_empty() {
                pool.add(measurer.trace(tried)?.into_iter(), graph);
            }
        }
        let flows = pool.choose(&asked, left, |flow| measurer.can_send(flow));
        left -= flows.len();
        let links = asked.wanted.len();
        let Some(cell) = one_more_set(cells, graph, flows, plan.wire) else {
            break;
        };
        let why = format!(
            "which of {} loses packets or holds them up?",
            record::text::counted(links, "link")
        );
        let end = measurer.measure(&why, &[cell])?;
        if end != EndReason::Finished {
            return Ok(end);
        }
    }
    Ok(EndReason::Finished)
}

/// How many flows may be added to so many.
fn most_more(planned: usize) -> usize {
    ((planned as f64 * MOST_MORE) as usize).max(LEAST_MORE)
}

/// What flows are wanted for.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    /// Links and how many flows over each, the most urgent first.
    wanted: Vec<(LinkId, usize)>,
    /// Links that may lose packets: flows over several of them tell less.
    doubtful: HashSet<LinkId>,
    /// Links that are known to: flows over them tell nothing of others.
    known: HashSet<LinkId>,
}

impl Asked {
    fn of(open: &OpenProbes, graph: &Graph) -> Asked {
        let mut asked = Asked {
            known: open.known.iter().filter_map(|name| graph.named(name)).collect(),
            ..Asked::default()
        };
        let mut place_of: HashMap<LinkId, usize> = HashMap::new();
        let mut want = |link: LinkId, flows: usize| {
            let fresh = asked.wanted.len();
            let place = *place_of.entry(link).or_insert(fresh);
            match asked.wanted.get_mut(place) {
                Some((_, wanted)) => *wanted = flows.max(*wanted),
                None => asked.wanted.push((link, flows)),
            }
        };
        for question in &open.questions {
            let fewest = question.iter().map(|(_, clean)| *clean).min().unwrap_or(CLEARED);
            if fewest >= CLEARED {
                continue;
            }
            let likeliest = question.iter().filter(|(_, clean)| *clean == fewest);
            let likeliest: Vec<LinkId> = likeliest.filter_map(|(name, _)| graph.named(name)).collect();
            let flows = if likeliest.len() == 1 { SURE } else { 1 };
            likeliest.iter().for_each(|link| want(*link, flows));
            asked.doubtful.extend(likeliest);
        }
        let hidden = open.hidden.iter().filter_map(|name| graph.named(name));
        hidden.for_each(|link| want(link, 1));
        asked
    }
}

/// Flows of known path that were not sent yet.
#[derive(Debug, Default)]
struct Pool {
    flows: Vec<(ProbeFlow, Vec<LinkId>)>,
    over: HashMap<LinkId, Vec<usize>>,
    is_sent: Vec<bool>,
}

impl Pool {
    fn add(&mut self, flows: impl Iterator<Item = ProbeFlow>, graph: &Graph) {
        for flow in flows {
            let Some(links) = known_links(&flow, graph) else {
                continue;
            };
            for link in &links {
                self.over.entry(*link).or_default().push(self.flows.len());
            }
            self.flows.push((flow, links));
            self.is_sent.push(false);
        }
    }

    /// Numbers of the flows over a link that can be sent and cross no other link that is known to lose packets.
    fn usable<'p>(
        &'p self,
        link: LinkId,
        asked: &'p Asked,
        can_send: &'p impl Fn(&ProbeFlow) -> bool,
    ) -> impl Iterator<Item = usize> + 'p {
        let over = self.over.get(&link).into_iter().flatten().copied();
        over.filter(move |number| {
            let (flow, links) = &self.flows[*number];
            let is_spoiled = links
                .iter()
                .any(|other| *other != link && asked.known.contains(other));
            !self.is_sent[*number] && !is_spoiled && can_send(flow)
        })
    }

    /// The links over which there are fewer flows than are wanted.
    fn short_of(&self, asked: &Asked, can_send: impl Fn(&ProbeFlow) -> bool) -> Vec<LinkId> {
        let wanted = asked.wanted.iter();
        let short =
            wanted.filter(|(link, flows)| self.usable(*link, asked, &can_send).take(*flows).count() < *flows);
        short.map(|(link, _)| *link).collect()
    }

    /// The flows to send, so many at most: over each link those that cross the fewest other doubtful ones, between hosts that have sent and received least.
    fn choose(
        &mut self,
        asked: &Asked,
        most: usize,
        can_send: impl Fn(&ProbeFlow) -> bool,
    ) -> Vec<ProbeFlow> {
        let mut uses: HashMap<u32, usize> = HashMap::new();
        let mut chosen = Vec::new();
        for (link, flows) in &asked.wanted {
            for _ in 0..*flows {
                if chosen.len() >= most {
                    return chosen;
                }
                let used = |rank: u32| uses.get(&rank).copied().unwrap_or(0);
                let best = self.usable(*link, asked, &can_send).min_by_key(|number| {
                    let (flow, links) = &self.flows[*number];
                    let doubtful = links
                        .iter()
                        .filter(|other| asked.doubtful.contains(other))
                        .count();
                    (doubtful, used(flow.from) + used(flow.to), *number)
                });
                let Some(best) = best else { break };
                self.is_sent[best] = true;
                let flow = self.flows[best].0.clone();
                for rank in [flow.from, flow.to] {
                    *uses.entry(rank).or_default() += 1;
                }
                chosen.push(flow);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::super::few::keep_few;
    use super::super::tests::planned_with;
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn few(shape: &str) -> (Plan, Arc<Graph>) {
        let (mut plan, graph) = planned_with(shape, |suite| suite.tests[0].probe.flows_per_link = Some(1));
        keep_few(&mut plan, &graph);
        (plan, graph)
    }

    /// The links of the first flow of the plan that crosses four.
    fn one_path(plan: &Plan, graph: &Graph) -> Vec<LinkId> {
        let mut paths = flows_of(&plan.cells).filter_map(|flow| known_links(flow, graph));
        paths.find(|links: &Vec<LinkId>| links.len() == 4).unwrap()
    }

    fn question(links: &[LinkId], clean: &[usize], graph: &Graph) -> Vec<(String, usize)> {
        let names = links.iter().map(|link| graph.name(*link));
        names.zip(clean.iter().copied()).collect()
    }

    fn sent(plan: &Plan, graph: &Graph, open: &OpenProbes, most: usize) -> Vec<Vec<LinkId>> {
        let mut pool = Pool::default();
        pool.add(plan.spare_probes.iter().cloned(), graph);
        let asked = Asked::of(open, graph);
        let flows = pool.choose(&asked, most, |_| true);
        flows
            .iter()
            .map(|flow| known_links(flow, graph).unwrap())
            .collect()
    }

    #[test]
    fn each_link_of_a_path_that_lost_packets_is_probed_once_without_the_others() {
        let (plan, graph) = few("64x1");
        let path = one_path(&plan, &graph);
        let open = OpenProbes {
            questions: vec![question(&path, &[0; 4], &graph)],
            ..OpenProbes::default()
        };
        let flows = sent(&plan, &graph, &open, 100);
        let crossed = flows
            .iter()
            .map(|flow| path.iter().filter(|link| flow.contains(link)).count());
        assert_eq!(crossed.collect::<Vec<_>>(), [1; 4]);
        let reached: BTreeSet<&LinkId> = flows
            .iter()
            .flatten()
            .filter(|link| path.contains(link))
            .collect();
        assert_eq!(reached.len(), 4);
        assert_eq!(
            sent(&plan, &graph, &open, 3).len(),
            3,
            "no more than may be added"
        );
    }

    #[test]
    fn the_link_that_is_left_is_probed_until_it_is_sure_and_cleared_ones_are_not() {
        let (plan, graph) = few("64x1");
        let path = one_path(&plan, &graph);
        let asked = |clean: &[usize]| {
            let open = OpenProbes {
                questions: vec![question(&path, clean, &graph)],
                ..OpenProbes::default()
            };
            Asked::of(&open, &graph).wanted
        };
        assert_eq!(asked(&[1, 0, 2, 1]), [(path[1], SURE)]);
        assert_eq!(asked(&[2, 1, 2, 1]), [(path[1], 1), (path[3], 1)]);
        assert_eq!(asked(&[2, 2, 3, 2]), []);
    }

    #[test]
    fn no_flow_is_sent_over_a_link_that_is_known_to_lose_packets_and_what_it_hid_is_probed() {
        let (plan, graph) = few("64x1");
        let path = one_path(&plan, &graph);
        let open = OpenProbes {
            hidden: vec![graph.name(path[1])],
            known: vec![graph.name(path[2])],
            ..OpenProbes::default()
        };
        let flows = sent(&plan, &graph, &open, 100);
        assert!(
            matches!(flows.as_slice(), [flow] if flow.contains(&path[1]) && !flow.contains(&path[2])),
            "{flows:?}"
        );
    }

    #[test]
    fn what_is_added_stays_below_half_of_what_was_planned() {
        assert_eq!(most_more(1_700), 765);
        assert_eq!(most_more(20), 128);
    }
}

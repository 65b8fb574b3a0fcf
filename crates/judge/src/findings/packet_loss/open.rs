//! What is open about probes, question by question, so that the fewest more probes can answer it (docs/loss.md, "Few flows").
//!
//! A question is a set of links, one of which should explain something: flows that lost packets, or a cause that is not confirmed or not told apart. A flow without losses
//! over a link speaks against it. That holds where losses show in every flow over the link; of a link that loses one packet now and then, some flows are spared.

use std::collections::BTreeSet;

use super::flows::LossFlow;
use super::model::Model;
use super::{LossCause, PacketLoss, Symptom, TOLD_APART};
use crate::findings::localise::Elements;
use record::Run;
use topology::graph::{Graph, LinkId};

/// What is open about the probes of a run so far, by names of directed links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenProbes {
    /// Per question the links that may be its answer, each with how many flows over it lost nothing; what lost most first.
    pub questions: Vec<Vec<(String, usize)>>,
    /// Links of which nothing can be said, because all flows over them crossed a lossy part as well.
    pub hidden: Vec<String>,
    /// Links that are known to lose packets or to hold them up: flows over them say nothing of others.
    pub known: Vec<String>,
}

impl OpenProbes {
    /// Of losses and stalls.
    pub(in crate::findings) fn of(looks: [&PacketLoss; 2]) -> OpenProbes {
        let mut all = OpenProbes::default();
        for look in looks {
            let Some((graph, _)) = look.fabric.as_deref() else {
                continue;
            };
            let found = &look.questions;
            let named = |link: &LinkId| graph.name(*link);
            let question = |links: &Vec<(LinkId, usize)>| {
                links.iter().map(|(link, clean)| (named(link), *clean)).collect()
            };
            all.questions.extend(found.asked.iter().map(question));
            all.hidden.extend(found.hidden.iter().map(named));
            all.known.extend(found.known.iter().map(named));
        }
        all
    }
}

/// The same by numbers of links.
#[derive(Debug, Default)]
pub(super) struct Questions {
    asked: Vec<Vec<(LinkId, usize)>>,
    hidden: BTreeSet<LinkId>,
    known: BTreeSet<LinkId>,
}

impl Questions {
    pub(super) fn of(
        model: &Model<'_>,
        causes: &[LossCause],
        unexplained: &[&LossFlow],
        symptom: Symptom,
        (graph, elements): (&Graph, &Elements),
        run: &Run,
    ) -> Questions {
        let is_probed = |flow: &LossFlow| flow.is_probe && flow.parts.possible.is_empty();
        let links_of = |flow: &LossFlow| -> Vec<LinkId> {
            let certain = flow.parts.certain.iter();
            let links = certain.filter(|part| **part < graph.link_count());
            links.map(|part| LinkId(*part as u32)).collect()
        };
        let mut clean = vec![0_usize; graph.link_count()];
        let mut beside_a_cause: BTreeSet<LinkId> = BTreeSet::new();
        for (flow, is_accounted) in model.accounted().filter(|(flow, _)| is_probed(flow)) {
            for link in links_of(flow) {
                match flow.lossy <= 0.0 {
                    true => clean[link.index()] += 1,
                    false if is_accounted => _ = beside_a_cause.insert(link),
                    false => {}
                }
            }
        }
        let with_clean = |links: Vec<LinkId>| -> Vec<(LinkId, usize)> {
            links
                .into_iter()
                .map(|link| (link, clean[link.index()]))
                .collect()
        };
        let mut asked: Vec<(u64, Vec<LinkId>)> = Vec::new();
        let (mut known, mut suspected) = (BTreeSet::new(), BTreeSet::new());
        for cause in causes {
            let of_suspect = |(element, sure): &(_, f64)| (elements.links_of(graph, *element, run), *sure);
            let suspects: Vec<(Vec<LinkId>, f64)> = cause.suspects.iter().map(of_suspect).collect();
            let few = suspects.iter().filter(|(links, _)| links.len() <= 2);
            let few: BTreeSet<LinkId> = few.flat_map(|(links, _)| links.iter().copied()).collect();
            suspected.extend(few.iter().copied());
            let is_unsure = suspects.first().is_some_and(|(_, sure)| *sure < TOLD_APART);
            if cause.why_not.is_some() || is_unsure && few.len() > 1 {
                asked.push((u64::MAX, few.into_iter().collect()));
            } else if let Some((links, _)) = suspects.into_iter().next() {
                known.extend(links);
            }
        }
        // Where hosts hold packets up now and then, many flows are late: only what is unusual is asked about.
        let of_flows: Vec<&LossFlow> = match symptom {
            Symptom::Late(_) => unexplained.to_vec(),
            Symptom::Lost => model.unaccounted().filter(|flow| flow.lossy > 0.0).collect(),
        };
        let lossiest = |flow: &LossFlow| (1000 * flow.lost) / flow.segments.max(1);
        let of_flows = of_flows.into_iter().filter(|flow| is_probed(flow));
        asked.extend(of_flows.map(|flow| (lossiest(flow), links_of(flow))));
        asked.sort_by_key(|(lossy, _)| std::cmp::Reverse(*lossy));
        let mut seen = BTreeSet::new();
        asked.retain(|(_, links)| !links.is_empty() && seen.insert(links.clone()));
        let is_hidden =
            |link: &LinkId| clean[link.index()] == 0 && !suspected.contains(link) && !known.contains(link);
        Questions {
            hidden: beside_a_cause.into_iter().filter(is_hidden).collect(),
            asked: asked.into_iter().map(|(_, links)| with_clean(links)).collect(),
            known,
        }
    }
}

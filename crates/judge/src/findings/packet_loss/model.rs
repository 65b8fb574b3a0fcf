//! Which parts lose packets, and how sure that is (docs/loss.md, "Model").
//!
//! A part that loses a share of its packets makes iterations of all flows over it lossy, more of them where they have more segments. Healthy flows have lossy
//! iterations, too, and now and then something else disturbs one; both are estimated from flows elsewhere. Parts are accepted one after another, the likeliest
//! first, and what they lose is expected of their flows from then on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rayon::prelude::*;

use super::flows::LossFlow;
use super::ratios::{Crossing, Ratios, ln_sum, losses};
use super::tally::Tally;
use record::stats::at_least_of;

/// What is not less likely than this by chance is not looked at any further.
pub(super) const BEYOND_CHANCE: f64 = 0.05;
/// Suspects with a smaller share of belief than this, of that of the likeliest, are left out.
const LIGHTEST: f64 = 0.03;
/// No run has more lossy parts than are looked for.
const MOST_PARTS: usize = 256;
/// Parts are chosen again, each beside all others, so many times at most.
const MOST_PASSES: usize = 3;
/// Parts whose evidence is less than this share of the surest's are no rivals of it.
const COMPARED: f64 = 0.5;
/// A flow that crossed a part with at least this probability counts as one over it.
const LIKELY: f64 = 0.5;

/// A part that loses packets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LossyPart {
    /// Numbers of the suspects, the likeliest first, with their shares of belief.
    pub(super) suspects: Vec<(usize, f64)>,
    /// Numbers of the flows with losses that it explains.
    pub(super) flows: Vec<usize>,
    /// Numbers of all flows that crossed it, as far as is known, each with the share of its packets that did. Where that is known of none, those it explains.
    pub(super) crossing: Vec<(usize, f64)>,
    /// How likely losses like these are if it is healthy, corrected for all parts.
    pub(super) p_value: f64,
    /// The probability of loss that explains most.
    loss: f64,
}

impl LossyPart {
    /// Number of the likeliest suspect.
    fn part(&self) -> usize {
        self.suspects[0].0
    }
}

/// What is known about the flows of a run.
pub(super) struct Model<'f> {
    flows: &'f [LossFlow],
    /// Per part the flows that may have crossed it, each with the probability that it did and the share of its packets.
    crossing: BTreeMap<usize, Vec<(usize, f64, f64)>>,
    /// Per flow the number of its class (flows that say the same) and of its slot.
    alike: Vec<(usize, usize)>,
    slots: usize,
    /// Per flow what accepted parts lose of it: the negative logarithm of the share that gets through.
    known: Vec<f64>,
    /// Whether a flow crossed an accepted part.
    is_accounted: Vec<bool>,
}

/// What a flow says for a part that it may have crossed: the row of its ratios, and how much it counts.
struct Term {
    connection: usize,
    row: usize,
    probability: f64,
    weight: f64,
}

/// How a part fares as explanation.
struct Candidate {
    part: usize,
    /// The logarithm of its e-value.
    evidence: f64,
    /// The probability of loss that explains most.
    loss: f64,
}

impl<'f> Model<'f> {
    pub(super) fn new(flows: &'f [LossFlow]) -> Model<'f> {
        let mut crossing: BTreeMap<usize, Vec<(usize, f64, f64)>> = BTreeMap::new();
        for (number, flow) in flows.iter().enumerate() {
            for (part, probability, share) in flow.crossed() {
                crossing
                    .entry(part)
                    .or_default()
                    .push((number, probability, share));
            }
        }
        let mut classes = HashMap::new();
        let mut slots = HashMap::new();
        let mut alike = Vec::with_capacity(flows.len());
        for flow in flows {
            let counts = [flow.lossy, flow.trials, flow.per_trial].map(f64::to_bits);
            let fresh = classes.len();
            let class = *classes.entry((counts, flow.kind)).or_insert(fresh);
            let fresh = slots.len();
            alike.push((class, *slots.entry(flow.slot).or_insert(fresh)));
        }
        Model {
            flows,
            alike,
            slots: slots.len(),
            crossing,
            known: vec![0.0; flows.len()],
            is_accounted: vec![false; flows.len()],
        }
    }

    /// How many parts were crossed.
    pub(super) fn family(&self) -> usize {
        self.crossing.len()
    }

    /// The parts whose flows lose more than chance explains, the surest first. `prior` is how likely a part is to be at fault, relative to others.
    pub(super) fn parts(&mut self, prior: impl Fn(usize) -> f64) -> Vec<LossyPart> {
        let mut found: Vec<LossyPart> = Vec::new();
        let with_losses: Vec<usize> = (0..self.flows.len())
            .filter(|flow| self.flows[*flow].lossy > 0.0)
            .collect();
        while found.len() < MOST_PARTS {
            let before = found.len();
            let mut candidates = self.candidates(&with_losses);
            // Those that share no flow with losses with what was just accepted would be as they are: only others are asked anew.
            while found.len() < MOST_PARTS
                && let Some(part) = self.likeliest(&candidates, &found, &prior)
            {
                let over: HashSet<usize> = self.crossing[&part.part()]
                    .iter()
                    .map(|(flow, ..)| *flow)
                    .collect();
                self.accept(&part);
                found.push(part);
                let is_lossy_over =
                    |(flow, ..): &(usize, f64, f64)| self.flows[*flow].lossy > 0.0 && over.contains(flow);
                candidates.retain(|other| !self.crossing[&other.part].iter().any(is_lossy_over));
            }
            if found.len() == before {
                break;
            }
        }
        // The first was chosen when nothing was known of the others: each is chosen again, beside all others.
        for _ in 0..MOST_PASSES {
            let mut is_settled = true;
            let mut number = 0;
            while number < found.len() {
                let before = found.remove(number);
                self.accept_only(&found);
                let candidates = self.candidates(&before.flows);
                let after = self.likeliest(&candidates, &found, &prior);
                is_settled &= after.as_ref().map(LossyPart::part) == Some(before.part());
                // What the others explain is no part of its own.
                if let Some(after) = after {
                    found.insert(number, after);
                    number += 1;
                }
            }
            if is_settled {
                break;
            }
        }
        self.accept_only(&found);
        found
    }

    /// The likeliest of some candidates, if what its flows lose is beyond chance and it is not found yet.
    fn likeliest(
        &self,
        candidates: &[Candidate],
        found: &[LossyPart],
        prior: &impl Fn(usize) -> f64,
    ) -> Option<LossyPart> {
        let weight = |candidate: &Candidate| candidate.evidence + prior(candidate.part).ln();
        let by_weight =
            |a: &&Candidate, b: &&Candidate| weight(a).total_cmp(&weight(b)).then(b.part.cmp(&a.part));
        let is_new = |best: &Candidate| !found.iter().any(|part| part.part() == best.part);
        let p_value_of = |best: &Candidate| ((-best.evidence).exp() * self.family() as f64).min(1.0);
        let surest = candidates.iter().max_by(by_weight)?;
        if p_value_of(surest) >= BEYOND_CHANCE || !is_new(surest) {
            return None;
        }
        let suspects = self.side_by_side(candidates, surest, prior);
        let best = candidates
            .iter()
            .find(|candidate| candidate.part == suspects[0].0)
            .filter(|best| p_value_of(best) < BEYOND_CHANCE && is_new(best))
            .unwrap_or(surest);
        let likeliest_share = suspects.first().map_or(1.0, |(_, share)| *share);
        let mut suspects: Vec<(usize, f64)> = suspects
            .into_iter()
            .filter(|(part, share)| *part == best.part || *share >= LIGHTEST * likeliest_share)
            .collect();
        suspects.sort_by_key(|(part, _)| *part != best.part);
        let (p_value, explained) = (p_value_of(best), self.explained(best));
        let mut crossing = self.over(best.part);
        if crossing.is_empty() {
            crossing = explained.iter().map(|flow| (*flow, 1.0)).collect();
        }
        Some(LossyPart {
            suspects,
            flows: explained,
            crossing,
            p_value,
            loss: best.loss,
        })
    }

    /// The parts that may explain what the surest of some candidates does, itself included, each with its share of belief, the likeliest first. What healthy flows lose is
    /// the same for all of them: what flows show that the surest neither was crossed by nor explains. Else a part that a flow only may have crossed would be held against
    /// losses that it explains itself.
    fn side_by_side(
        &self,
        candidates: &[Candidate],
        surest: &Candidate,
        prior: &impl Fn(usize) -> f64,
    ) -> Vec<(usize, f64)> {
        let own: BTreeSet<usize> = self.explained(surest).into_iter().collect();
        let over = &self.crossing[&surest.part];
        let all = self.healthy();
        let mut without = self.over_part(over);
        let certain: BTreeSet<usize> = over
            .iter()
            .filter(|(_, probability, _)| *probability >= 1.0)
            .map(|(flow, ..)| *flow)
            .collect();
        own.difference(&certain)
            .filter(|flow| !self.is_accounted[**flow])
            .for_each(|flow| {
                let prior = over
                    .iter()
                    .find(|(crossing, ..)| crossing == flow)
                    .map_or(0.0, |(_, probability, _)| *probability);
                without.add(&self.flows[*flow], 1.0 - prior);
            });
        let weight = |candidate: &Candidate| candidate.evidence + prior(candidate.part).ln();
        let least = COMPARED * weight(surest);
        let explains_some = |candidate: &&Candidate| {
            self.crossing[&candidate.part]
                .iter()
                .any(|(flow, ..)| own.contains(flow))
        };
        let is_rival = |candidate: &&Candidate| {
            candidate.part == surest.part || weight(candidate) >= least && explains_some(candidate)
        };
        let rivals = candidates.iter().filter(is_rival);
        let mut beside: Vec<(usize, f64)> = rivals
            .map(|rival| {
                let beside = self.candidate_beside(rival.part, &self.crossing[&rival.part], &all, &without);
                (rival.part, weight(&beside))
            })
            .collect();
        beside.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let top = beside.first().map_or(0.0, |(_, weight)| *weight);
        beside
            .iter_mut()
            .for_each(|(_, weight)| *weight = (*weight - top).exp());
        let sum: f64 = beside.iter().map(|(_, weight)| weight).sum();
        beside.iter_mut().for_each(|(_, weight)| *weight /= sum);
        beside
    }

    /// All flows, each with whether an accepted part was crossed by it, or explains it.
    pub(super) fn accounted(&self) -> impl Iterator<Item = (&'f LossFlow, bool)> + '_ {
        self.flows.iter().zip(self.is_accounted.iter().copied())
    }

    /// The flows that no accepted part was crossed by.
    pub(super) fn unaccounted(&self) -> impl Iterator<Item = &'f LossFlow> + '_ {
        let flows = self.flows.iter().zip(&self.is_accounted);
        flows
            .filter(|(_, is_accounted)| !**is_accounted)
            .map(|(flow, _)| flow)
    }

    /// What flows lose that no accepted part was crossed by.
    fn healthy(&self) -> Tally {
        let mut all = Tally::default();
        self.unaccounted().for_each(|flow| all.add(flow, 1.0));
        all
    }

    /// What those of them lose that crossed a part. Where they only may have, they are healthy as often.
    fn over_part(&self, crossing: &[(usize, f64, f64)]) -> Tally {
        let mut own = Tally::default();
        for (flow, probability, _) in crossing.iter().filter(|(flow, ..)| !self.is_accounted[*flow]) {
            own.add(&self.flows[*flow], *probability);
        }
        own
    }

    /// Flows that lost more than healthy ones of their kind do, and that no accepted part accounts for.
    pub(super) fn unexplained(&self) -> Vec<&'f LossFlow> {
        let all = self.healthy();
        let unusual = BEYOND_CHANCE / self.flows.len().max(1) as f64;
        let is_unusual = |flow: &&LossFlow| {
            let mut own = Tally::default();
            own.add(flow, 1.0);
            let (lossy, iterations) = flow.iterations;
            let healthy = all.baseline(flow.kind, &own);
            let by_chance = |healthy| at_least_of(u64::from(lossy), u64::from(iterations), healthy);
            lossy > 0 && healthy.is_some_and(|healthy| by_chance(healthy) < unusual)
        };
        self.unaccounted().filter(is_unusual).collect()
    }

    /// The flows that crossed a part, as far as is known, and the share of their packets that did.
    fn over(&self, part: usize) -> Vec<(usize, f64)> {
        let crossing = self.crossing[&part].iter();
        let likely = crossing.filter(|(_, probability, _)| *probability >= LIKELY);
        likely.map(|(flow, _, share)| (*flow, *share)).collect()
    }

    /// Every part that one of these flows crossed or may have crossed, all of which have losses.
    fn candidates(&self, flows: &[usize]) -> Vec<Candidate> {
        let all = self.healthy();
        let crossed = flows.iter().flat_map(|flow| self.flows[*flow].crossed());
        let parts: BTreeSet<usize> = crossed.map(|(part, ..)| part).collect();
        let parts: Vec<usize> = parts.into_iter().collect();
        parts
            .into_par_iter()
            .map(|part| self.candidate(part, &self.crossing[&part], &all))
            .collect()
    }

    fn candidate(&self, part: usize, crossing: &[(usize, f64, f64)], all: &Tally) -> Candidate {
        self.candidate_beside(part, crossing, all, &self.over_part(crossing))
    }

    /// The same where healthy flows lose what all but these do.
    fn candidate_beside(
        &self,
        part: usize,
        crossing: &[(usize, f64, f64)],
        all: &Tally,
        without: &Tally,
    ) -> Candidate {
        let disturbed = all.disturbed(without);
        // Flows of one slot may be disturbed together: they are one measurement.
        let mut expected = vec![0.0; self.slots];
        for (flow, probability, _) in crossing {
            let data = &self.flows[*flow];
            expected[self.alike[*flow].1] += probability * data.times / data.of;
        }
        // What it loses is considered by what its flows lose of it, on the same steps for every part: one that all packets cross and one that a share of them does are
        // then held against each other by what they explain, not by which step happens to lie closer.
        let most = crossing
            .iter()
            .map(|(.., share)| *share)
            .fold(f64::MIN_POSITIVE, f64::max);
        let mut ratios = Ratios::of_share(most);
        // Of flows that certainly crossed it, the weights of those that are alike add up.
        let mut certain: Vec<f64> = Vec::new();
        let mut terms: Vec<Term> = Vec::new();
        for (flow, probability, share) in crossing.iter().copied() {
            let data = &self.flows[flow];
            // Without others of its kind, a flow tells nothing.
            let Some(baseline) = all.baseline(data.kind, without) else {
                continue;
            };
            let (class, slot) = self.alike[flow];
            let one = Crossing {
                share,
                weight: 1.0 / (1.0 + data.alike * (expected[slot] - 1.0).max(0.0)),
                baseline,
                disturbed,
            };
            let row = ratios.row(&one, class, data, self.known[flow]);
            if probability < 1.0 {
                terms.push(Term {
                    connection: data.connection,
                    row,
                    probability,
                    weight: one.weight * data.times,
                });
                continue;
            }
            certain.resize(ratios.rows.len(), 0.0);
            certain[row] += one.weight * data.times;
        }
        // What one flow of a connection certainly crossed, all of them did.
        if !terms.is_empty() {
            let sure = crossing.iter().filter(|(_, probability, _)| *probability >= 1.0);
            let sure: HashSet<usize> = sure.map(|(flow, ..)| self.flows[*flow].connection).collect();
            for term in terms.extract_if(.., |term| sure.contains(&term.connection)) {
                certain.resize(ratios.rows.len(), 0.0);
                certain[term.row] += term.weight;
            }
        }
        // Flows of one connection either all crossed the part or none of them did.
        terms.sort_by_key(|term| term.connection);
        let (single, several): (Vec<&[Term]>, Vec<&[Term]>) = terms
            .chunk_by(|a, b| a.connection == b.connection)
            .partition(|terms| terms.len() == 1);
        // Most connections are alike: clean flows with as many packets as others.
        let mut classes: BTreeMap<(u64, usize, u64), f64> = BTreeMap::new();
        for term in single.into_iter().flatten() {
            *classes
                .entry((term.probability.to_bits(), term.row, term.weight.to_bits()))
                .or_default() += 1.0;
        }
        let maybe =
            |probability: f64, crossed: f64| ln_sum(probability.ln() + crossed, (1.0 - probability).ln());
        let evidence_at = |place: usize| -> f64 {
            let of_certain = certain
                .iter()
                .zip(&ratios.rows)
                .map(|(weight, row)| weight * row[place]);
            let of_single = classes.iter().map(|((probability, row, weight), connections)| {
                let crossed = f64::from_bits(*weight) * ratios.rows[*row][place];
                connections * maybe(f64::from_bits(*probability), crossed)
            });
            let of_several = several.iter().map(|terms| {
                let crossed = terms
                    .iter()
                    .map(|term| term.weight * ratios.rows[term.row][place])
                    .sum();
                maybe(
                    terms.iter().map(|term| term.probability).fold(0.0, f64::max),
                    crossed,
                )
            });
            of_certain.chain(of_single).chain(of_several).sum()
        };
        let points: Vec<(f64, f64)> = losses(most)
            .enumerate()
            .map(|(place, loss)| (loss, evidence_at(place)))
            .collect();
        let (loss, most) =
            points.iter().copied().fold(
                (0.0, f64::NEG_INFINITY),
                |best, one| {
                    if one.1 > best.1 { one } else { best }
                },
            );
        let sum: f64 = points.iter().map(|(_, evidence)| (evidence - most).exp()).sum();
        Candidate {
            part,
            evidence: most + (sum / points.len() as f64).ln(),
            loss,
        }
    }

    /// The flows with losses that a part explains better than chance does.
    fn explained(&self, best: &Candidate) -> Vec<usize> {
        let all = self.healthy();
        let crossing = &self.crossing[&best.part];
        let own = self.over_part(crossing);
        let disturbed = all.disturbed(&own);
        let is_explained = |(flow, _, share): &&(usize, f64, f64)| {
            let data = &self.flows[*flow];
            let baseline = all.baseline(data.kind, &own).filter(|_| data.lossy > 0.0);
            baseline.is_some_and(|baseline| {
                let one = Crossing {
                    share: *share,
                    weight: 1.0,
                    baseline,
                    disturbed,
                };
                one.ln_ratio(data, self.known[*flow], best.loss) > 0.0
            })
        };
        crossing
            .iter()
            .filter(is_explained)
            .map(|(flow, ..)| *flow)
            .collect()
    }

    /// What a part loses is expected from now on of the flows that crossed it, or that it explains.
    fn accept(&mut self, part: &LossyPart) {
        for (flow, probability, share) in self.crossing[&part.part()].clone() {
            if probability >= LIKELY || part.flows.binary_search(&flow).is_ok() {
                self.known[flow] -= (1.0 - part.loss * share).ln();
                self.is_accounted[flow] = true;
            }
        }
    }

    /// What these parts lose is expected of flows, and nothing else.
    fn accept_only(&mut self, parts: &[LossyPart]) {
        self.known.fill(0.0);
        self.is_accounted.fill(false);
        parts.iter().for_each(|part| self.accept(part));
    }
}

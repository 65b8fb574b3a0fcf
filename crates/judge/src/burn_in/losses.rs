//! Parts that lose packets, by the probes of all cycles together (docs/loss.md, "Over many cycles").
//!
//! Parts are links, cables in both directions, what hosts send and receive, hosts, switches and rails, all by name: cycles have nothing else in common.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::catalog::{AccusedPart, CatalogIndex};
use super::cycle_store::CycleStore;
use super::probe_pool::{FlowKey, ProbePool, Window};
use crate::findings::{FlowOfCycles, LossOverCycles, parts_that_lose};
use record::{LinkName, RailEndName};

/// The chance of one false accusation in the whole burn-in that is accepted.
const FALSE_IN_ALL: f64 = 0.001;
/// A part that is less likely than this among those that explain the same is not accused.
const LEAST_SHARE: f64 = 0.3;
/// Other suspects are named from this share of the first one's belief on.
const ALSO_NAMED: f64 = 0.1;

/// A part that data crosses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// A cable in one direction.
    Link(u32),
    /// A cable in both directions, by its two links in order.
    Cable(u32, u32),
    /// What a host sends.
    Sends(u32),
    /// What a host receives.
    Receives(u32),
    /// Whatever a host sends or receives.
    Host(u32),
    /// A switch by name.
    Switch(String),
    /// A rail.
    Rail(u32),
}

impl Part {
    /// How likely it is to be at fault, relative to a cable in one direction that explains the same.
    fn prior(&self) -> f64 {
        match self {
            Part::Link(_) => 1.0,
            Part::Cable(..) => 0.5,
            Part::Sends(_) | Part::Receives(_) | Part::Host(_) | Part::Switch(_) | Part::Rail(_) => 0.25,
        }
    }
}

/// A part that loses packets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LossyPart {
    pub(super) accused: AccusedPart,
    /// The cable's name in the direction that is meant, or the part's.
    pub(super) name: String,
    /// Whether a cable is meant in both directions.
    pub(super) is_both: bool,
    /// All parts that it may be instead, by name.
    pub(super) or: Vec<String>,
    /// Why it is not accused, where it is not.
    pub(super) why_not: Option<String>,
    /// The share of its packets that it loses: most likely, at least and at most.
    pub(super) share: (f64, f64, f64),
    /// Packets lost over it, of those sent.
    pub(super) over_it: (u64, u64),
    /// The same of flows over no lossy part.
    pub(super) elsewhere: (u64, u64),
    /// The first and the last cycle in which packets were lost over it.
    pub(super) lossy_cycles: (u32, u32),
    /// How many of the last cycles were judged together.
    pub(super) cycles: u32,
    /// How likely that is if it is healthy, corrected for all parts and windows.
    pub(super) p_value: f64,
}

/// What probes of all cycles say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Losses {
    /// Parts that lose more than chance explains.
    pub(super) parts: Vec<LossyPart>,
    /// Probes that certainly crossed a link, or an end of a rail, by name: lost and sent.
    over: BTreeMap<String, (u64, u64)>,
    /// Flows that were too many to keep.
    pub(super) left_out: u64,
}

impl Losses {
    /// Judges what is kept of probes.
    pub(super) fn of(store: &CycleStore, known: &CatalogIndex<'_>) -> Losses {
        let pool = store.probes();
        let fabric = Fabric::of(pool, store, known);
        let windows = pool.windows.len().max(1) as f64;
        let judge = |window: &Window| fabric.judge(window, windows);
        // Of several windows the one that shows most parts counts, of equal ones the surest.
        let shown = |parts: &[LossyPart]| {
            let confirmed = || parts.iter().filter(|part| part.why_not.is_none());
            (
                confirmed().count(),
                -confirmed().map(|part| part.p_value).fold(1.0, f64::min),
            )
        };
        let better = |best: Vec<LossyPart>, next: Vec<LossyPart>| {
            let ((some, sure), (more, surer)) = (shown(&best), shown(&next));
            match more > some || more == some && (surer > sure || best.is_empty()) {
                true => next,
                false => best,
            }
        };
        Losses {
            parts: pool.windows.iter().map(judge).reduce(better).unwrap_or_default(),
            over: fabric.over(),
            left_out: pool.left_out,
        }
    }

    /// Whether there were probes at all.
    pub(super) fn were_looked_for(&self) -> bool {
        !self.over.is_empty()
    }

    /// Probes that certainly crossed a link or an end of a rail: lost and sent.
    pub(super) fn over(&self, name: &str) -> Option<(u64, u64)> {
        self.over.get(name).copied()
    }

    /// Those that are accused, where they lose more than is accepted.
    pub(super) fn counting(&self, accepted: f64) -> impl Iterator<Item = &LossyPart> {
        let beyond = move |part: &&LossyPart| {
            let (_, at_least, _) = part.share;
            part.why_not.is_none() && (accepted <= 0.0 || at_least > accepted)
        };
        self.parts.iter().filter(beyond)
    }
}

/// The flows of a pool and the parts that they cross.
struct Fabric<'s, 'k> {
    pool: &'s ProbePool,
    store: &'s CycleStore,
    known: &'s CatalogIndex<'k>,
    parts: Vec<Part>,
    /// Per flow of the pool what it crosses; its counts come with a window.
    flows: Vec<FlowOfCycles<'static>>,
    /// Host, rail and direction of links at hosts that the catalogue does not know.
    ends: HashMap<u32, (u32, u32, bool)>,
}

impl<'s, 'k> Fabric<'s, 'k> {
    fn of(pool: &'s ProbePool, store: &'s CycleStore, known: &'s CatalogIndex<'k>) -> Fabric<'s, 'k> {
        let mut fabric = Fabric {
            pool,
            store,
            known,
            parts: Vec::new(),
            flows: Vec::new(),
            ends: HashMap::new(),
        };
        let mut numbers: BTreeMap<Part, usize> = BTreeMap::new();
        let cables = fabric.cables();
        let mut connections = HashMap::new();
        for (place, key) in pool.flows.iter().enumerate() {
            if let (Some(first), Some(last)) = (key.links.first(), key.links.last()) {
                fabric.ends.insert(*first, (key.from, key.rail, true));
                fabric.ends.insert(*last, (key.to, key.rail, false));
            }
            let mut flow = fabric.flow(key, &cables, &mut numbers);
            // Flows over a known path are told apart by it: what they share they share certainly.
            flow.connection = *connections
                .entry((key.from, key.to, key.rail, key.port, &*key.links))
                .or_insert(place);
            fabric.flows.push(flow);
        }
        fabric
    }

    /// Links whose other direction is known, too, with the two in order.
    fn cables(&self) -> HashMap<u32, (u32, u32)> {
        let all: BTreeSet<u32> = self.pool.flows.iter().flat_map(links_of).collect();
        let by_name: HashMap<&str, u32> = all.iter().map(|link| (self.store.text(*link), *link)).collect();
        let both = all.iter().filter_map(|link| {
            let name = LinkName::parse(self.store.text(*link))?;
            let back = *by_name.get(name.reversed().to_string().as_str())?;
            Some((*link, (*link.min(&back), *link.max(&back))))
        });
        both.collect()
    }

    fn flow(
        &mut self,
        key: &FlowKey,
        cables: &HashMap<u32, (u32, u32)>,
        numbers: &mut BTreeMap<Part, usize>,
    ) -> FlowOfCycles<'static> {
        let mut number = |part: Part| -> usize {
            let fresh = self.parts.len();
            *numbers.entry(part.clone()).or_insert_with(|| {
                self.parts.push(part);
                fresh
            })
        };
        // Where no topology is known, what lies between hosts has only been inferred.
        let has_switches = !self.known.known.links.is_empty();
        let hosts = [self.store.text(key.from), self.store.text(key.to)];
        let wholes = |link: u32| -> Vec<Part> {
            let cable = cables.get(&link).map(|(one, other)| Part::Cable(*one, *other));
            let nodes = LinkName::nodes_of(self.store.text(link))
                .filter(|node| has_switches && !hosts.contains(node));
            cable
                .into_iter()
                .chain(nodes.map(|node| Part::Switch(node.to_string())))
                .collect()
        };
        let mut certain: BTreeSet<usize> = [
            Part::Sends(key.from),
            Part::Receives(key.to),
            Part::Host(key.from),
            Part::Host(key.to),
            Part::Rail(key.rail),
        ]
        .into_iter()
        .map(&mut number)
        .collect();
        for link in &key.links {
            certain.insert(number(Part::Link(*link)));
            certain.extend(wholes(*link).into_iter().map(&mut number));
        }
        let mut possible: BTreeMap<usize, f64> = BTreeMap::new();
        for (link, probability) in key.possible() {
            possible.insert(number(Part::Link(link)), probability);
            for whole in wholes(link) {
                // Data comes to a switch over one cable and leaves it over another.
                let times = if matches!(whole, Part::Switch(_)) {
                    0.5
                } else {
                    1.0
                };
                *possible.entry(number(whole)).or_default() += times * probability;
            }
        }
        possible.retain(|part, _| !certain.contains(part));
        let (sure, maybe): (BTreeMap<_, _>, BTreeMap<_, _>) = possible
            .into_iter()
            .partition(|(_, probability)| *probability > 1.0 - 1e-9);
        certain.extend(sure.into_keys());
        FlowOfCycles {
            kind: key.test as usize,
            slot: key.slot,
            certain: certain.into_iter().collect(),
            possible: maybe
                .into_iter()
                .filter(|(_, probability)| *probability > 0.0)
                .collect(),
            shares: key
                .shares()
                .map(|(link, share)| (number(Part::Link(link)), share))
                .collect(),
            ..FlowOfCycles::default()
        }
    }

    /// The parts that lose packets in a window, one of so many.
    fn judge(&self, window: &Window, windows: f64) -> Vec<LossyPart> {
        let flows: Vec<FlowOfCycles<'_>> = self
            .flows
            .iter()
            .zip(&window.fared)
            .map(|(flow, fared)| FlowOfCycles {
                slot_cycles: window.slots.get(&flow.slot).copied().unwrap_or(0),
                outcomes: &fared.outcomes,
                ..flow.clone()
            })
            .collect();
        let found = parts_that_lose(&flows, |part| self.parts[part].prior());
        let found = found.into_iter().map(|loss| LossOverCycles {
            p_value: (loss.p_value * windows).min(1.0),
            ..loss
        });
        let beyond = found.filter(|loss| loss.p_value < FALSE_IN_ALL);
        beyond.filter_map(|loss| self.lossy(&loss, window)).collect()
    }

    fn lossy(&self, loss: &LossOverCycles, window: &Window) -> Option<LossyPart> {
        let (number, sure) = *loss.suspects.first()?;
        let part = self.parts.get(number)?;
        let own = || loss.flows.iter().filter_map(|flow| self.pool.flows.get(*flow));
        let lossy = || {
            loss.flows
                .iter()
                .filter_map(|flow| window.fared.get(*flow)?.lossy_cycles)
        };
        let first = lossy().map(|(first, _)| first).min()?;
        let last = lossy().map(|(_, last)| last).max()?;
        let count = |ends: &mut dyn Iterator<Item = u32>| ends.collect::<BTreeSet<u32>>().len();
        let partners = count(&mut own().map(|key| key.from)).max(count(&mut own().map(|key| key.to)));
        let all = count(&mut self.pool.flows.iter().flat_map(|key| [key.from, key.to]));
        let or = loss
            .suspects
            .iter()
            .skip(1)
            .filter(|(_, share)| *share >= ALSO_NAMED * sure);
        let or: Vec<String> = or
            .filter_map(|(other, _)| Some(self.name(self.parts.get(*other)?)))
            .collect();
        let why_not = if first == last {
            Some("seen in one cycle only".to_string())
        } else if partners < all.saturating_sub(1).min(2) {
            Some("seen with one partner only".to_string())
        } else if sure < LEAST_SHARE {
            Some(format!(
                "which of {} parts it is cannot be told",
                loss.suspects.len()
            ))
        } else {
            None
        };
        Some(LossyPart {
            accused: self.accused(part),
            name: self.name(part),
            is_both: matches!(part, Part::Cable(..)),
            or,
            why_not,
            share: loss.share,
            over_it: loss.over_it,
            elsewhere: loss.elsewhere,
            lossy_cycles: (first, last),
            cycles: window.cycles,
            p_value: loss.p_value,
        })
    }

    fn accused(&self, part: &Part) -> AccusedPart {
        match part {
            Part::Link(link) | Part::Cable(link, _) => match self.known.link(self.store.text(*link)) {
                Some(link) => AccusedPart::Cable(link.cable.clone()),
                None => match self.ends.get(link) {
                    Some((host, rail, _)) => AccusedPart::End {
                        host: self.store.text(*host).to_string(),
                        rail: self.store.text(*rail).to_string(),
                    },
                    None => AccusedPart::Other(self.store.text(*link).to_string()),
                },
            },
            Part::Sends(host) | Part::Receives(host) | Part::Host(host) => {
                AccusedPart::Node(self.store.text(*host).to_string())
            }
            Part::Switch(switch) => AccusedPart::Switch(switch.clone()),
            Part::Rail(rail) => AccusedPart::Rail(self.store.text(*rail).to_string()),
        }
    }

    /// What a part is called in decisions: the end of a rail for a host's cable that is not known.
    fn name(&self, part: &Part) -> String {
        let text = |number: &u32| self.store.text(*number).to_string();
        match part {
            Part::Link(link) | Part::Cable(link, _) => self.name_of_link(*link),
            Part::Sends(host) | Part::Receives(host) | Part::Host(host) => text(host),
            Part::Switch(switch) => switch.clone(),
            Part::Rail(rail) => text(rail),
        }
    }

    fn name_of_link(&self, link: u32) -> String {
        let name = self.store.text(link);
        match self.ends.get(&link) {
            Some((host, rail, is_out)) if self.known.link(name).is_none() => {
                let (host, rail) = (self.store.text(*host), self.store.text(*rail));
                match is_out {
                    true => RailEndName::out(host, rail).to_string(),
                    false => RailEndName::into(host, rail).to_string(),
                }
            }
            _ => name.to_string(),
        }
    }

    /// Probes of all cycles over every link that they certainly crossed.
    fn over(&self) -> BTreeMap<String, (u64, u64)> {
        let mut over: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let all = self.pool.windows.first().map_or(&[][..], |window| &window.fared);
        for (key, fared) in self.pool.flows.iter().zip(all) {
            let lost: u64 = fared.outcomes.iter().map(|outcome| outcome.lost).sum();
            let sent: u64 = fared.outcomes.iter().map(|outcome| outcome.sent).sum();
            for link in &key.links {
                let (all_lost, all_sent) = over.entry(*link).or_default();
                *all_lost = all_lost.saturating_add(lost);
                *all_sent = all_sent.saturating_add(sent);
            }
        }
        over.into_iter()
            .map(|(link, counts)| (self.name_of_link(link), counts))
            .collect()
    }
}

fn links_of(key: &FlowKey) -> impl Iterator<Item = u32> + '_ {
    key.links
        .iter()
        .copied()
        .chain(key.possible().map(|(link, _)| link))
}

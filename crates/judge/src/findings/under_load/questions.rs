//! The four questions that are asked of a rail, and what makes a part suspect.

use std::collections::{BTreeMap, BTreeSet};

use super::meant::Meant;
use super::slots::{RailSeen, SlotSeen};
use super::spots::{self, Seen, Spot, SpotSeen};
use super::{Asked, Doubt, Looked, Suspicion};
use crate::findings::analysis::RunAnalysis;
use record::stats::{median, median_of_sorted};
use record::text;
use record::{Collective, Congestion};

/// An end that is paused, or pauses others, for a smaller share of a slot is not looked at.
pub(super) const PAUSED: f64 = 0.01;
/// Where fewer packets are marked, none are: a stray mark is no congestion control.
const UNMARKED: f64 = 1e-5;
/// A smaller share of packets lost under load does not matter.
pub(super) const LOST: f64 = 1e-6;
/// In so many slots of a healthy rail packets are lost for another reason, at most, or a receiver pauses others.
pub(super) const BY_CHANCE: f64 = 0.05;
/// In so many slots with pauses of a healthy rail no marks are counted.
pub(super) const UNMARKED_BY_CHANCE: f64 = 0.1;
/// So many victims of a healthy fabric are slower for another reason, while another rail is loaded.
pub(super) const SLOWER_BY_CHANCE: f64 = 0.2;
/// A victim that takes so much longer suffers: from a load on its own rail (as against other receivers), and on another one.
pub(super) const SUFFERS: f64 = 1.25;
/// Losses that were to be expected without load, if the load had nothing to do with them, and which share of them may be seen.
const EXPECTED: f64 = 12.0;
const SEEN_WITHOUT_LOAD: f64 = 0.25;

/// Why losses and marks are not judged over TCP.
const NOT_RDMA: &str = "NICs count losses and marks of RDMA only, and this is none";

/// One rail that is looked at.
pub(super) struct Look<'l, 'a> {
    pub(super) analysis: &'l RunAnalysis<'a>,
    pub(super) name: &'l str,
    pub(super) rail: &'l RailSeen<'a>,
    pub(super) rows: &'l [Congestion],
    pub(super) meant: &'l Meant,
}

impl Look<'_, '_> {
    fn looked(&self, asked: Asked, else_seen: Result<String, String>) -> Looked {
        Looked {
            asked,
            rail: self.name.to_string(),
            suspicions: Vec::new(),
            else_seen,
            compared: 0,
        }
    }

    fn loaded(&self) -> impl Iterator<Item = &SlotSeen<'_>> {
        self.rail.slots.iter().filter(|slot| slot.load.is_some())
    }

    fn quiet(&self) -> impl Iterator<Item = &SlotSeen<'_>> {
        self.rail.slots.iter().filter(|slot| slot.load.is_none())
    }

    fn leaf(&self, rank: u32) -> Option<&str> {
        let localisation = self.analysis.localisation.as_ref()?;
        localisation.graph.leaf_of(rank, self.name)
    }

    /// Where these slots are bad, and how many places were compared.
    fn spots<'s>(&self, slots: impl Iterator<Item = (&'s SlotSeen<'s>, bool)>) -> (Vec<SpotSeen>, usize) {
        let seen: Vec<Seen> = slots
            .map(|(slot, is_bad)| Seen {
                receiver: slot.root(),
                is_bad,
                cells: slot.cells.clone(),
            })
            .collect();
        spots::of(&seen, &|rank| self.leaf(rank))
    }

    /// Packets that pauses should have protected.
    pub(super) fn losses(&self) -> Looked {
        let asked = Asked::Lossless;
        if !self.rail.is_rdma {
            return self.looked(asked, Err(NOT_RDMA.to_string()));
        }
        if !self.rail.knows_losses || !self.rail.knows_pauses {
            return self.looked(asked, Err("no counters of pauses and of losses".to_string()));
        }
        let lossless = match &self.meant.lossless {
            Ok(why) => why.clone(),
            Err(why) => return self.looked(asked, Err(why.clone())),
        };
        let is_lossy = |slot: &SlotSeen<'_>| {
            let (lost, arrived) = slot.losses();
            lost > 0 && lost as f64 >= LOST * arrived as f64
        };
        let sums = |slots: &mut dyn Iterator<Item = &SlotSeen<'_>>| {
            slots.fold((0u64, 0u64), |(lost, arrived), slot| {
                let (more, packets) = slot.losses();
                (lost.saturating_add(more), arrived.saturating_add(packets))
            })
        };
        let (quiet, quiet_lossy) = (
            self.quiet().count(),
            self.quiet().filter(|slot| is_lossy(slot)).count(),
        );
        let by_chance = BY_CHANCE.max((quiet_lossy + 1) as f64 / (quiet + 2) as f64);
        let (spots, compared) = self.spots(self.loaded().map(|slot| (slot, is_lossy(slot))));
        let (lost, arrived) = sums(&mut self.loaded());
        let seen = format!("{lost} of {} packets lost under load", text::thousands(arrived));
        let mut looked = self.looked(asked, Ok(seen));
        looked.compared = compared;
        for spot in spots {
            let is_of_spot = |slot: &&SlotSeen<'_>| spot.spot.is_root_of(slot.root());
            let is_near = |slot: &&SlotSeen<'_>| slot.receivers.iter().any(|rank| spot.spot.has(*rank));
            let (lost, arrived) = sums(&mut self.loaded().filter(is_of_spot));
            let (lost_quiet, arrived_quiet) = sums(&mut self.quiet().filter(is_near));
            let expected = lost as f64 / arrived.max(1) as f64 * arrived_quiet as f64;
            let doubt = if expected < EXPECTED {
                let near = self.quiet().filter(is_near);
                let cells = near.flat_map(|slot| slot.cells.iter().copied()).collect();
                let why = "too few packets were sent without load to tell it from a cable that loses some";
                Some(Doubt::TooFew(why.to_string(), cells))
            } else if lost_quiet as f64 > SEEN_WITHOUT_LOAD * expected {
                let why = "without load as well: a cable may lose them (`railgauge run probe` tells)";
                Some(Doubt::Else(why.to_string()))
            } else {
                None
            };
            let seen = format!(
                "{lost} of {} packets lost in {} of {} slots under load",
                text::thousands(arrived),
                spot.bad,
                spot.of
            );
            let evidence = vec![
                format!(
                    "without load {lost_quiet} of {} packets were lost there, {expected:.0} were to be expected at that rate",
                    text::thousands(arrived_quiet)
                ),
                lossless.clone(),
            ];
            looked.suspicions.push(Suspicion {
                spot,
                by_chance,
                seen,
                evidence,
                doubt,
            });
        }
        looked
    }

    /// Pauses without marks before them.
    pub(super) fn marks(&self) -> Looked {
        let asked = Asked::MarksFirst;
        if !self.rail.is_rdma {
            return self.looked(asked, Err(NOT_RDMA.to_string()));
        }
        if let Err(why) = &self.meant.marks {
            return self.looked(asked, Err(why.clone()));
        }
        if !self.rail.knows_marks || !self.rail.knows_pauses {
            return self.looked(asked, Err("no counters of pauses and of marks".to_string()));
        }
        let paused = || self.loaded().filter(|slot| slot.paused() >= PAUSED);
        let is_unmarked = |slot: &SlotSeen<'_>| slot.marked() < UNMARKED;
        let (spots, compared) = self.spots(paused().map(|slot| (slot, is_unmarked(slot))));
        let shares: Vec<f64> = self.loaded().map(SlotSeen::marked).collect();
        let seen = match paused().count() {
            0 => Err(format!(
                "no sender was paused for {} of a slot or more",
                text::percent(PAUSED)
            )),
            count => Ok(format!(
                "{} with pauses, {} of packets marked (median of slots)",
                text::counted(count, "slot"),
                text::percent(median(&shares).unwrap_or(0.0))
            )),
        };
        let mut looked = self.looked(asked, seen);
        looked.compared = compared;
        for spot in spots {
            let of_spot = || paused().filter(|slot| spot.spot.is_root_of(slot.root()));
            let times: Vec<f64> = of_spot().map(SlotSeen::paused).collect();
            let seen = format!(
                "senders were paused for up to {} of the time, and in {} of {} such slots no packet was marked",
                text::percent(times.iter().copied().fold(0.0, f64::max)),
                spot.bad,
                spot.of
            );
            looked.suspicions.push(Suspicion {
                spot,
                by_chance: UNMARKED_BY_CHANCE,
                seen,
                evidence: vec![format!(
                    "in all slots under load {} of packets were marked (median)",
                    text::percent(median(&shares).unwrap_or(0.0))
                )],
                doubt: None,
            });
        }
        looked
    }

    /// Receivers that pause the fabric.
    pub(super) fn pauses(&self) -> Looked {
        let asked = Asked::Pauses;
        if !self.rail.knows_pauses {
            return self.looked(asked, Err("no counters of pauses".to_string()));
        }
        // Slots in which a host receives in bulk, and in which its end pauses others.
        let mut receivers: BTreeMap<u32, SpotSeen> = BTreeMap::new();
        for slot in &self.rail.slots {
            for rank in &slot.receivers {
                let Some(host) = self.analysis.host(*rank) else {
                    continue;
                };
                let seen = receivers.entry(*rank).or_insert_with(|| SpotSeen {
                    spot: Spot::Host(*rank),
                    bad: 0,
                    of: 0,
                    cells: BTreeSet::new(),
                    all: BTreeSet::new(),
                });
                seen.of += 1;
                seen.all.extend(&slot.cells);
                if slot.pauses(host) >= PAUSED {
                    seen.bad += 1;
                    seen.cells.extend(&slot.cells);
                }
            }
        }
        let all = receivers
            .values()
            .fold((0, 0), |(bad, of), one| (bad + one.bad, of + one.of));
        let seen = format!("receivers paused others in {} of {} slots", all.0, all.1);
        let mut looked = self.looked(asked, Ok(seen));
        looked.compared = receivers.len();
        for (rank, spot) in receivers {
            let (bad, of) = (spot.bad, spot.of);
            if bad == 0 || 2 * bad < of {
                continue;
            }
            let others = (all.0 - bad, all.1 - of);
            let by_chance = BY_CHANCE.max((others.0 + 1) as f64 / (others.1 + 2) as f64);
            let host = self.analysis.host(rank).unwrap_or_default();
            let shares: Vec<f64> = self
                .rail
                .slots
                .iter()
                .filter(|slot| slot.receivers.contains(&rank))
                .map(|slot| slot.pauses(host))
                .collect();
            let victims = self.victims_of(rank);
            let suffering = match victims.is_empty() {
                true => "nobody else was seen to suffer".to_string(),
                false => format!("victims: {}", text::list_up_to(&victims, 3)),
            };
            let seen = format!(
                "paused others for {} of the time (median) while it received, in {bad} of {of} slots, other receivers in {} of {}; {suffering}",
                text::percent(median(&shares).unwrap_or(0.0)),
                others.0,
                others.1
            );
            looked.suspicions.push(Suspicion {
                spot,
                by_chance,
                seen,
                evidence: victims,
                doubt: None,
            });
        }
        looked
    }

    /// Flows that take no part in an incast to this rank, and take longer beside it than beside one to others.
    fn victims_of(&self, rank: u32) -> Vec<String> {
        let is_here = |row: &&Congestion| {
            row.rail == self.name && row.load_rail.is_none() && row.load == Collective::Incast
        };
        let rows = || self.rows.iter().filter(is_here);
        let is_root = |row: &&Congestion| row.loaders.first() == Some(&rank);
        let mut victims = Vec::new();
        for row in rows().filter(is_root) {
            let others: Vec<f64> = rows()
                .filter(|other| !is_root(other))
                .filter(|other| other.measured_by == row.measured_by && other.load_size == row.load_size)
                .map(|other| other.impact)
                .collect();
            let usual = median(&others).unwrap_or(1.0).max(1.0);
            if row.impact < SUFFERS * usual {
                continue;
            }
            let [from, to] = row.victim.as_slice() else {
                continue;
            };
            let what = match row.measured_by {
                Collective::RoundTrip => "round trips",
                _ => "flow",
            };
            victims.push(format!(
                "{what} {} to {} took {:.1} times as long (usual beside an incast: {usual:.1})",
                self.analysis.run().rank_name(*from),
                self.analysis.run().rank_name(*to),
                row.impact
            ));
        }
        victims
    }

    /// How much longer a victim took under load than alone, in each round in which both were measured.
    fn impacts_by_round(&self, row: &Congestion) -> Vec<(u32, f64)> {
        let rounds = |cell: u32| {
            let place = self.analysis.place(cell);
            let rounds = place.map_or(&[][..], |place| &self.analysis.summaries[place].rounds);
            rounds
                .iter()
                .filter_map(|round| Some((round.number, median_of_sorted(&round.times)?)))
                .collect::<BTreeMap<u16, f64>>()
        };
        let (under, alone) = (rounds(row.under_cell), rounds(row.alone_cell));
        let both = under
            .iter()
            .filter_map(|(round, time)| Some((time, alone.get(round)?)));
        both.map(|(time, alone)| (row.under_cell, time / alone.max(1.0)))
            .collect()
    }

    /// Flows on this rail while another one is loaded.
    pub(super) fn other_rails(&self) -> Looked {
        let asked = Asked::RailsApart;
        let mut by_rail: BTreeMap<&str, Vec<&Congestion>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.rail == self.name) {
            if let Some(loaded) = &row.load_rail {
                by_rail.entry(loaded).or_default().push(row);
            }
        }
        let impacts = |rows: &[&Congestion]| rows.iter().map(|row| row.impact).collect::<Vec<f64>>();
        let seen = by_rail.iter().map(|(loaded, rows)| {
            let usual = median(&impacts(rows)).unwrap_or(1.0);
            format!(
                "{usual:.2} times as long beside a load on {loaded} ({})",
                text::counted(rows.len(), "flow")
            )
        });
        let seen: Vec<String> = seen.collect();
        let mut looked = self.looked(
            asked,
            match seen.is_empty() {
                true => Err("no other rail was loaded".to_string()),
                false => Ok(seen.join("; ")),
            },
        );
        looked.compared = by_rail.len();
        for (loaded, rows) in by_rail {
            // Every round is a draw of its own.
            let rounds: Vec<(u32, f64)> = rows.iter().flat_map(|row| self.impacts_by_round(row)).collect();
            let slow: Vec<u32> = rounds
                .iter()
                .filter(|(_, impact)| *impact >= SUFFERS)
                .map(|(cell, _)| *cell)
                .collect();
            let usual = median(&impacts(&rows)).unwrap_or(1.0);
            if usual < SUFFERS {
                continue;
            }
            let seen = format!(
                "flows take {usual:.1} times as long (median) while {loaded} is loaded by others, {} of {} of them",
                slow.len(),
                rounds.len()
            );
            looked.suspicions.push(Suspicion {
                spot: SpotSeen {
                    spot: Spot::Rail,
                    bad: slow.len(),
                    of: rounds.len(),
                    cells: slow.into_iter().collect(),
                    all: rows
                        .iter()
                        .flat_map(|row| [row.under_cell, row.alone_cell])
                        .collect(),
                },
                by_chance: SLOWER_BY_CHANCE,
                seen,
                evidence: vec![format!(
                    "hosts of these flows took no part in the load on {loaded}"
                )],
                doubt: None,
            });
        }
        looked
    }
}

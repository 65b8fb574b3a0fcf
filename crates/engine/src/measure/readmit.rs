//! Hosts that were lost and come back: they introduce themselves again, all others learn where they are now, and their
//! clocks are compared. To be called between measurements. Whoever is not let in, or is lost meanwhile, stays absent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::agreement::Agreement;
use super::orders::{Answer, Card, Order, QuitReason};
use super::returner::is_another;
use super::session::{Heard, MeasureError, Session};
use crate::launch::Rendezvous;

/// What came of looking who has come back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejoinResult {
    /// Ranks that take part again.
    pub back: Vec<u32>,
    /// Ranks that were there and are not let in, each with why. They stay absent, and may try again.
    pub refused: Vec<(u32, String)>,
}

impl Session {
    /// Lets the processes of absent ranks come back to `door`, where they then wait to be let in.
    pub fn allow_rejoin(&self, door: &Rendezvous) {
        self.absent.iter().for_each(|rank| door.allow_rejoin(*rank));
    }

    /// Lets in the ranks that have come back to `door`, host by host: all absent ranks of a host or none. Connections of all
    /// ranks are made anew afterwards.
    pub fn rejoin(&mut self, door: &Rendezvous) -> Result<RejoinResult, MeasureError> {
        self.allow_rejoin(door);
        let hosts = self.whole_hosts(&door.waiting_to_rejoin());
        let mut outcome = RejoinResult::default();
        if hosts.is_empty() || self.is_interrupted() {
            return Ok(outcome);
        }
        let mut said = self.introduce_again(hosts.iter().flatten(), door)?;
        let mut accepted = Vec::new();
        for ranks in hosts {
            match self.take_back(&ranks, &mut said) {
                Ok(()) => accepted.push(ranks),
                Err(why) => outcome.refused.extend(self.turn_away(&ranks, why, door)?),
            }
        }
        if accepted.is_empty() {
            return Ok(outcome);
        }
        self.make_known()?;
        for ranks in accepted {
            match self.set_clocks(&ranks)? {
                None => outcome.back.extend(ranks),
                Some(why) => outcome.refused.extend(self.turn_away(&ranks, why, door)?),
            }
        }
        Ok(outcome)
    }

    /// Tells those who have come back and wait at `door` that the run is over; to be called before [`Session::quit`].
    pub fn dismiss_waiting(&mut self, door: &Rendezvous) -> Result<(), MeasureError> {
        for rank in door.waiting_to_rejoin() {
            if door.accept_rejoin(rank, &mut self.coordinator).is_ok() {
                self.order(rank, &Order::Quit(QuitReason::WithLosses))?;
            }
        }
        Ok(())
    }

    /// The absent ranks of every host of which all that are absent have returned.
    fn whole_hosts(&self, returned: &[u32]) -> Vec<Vec<u32>> {
        let mut hosts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for record in self
            .fabric
            .ranks
            .iter()
            .filter(|record| self.absent.contains(&record.rank))
        {
            hosts.entry(&record.host).or_default().push(record.rank);
        }
        let is_whole = |ranks: &Vec<u32>| ranks.iter().all(|rank| returned.contains(rank));
        hosts.into_values().filter(is_whole).collect()
    }

    /// Lets ranks that wait at the door say who they are; for each its card, or why there is none.
    fn introduce_again<'a>(
        &mut self,
        ranks: impl Iterator<Item = &'a u32>,
        door: &Rendezvous,
    ) -> Result<BTreeMap<u32, Result<Card, String>>, MeasureError> {
        let mut said = BTreeMap::new();
        let mut orders = BTreeMap::new();
        for &rank in ranks {
            match door.accept_rejoin(rank, &mut self.coordinator) {
                Ok(()) => {
                    self.absent.remove(&rank);
                    orders.insert(rank, Order::Meet(self.setup.clone()));
                }
                Err(gone) => drop(said.insert(rank, Err(gone.to_string()))),
            }
        }
        let asked: BTreeSet<u32> = orders.keys().copied().collect();
        let until = Instant::now() + self.deadline();
        self.ask(orders, until, |rank, answer| match answer {
            Answer::Met(card) if asked.contains(&rank) => {
                said.insert(rank, Ok(*card));
                None
            }
            Answer::CannotMeet(reason) if asked.contains(&rank) => {
                said.insert(rank, Err(format!("it cannot take part: {reason}")));
                None
            }
            other => Some(other),
        })?;
        for rank in asked {
            let why = self.why_unheard(rank);
            said.entry(rank).or_insert(Err(why));
        }
        Ok(said)
    }

    /// Why nothing came of what `rank` was asked.
    fn why_unheard(&self, rank: u32) -> String {
        let overheard = self.overheard.borrow();
        let lost = overheard.iter().find_map(|heard| match heard {
            Heard::Gone(lost, reason) if *lost == rank => Some(reason.clone()),
            _ => None,
        });
        match lost {
            Some(reason) => format!("it was lost again at once: {reason}"),
            None => format!("it did not answer within {}", self.setup.deadline),
        }
    }

    /// Puts a host's new cards in the place of its old ones, if it is the host it was; else says which rank is not and why.
    fn take_back(
        &mut self,
        ranks: &[u32],
        said: &mut BTreeMap<u32, Result<Card, String>>,
    ) -> Result<(), (u32, String)> {
        let mut cards = self.cards.clone();
        for &rank in ranks {
            let unheard = || Err("it said nothing".to_string());
            let card = said.remove(&rank).unwrap_or_else(unheard);
            let card = card.map_err(|why| (rank, why))?;
            let known = self.fabric.rank(rank);
            if let Some(why) = known.and_then(|known| is_another(&card, known)) {
                return Err((rank, why));
            }
            if let Some(place) = cards.get_mut(rank as usize) {
                *place = card;
            }
        }
        let agreed = Agreement::of(&cards, &self.fabric);
        if let Some(why) = agreed.falls_short_of(&self.agreed) {
            return Err((ranks.first().copied().unwrap_or_default(), why));
        }
        self.agreed = agreed;
        for &rank in ranks {
            let card = &cards[rank as usize];
            self.ends[rank as usize] = card.endpoint.clone();
            self.machines[rank as usize] = card.identity.machine.clone();
            if let Some(record) = self.fabric.ranks.iter_mut().find(|record| record.rank == rank) {
                record.pid = card.pid;
            }
        }
        self.cards = cards;
        Ok(())
    }

    /// Everybody gives up the connections there were and learns where all are now. Whoever does not answer is missed by
    /// whoever measures next.
    fn make_known(&mut self) -> Result<(), MeasureError> {
        let present = (0..self.coordinator.world()).filter(|rank| !self.absent.contains(rank));
        let orders = present.map(|rank| (rank, Order::Reset)).collect();
        let until = Instant::now() + self.deadline();
        self.ask(orders, until, |_, answer| match answer {
            Answer::Reset => None,
            other => Some(other),
        })?;
        self.communicators.clear();
        self.order_all(&Order::Peers(self.ends.clone()))
    }

    /// Compares the clocks of a host's ranks; which one does not answer, and why, if there is one.
    fn set_clocks(&mut self, ranks: &[u32]) -> Result<Option<(u32, String)>, MeasureError> {
        for &rank in ranks {
            match self.ask_clock(rank)? {
                Some(offset) => self.offsets[rank as usize] = offset,
                None => return Ok(Some((rank, self.why_unheard(rank)))),
            }
        }
        Ok(None)
    }

    /// Leaves a host out again because of one of its ranks; their seats are free for another try.
    fn turn_away(
        &mut self,
        ranks: &[u32],
        (culprit, why): (u32, String),
        door: &Rendezvous,
    ) -> Result<Vec<(u32, String)>, MeasureError> {
        let mut refused = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            self.leave_out(rank)?;
            door.allow_rejoin(rank);
            refused.push(match rank == culprit {
                true => (rank, why.clone()),
                false => (rank, format!("rank {culprit} of its host is not let in")),
            });
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests;

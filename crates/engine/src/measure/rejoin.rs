//! Lost hosts rejoining the run: they are set up again, all others get their new endpoints, and their clocks are compared.
//! Called between measurements. A rank that is refused, or lost meanwhile, stays absent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::capabilities::Capabilities;
use super::error::MeasureError;
use super::protocol::{Answer, Order, QuitReason, RankInfo};
use super::rejoin_check::difference_from;
use super::session::{Received, Session};
use crate::launch::Rendezvous;

/// Which ranks have rejoined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejoinResult {
    /// Ranks that take part again.
    pub rejoined: Vec<u32>,
    /// Ranks that were refused, each with the reason. They stay absent, and may try again.
    pub refused: Vec<(u32, String)>,
}

impl Session {
    /// Allows absent ranks to rejoin at `rendezvous`, where they then wait to be accepted.
    pub fn allow_rejoin(&self, rendezvous: &Rendezvous) {
        self.absent.iter().for_each(|rank| rendezvous.allow_rejoin(*rank));
    }

    /// Accepts the ranks that wait at `rendezvous`, host by host: all absent ranks of a host or none. All ranks reconnect
    /// afterwards.
    pub fn rejoin(&mut self, rendezvous: &Rendezvous) -> Result<RejoinResult, MeasureError> {
        self.allow_rejoin(rendezvous);
        let hosts = self.complete_hosts(&rendezvous.waiting_to_rejoin());
        let mut result = RejoinResult::default();
        if hosts.is_empty() || self.is_interrupted() {
            return Ok(result);
        }
        let mut infos = self.set_up_again(hosts.iter().flatten(), rendezvous)?;
        let mut accepted = Vec::new();
        for ranks in hosts {
            match self.accept_host(&ranks, &mut infos) {
                Ok(()) => accepted.push(ranks),
                Err(why) => result.refused.extend(self.refuse(&ranks, why, rendezvous)?),
            }
        }
        if accepted.is_empty() {
            return Ok(result);
        }
        self.publish_endpoints()?;
        for ranks in accepted {
            match self.compare_clocks_of(&ranks)? {
                None => result.rejoined.extend(ranks),
                Some(why) => result.refused.extend(self.refuse(&ranks, why, rendezvous)?),
            }
        }
        Ok(result)
    }

    /// Tells ranks that wait at `rendezvous` that the run is over; to be called before [`Session::quit`].
    pub fn dismiss_waiting(&mut self, rendezvous: &Rendezvous) -> Result<(), MeasureError> {
        for rank in rendezvous.waiting_to_rejoin() {
            if rendezvous.accept_rejoin(rank, &mut self.coordinator).is_ok() {
                self.order(rank, &Order::Quit(QuitReason::WithLosses))?;
            }
        }
        Ok(())
    }

    /// The absent ranks of every host whose absent ranks all wait.
    fn complete_hosts(&self, waiting: &[u32]) -> Vec<Vec<u32>> {
        let mut hosts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for record in self
            .fabric
            .ranks
            .iter()
            .filter(|record| self.absent.contains(&record.rank))
        {
            hosts.entry(&record.host).or_default().push(record.rank);
        }
        let is_complete = |ranks: &Vec<u32>| ranks.iter().all(|rank| waiting.contains(rank));
        hosts.into_values().filter(is_complete).collect()
    }

    /// Sets up ranks that wait; for each its rank info, or why there is none.
    fn set_up_again<'a>(
        &mut self,
        ranks: impl Iterator<Item = &'a u32>,
        rendezvous: &Rendezvous,
    ) -> Result<BTreeMap<u32, Result<RankInfo, String>>, MeasureError> {
        let mut infos = BTreeMap::new();
        let mut orders = BTreeMap::new();
        for &rank in ranks {
            match rendezvous.accept_rejoin(rank, &mut self.coordinator) {
                Ok(()) => {
                    self.absent.remove(&rank);
                    orders.insert(rank, Order::SetUp(self.setup.clone()));
                }
                Err(error) => drop(infos.insert(rank, Err(error.to_string()))),
            }
        }
        let asked: BTreeSet<u32> = orders.keys().copied().collect();
        let until = Instant::now() + self.deadline();
        self.request(orders, until, |rank, answer| match answer {
            Answer::RankInfo(info) if asked.contains(&rank) => {
                infos.insert(rank, Ok(*info));
                None
            }
            Answer::SetUpFailed(reason) if asked.contains(&rank) => {
                infos.insert(rank, Err(format!("it cannot take part: {reason}")));
                None
            }
            other => Some(other),
        })?;
        for rank in asked {
            let why = self.why_no_answer(rank);
            infos.entry(rank).or_insert(Err(why));
        }
        Ok(infos)
    }

    /// Why `rank` did not answer a request.
    fn why_no_answer(&self, rank: u32) -> String {
        let deferred = self.deferred.borrow();
        let lost = deferred.iter().find_map(|received| match received {
            Received::Disconnected(lost, reason) if *lost == rank => Some(reason.clone()),
            _ => None,
        });
        match lost {
            Some(reason) => format!("it was lost again at once: {reason}"),
            None => format!("it did not answer within {}", self.setup.deadline),
        }
    }

    /// Replaces the rank infos of a host, if its ranks are what they were; else returns the rank that differs, and how.
    fn accept_host(
        &mut self,
        ranks: &[u32],
        infos: &mut BTreeMap<u32, Result<RankInfo, String>>,
    ) -> Result<(), (u32, String)> {
        let mut rank_infos = self.rank_infos.clone();
        for &rank in ranks {
            let missing = || Err("it sent no rank info".to_string());
            let info = infos.remove(&rank).unwrap_or_else(missing);
            let info = info.map_err(|why| (rank, why))?;
            let known = self.fabric.rank(rank);
            if let Some(why) = known.and_then(|known| difference_from(&info, known)) {
                return Err((rank, why));
            }
            if let Some(entry) = rank_infos.get_mut(rank as usize) {
                *entry = info;
            }
        }
        let capabilities = Capabilities::of(&rank_infos, &self.fabric);
        if let Some(why) = capabilities.lost_since(&self.capabilities) {
            return Err((ranks.first().copied().unwrap_or_default(), why));
        }
        self.capabilities = capabilities;
        for &rank in ranks {
            let info = &rank_infos[rank as usize];
            self.ends[rank as usize] = info.endpoint.clone();
            self.machines[rank as usize] = info.identity.machine.clone();
            if let Some(record) = self.fabric.ranks.iter_mut().find(|record| record.rank == rank) {
                record.pid = info.pid;
            }
        }
        self.rank_infos = rank_infos;
        Ok(())
    }

    /// All ranks drop their connections and get the new endpoints. A rank that does not answer is noticed by the next
    /// measurement.
    fn publish_endpoints(&mut self) -> Result<(), MeasureError> {
        let present = (0..self.coordinator.world()).filter(|rank| !self.absent.contains(rank));
        let orders = present.map(|rank| (rank, Order::Reset)).collect();
        let until = Instant::now() + self.deadline();
        self.request(orders, until, |_, answer| match answer {
            Answer::Reset => None,
            other => Some(other),
        })?;
        self.communicators.clear();
        self.order_all(&Order::Peers(self.ends.clone()))
    }

    /// Compares the clocks of a host's ranks; returns the rank that does not answer, and why.
    fn compare_clocks_of(&mut self, ranks: &[u32]) -> Result<Option<(u32, String)>, MeasureError> {
        for &rank in ranks {
            if !self.compare_rejoined(rank)? {
                return Ok(Some((rank, self.why_no_answer(rank))));
            }
        }
        Ok(None)
    }

    /// Excludes a host again because of one of its ranks; it may try again.
    fn refuse(
        &mut self,
        ranks: &[u32],
        (culprit, why): (u32, String),
        rendezvous: &Rendezvous,
    ) -> Result<Vec<(u32, String)>, MeasureError> {
        let mut refused = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            self.exclude(rank)?;
            rendezvous.allow_rejoin(rank);
            refused.push(match rank == culprit {
                true => (rank, why.clone()),
                false => (rank, format!("rank {culprit} of its host was refused")),
            });
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests;

//! Ranks introduce themselves, and their clocks are compared. Losing one now ends the run: nothing was measured yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::orders::{Answer, Card, Order};
use super::session::{Heard, MeasureError, Session};
use crate::launch::clock::{self, Offset, RoundTrip};
use crate::transport::GpuEndpoint;
use record::units::Nanos;
use record::{HostRecord, RankRecord};

/// How often hosts are asked for their rails before they count as different.
const LOOKS: u32 = 4;
/// How long a link that is down is waited for each time.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Round trips per rank when clocks are compared.
const ROUND_TRIPS: usize = 16;

impl Session {
    /// Lets every rank say who it is, until all hosts have the same rails. A link may be down just now: that is waited out for a
    /// few seconds.
    pub(super) fn alike(&mut self) -> Result<Vec<Card>, MeasureError> {
        let mut look = 0;
        loop {
            look += 1;
            let cards = self.introductions()?;
            self.fabric.hosts.clear();
            self.fabric.ranks.clear();
            self.machines.clear();
            self.learn(&cards);
            let differences = self.fabric.rail_differences();
            match (differences.is_empty(), look < LOOKS) {
                (true, _) => return Ok(cards),
                (false, true) => std::thread::sleep(BETWEEN_LOOKS),
                (false, false) => return Err(MeasureError::RailsDiffer(differences)),
            }
        }
    }

    /// Lets every rank say who it is.
    pub(super) fn introductions(&mut self) -> Result<Vec<Card>, MeasureError> {
        self.order_all(&Order::Meet(self.setup.clone()))?;
        let world = self.coordinator.world() as usize;
        let mut cards: Vec<Option<Card>> = vec![None; world];
        let until = Instant::now() + self.deadline();
        while let Some(missing) = cards.iter().position(Option::is_none) {
            match self.hear(until, missing as u32)? {
                (rank, Answer::Met(card)) => cards[rank as usize] = Some(*card),
                (rank, Answer::CannotMeet(reason)) => return Err(MeasureError::CannotMeet { rank, reason }),
                _ => {}
            }
        }
        Ok(cards.into_iter().flatten().collect())
    }

    /// Puts together the fabric that the ranks make up.
    pub(super) fn learn(&mut self, cards: &[Card]) {
        for (rank, card) in (0..).zip(cards) {
            let host = host_name(cards, rank as usize);
            match self.fabric.hosts.iter_mut().find(|known| known.name == host) {
                Some(known) => known.cores = known.cores.max(card.host.cores),
                None => self.fabric.hosts.push(HostRecord {
                    name: host.clone(),
                    ..card.host.clone()
                }),
            }
            self.machines.push(card.identity.machine.clone());
            self.fabric.ranks.push(RankRecord {
                rank,
                host,
                pid: card.pid,
                device: self.setup.device,
                rails: card.rails.clone(),
                gpu: card.endpoint.gpu.as_ref().map(GpuEndpoint::record),
            });
            let doors: Vec<&SocketAddr> = card.endpoint.doors.iter().collect();
            tracing::debug!(rank, host = card.host.name, pid = card.pid, ?doors, "joined");
        }
    }

    /// How far a rank's clock is off.
    pub(super) fn compare_clock(&mut self, rank: u32) -> Result<Offset, MeasureError> {
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let sent = clock::now();
            self.order(rank, &Order::Ping)?;
            let until = Instant::now() + self.deadline();
            let remote = loop {
                if let (_, Answer::Pong(remote)) = self.hear(until, rank)? {
                    break remote;
                }
            };
            trips.push(RoundTrip {
                sent,
                remote,
                received: clock::now(),
            });
        }
        Offset::from_round_trips(&trips).ok_or_else(|| MeasureError::Protocol {
            rank,
            problem: "no answer about its clock".to_string(),
        })
    }

    /// How far a rank's clock is off, asked between measurements; none when it does not answer. Losses are noticed by whoever
    /// measures next.
    pub(super) fn ask_clock(&mut self, rank: u32) -> Result<Option<Offset>, MeasureError> {
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        while trips.len() < ROUND_TRIPS {
            let (sent, until) = (clock::now(), Instant::now() + self.deadline());
            let mut answered = None;
            let orders = BTreeMap::from([(rank, Order::Ping)]);
            self.ask(orders, until, |from, answer| match answer {
                Answer::Pong(remote) if from == rank => {
                    answered = Some((remote, clock::now()));
                    None
                }
                other => Some(other),
            })?;
            let Some((remote, received)) = answered else {
                return Ok(None);
            };
            trips.push(RoundTrip {
                sent,
                remote,
                received,
            });
        }
        Ok(Offset::from_round_trips(&trips))
    }

    /// Compares the clocks of all ranks that take part again: over hours they drift apart. What is known of a rank that does
    /// not answer stays; that it does not is noticed by whoever measures next.
    pub fn compare_clocks(&mut self) -> Result<(), MeasureError> {
        for rank in 0..self.offsets.len() {
            if self.absent.contains(&(rank as u32)) {
                continue;
            }
            if let Some(offset) = self.ask_clock(rank as u32)? {
                self.offsets[rank] = offset;
            }
        }
        Ok(())
    }

    /// The next answer before anything is measured; losing a rank then ends the run.
    fn hear(&mut self, until: Instant, waiting_for: u32) -> Result<(u32, Answer), MeasureError> {
        match self.listen(until) {
            Heard::Answer(rank, answer) => Ok((rank, answer)),
            Heard::Gone(rank, reason) => Err(MeasureError::LostEarly { rank, reason }),
            Heard::Silent(rank, how_long) => {
                let how_long = Nanos::from(how_long);
                let reason = format!("not heard over the management network for {how_long}");
                Err(MeasureError::LostEarly { rank, reason })
            }
            Heard::Interrupted => Err(self.stopped_early()),
            Heard::Nothing => {
                let reason = format!("no answer within {}", self.setup.deadline);
                Err(MeasureError::LostEarly {
                    rank: waiting_for,
                    reason,
                })
            }
        }
    }
}

/// The name of a rank's host, told apart from another host of the same name by its address.
fn host_name(cards: &[Card], rank: usize) -> String {
    let card = &cards[rank];
    let is_double = |other: &Card| other.host.name == card.host.name && other.identity != card.identity;
    if !cards.iter().any(is_double) {
        return card.host.name.clone();
    }
    // Ranks of one host name it after the first of them.
    let first = cards
        .iter()
        .find(|other| other.host.name == card.host.name && other.identity == card.identity);
    match first.unwrap_or(card).endpoint.doors.first() {
        Some(door) => format!("{}@{}", card.host.name, door.ip()),
        None => format!("{}@{}", card.host.name, card.identity.network),
    }
}

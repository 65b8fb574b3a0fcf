//! Setup of the ranks: they report their rank info, and their clocks are compared (`clock_comparison`). Losing a rank now ends the run.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::cancellation::Cancellation;
use super::capabilities::Capabilities;
use super::error::MeasureError;
use super::protocol::{Answer, Order, RankInfo, Setup};
use super::session::{ExitLookup, Received, Session};
use crate::launch::Coordinator;
use crate::transport::GpuEndpoint;
use record::units::Nanos;
use record::{HostRecord, RankRecord};

/// How often hosts are asked for their rails before they count as different.
const ATTEMPTS: u32 = 4;
/// Pause between attempts: a link that is down may come up.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

impl Session {
    /// Sets up the ranks and compares their clocks.
    pub fn set_up(
        coordinator: Coordinator,
        setup: Setup,
        exits: ExitLookup,
        stop: impl Into<Cancellation>,
    ) -> Result<Session, MeasureError> {
        let mut session = Session::new(coordinator, setup, exits, stop);
        session
            .coordinator
            .start_heartbeat(session.setup.heartbeat_timeout());
        let rank_infos = session.agree_on_rails()?;
        session.timer = rank_infos
            .iter()
            .map(|info| info.timer_ns)
            .max()
            .unwrap_or_default();
        session.capabilities = Capabilities::of(&rank_infos, &session.fabric);
        session.ends = rank_infos.iter().map(|info| info.endpoint.clone()).collect();
        session.rank_infos = rank_infos;
        session.order_all(&Order::Peers(session.ends.clone()))?;
        session.compare_first()?;
        Ok(session)
    }

    /// Collects the rank infos until all hosts have the same rails. A link that is down gets a few seconds to come up.
    fn agree_on_rails(&mut self) -> Result<Vec<RankInfo>, MeasureError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let rank_infos = self.collect_rank_infos()?;
            self.fabric.hosts.clear();
            self.fabric.ranks.clear();
            self.machines.clear();
            self.build_fabric(&rank_infos);
            let differences = self.fabric.rail_differences();
            match (differences.is_empty(), attempt < ATTEMPTS) {
                (true, _) => return Ok(rank_infos),
                (false, true) => std::thread::sleep(BETWEEN_ATTEMPTS),
                (false, false) => return Err(MeasureError::RailsDiffer(differences)),
            }
        }
    }

    /// Sets up every rank and collects the rank infos.
    fn collect_rank_infos(&mut self) -> Result<Vec<RankInfo>, MeasureError> {
        self.order_all(&Order::SetUp(self.setup.clone()))?;
        let world = self.coordinator.world() as usize;
        let mut rank_infos: Vec<Option<RankInfo>> = vec![None; world];
        let until = Instant::now() + self.deadline();
        while let Some(missing) = rank_infos.iter().position(Option::is_none) {
            match self.receive_during_setup(until, missing as u32)? {
                (rank, Answer::RankInfo(info)) => rank_infos[rank as usize] = Some(*info),
                (rank, Answer::SetUpFailed(reason)) => {
                    return Err(MeasureError::CannotTakePart { rank, reason });
                }
                _ => {}
            }
        }
        Ok(rank_infos.into_iter().flatten().collect())
    }

    /// Builds the fabric from the rank infos.
    fn build_fabric(&mut self, rank_infos: &[RankInfo]) {
        for (rank, info) in (0..).zip(rank_infos) {
            let host = host_name(rank_infos, rank as usize);
            match self.fabric.hosts.iter_mut().find(|known| known.name == host) {
                Some(known) => known.cores = known.cores.max(info.host.cores),
                None => self.fabric.hosts.push(HostRecord {
                    name: host.clone(),
                    ..info.host.clone()
                }),
            }
            self.machines.push(info.identity.machine.clone());
            self.fabric.ranks.push(RankRecord {
                rank,
                host,
                pid: info.pid,
                device: self.setup.device,
                rails: info.rails.clone(),
                gpu: info.endpoint.gpu.as_ref().map(GpuEndpoint::record),
            });
            let doors: Vec<&SocketAddr> = info.endpoint.listeners.iter().collect();
            tracing::debug!(rank, host = info.host.name, pid = info.pid, ?doors, "joined");
        }
    }

    /// The next answer during setup; losing a rank then ends the run.
    pub(super) fn receive_during_setup(
        &mut self,
        until: Instant,
        waiting_for: u32,
    ) -> Result<(u32, Answer), MeasureError> {
        match self.receive(until) {
            Received::Answer(rank, answer) => Ok((rank, answer)),
            Received::Disconnected(rank, reason) => Err(MeasureError::LostEarly { rank, reason }),
            Received::Silent(rank, how_long) => {
                let how_long = Nanos::from(how_long);
                let reason = format!("not heard over the management network for {how_long}");
                Err(MeasureError::LostEarly { rank, reason })
            }
            Received::Interrupted => Err(self.stopped_early()),
            Received::Timeout => {
                let reason = format!("no answer within {}", self.setup.deadline);
                Err(MeasureError::LostEarly {
                    rank: waiting_for,
                    reason,
                })
            }
        }
    }
}

/// The name of a rank's host, with its address if another host has the same name.
fn host_name(rank_infos: &[RankInfo], rank: usize) -> String {
    let info = &rank_infos[rank];
    let is_duplicate =
        |other: &RankInfo| other.host.name == info.host.name && other.identity != info.identity;
    if !rank_infos.iter().any(is_duplicate) {
        return info.host.name.clone();
    }
    // All ranks of one host use the address of its first rank.
    let first = rank_infos
        .iter()
        .find(|other| other.host.name == info.host.name && other.identity == info.identity);
    match first.unwrap_or(info).endpoint.listeners.first() {
        Some(door) => format!("{}@{}", info.host.name, door.ip()),
        None => format!("{}@{}", info.host.name, info.identity.network),
    }
}

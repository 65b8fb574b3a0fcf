//! A rank's side: executes orders until the run is over.
//!
//! Orders are read on the rank's own thread; every cell of a slot runs on a thread of its own, so that an abort is read while a
//! collective hangs.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::faulty_clock::FaultyClock;
use super::inventory;
use super::protocol::{Answer, AnswerSender, Order, QuitReason, RankInfo, Setup};
use super::rank_communicators::RankCommunicators;
use super::rank_runtime::RankRuntime;
use super::verbs_support::verbs_support;
use crate::collective::gpu::{ProcessGpus, RankGpu};
use crate::launch::{Disconnected, Member, Token, clock};
use crate::transport::Mesh;
use crate::transport::shm::Hub;
use crate::transport::tcp::LocalRail;
use probe::host;
use probe::{discover, rails};
use record::{DeviceKind, RailEnd};

/// What the ranks of one process share.
#[derive(Clone)]
pub struct ProcessContext {
    /// The run's token.
    pub token: Token,
    /// Shared-memory channels between ranks of this process.
    pub hub: Arc<Hub>,
    /// The GPUs of this process.
    pub process_gpus: Arc<ProcessGpus>,
    /// The rank's number on its host, where the launcher says so.
    pub local_rank: Option<u32>,
    /// This host's management address in a run of several hosts; none when all ranks are on this machine.
    pub management: Option<IpAddr>,
}

/// Takes part in the run until it is told to leave; an error when the coordinator was lost.
pub fn serve(mut member: Member, shared: &ProcessContext) -> Result<QuitReason, Disconnected> {
    let answers = AnswerSender(member.sender());
    let mut worker = Worker {
        me: member.rank(),
        shared: shared.clone(),
        answers: answers.clone(),
        clock: FaultyClock::default(),
        runtime: None,
    };
    let result = loop {
        let order = match member.receive() {
            Ok(message) => serde_json::from_slice(&message).map_err(|error| {
                Disconnected(format!(
                    "malformed order of {} bytes from the coordinator: {error}",
                    message.len()
                ))
            }),
            Err(error) => Err(error),
        };
        match order {
            Ok(Order::Quit(reason)) => break Ok(reason),
            Ok(order) => {
                if let Order::SetUp(setup) = &order {
                    member.start_heartbeat(setup.heartbeat_timeout(), setup.coordinator_timeout());
                }
                if let Err(error) = worker.execute(order) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    worker.stop();
    answers.0.leave("it left the run");
    result
}

/// The port on which rank `me` listens for data: any when no base is named.
fn data_port(base: Option<u16>, me: u32) -> Result<u16, String> {
    let Some(base) = base else { return Ok(0) };
    let port = u16::try_from(me).ok().and_then(|me| base.checked_add(me));
    port.ok_or_else(|| format!("--data-port {base} + rank {me} is beyond 65535; choose a lower port"))
}

/// Rails that share an address cannot use the same port there.
fn check_distinct_addresses(rails: &[RailEnd]) -> Result<(), String> {
    for (position, end) in rails.iter().enumerate() {
        let before = rails[..position]
            .iter()
            .find(|other| other.address == end.address);
        if let Some(other) = before {
            return Err(format!(
                "rails {} and {} share the address {}, where --data-port gives both the same port; leave --data-port out",
                other.rail, end.rail, end.address
            ));
        }
    }
    Ok(())
}

struct Worker {
    me: u32,
    shared: ProcessContext,
    answers: AnswerSender,
    /// The clock as the coordinator sees it.
    clock: FaultyClock,
    runtime: Option<RankRuntime>,
}

impl Worker {
    fn execute(&mut self, order: Order) -> Result<(), Disconnected> {
        match order {
            Order::SetUp(setup) => {
                let answer = match self.set_up(setup) {
                    Ok(info) => Answer::RankInfo(Box::new(info)),
                    Err(reason) => Answer::SetUpFailed(reason),
                };
                self.answers.send(&answer)
            }
            Order::Ping => self.answers.send(&Answer::Pong(self.clock.reading(clock::now()))),
            Order::Inventory(reporter) => {
                inventory::report(reporter, self.shared.local_rank, self.answers.clone());
                Ok(())
            }
            Order::Quit(_) => Ok(()),
            order => match &mut self.runtime {
                Some(runtime) => runtime.execute(order, self.me, &self.answers),
                None => Err(Disconnected(
                    "protocol failure: the coordinator sent an order before the setup".to_string(),
                )),
            },
        }
    }

    fn set_up(&mut self, setup: Setup) -> Result<RankInfo, String> {
        // Asked again: the ports are released first.
        self.runtime = None;
        self.clock = FaultyClock::new(&setup.faults, self.me, clock::now());
        let rails = match (setup.rails.as_slice(), self.shared.management) {
            ([], None) => rails::loopback(),
            ([], Some(management)) => discover::discover_here(management),
            (named, management) => rails::resolve_here(named, management),
        };
        let rails = rails.map_err(|error| error.to_string())?;
        if setup.data_port.is_some() {
            check_distinct_addresses(&rails)?;
        }
        let mut ends: Vec<(String, LocalRail)> = Vec::with_capacity(rails.len());
        for end in &rails {
            let address = end.address.parse();
            let local = LocalRail {
                address: address
                    .map_err(|_| format!("rail {}: `{}` is not an IP address", end.rail, end.address))?,
                interface: end.interface.clone(),
                port: data_port(setup.data_port, self.me)?,
                rdma: end.rdma.clone(),
            };
            ends.push((end.rail.clone(), local));
        }
        let hub = Arc::clone(&self.shared.hub);
        let mut mesh = Mesh::open(self.me, ends, self.shared.token, hub, setup.faults.clone())
            .map_err(|error| error.to_string())?;
        let rank_gpu = match setup.device {
            DeviceKind::Host => None,
            DeviceKind::Cuda => {
                let local = self.shared.local_rank.unwrap_or(self.me);
                Some(RankGpu::open(local, setup.largest, &self.shared.process_gpus)?)
            }
        };
        if let Some(rank_gpu) = &rank_gpu {
            mesh.set_gpu(rank_gpu.endpoint().clone());
            if crate::transport::verbs::probe().is_ok() {
                mesh.check_gpudirect(rank_gpu.direct());
            }
        }
        let info = RankInfo {
            host: host::here(),
            identity: host::identity(),
            pid: std::process::id(),
            rails: rails.clone(),
            endpoint: mesh.endpoint(),
            timer_ns: clock::cost(),
            clock: host::clock().filter(|_| self.clock.is_right()),
            nccl: setup.nccl.then(RankCommunicators::support),
            verbs: verbs_support(&setup, &rails),
        };
        let abort = Arc::new(AtomicBool::new(false));
        self.runtime = Some(RankRuntime {
            setup,
            rails,
            rank_gpu,
            communicators: RankCommunicators::default(),
            mesh,
            running: Vec::new(),
            written: Default::default(),
            link: None,
            abort,
            clock: self.clock,
        });
        Ok(info)
    }

    /// Ends what is still running.
    fn stop(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.stop();
        }
    }
}

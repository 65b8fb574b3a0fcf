//! A rank's side: carries out orders until the run is over.
//!
//! Orders are read on the rank's own thread; every cell of a slot runs on a thread of its own, so that an abort is heard
//! while a collective hangs.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::cells::Met;
use super::lanes::Lanes;
use super::orders::{Answer, Card, Order, QuitReason, Setup};
use super::voice::Voice;
use super::{inventory, verbs};
use crate::collective::gpu::{ProcessGpus, RankGpu};
use crate::launch::{Disconnected, Member, Token, clock};
use crate::transport::Mesh;
use crate::transport::shm::Hub;
use crate::transport::tcp::Local;
use probe::host;
use probe::{discover, rails};
use record::{DeviceKind, RailEnd};

/// What the ranks of one process share.
#[derive(Clone)]
pub struct ProcessContext {
    /// The run's secret.
    pub token: Token,
    /// Where ranks of this process find each other.
    pub hub: Arc<Hub>,
    /// What ranks of this process share on its GPUs.
    pub process_gpus: Arc<ProcessGpus>,
    /// The rank's number on its host, where whoever started it says so.
    pub local_rank: Option<u32>,
    /// This host's management address in a run of several hosts; none when all ranks are on this machine.
    pub management: Option<IpAddr>,
}

/// Takes part in the run until it is over, and says whether all are there then; an error when the coordinator was lost.
pub fn serve(mut member: Member, shared: &ProcessContext) -> Result<QuitReason, Disconnected> {
    let sender = Voice(member.sender());
    let mut rank = Rank {
        me: member.rank(),
        shared: shared.clone(),
        voice: sender.clone(),
        met: None,
    };
    let result = loop {
        let order = match member.receive() {
            Ok(message) => serde_json::from_slice(&message)
                .map_err(|error| Disconnected(format!("an order that makes no sense: {error}"))),
            Err(gone) => Err(gone),
        };
        match order {
            Ok(Order::Quit(parting)) => break Ok(parting),
            Ok(order) => {
                if let Order::Meet(setup) = &order {
                    member.start_heartbeat(setup.silence(), setup.loneliness());
                }
                if let Err(gone) = rank.obey(order) {
                    break Err(gone);
                }
            }
            Err(gone) => break Err(gone),
        }
    };
    rank.stop();
    sender.0.leave("it has left the run");
    result
}

/// The port of rank `me`'s doors: any when no base is named.
fn door_port(base: Option<u16>, me: u32) -> Result<u16, String> {
    let Some(base) = base else { return Ok(0) };
    let port = u16::try_from(me).ok().and_then(|me| base.checked_add(me));
    port.ok_or_else(|| format!("data port {base} + rank {me} is beyond 65535"))
}

/// Rails that are set up over one address cannot have the same port there.
fn no_door_twice(rails: &[RailEnd]) -> Result<(), String> {
    for (position, end) in rails.iter().enumerate() {
        let before = rails[..position]
            .iter()
            .find(|other| other.address == end.address);
        if let Some(other) = before {
            return Err(format!(
                "rails {} and {} are set up over the one address {}, where --data-port gives both the same port; leave it out",
                other.rail, end.rail, end.address
            ));
        }
    }
    Ok(())
}

struct Rank {
    me: u32,
    shared: ProcessContext,
    voice: Voice,
    met: Option<Met>,
}

impl Rank {
    fn obey(&mut self, order: Order) -> Result<(), Disconnected> {
        match order {
            Order::Meet(setup) => {
                let answer = match self.meet(setup) {
                    Ok(card) => Answer::Met(Box::new(card)),
                    Err(reason) => Answer::CannotMeet(reason),
                };
                self.voice.say(&answer)
            }
            Order::Ping => self.voice.say(&Answer::Pong(clock::now())),
            Order::Inventory(teller) => {
                inventory::tell(teller, self.shared.local_rank, self.voice.clone());
                Ok(())
            }
            Order::Quit(_) => Ok(()),
            order => match &mut self.met {
                Some(met) => met.obey(order, self.me, &self.voice),
                None => Err(Disconnected("orders came before the introduction".to_string())),
            },
        }
    }

    fn meet(&mut self, setup: Setup) -> Result<Card, String> {
        // Whoever is asked again lets go of its doors first.
        self.met = None;
        let rails = match (setup.rails.as_slice(), self.shared.management) {
            ([], None) => rails::loopback(),
            ([], Some(management)) => discover::discover_here(management),
            (named, management) => rails::resolve_here(named, management),
        };
        let rails = rails.map_err(|error| error.to_string())?;
        if setup.data_port.is_some() {
            no_door_twice(&rails)?;
        }
        let mut ends: Vec<(String, Local)> = Vec::with_capacity(rails.len());
        for end in &rails {
            let address = end.address.parse();
            let local = Local {
                address: address.map_err(|_| format!("{} is no address", end.address))?,
                interface: end.interface.clone(),
                port: door_port(setup.data_port, self.me)?,
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
            mesh.lies_on(rank_gpu.endpoint().clone());
            if crate::transport::verbs::probe().is_ok() {
                mesh.offer_direct(rank_gpu.direct());
            }
        }
        let card = Card {
            host: host::here(),
            identity: host::identity(),
            pid: std::process::id(),
            rails: rails.clone(),
            endpoint: mesh.endpoint(),
            timer_ns: clock::cost(),
            nccl: setup.nccl.then(Lanes::card),
            verbs: verbs::card(&setup, &rails),
        };
        let abort = Arc::new(AtomicBool::new(false));
        self.met = Some(Met {
            setup,
            rails,
            rank_gpu,
            lanes: Lanes::default(),
            mesh,
            running: Vec::new(),
            written: Default::default(),
            link: None,
            abort,
        });
        Ok(card)
    }

    /// Ends what is still running.
    fn stop(&mut self) {
        if let Some(met) = &mut self.met {
            met.stop();
        }
    }
}

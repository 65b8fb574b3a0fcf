//! One rank's connections to all others, made when a cell first needs them and kept for the next.
//!
//! Who dials follows from the cell (see `connecting`); both ends name a connection alike, so neither needs to ask. A
//! connection stays open between cells: a pinned source port could not be used again at once, and a fabric should not be
//! measured on connections that are still warming up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Link;
use super::channel::Channel;
use super::connecting::LinkKey;
use super::gpu_endpoint::GpuEndpoint;
use super::inject::{Fault, Flip};
use super::shm::Hub;
use super::tcp::{Doors, Local};
use super::trace::Known;
use super::verbs::Nics;
use crate::device::cuda::Direct;
use crate::launch::Token;

/// Where a rank can be reached: one door per rail, in the run's order of rails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// World rank.
    pub rank: u32,
    /// Doors, rail by rail.
    pub doors: Vec<SocketAddr>,
    /// Its memory on a GPU, when that is where its data lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuEndpoint>,
    /// Whether the NICs of all its rails read and write that memory themselves; why not, in words. None when nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpudirect: Option<Result<(), String>>,
}

/// Queue pairs hold memory that the NIC has pinned, so with more peers than this they are made anew for every cell. All ranks
/// know how many they are, so both ends do the same.
const FEW_PEERS: usize = 64;

/// One rank's connections.
pub struct Mesh {
    pub(super) me: u32,
    pub(super) token: Token,
    pub(super) hub: Arc<Hub>,
    pub(super) rails: Vec<(String, Local)>,
    pub(super) doors: Doors,
    pub(super) nics: Nics,
    gpu: Option<GpuEndpoint>,
    gpudirect: Option<Result<(), String>>,
    pub(super) peers: Vec<Endpoint>,
    pub(super) kept: HashMap<LinkKey, Option<Box<dyn Link>>>,
    pub(super) faults: Vec<Fault>,
    pub(super) flip: Option<Flip>,
    /// How often everything was given up.
    pub(super) generation: u16,
    /// Paths that were followed.
    pub(super) known: Known,
}

impl Mesh {
    /// Opens rank `me`'s doors on its rails.
    pub fn open(
        me: u32,
        rails: Vec<(String, Local)>,
        token: Token,
        hub: Arc<Hub>,
        faults: Vec<Fault>,
    ) -> std::io::Result<Mesh> {
        let ends: Vec<Local> = rails.iter().map(|(_, local)| local.clone()).collect();
        let doors = Doors::open(me, &ends, token)?;
        let flip = Flip::for_rank(&faults, me);
        Ok(Mesh {
            me,
            token,
            hub,
            rails,
            doors,
            nics: Nics::default(),
            gpu: None,
            gpudirect: None,
            peers: Vec::new(),
            kept: HashMap::new(),
            faults,
            flip,
            generation: 0,
            known: Known::default(),
        })
    }

    /// Where this rank can be reached.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            rank: self.me,
            doors: self.doors.addresses().to_vec(),
            gpu: self.gpu.clone(),
            gpudirect: self.gpudirect.clone(),
        }
    }

    /// Says to the others, as part of the endpoint, that this rank's data lies on a GPU.
    pub fn lies_on(&mut self, gpu: GpuEndpoint) {
        self.gpu = Some(gpu);
    }

    /// Says to the others, as part of the endpoint, whether the NICs of all rails take memory of the rank's GPU. `memory` is
    /// some of it, or why NICs cannot be told of it.
    pub fn offer_direct(&mut self, memory: Result<Arc<Direct>, String>) {
        let asked = memory.and_then(|memory| self.nics.take_direct(&self.rails, &memory));
        self.gpudirect = Some(asked);
    }

    /// The others, as they introduced themselves.
    pub fn peers(&self) -> &[Endpoint] {
        &self.peers
    }

    /// Learns where the others can be reached.
    pub fn meet(&mut self, peers: Vec<Endpoint>) {
        self.peers = peers;
    }

    /// Strangers turned away since the last call.
    pub fn strangers(&self) -> Vec<String> {
        self.doors.strangers()
    }

    /// Faults to be injected.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The bit that is to be flipped in what this rank receives, if one is.
    pub fn flip(&self) -> Option<&Flip> {
        self.flip.as_ref()
    }

    /// Keeps the links of a channel for the next cell.
    pub fn release(&mut self, channel: Channel) {
        let few = self.peers.len() <= FEW_PEERS;
        for lane in channel.into_lanes() {
            match lane.route.key {
                LinkKey::Verbs(..) if !few => drop(self.kept.remove(&lane.route.key)),
                key => drop(self.kept.insert(key, Some(lane.link))),
            }
        }
    }

    /// Gives up every connection, in use or kept: after a loss, all that go on start with new ones.
    pub fn reset(&mut self) {
        for mut link in self.kept.drain().filter_map(|(_, link)| link) {
            link.abandon();
        }
        self.doors.forget();
        // A device that was lost may be back as another.
        self.nics = Nics::default();
        self.generation = self.generation.wrapping_add(1);
        self.known = Known::default();
    }
}

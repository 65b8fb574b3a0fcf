//! One rank's connections to all others, made when a cell first needs them and kept for the next.
//!
//! The cell determines which rank dials (see `connect`); both ends derive the same connection name. A connection stays open between
//! cells: a pinned source port could not be reused at once, and a fabric should not be measured on cold connections.

use std::collections::HashMap;
use std::sync::Arc;

use super::channel::Channel;
use super::endpoint::{Endpoint, GpuEndpoint};
use super::inject::{Fault, Flip};
use super::link::Link;
use super::route::LinkKey;
use super::shm::Hub;
use super::tcp::{Listeners, LocalRail};
use super::trace::flow::KnownPaths;
use super::trace::rationing::AnswerHabits;
use super::verbs::Nics;
use crate::device::cuda::GpuDirectMemory;
use crate::launch::Token;

/// Queue pairs hold pinned memory, so with more peers than this they are recreated for every cell. All ranks know the number of
/// ranks, so both ends do the same.
const FEW_PEERS: usize = 64;

/// One rank's connections.
pub struct Mesh {
    pub(super) me: u32,
    pub(super) token: Token,
    pub(super) hub: Arc<Hub>,
    pub(super) rails: Vec<(String, LocalRail)>,
    pub(super) listeners: Listeners,
    pub(super) nics: Nics,
    gpu: Option<GpuEndpoint>,
    gpudirect: Option<Result<(), String>>,
    pub(super) peers: Vec<Endpoint>,
    pub(super) kept: HashMap<LinkKey, Option<Box<dyn Link>>>,
    pub(super) faults: Vec<Fault>,
    pub(super) flip: Option<Flip>,
    /// How often all connections were reset.
    pub(super) generation: u16,
    /// Traced paths.
    pub(super) known: KnownPaths,
    /// How often switches answer traces.
    pub(super) answers: AnswerHabits,
}

impl Mesh {
    /// Opens rank `me`'s listeners on its rails.
    pub fn open(
        me: u32,
        rails: Vec<(String, LocalRail)>,
        token: Token,
        hub: Arc<Hub>,
        faults: Vec<Fault>,
    ) -> std::io::Result<Mesh> {
        let ends: Vec<LocalRail> = rails.iter().map(|(_, local)| local.clone()).collect();
        let listeners = Listeners::open(me, &ends, token)?;
        let flip = Flip::for_rank(&faults, me);
        Ok(Mesh {
            me,
            token,
            hub,
            rails,
            listeners,
            nics: Nics::default(),
            gpu: None,
            gpudirect: None,
            peers: Vec::new(),
            kept: HashMap::new(),
            faults,
            flip,
            generation: 0,
            known: KnownPaths::default(),
            answers: AnswerHabits::default(),
        })
    }

    /// Where this rank can be reached.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            rank: self.me,
            listeners: self.listeners.addresses().to_vec(),
            gpu: self.gpu.clone(),
            gpudirect: self.gpudirect.clone(),
        }
    }

    /// Announces this rank's GPU memory as part of its endpoint.
    pub fn set_gpu(&mut self, gpu: GpuEndpoint) {
        self.gpu = Some(gpu);
    }

    /// Announces as part of the endpoint whether the NICs of all rails can register GPU memory. `memory` is the memory to try, or
    /// why there is none.
    pub fn check_gpudirect(&mut self, memory: Result<Arc<GpuDirectMemory>, String>) {
        let asked = memory.and_then(|memory| self.nics.register_gpu_memory(&self.rails, &memory));
        self.gpudirect = Some(asked);
    }

    /// The endpoints of all ranks.
    pub fn peers(&self) -> &[Endpoint] {
        &self.peers
    }

    /// Sets the endpoints of all ranks.
    pub fn set_peers(&mut self, peers: Vec<Endpoint>) {
        self.peers = peers;
    }

    /// Rejected callers since the last call, in words.
    pub fn rejected_callers(&self) -> Vec<String> {
        self.listeners.rejected_callers()
    }

    /// Faults to be injected.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The bit flip to inject into what this rank receives, if any.
    pub fn flip(&self) -> Option<&Flip> {
        self.flip.as_ref()
    }

    /// Keeps the links of a channel for the next cell.
    pub fn release(&mut self, channel: Channel) {
        let few = self.peers.len() <= FEW_PEERS;
        for channel_link in channel.into_links() {
            match channel_link.route.key {
                LinkKey::Verbs(..) if !few => drop(self.kept.remove(&channel_link.route.key)),
                key => drop(self.kept.insert(key, Some(channel_link.link))),
            }
        }
    }

    /// Abandons every connection, in use or kept: after a loss, all remaining ranks reconnect.
    pub fn reset(&mut self) {
        for mut link in self.kept.drain().filter_map(|(_, link)| link) {
            link.abandon();
        }
        self.listeners.forget();
        // A lost device may be back under another name.
        self.nics = Nics::default();
        self.generation = self.generation.wrapping_add(1);
        self.known = KnownPaths::default();
    }
}

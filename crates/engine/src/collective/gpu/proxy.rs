//! Proxy threads: the GPU exchanges chunks with pinned host memory, and one thread per channel moves them over the network.
//!
//! Both ends handle the chunks of a channel in the order of the sender's program, which every rank derives itself, so the wire
//! carries payload only. A chunk is leased to the link while it is sent; once the lease is back, the GPU may reuse its slot. The
//! threads wait for a kernel that has its own deadline, and stop when they are halted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::layout::Layout;
use super::preparation::Preparation;
use super::program::DeviceProgram;
use super::proxy_worker::{ProxyPlan, ProxyResult, ProxyWorker};
use super::rank_gpu::RankGpu;
use crate::collective::{Conditions, Stopped};
use crate::device::Region;
use crate::device::cuda::{Allocation, GpuDirectMemory, Registered};
use crate::launch::clock;
use crate::transport::{Backlog, Channel};
use record::units::Nanos;

/// How often a wait for a thread checks whether the run is being ended.
const ABORT_CHECK: Duration = Duration::from_millis(10);
/// How long a halted thread may take to stop.
const TO_STOP: Duration = Duration::from_secs(2);

/// An order to a thread: the number of a timed iteration, and how many collectives.
type ProxyOrder = (Option<u32>, u16);

/// The threads of one rank in one cell.
pub(super) struct Proxies {
    list: Vec<Proxy>,
    /// Slots and flags; none without a network connection.
    memory: Option<Arc<Registered>>,
    halt: Arc<AtomicBool>,
}

struct Proxy {
    peer: u32,
    begin: Sender<ProxyOrder>,
    result: Receiver<ProxyResult>,
    thread: JoinHandle<Channel>,
    /// Whether a result is still outstanding.
    busy: bool,
    last: ProxyResult,
}

impl Proxies {
    /// One thread for each of `channels`, which are taken.
    pub fn new(
        rank_gpu: &RankGpu,
        arena: &Arc<Allocation>,
        wanted: &Preparation<'_>,
        programs: &[DeviceProgram],
        layout: &Layout,
        channels: &mut Vec<Channel>,
        trouble: &Arc<AtomicBool>,
    ) -> Result<Proxies, String> {
        let halt = Arc::new(AtomicBool::new(false));
        let mut proxies = Proxies {
            list: Vec::new(),
            memory: None,
            halt: Arc::clone(&halt),
        };
        if channels.is_empty() {
            return Ok(proxies);
        }
        let region = Region::new(layout.host_bytes as usize);
        let memory = rank_gpu.gpu.register(region).map_err(|error| error.to_string())?;
        let memory = Arc::new(memory);
        proxies.memory = Some(Arc::clone(&memory));
        let direct = match wanted.cell.is_gpudirect() {
            true => Some(Arc::new(GpuDirectMemory::of(arena)?)),
            false => None,
        };
        for channel in channels.drain(..) {
            let plan = ProxyPlan::new(wanted.rank, channel.peer(), programs, layout)?;
            let peer = channel.peer();
            let worker = ProxyWorker {
                channel,
                plan,
                memory: Arc::clone(&memory),
                direct: direct.clone(),
                halt: Arc::clone(&halt),
                trouble: Arc::clone(trouble),
                crowded: wanted.crowded,
                collectives: 0,
            };
            proxies.list.push(Proxy::start(peer, worker)?);
        }
        Ok(proxies)
    }

    /// Whether no data goes over a network.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The address of slots and flags, as the GPU sees it.
    pub fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.address())
    }

    /// Orders every thread to move what `times` collectives send and receive.
    pub fn begin(&mut self, iteration: Option<u32>, times: u16) {
        for proxy in &mut self.list {
            // A thread that has ended reports why when its result is read.
            proxy.busy = proxy.begin.send((iteration, times)).is_ok();
        }
    }

    /// Waits until everything has left; the kernel is done, so everything has arrived.
    pub fn end(&mut self, conditions: &Conditions<'_>) -> Result<(), Stopped> {
        let since = clock::now();
        loop {
            let waited = clock::now().since(since);
            let aborted = conditions.abort.load(Ordering::Relaxed);
            let mut late = self
                .list
                .iter_mut()
                .filter_map(|proxy| (!proxy.is_done(ABORT_CHECK)).then_some(proxy.peer));
            let Some(peer) = late.next() else {
                break;
            };
            if aborted || Duration::from(waited) > conditions.deadline {
                self.halt();
                let problem = match aborted {
                    true => "the run is being ended",
                    false => "nothing moved for the deadline",
                };
                return Err(self.problem().unwrap_or_else(|| Stopped {
                    step: format!("last chunk to rank {peer} not taken"),
                    waiting_for: Some(peer),
                    waited,
                    problem: problem.to_string(),
                    aborted,
                }));
            }
        }
        self.problem().map_or(Ok(()), Err)
    }

    /// Stops the threads at once.
    pub fn halt(&mut self) {
        self.halt.store(true, Ordering::Release);
        for proxy in &mut self.list {
            if !proxy.is_done(TO_STOP) {
                tracing::warn!(peer = proxy.peer, "a proxy thread does not stop");
            }
        }
    }

    /// The broken connection, if there is one.
    pub fn problem(&self) -> Option<Stopped> {
        let broken = self
            .list
            .iter()
            .find_map(|proxy| Some((proxy.peer, proxy.last.broken.as_ref()?)));
        broken.map(|(peer, error)| Stopped {
            step: format!("step over the network: carry chunks to and from rank {peer}"),
            waiting_for: Some(peer),
            waited: Nanos(0),
            problem: error.to_string(),
            aborted: false,
        })
    }

    /// Connections with unacknowledged data, as of the last time the threads stopped.
    pub fn stuck(&self) -> Vec<(u32, String, Backlog)> {
        let of = |proxy: &Proxy| -> Vec<(u32, String, Backlog)> {
            let stuck = proxy.last.stuck.iter();
            stuck
                .map(|(rail, backlog)| (proxy.peer, rail.clone(), *backlog))
                .collect()
        };
        self.list.iter().flat_map(of).collect()
    }

    /// Ends the threads and gives the channels back.
    pub fn into_channels(mut self) -> Vec<Channel> {
        self.halt();
        let mut channels = Vec::new();
        for proxy in self.list {
            drop(proxy.begin);
            // A thread that panicked has taken its channel with it.
            channels.extend(proxy.thread.join().ok());
        }
        channels
    }
}

impl Proxy {
    fn start(peer: u32, mut worker: ProxyWorker) -> Result<Proxy, String> {
        let (begin, told) = channel::<ProxyOrder>();
        let (answer, result) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("proxy {peer}"))
            .spawn(move || {
                while let Ok((iteration, times)) = told.recv() {
                    if answer.send(worker.carry(iteration, times)).is_err() {
                        break;
                    }
                }
                worker.channel
            })
            .map_err(|error| format!("a proxy thread cannot be started: {error}"))?;
        Ok(Proxy {
            peer,
            begin,
            result,
            thread,
            busy: false,
            last: ProxyResult::default(),
        })
    }

    /// Whether the thread is idle; waits at most `patience` for it.
    fn is_done(&mut self, patience: Duration) -> bool {
        if !self.busy {
            return true;
        }
        match self.result.recv_timeout(patience) {
            Ok(result) => self.last = result,
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        self.busy = false;
        true
    }
}

//! A stream: connecting its queue pairs, and the waiting that both engines share.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::connect::{
    ExposedMemory, QpTuning, bring_up, default_completion, local_info, qp_end, set_read_deadline,
};
use super::super::nic::Nic;
use super::super::out_of_band::OutOfBand;
use super::super::queue_pair::{QueueDepths, QueuePair};
use super::super::queue_pair_info::{self, QueuePairInfo};
use super::super::request::QueuePairRequest;
use super::buffers::StreamBuffers;
use super::control::{ControlConnection, ControlMessage};
use super::stall_timer::StallTimer;
use super::stream_qp::StreamQp;
use super::{StreamConfig, StreamEnds, StreamError, Trial, TrialKind, TrialResult};
use record::{Completion, FlowRecord};

/// Posted receives of a queue pair.
const RECEIVES: u32 = 512;
/// Most RDMA reads in flight.
const READS: u8 = 16;
/// RNR retries are unlimited: this side's own deadline ends them.
const RNR_RETRY_FOREVER: u8 = 7;
/// The longest sleep; then clock and stop flag are checked.
const LONGEST_SLEEP: u16 = 100;
/// After so long without progress, the device is checked.
const UNUSUAL: Duration = Duration::from_millis(300);

/// Queue pairs between two ranks, and their control connection.
pub struct RdmaStream {
    pub(super) qps: Vec<StreamQp>,
    pub(super) control: ControlConnection,
    pub(super) stream_ends: StreamEnds,
    pub(super) terms: StreamConfig,
    sleeps: bool,
    stop: Arc<AtomicBool>,
    nic: Arc<Nic>,
}

impl RdmaStream {
    /// Creates and connects the queue pairs; both ends call it.
    pub fn open(
        line: OutOfBand<'_>,
        stream_ends: StreamEnds,
        terms: StreamConfig,
        stop: Arc<AtomicBool>,
    ) -> Result<RdmaStream, StreamError> {
        let mut stream = line.stream;
        let opened = line
            .nics
            .of(line.local, terms.verbs.gid_index)
            .and_then(|nic| connect(&mut stream, &nic, &stream_ends, &terms).map(|qps| (nic, qps)));
        let (nic, qps) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                queue_pair_info::send_failure(&mut stream, &error.to_string());
                let StreamEnds { me, peer, rail, .. } = &stream_ends;
                let reason = format!("{rail} between rank {me} and rank {peer}: {error}");
                return Err(StreamError::Failed(reason));
            }
        };
        let control =
            ControlConnection::new(stream).map_err(|error| StreamError::Failed(error.to_string()))?;
        let completion = terms.verbs.completion.unwrap_or_else(default_completion);
        Ok(RdmaStream {
            qps,
            control,
            stream_ends,
            terms,
            sleeps: completion == Completion::Event,
            stop,
            nic,
        })
    }

    /// How its queue pairs appear on the wire.
    pub fn flows(&self) -> Vec<FlowRecord> {
        self.qps.iter().map(|qp| qp.flow.clone()).collect()
    }

    /// Runs a trial together with the peer. `moving` is called regularly while messages move.
    pub fn run(&mut self, trial: &Trial, moving: &mut dyn FnMut()) -> Result<TrialResult, StreamError> {
        let outcome = match trial.question {
            TrialKind::Bandwidth | TrialKind::Bidirectional => self.bandwidth(trial, moving),
            TrialKind::Latency => self.latency(trial, moving),
        };
        if let Err(error) = &outcome {
            match error {
                StreamError::Peer(_) => {}
                StreamError::Failed(reason) => self.control.send_failure(reason),
                StreamError::Stopped => self.control.send_failure("it was asked to stop"),
            }
            for qp in &mut self.qps {
                qp.pair.fail();
            }
        }
        outcome
    }

    /// Whether it sleeps until a notification.
    pub(super) fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Reports that this end is ready and waits until the peer is.
    pub(super) fn synchronise(&mut self, trial: &Trial) -> Result<(), StreamError> {
        self.control.send(ControlMessage::Ready(trial.seed))?;
        let mut stall_timer = self.stall_timer();
        loop {
            match self.control.try_receive()? {
                Some(ControlMessage::Ready(seed)) if seed == trial.seed => return Ok(()),
                Some(ControlMessage::Ready(_)) => {
                    let problem =
                        "the two ends run different trials; both must run the same version of railgauge";
                    return Err(StreamError::Failed(problem.to_string()));
                }
                Some(_) => {}
                None => self.sleep(&mut stall_timer, false, "the peer to get ready")?,
            }
        }
    }

    pub(super) fn stall_timer(&self) -> StallTimer {
        StallTimer::new()
    }

    /// Polls all queue pairs; whether there was anything.
    pub(super) fn poll_completions(&mut self) -> Result<bool, StreamError> {
        let mut news = false;
        for qp in &mut self.qps {
            news |= qp.poll_completions()?;
        }
        Ok(news)
    }

    /// Nothing completed: spins, or sleeps until a notification. Whether something completed after all, which is not notified
    /// again.
    pub(super) fn idle(
        &mut self,
        stall_timer: &mut StallTimer,
        waiting_for: &str,
    ) -> Result<bool, StreamError> {
        if !self.sleeps {
            if stall_timer.idle_poll() {
                self.check_stop_and_stall(stall_timer, waiting_for)?;
            }
            return Ok(false);
        }
        for qp in &mut self.qps {
            qp.arm()?;
        }
        // Earlier completions do not notify.
        if self.poll_completions()? {
            stall_timer.moved();
            return Ok(true);
        }
        self.sleep(stall_timer, true, waiting_for)?;
        Ok(false)
    }

    /// Sleeps until a control message arrives, or a completion when notifications are armed.
    pub(super) fn sleep(
        &mut self,
        stall_timer: &mut StallTimer,
        armed: bool,
        waiting_for: &str,
    ) -> Result<(), StreamError> {
        let mut wanted = vec![PollFd::new(self.control.descriptor(), PollFlags::POLLIN)];
        if armed {
            let queues = self.qps.iter().map(|qp| qp.pair.completions_ref().descriptor());
            wanted.extend(queues.map(|queue| PollFd::new(queue, PollFlags::POLLIN)));
        }
        let woken = match poll(&mut wanted, PollTimeout::from(LONGEST_SLEEP)) {
            Ok(woken) => woken,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(StreamError::Failed(format!("cannot wait: {error}"))),
        };
        let is_set = |wanted: &PollFd<'_>| wanted.any().unwrap_or(false);
        let set: Vec<bool> = wanted.iter().map(is_set).collect();
        for (qp, _) in self.qps.iter_mut().zip(&set[1..]).filter(|(_, set)| **set) {
            qp.wake();
        }
        if woken == 0 || set[0] {
            self.check_stop_and_stall(stall_timer, waiting_for)?;
        }
        Ok(())
    }

    /// Checks the clock, the stop flag and the device.
    pub(super) fn check_stop_and_stall(
        &mut self,
        stall_timer: &mut StallTimer,
        waiting_for: &str,
    ) -> Result<(), StreamError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(StreamError::Stopped);
        }
        let now = Instant::now();
        let heartbeat_due = stall_timer.heartbeat_due(now);
        if heartbeat_due {
            self.control.send(ControlMessage::Moving)?;
        }
        let silent = stall_timer.silent(now);
        if silent >= Duration::from(self.terms.deadline) {
            let StreamEnds { me, peer, rail, .. } = &self.stream_ends;
            let ends = self.qps.first().map_or_else(
                || format!("{rail} between rank {me} and rank {peer}"),
                |qp| format!("{rail} from {} to {}", qp.here, qp.there),
            );
            return Err(StreamError::Failed(format!(
                "{ends}: nothing moved for {:.1} s while waiting for {waiting_for}",
                silent.as_secs_f64()
            )));
        }
        match heartbeat_due || silent >= UNUSUAL {
            true => self.nic_answers(),
            false => Ok(()),
        }
    }

    fn nic_answers(&self) -> Result<(), StreamError> {
        self.nic.answers().map_err(|why| match self.qps.first() {
            Some(qp) => qp.failed(why),
            None => StreamError::Failed(why),
        })
    }
}

/// Both ends create their queue pairs, exchange their info, connect, and report ready.
fn connect(
    stream: &mut TcpStream,
    nic: &Arc<Nic>,
    stream_ends: &StreamEnds,
    terms: &StreamConfig,
) -> io::Result<Vec<StreamQp>> {
    let deadline = Instant::now() + Duration::from(terms.deadline);
    let limits = nic.context().limits();
    let most = limits.work_requests.min(limits.completions / 2);
    if terms.depth > most {
        return Err(io::Error::other(format!(
            "{} takes at most {most} requests at a time, {} were asked for",
            nic.port.device, terms.depth
        )));
    }
    let room = RECEIVES.min(most);
    let depths = QueueDepths {
        sends: terms.depth,
        receives: room,
        inline: terms.inline,
    };
    let mut made = Vec::new();
    for _ in 0..terms.queue_pairs {
        let memory = StreamBuffers::new(nic, terms).map_err(|error| memory_refused(&error, terms))?;
        let pair = QueuePair::new(nic.domain(), nic.port.port, depths)?;
        let opened = ExposedMemory {
            memory: memory.start(),
            key: memory.remote_key(),
            slots: u32::from(limits.reads.clamp(1, READS)),
            slot_bytes: memory.area_bytes(),
        };
        let queue_pair_info = local_info(nic, &pair, opened)?;
        queue_pair_info.send(stream)?;
        made.push((pair, memory, queue_pair_info));
    }
    set_read_deadline(stream, deadline)?;
    let mut qps = Vec::new();
    for (number, (mut pair, memory, mine)) in (0..).zip(made) {
        let theirs = QueuePairInfo::receive(stream)?;
        if theirs.slot_bytes != mine.slot_bytes {
            return Err(io::Error::other(
                "the peer's buffers have another size; both ends must use the same options",
            ));
        }
        let wanted = QueuePairRequest {
            me: stream_ends.me,
            peer: stream_ends.peer,
            rail: stream_ends.rail.clone(),
            flow: number,
            flows: terms.queue_pairs,
            source_port: terms.source_port(stream_ends.me > stream_ends.peer, number),
            terms: terms.verbs,
            placed: false,
        };
        let tuning = QpTuning {
            rnr_retries: RNR_RETRY_FOREVER,
            reads: mine.slots.min(theirs.slots).min(u32::from(READS)) as u8,
        };
        let flow = bring_up(&mut pair, nic, &mine, &theirs, &wanted, tuning)?;
        let ends = (qp_end(stream_ends.me, &mine), qp_end(stream_ends.peer, &theirs));
        let mut qp = StreamQp::new(pair, memory, theirs, ends, flow, room);
        qp.post_receives()
            .map_err(|error| io::Error::other(error.to_string()))?;
        qps.push(qp);
    }
    queue_pair_info::send_ready(stream)?;
    set_read_deadline(stream, deadline)?;
    queue_pair_info::wait_ready(stream)?;
    Ok(qps)
}

/// The limit of locked memory is the most common cause, and the error does not say so.
fn memory_refused(error: &io::Error, terms: &StreamConfig) -> io::Error {
    let bytes = 3 * terms.area() * usize::from(terms.queue_pairs);
    let advice = match error.raw_os_error() {
        Some(nix::libc::ENOMEM) => "; raise the limit of locked memory (ulimit -l unlimited)",
        _ => "",
    };
    io::Error::other(format!(
        "{bytes} bytes of memory could not be registered: {error}{advice}"
    ))
}

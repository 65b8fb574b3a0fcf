//! The rank processes of a `lab run`: signals are forwarded to all, and when the first rank has ended the others follow.
//!
//! Waiting always ends: a process that does not end gets SIGTERM, then SIGKILL; dropping the set kills all of it. A process that
//! died can be respawned after a delay, as a supervisor on a real host would do.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{LabError, processes as host_processes};

/// The time that the others get after the first rank has ended.
const FOLLOWER_GRACE: Duration = Duration::from_secs(2);
/// The time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// The time that the first rank gets after all others have ended, to judge and write: a run of many streams takes an unoptimised build minutes.
const LEADER_GRACE: Duration = Duration::from_secs(300);
/// The same when it is stopped by a signal.
const STOPPED_LEADER_GRACE: Duration = Duration::from_secs(5);
/// How often processes are polled.
const TICK: Duration = Duration::from_millis(10);
/// The code of a run that lost a rank.
const LOST: u8 = record::exit_code::LOST;

/// One process of a run.
pub struct RankProcess {
    child: Child,
    ended: Option<ExitStatus>,
    /// Signals that we sent to end it.
    was_ended: bool,
    respawn: Option<Respawn>,
}

/// How a process that died is respawned.
struct Respawn {
    command: Command,
    host: String,
    after: Duration,
    /// When it was first seen to be dead.
    died: Option<Instant>,
}

impl RankProcess {
    /// The process of the first rank, whose output is that of the run.
    pub fn leader(child: Child) -> RankProcess {
        RankProcess {
            child,
            ended: None,
            was_ended: false,
            respawn: None,
        }
    }

    /// Another process; what it writes appears on standard error behind its host's name.
    pub fn other(mut child: Child, host: &str) -> RankProcess {
        forward_output(&mut child, host);
        RankProcess::leader(child)
    }

    /// The same, respawned by `command` so long after it died.
    pub fn with_respawn(self, command: Command, host: String, after: Duration) -> RankProcess {
        let respawn = Respawn {
            command,
            host,
            after,
            died: None,
        };
        RankProcess {
            respawn: Some(respawn),
            ..self
        }
    }

    /// Whether it died and will be respawned. One that exited with success has not died.
    fn awaits_respawn(&mut self) -> bool {
        self.respawn.is_some() && self.has_ended() && !self.ended.is_some_and(|status| status.success())
    }

    /// Respawns it when the delay has passed.
    fn respawn_if_due(&mut self) {
        if !self.awaits_respawn() {
            return;
        }
        let Some(respawn) = &mut self.respawn else { return };
        if respawn.died.get_or_insert_with(Instant::now).elapsed() < respawn.after {
            return;
        }
        respawn.died = None;
        let host = &respawn.host;
        match respawn.command.spawn() {
            Ok(mut child) => {
                eprintln!("railgauge: the process on {host} is started again");
                forward_output(&mut child, host);
                self.child = child;
                self.ended = None;
            }
            Err(error) => eprintln!("railgauge: the process on {host} cannot be started again: {error}"),
        }
    }

    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_some()
    }

    fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = killpg(Pid::from_raw(self.child.id() as i32), signal);
        }
    }

    /// How it ended, as a code; none when it did not end by itself, which launchers report as 128 and the signal.
    fn code(&self) -> Option<u8> {
        let code = u8::try_from(self.ended?.code()?).ok()?;
        (!self.was_ended && code < 128).then_some(code)
    }
}

/// All processes of a run, the first rank first.
pub struct RankProcesses {
    processes: Vec<RankProcess>,
    mark: String,
    signals: [(Signal, Arc<AtomicBool>); 2],
    /// Whether a signal asked it to end.
    is_ending: bool,
}

impl RankProcesses {
    /// Processes that carry `mark`, as `NAME=VALUE`, in their environment.
    pub fn new(processes: Vec<RankProcess>, mark: String) -> Result<RankProcesses, LabError> {
        let listen = |number, signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag)).map(|_| (signal, flag))
        };
        let failed = || LabError::system("cannot listen for signals");
        Ok(RankProcesses {
            processes,
            mark,
            signals: [
                listen(SIGINT, Signal::SIGINT).map_err(failed())?,
                listen(SIGTERM, Signal::SIGTERM).map_err(failed())?,
            ],
            is_ending: false,
        })
    }

    /// Adds a process.
    pub fn add(&mut self, process: RankProcess) {
        self.processes.push(process);
    }

    /// Waits until all have ended, and sees to it that they do; the run's exit code.
    pub fn wait(mut self) -> u8 {
        let mut leader_until = None;
        while !self.processes[0].has_ended() {
            self.forward_signals();
            let mut awaiting_respawn = false;
            if !self.is_ending {
                for process in &mut self.processes[1..] {
                    process.respawn_if_due();
                    awaiting_respawn |= process.awaits_respawn();
                }
            }
            let leader = Pid::from_raw(self.processes[0].child.id() as i32);
            let others_are_gone = self.processes.len() > 1 && !awaiting_respawn && self.others_have_ended();
            if others_are_gone {
                let patience = if host_processes::is_stopped(leader) {
                    STOPPED_LEADER_GRACE
                } else {
                    LEADER_GRACE
                };
                let since = *leader_until.get_or_insert(Instant::now());
                if since.elapsed() > patience {
                    eprintln!("railgauge: rank 0 did not end after all others had; killing it");
                    self.end(0..1);
                    break;
                }
            }
            std::thread::sleep(TICK);
        }
        let until = Instant::now() + FOLLOWER_GRACE;
        while !self.others_have_ended() && Instant::now() < until {
            self.forward_signals();
            std::thread::sleep(TICK);
        }
        self.end(1..self.processes.len());
        self.exit_code()
    }

    fn others_have_ended(&mut self) -> bool {
        self.processes[1..].iter_mut().all(RankProcess::has_ended)
    }

    fn forward_signals(&mut self) {
        for (signal, flag) in &self.signals {
            if flag.swap(false, Ordering::Relaxed) {
                self.is_ending = true;
                self.processes.iter().for_each(|process| process.signal(*signal));
            }
        }
    }

    /// Asks the processes in `range` that still run to end, then kills them.
    fn end(&mut self, range: std::ops::Range<usize>) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let processes = &mut self.processes[range.clone()];
            for process in processes.iter_mut().filter(|process| process.ended.is_none()) {
                process.was_ended = true;
                process.signal(signal);
            }
            let until = Instant::now() + TERM_GRACE;
            while !processes.iter_mut().all(RankProcess::has_ended) && Instant::now() < until {
                std::thread::sleep(TICK);
            }
        }
    }

    /// That of the first rank when it ended by itself; else the highest of the others, and at least that of a lost rank.
    fn exit_code(&self) -> u8 {
        let others = self.processes[1..].iter().filter_map(RankProcess::code);
        self.processes[0]
            .code()
            .unwrap_or_else(|| others.chain([LOST]).max().unwrap_or(LOST))
    }
}

impl Drop for RankProcesses {
    fn drop(&mut self) {
        for process in &mut self.processes {
            if !process.has_ended() {
                process.signal(Signal::SIGKILL);
                let _ = process.child.wait();
            }
        }
        host_processes::kill_all(|| host_processes::marked(&self.mark));
    }
}

impl std::fmt::Debug for RankProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RankProcesses of {}", self.processes.len())
    }
}

/// Forwards everything that a process writes.
fn forward_output(child: &mut Child, host: &str) {
    if let Some(output) = child.stdout.take() {
        forward_lines(output, host.to_string());
    }
    if let Some(output) = child.stderr.take() {
        forward_lines(output, host.to_string());
    }
}

/// Copies lines to standard error behind a host's name, until the other side closes.
fn forward_lines(output: impl Read + Send + 'static, host: String) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            let named = format!("{host}: {}\n", text.trim_end_matches('\n'));
            // At once: the first rank writes there by itself, and standard error has no buffer of its own.
            let _ = std::io::stderr().lock().write_all(named.as_bytes());
            line.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    /// Shells that run these scripts.
    fn shells(scripts: &[&str]) -> RankProcesses {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            command.spawn().unwrap()
        };
        let processes = (0..).zip(scripts).map(|(index, script)| match index {
            0 => RankProcess::leader(start(script)),
            _ => RankProcess::other(start(script), &format!("h{index}")),
        });
        RankProcesses::new(
            processes.collect(),
            format!("RAILGAUGE_TEST_CREW={}", std::process::id()),
        )
        .unwrap()
    }

    #[test]
    fn the_code_is_that_of_the_first_rank_when_it_ended_by_itself() {
        assert_eq!(shells(&["exit 12", "exit 0"]).wait(), 12);
        assert_eq!(shells(&["exit 0", "exit 21"]).wait(), 0);
    }

    #[test]
    fn a_first_rank_that_was_killed_is_a_lost_rank() {
        assert_eq!(shells(&["kill -9 $$", "exit 3"]).wait(), 21);
        assert_eq!(shells(&["kill -9 $$", "exit 22"]).wait(), 22);
    }

    #[test]
    fn a_process_that_died_is_started_again_and_one_that_is_done_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let starts = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let mut ranks = shells(&[&format!(
            "cd {}; until [ \"$(cat died 2>/dev/null | wc -l)\" -ge 3 ]; do sleep 0.02; done; exit 7",
            folder.path().display()
        )]);
        for (name, code) in [("died", 137), ("done", 0)] {
            let script = format!("echo once >> {name}; exit {code}");
            let mut command = Command::new("sh");
            command
                .args(["-c", &script])
                .current_dir(folder.path())
                .process_group(0);
            let child = command.spawn().unwrap();
            let after = Duration::from_millis(10);
            ranks.add(RankProcess::other(child, name).with_respawn(command, name.to_string(), after));
        }
        assert_eq!(ranks.wait(), 7);
        assert!(starts("died").lines().count() >= 3);
        assert_eq!(starts("done").lines().count(), 1);
    }

    #[test]
    fn a_crew_that_is_dropped_leaves_nobody_behind() {
        let ranks = shells(&["sleep 100", "sleep 100"]);
        let pids: Vec<u32> = ranks.processes.iter().map(|process| process.child.id()).collect();
        drop(ranks);
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
        }
    }
}

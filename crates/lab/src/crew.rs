//! The processes of a `lab run`: signals are passed on to all, and when the first rank has ended the others follow.
//!
//! It never hangs and leaves nothing behind: whoever does not end is asked, then killed; dropping a crew kills all of it. A
//! process that died can be started again after a while, as somebody at a real host would.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{LabError, processes};

/// What the others get after the first rank has ended.
const GRACE: Duration = Duration::from_secs(2);
/// What a process gets between being asked to end and being killed.
const MERCY: Duration = Duration::from_secs(1);
/// What the first rank gets after all others have ended: time to judge and write.
const ALONE: Duration = Duration::from_secs(60);
/// The same when it is stopped and cannot do anything.
const STOPPED: Duration = Duration::from_secs(5);
/// How often processes are looked at.
const TICK: Duration = Duration::from_millis(10);
/// The code of a run that lost a rank.
const LOST: u8 = 21;

/// One process of a run.
pub struct Member {
    child: Child,
    ended: Option<ExitStatus>,
    /// Signals that we sent to end it.
    asked: bool,
    again: Option<Again>,
}

/// How a process that died is started again.
struct Again {
    command: Command,
    host: String,
    after: Duration,
    /// When it was first seen to be dead.
    died: Option<Instant>,
}

impl Member {
    /// The process of the first rank, whose output is that of the run.
    pub fn leader(child: Child) -> Member {
        Member {
            child,
            ended: None,
            asked: false,
            again: None,
        }
    }

    /// Another process; what it writes appears on standard error behind its host's name.
    pub fn other(mut child: Child, host: &str) -> Member {
        pass_all_on(&mut child, host);
        Member::leader(child)
    }

    /// The same, which `command` starts again so long after it died.
    pub fn started_again(self, command: Command, host: String, after: Duration) -> Member {
        let again = Again {
            command,
            host,
            after,
            died: None,
        };
        Member {
            again: Some(again),
            ..self
        }
    }

    /// Whether it died and will be started again. One that has done its part has not died.
    fn will_come_back(&mut self) -> bool {
        self.again.is_some() && self.has_ended() && !self.ended.is_some_and(|status| status.success())
    }

    /// Starts it again when it is time to.
    fn come_back(&mut self) {
        if !self.will_come_back() {
            return;
        }
        let Some(again) = &mut self.again else { return };
        if again.died.get_or_insert_with(Instant::now).elapsed() < again.after {
            return;
        }
        again.died = None;
        let host = &again.host;
        match again.command.spawn() {
            Ok(mut child) => {
                eprintln!("railgauge: the process on {host} is started again");
                pass_all_on(&mut child, host);
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
        (!self.asked && code < 128).then_some(code)
    }
}

/// All processes of a run, the first rank first.
pub struct Crew {
    members: Vec<Member>,
    mark: String,
    signals: [(Signal, Arc<AtomicBool>); 2],
    /// Whether somebody asked it to end.
    is_ending: bool,
}

impl Crew {
    /// A crew of processes that carry `mark`, as `NAME=VALUE`, in their environment.
    pub fn new(members: Vec<Member>, mark: String) -> Result<Crew, LabError> {
        let listen = |number, signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag)).map(|_| (signal, flag))
        };
        let deaf = || LabError::system("cannot listen for signals");
        Ok(Crew {
            members,
            mark,
            signals: [
                listen(SIGINT, Signal::SIGINT).map_err(deaf())?,
                listen(SIGTERM, Signal::SIGTERM).map_err(deaf())?,
            ],
            is_ending: false,
        })
    }

    /// One more process.
    pub fn add(&mut self, member: Member) {
        self.members.push(member);
    }

    /// Waits until all have ended, and sees to it that they do; the run's exit code.
    pub fn wait(mut self) -> u8 {
        let mut leader_until = None;
        while !self.members[0].has_ended() {
            self.pass_signals_on();
            let mut some_come_back = false;
            if !self.is_ending {
                for member in &mut self.members[1..] {
                    member.come_back();
                    some_come_back |= member.will_come_back();
                }
            }
            let leader = Pid::from_raw(self.members[0].child.id() as i32);
            let others_are_gone = self.members.len() > 1 && !some_come_back && self.others_have_ended();
            if others_are_gone {
                let patience = if processes::is_stopped(leader) {
                    STOPPED
                } else {
                    ALONE
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
        let until = Instant::now() + GRACE;
        while !self.others_have_ended() && Instant::now() < until {
            self.pass_signals_on();
            std::thread::sleep(TICK);
        }
        self.end(1..self.members.len());
        self.exit_code()
    }

    fn others_have_ended(&mut self) -> bool {
        self.members[1..].iter_mut().all(Member::has_ended)
    }

    fn pass_signals_on(&mut self) {
        for (signal, flag) in &self.signals {
            if flag.swap(false, Ordering::Relaxed) {
                self.is_ending = true;
                self.members.iter().for_each(|member| member.signal(*signal));
            }
        }
    }

    /// Asks the members in `range` that still run to end, then kills them.
    fn end(&mut self, range: std::ops::Range<usize>) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let members = &mut self.members[range.clone()];
            for member in members.iter_mut().filter(|member| member.ended.is_none()) {
                member.asked = true;
                member.signal(signal);
            }
            let until = Instant::now() + MERCY;
            while !members.iter_mut().all(Member::has_ended) && Instant::now() < until {
                std::thread::sleep(TICK);
            }
        }
    }

    /// That of the first rank when it ended by itself; else the highest of the others, and at least that of a lost rank.
    fn exit_code(&self) -> u8 {
        let others = self.members[1..].iter().filter_map(Member::code);
        self.members[0]
            .code()
            .unwrap_or_else(|| others.chain([LOST]).max().unwrap_or(LOST))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            if !member.has_ended() {
                member.signal(Signal::SIGKILL);
                let _ = member.child.wait();
            }
        }
        processes::kill_all(|| processes::marked(&self.mark));
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crew of {}", self.members.len())
    }
}

/// Passes on everything that a process writes.
fn pass_all_on(child: &mut Child, host: &str) {
    if let Some(output) = child.stdout.take() {
        pass_on(output, host.to_string());
    }
    if let Some(output) = child.stderr.take() {
        pass_on(output, host.to_string());
    }
}

/// Copies lines to standard error behind a host's name, until the other side closes.
fn pass_on(output: impl Read + Send + 'static, host: String) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            let _ = writeln!(
                std::io::stderr().lock(),
                "{host}: {}",
                text.trim_end_matches('\n')
            );
            line.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    /// A crew of shells that run these scripts.
    fn crew(scripts: &[&str]) -> Crew {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            command.spawn().unwrap()
        };
        let members = (0..).zip(scripts).map(|(index, script)| match index {
            0 => Member::leader(start(script)),
            _ => Member::other(start(script), &format!("h{index}")),
        });
        Crew::new(
            members.collect(),
            format!("RAILGAUGE_TEST_CREW={}", std::process::id()),
        )
        .unwrap()
    }

    #[test]
    fn the_code_is_that_of_the_first_rank_when_it_ended_by_itself() {
        assert_eq!(crew(&["exit 12", "exit 0"]).wait(), 12);
        assert_eq!(crew(&["exit 0", "exit 21"]).wait(), 0);
    }

    #[test]
    fn a_first_rank_that_was_killed_is_a_lost_rank() {
        assert_eq!(crew(&["kill -9 $$", "exit 3"]).wait(), 21);
        assert_eq!(crew(&["kill -9 $$", "exit 22"]).wait(), 22);
    }

    #[test]
    fn a_process_that_died_is_started_again_and_one_that_is_done_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let starts = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let mut crew = crew(&[&format!(
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
            crew.add(Member::other(child, name).started_again(command, name.to_string(), after));
        }
        assert_eq!(crew.wait(), 7);
        assert!(starts("died").lines().count() >= 3);
        assert_eq!(starts("done").lines().count(), 1);
    }

    #[test]
    fn a_crew_that_is_dropped_leaves_nobody_behind() {
        let crew = crew(&["sleep 100", "sleep 100"]);
        let pids: Vec<u32> = crew.members.iter().map(|member| member.child.id()).collect();
        drop(crew);
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
        }
    }
}

//! Running the binary in a folder of its own, and reading what it left there.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::{CellDone, Event, Finding, FindingKind, Judgement, Recorded};

/// Longer than any command here takes on a busy machine; what takes longer hangs.
pub const HANGS: Duration = Duration::from_secs(120);

/// Tests that compare speeds hold it alone; all others share it.
static MACHINE: RwLock<()> = RwLock::new(());

/// A suite of one small all-reduce over two rails, compared with nothing.
pub const SMALL: &str = r#"
name = "small"
[run]
ranks = 2
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
deadline = "10s"
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["1K", "64K"]
warmup = 1
iterations = 8
[rule]
# Other tests run beside: who was slow here for a moment says nothing.
straggler_factor = 1000
"#;

/// A short cell and one that does not end by itself within any test.
pub const LONG: &str = r#"
name = "long"
[run]
ranks = 2
rails = ["loop0=127.0.1.1"]
transport = "tcp"
deadline = "3s"
seed = 1
[rule]
# Other tests run beside: who was slow here for a moment says nothing.
straggler_factor = 1000
[[test]]
name = "short"
collective = "all-reduce"
algorithm = "ring"
sizes = ["1K"]
warmup = 1
iterations = 8
[[test]]
name = "long"
collective = "all-reduce"
algorithm = "ring"
sizes = ["64K"]
warmup = 1
iterations = { min = 100000, max = 1000000 }
budget = "10m"
"#;

/// The same, but not expected to take long, so that a short budget does not leave it out: it goes on until its median is known better
/// than it ever will be.
pub fn longer_than_expected() -> String {
    LONG.replace("{ min = 100000, max", "{ min = 8, max")
        .replace("budget = \"10m\"", "tight = \"0.001%\"\nbudget = \"10m\"")
}

/// A folder with a suite in it.
pub struct Bench {
    folder: tempfile::TempDir,
    /// Variables that commands find in their environment.
    variables: Vec<(String, String)>,
}

/// A command that has ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A command under way, in a process group of its own. Dropping it ends it.
pub struct Started {
    child: Child,
    said: Arc<Mutex<String>>,
    lines: Receiver<String>,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<()>>,
    _turn: Turn,
}

/// The machine, held until a command has ended.
#[expect(dead_code, reason = "held, not read")]
enum Turn {
    Together(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Bench {
    /// A new folder that holds `suite` as `suite.toml`.
    pub fn new(suite: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("suite.toml"), suite).unwrap();
        Bench {
            folder,
            variables: Vec::new(),
        }
    }

    /// The same, with a variable in the environment of everything it runs.
    #[allow(dead_code, reason = "not every test needs one")]
    pub fn with(mut self, name: &str, value: &str) -> Bench {
        self.variables.push((name.to_string(), value.to_string()));
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where `run` writes.
    pub fn out(&self) -> PathBuf {
        self.path().join("out")
    }

    /// Runs `railgauge` with these words to its end.
    pub fn railgauge(&self, words: &str) -> Ended {
        self.start(words).wait()
    }

    /// The same while no other test of this binary runs.
    pub fn railgauge_alone(&self, words: &str) -> Ended {
        let alone = MACHINE.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.spawn(words, Turn::Alone(alone)).wait()
    }

    /// `railgauge run suite.toml --out out` with more words.
    pub fn run(&self, words: &str) -> Ended {
        self.railgauge(&format!("run suite.toml --out out {words}"))
    }

    /// Starts `railgauge`; its standard error is kept, and its debug lines are in it. One at a time per test: another
    /// would wait for a test that waits for this one.
    pub fn start(&self, words: &str) -> Started {
        let together = MACHINE.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.spawn(words, Turn::Together(together))
    }

    fn spawn(&self, words: &str, turn: Turn) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
        command
            .args(words.split_whitespace())
            .current_dir(self.path())
            .env("RAILGAUGE_LOG", "debug")
            .env("RAILGAUGE_TEST_SECRET", "the environment is nobody's business")
            .env_remove("NO_COLOR")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Started::spawn(command, turn)
    }

    /// Starts `railgauge run suite.toml --out out` and comes back when samples are on the disk.
    pub fn start_measuring(&self, words: &str) -> Started {
        let started = self.start(&format!("run suite.toml --out out {words}"));
        let samples = self.out().join("samples.jsonl");
        eventually("samples are written", || {
            std::fs::metadata(&samples).is_ok_and(|file| file.len() > 0)
        });
        started
    }

    /// What was recorded.
    pub fn recorded(&self) -> Recorded {
        Recorded::read(&self.out()).unwrap()
    }

    /// What was concluded.
    pub fn judgement(&self) -> Judgement {
        let text = std::fs::read_to_string(self.out().join("findings.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The only finding of `kind`.
    pub fn the_finding(&self, kind: FindingKind) -> Finding {
        let judgement = self.judgement();
        let mut found = judgement.findings.iter().filter(|finding| finding.kind == kind);
        let one = found
            .next()
            .unwrap_or_else(|| panic!("no {kind} in {}", judgement.summary));
        assert_eq!(found.count(), 0, "more than one {kind}");
        one.clone()
    }

    /// Kinds of everything found.
    pub fn kinds(&self) -> Vec<FindingKind> {
        self.judgement()
            .findings
            .iter()
            .map(|finding| finding.kind)
            .collect()
    }

    /// Process id of a rank, as the run recorded it.
    pub fn pid_of(&self, rank: usize) -> Pid {
        Pid::from_raw(self.recorded().run.ranks[rank].pid as i32)
    }
}

/// The cells that were measured to their end.
pub fn done(recorded: &Recorded) -> Vec<&CellDone> {
    let cells = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some(done),
        _ => None,
    });
    cells.collect()
}

impl Started {
    fn spawn(mut command: Command, turn: Turn) -> Started {
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            out.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let said = Arc::new(Mutex::new(String::new()));
        let (told, lines) = channel();
        let (err, keep) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&said));
        let stderr = std::thread::spawn(move || {
            for line in err.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                *keep.lock().unwrap() += &format!("{line}\n");
                // Most tests do not listen.
                let _ = told.send(line);
            }
        });
        Started {
            child,
            said,
            lines,
            stdout: Some(stdout),
            stderr: Some(stderr),
            _turn: turn,
        }
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// The next line of standard error that contains `text`.
    pub fn line_with(&self, text: &str) -> String {
        let until = Instant::now() + HANGS;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("never said `{text}`: {}", self.said.lock().unwrap()),
            }
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Sends a signal to the whole process group, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        kill(Pid::from_raw(-self.pid().as_raw()), signal).unwrap();
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Ended {
        let since = Instant::now();
        let status: ExitStatus = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if since.elapsed() > HANGS => {
                    panic!("it hangs; so far: {}", self.said.lock().unwrap())
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let stdout = self.stdout.take().unwrap().join().unwrap();
        self.stderr.take().unwrap().join().unwrap();
        let stderr = self.said.lock().unwrap().clone();
        Ended {
            code: status.code(),
            stdout,
            stderr,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(Pid::from_raw(-self.pid().as_raw()), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// Asserts the exit code; shows everything that was said when it is another.
    #[track_caller]
    pub fn must_exit(self, code: i32) -> Ended {
        let Ended { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    /// Standard output with line breaks and runs of spaces as single spaces.
    pub fn words(&self) -> String {
        self.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + HANGS;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the command name, which ends at the last parenthesis.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

//! Starting the binary several times, each with variables of its own.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::harness::HANGS;

/// Variables that would tell a process who it is.
const FAMILIES: &[&str] = &[
    "RAILGAUGE_RANK",
    "RAILGAUGE_WORLD",
    "RAILGAUGE_RENDEZVOUS",
    "RAILGAUGE_TOKEN",
    "RAILGAUGE_TOKEN_FILE",
    "RAILGAUGE_MANAGEMENT",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
];

/// A suite that ends at once, over TCP.
const SUITE: &str = r#"
name = "small"
[run]
deadline = "20s"
transport = "tcp"
[rule]
# Other tests run beside: who was slow here for a moment says nothing.
straggler_factor = 1000
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["1K"]
warmup = 1
iterations = 8
"#;

/// The same, but with a cell that does not end by itself within any test.
const LONG: &str = r#"
[[test]]
name = "long"
collective = "all-reduce"
algorithm = "ring"
sizes = ["64K"]
warmup = 1
# Few are expected, so that a short budget does not leave it out; it goes on until its median is known better than it ever will be.
iterations = { min = 8, max = 1000000 }
tight = "0.001%"
budget = "10m"
"#;

/// A folder with a suite, a port and a token.
pub struct Lot {
    folder: tempfile::TempDir,
    pub port: u16,
    pub token: String,
}

/// A process that has ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A process under way. Dropping it ends it.
pub struct Started {
    pub child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Lot {
    pub fn new() -> Lot {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("suite.toml"), SUITE).unwrap();
        std::fs::write(folder.path().join("long.toml"), format!("{SUITE}{LONG}")).unwrap();
        // Free now, and below the ports the kernel gives away by itself.
        let port = (20_000 + std::process::id() % 3_000..)
            .step_by(7)
            .map(|port| port as u16)
            .find(|port| claim(*port))
            .unwrap();
        let token = run_to_end(Command::new(env!("CARGO_BIN_EXE_railgauge")).arg("token")).stdout;
        Lot {
            folder,
            port,
            token: token.trim().to_string(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn out(&self) -> PathBuf {
        self.path().join("out")
    }

    /// `railgauge WORDS` with exactly these variables of those that matter, and the token.
    pub fn start(&self, words: &str, variables: &str) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
        self.prepare(&mut command, words, variables);
        Started::spawn(command)
    }

    pub fn prepare(&self, command: &mut Command, words: &str, variables: &str) {
        for name in FAMILIES {
            command.env_remove(name);
        }
        command.args(words.split_whitespace()).current_dir(self.path());
        command.env("RAILGAUGE_TOKEN", &self.token);
        for (name, value) in variables
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
        {
            match value {
                "" => command.env_remove(name),
                value => command.env(name, value),
            };
        }
    }

    /// Railgauge's own variables for a rank of a world.
    pub fn own(&self, rank: u32, world: u32) -> String {
        let port = self.port;
        format!("RAILGAUGE_RANK={rank} RAILGAUGE_WORLD={world} RAILGAUGE_RENDEZVOUS=127.0.0.1:{port}")
    }

    /// Starts the small suite as `rank` of `world`.
    pub fn join(&self, rank: u32, world: u32, words: &str) -> Started {
        self.start(
            &format!("run suite.toml --out out --launch env {words}"),
            &self.own(rank, world),
        )
    }

    /// What the run recorded about how it was started.
    pub fn launch(&self) -> String {
        let text = std::fs::read_to_string(self.out().join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(!text.contains(&self.token), "the token is recorded");
        run["launch"].as_str().unwrap().to_string()
    }
}

/// Whether nobody else has this port; another test of this binary would find it taken.
fn claim(port: u16) -> bool {
    static CLAIMED: std::sync::Mutex<Vec<u16>> = std::sync::Mutex::new(Vec::new());
    let mut claimed = CLAIMED.lock().unwrap();
    let is_free = !claimed.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok();
    if is_free {
        claimed.push(port);
    }
    is_free
}

fn keep(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Started {
    pub fn spawn(mut command: Command) -> Started {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Started {
            out: Some(keep(child.stdout.take().unwrap())),
            err: Some(keep(child.stderr.take().unwrap())),
            child,
        }
    }

    pub fn wait(mut self) -> Ended {
        let until = Instant::now() + HANGS;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it hangs"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Ended {
            code: status.code(),
            stdout: self.out.take().unwrap().join().unwrap(),
            stderr: self.err.take().unwrap().join().unwrap(),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    #[track_caller]
    pub fn must_exit(self, code: i32) -> Ended {
        let Ended { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    /// Standard error says all of these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
        self
    }
}

/// Runs a command to its end.
pub fn run_to_end(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

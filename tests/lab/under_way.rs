//! A run across a lab while it is measured, for tests in which something then goes wrong.

use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use record::{Judgement, Recorded};

use crate::harness::{HANGS, command};

/// One cell that does not end by itself within any test.
pub fn endless(transport: &str, size: &str) -> String {
    format!(
        r#"
name = "endless"
[run]
transport = "{transport}"
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["{size}"]
warmup = 1
iterations = {{ min = 100000, max = 1000000 }}
budget = "100s"
"#
    )
}

/// A run while it is measured.
pub struct UnderWay {
    folder: tempfile::TempDir,
    child: Child,
}

/// A run that ended.
pub struct Ended {
    /// Keeps its files.
    folder: tempfile::TempDir,
    /// Since it was waited for.
    pub took: Duration,
    pub output: Output,
}

impl UnderWay {
    /// Starts `suite` on every host of a lab, and waits until a few iterations are recorded.
    pub fn start(lab: &str, suite: &str, more: &[&str]) -> UnderWay {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("suite.toml");
        std::fs::write(&file, suite).unwrap();
        let out = folder.path().join("out");
        let words = ["run", "--name", lab, "--", "run", file.to_str().unwrap()];
        let child = command(&[&words[..], &["--out", out.to_str().unwrap()], more].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut run = UnderWay { folder, child };
        let until = Instant::now() + HANGS;
        while run.samples() < 12 {
            let is_going = run.child.try_wait().unwrap().is_none() && Instant::now() < until;
            if !is_going {
                let _ = run.child.kill();
                panic!("it never got going: {:?}", run.child.wait_with_output().unwrap());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        run
    }

    /// Samples recorded so far.
    pub fn samples(&self) -> usize {
        let file = self.folder.path().join("out/samples.jsonl");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.matches("\"sample\"").count()
    }

    /// Waits for it to end.
    pub fn ends(mut self) -> Ended {
        let since = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if since.elapsed() > HANGS {
                let _ = self.child.kill();
                panic!("the run hangs");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ended {
            folder: self.folder,
            took: since.elapsed(),
            output: self.child.wait_with_output().unwrap(),
        }
    }
}

impl Ended {
    /// Its folder.
    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// What it came to.
    pub fn judgement(&self) -> Judgement {
        serde_json::from_slice(&std::fs::read(self.out().join("findings.json")).unwrap()).unwrap()
    }

    /// All that was recorded.
    pub fn recorded(&self) -> Recorded {
        Recorded::read(&self.out()).unwrap()
    }
}

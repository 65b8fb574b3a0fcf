//! A headless Chromium, driven over a pipe by its DevTools protocol.
//!
//! Held true: every wait has a deadline; the profile is a folder that goes with the browser; the browser and all its processes are gone when
//! [`Browser`] is dropped, and also when this process dies, for then its pipe ends.

use crate::skip::skip;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Longer than anything takes here on a busy machine; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a browser may take to go when it is asked.
const FAREWELL: Duration = Duration::from_secs(5);

/// Its descriptors 3 and 4 are where the protocol is spoken; it finds our ends on 0 and 1.
const START: &str = "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2";

const FLAGS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-crash-reporter",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
];

/// The program, when it is installed.
fn program() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    names.into_iter().find(is_there)
}

/// Whether there is a browser to look with.
pub fn is_there() -> bool {
    if program().is_some() {
        return true;
    }
    skip(
        "browser",
        "`chromium` is not installed (on Debian: apt-get install chromium)",
    );
    false
}

/// A browser with one tab.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Messages that nobody has asked for yet.
    events: VecDeque<Value>,
    session: Option<String>,
    next: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; its tab is empty.
    pub fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let complaints = std::fs::File::create(profile.path().join("stderr")).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", START, "sh", program().unwrap()])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints)
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let mut from_child = BufReader::new(child.stdout.take().unwrap());
        let (told, from) = channel();
        // Ends with the pipe, which ends with the browser.
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from_child
                .read_until(0, &mut message)
                .is_ok_and(|bytes| bytes > 0)
            {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else {
                    break;
                };
                if told.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            child,
            to,
            from,
            events: VecDeque::new(),
            session: None,
            next: 0,
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer, which must not be an error.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let message = self.hear(deadline, method);
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    fn hear(&mut self, deadline: Instant, what: &str) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.from.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("the browser never answered: {what}"),
            Err(RecvTimeoutError::Disconnected) => {
                let said = std::fs::read_to_string(self._profile.path().join("stderr"));
                panic!("the browser is gone during {what}: {}", said.unwrap_or_default())
            }
        }
    }

    /// Waits for an event, which may have come already; the others are kept.
    pub fn wait_for(&mut self, method: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut at = 0;
        loop {
            while let Some(event) = self.events.get(at) {
                if event["method"] == method {
                    return self.events.remove(at).unwrap();
                }
                at += 1;
            }
            let message = self.hear(deadline, method);
            self.events.push_back(message);
        }
    }

    /// All events of these kinds so far; they are forgotten.
    pub fn take(&mut self, methods: &[&str]) -> Vec<Value> {
        // Whatever was said before this answer is here after it.
        self.ask("Runtime.evaluate", json!({"expression": "0"}));
        let is_asked = |event: &Value| methods.iter().any(|method| event["method"] == *method);
        let (asked, kept) = self.events.drain(..).partition(is_asked);
        self.events = kept;
        VecDeque::into_iter(asked).collect()
    }

    /// What an expression comes to in the page. It is evaluated also where scripts of the page are off.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self
            .to
            .write_all(b"{\"id\": 999999, \"method\": \"Browser.close\"}\0");
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Its group is its own: what it started and left behind goes, too.
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

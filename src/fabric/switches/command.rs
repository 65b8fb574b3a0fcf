//! Running a command that prints counters: without a shell, for so long and no longer, reading so much and no more.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often a command is looked at.
const TICK: Duration = Duration::from_millis(5);
/// How much of what it complains about is passed on.
const MOST_COMPLAINT: usize = 400;

/// What the command prints, at most `most` bytes of it.
pub(super) fn output(words: &[String], most: u64, patience: Duration) -> Result<Vec<u8>, String> {
    let until = Instant::now() + patience;
    let (program, arguments) = words.split_first().ok_or("no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start it: {error}"))?;
    let printed = collect(child.stdout.take(), most + 1);
    let complained = collect(child.stderr.take(), MOST_COMPLAINT as u64);
    let ended = wait(&mut child, until);
    // Whoever it left behind would keep its output open.
    let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
    let _ = child.wait();
    let complaint = complained.recv_timeout(TICK).unwrap_or_default();
    let complaint = String::from_utf8_lossy(&complaint);
    let because = match complaint.trim() {
        "" => String::new(),
        text => format!(": {}", text.escape_debug()),
    };
    match ended {
        None => return Err(format!("no end within {patience:?}{because}")),
        Some(status) if !status.success() => return Err(format!("{status}{because}")),
        Some(_) => {}
    }
    let left = until.saturating_duration_since(Instant::now()).max(TICK);
    let printed = printed
        .recv_timeout(left)
        .map_err(|_| "its output did not end".to_string())?;
    match printed.len() as u64 > most {
        true => Err(format!("it printed more than {most} bytes")),
        false => Ok(printed),
    }
}

/// How it ended; none when it did not in time.
fn wait(child: &mut Child, until: Instant) -> Option<std::process::ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(TICK),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Reads on a thread of its own, so that neither stream waits for the other.
fn collect(stream: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What broke off is noticed when it is read.
            let _ = stream.by_ref().take(most).read_to_end(&mut bytes);
            // A command that still writes must not wait for a reader, nor be told off for it.
            let _ = sender.send(bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    receiver
}

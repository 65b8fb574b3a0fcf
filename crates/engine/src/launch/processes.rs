//! Ranks as child processes of this one, on this machine. They join over loopback as ranks of different hosts would.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{Token, variables};

/// The child processes of a run, by rank. Dropping this ends those that still run.
pub struct RankProcesses(Vec<Child>);

/// Starts `world` copies of this program, each running `arguments` as one rank.
pub fn spawn(
    world: u32,
    rendezvous: SocketAddr,
    token: &Token,
    arguments: &[&str],
) -> io::Result<RankProcesses> {
    let program = std::env::current_exe()?;
    let mut children = RankProcesses(Vec::with_capacity(world as usize));
    for rank in 0..world {
        let child = Command::new(&program)
            .args(arguments)
            .env(variables::RANK, rank.to_string())
            .env(variables::WORLD, world.to_string())
            .env(variables::RENDEZVOUS, rendezvous.to_string())
            .env(variables::TOKEN, token.to_hex())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        children.0.push(child);
    }
    Ok(children)
}

impl RankProcesses {
    /// How the process of `rank` ended, as text; none while it runs.
    pub fn exit_of(&mut self, rank: u32) -> Option<String> {
        let status = self.0.get_mut(rank as usize)?.try_wait().ok()??;
        Some(describe(status))
    }

    /// The first rank whose process has ended.
    pub fn first_exited(&mut self) -> Option<u32> {
        (0..self.0.len() as u32).find(|rank| self.exit_of(*rank).is_some())
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process exited with code {code}"),
        (None, Some(signal)) => {
            let name = nix::sys::signal::Signal::try_from(signal)
                .map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string());
            format!("its process was killed by {name}")
        }
        (None, None) => "its process ended".to_string(),
    }
}

impl Drop for RankProcesses {
    /// Child processes end when their control connection closes; one that has not after 2 s is killed.
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        for child in &mut self.0 {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if matches!(child.try_wait(), Ok(None)) {
                tracing::warn!(
                    pid = child.id(),
                    "a rank's process did not end within 2 s; killing it"
                );
                let _ = child.kill();
            }
            let _ = child.wait();
        }
    }
}

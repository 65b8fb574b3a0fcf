//! Outside a guest: runs a command inside, with this process's input, output, environment and signals.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::super::{Command, Lab, LabError, Node};
use super::message::Message;
use super::network::CONTROL_PEER;
use super::supervisor::{ensure_running, is_running, start_error};

/// How long a host may take until it answers.
const BOOT: Duration = Duration::from_secs(30);
/// How long one attempt to reach it takes, and how often it is looked at.
const ATTEMPT: Duration = Duration::from_millis(50);
/// The code of a command whose host went away.
const GONE: u8 = 128 + 9;

/// Runs `command` in a host's guest, started when it does not run; the code it ended with.
pub fn exec(lab: &Lab, node: Node, command: &Command) -> Result<u8, LabError> {
    super::super::tools::be_root()?;
    if command.dies_with_parent {
        set_pdeathsig(Signal::SIGKILL).map_err(LabError::system("cannot tie the command to its parent"))?;
    }
    ensure_running(lab, node)?;
    let guest = reach(lab, node)?;
    let lost = || LabError::system(format!("{node}: cannot talk to it"));
    ask(&guest, lab, node, command).map_err(lost())?;
    pass_signals_on(guest.try_clone().map_err(lost())?).map_err(lost())?;
    pass_input_on(guest.try_clone().map_err(lost())?);
    let connection = guest.try_clone().map_err(lost())?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hang_up_when_gone(&connection, lab, node, &over));
        let ended = listen(guest, node);
        over.store(true, Ordering::Relaxed);
        ended
    })
}

/// A host that loses power says nothing, so its connection is closed from here.
fn hang_up_when_gone(connection: &TcpStream, lab: &Lab, node: Node, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        if !is_running(lab, node).unwrap_or(false) {
            let _ = connection.shutdown(Shutdown::Both);
            return;
        }
        std::thread::sleep(ATTEMPT);
    }
}

/// A connection to a host's agent, made inside that host's namespace.
fn reach(lab: &Lab, node: Node) -> Result<TcpStream, LabError> {
    let namespace = lab.namespace(node)?;
    let work = || -> Result<TcpStream, LabError> {
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(LabError::system(format!("{node}: cannot enter its network")))?;
        let until = Instant::now() + BOOT;
        loop {
            match TcpStream::connect_timeout(&CONTROL_PEER, ATTEMPT) {
                Ok(guest) => return Ok(guest),
                Err(_) if is_running(lab, node)? && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                Err(_) => return Err(start_error(lab, node)),
            }
        }
    };
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Says what to run.
fn ask(mut guest: &TcpStream, lab: &Lab, node: Node, command: &Command) -> io::Result<()> {
    guest.set_nodelay(true)?;
    for word in &command.words {
        Message::Word(word.as_bytes().to_vec()).write(&mut guest)?;
    }
    let temporary = lab.folder().temporary(node).into_os_string();
    let variables = std::env::vars_os().filter(|(name, _)| name != "TMPDIR");
    for (name, value) in variables.chain([("TMPDIR".into(), temporary)]) {
        let variable = [name.as_bytes(), b"=", value.as_bytes()].concat();
        Message::Variable(variable).write(&mut guest)?;
    }
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Message::Directory(OsStr::as_bytes(directory.as_os_str()).to_vec()).write(&mut guest)?;
    Message::Start.write(&mut guest)
}

fn pass_signals_on(mut guest: TcpStream) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let _ = Message::Signal(signal as u8).write(&mut guest);
        }
    });
    Ok(())
}

fn pass_input_on(mut guest: TcpStream) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            // The end of the input is passed on as an empty message, and so is whatever cannot be read.
            let count = io::stdin().read(&mut buffer).unwrap_or(0);
            if Message::Input(buffer[..count].to_vec())
                .write(&mut guest)
                .is_err()
                || count == 0
            {
                return;
            }
        }
    });
}

/// Writes what the command writes, until it says how it ended.
fn listen(mut guest: TcpStream, node: Node) -> Result<u8, LabError> {
    loop {
        match Message::read(&mut guest) {
            Ok(Some(Message::Output(bytes))) => {
                let mut output = io::stdout().lock();
                let _ = output.write_all(&bytes).and_then(|()| output.flush());
            }
            Ok(Some(Message::Error(bytes))) => {
                let _ = io::stderr().lock().write_all(&bytes);
            }
            Ok(Some(Message::Ended(code))) => return Ok(code),
            Ok(Some(Message::Refused(why))) => {
                return Err(LabError::CannotRun(format!(
                    "{node}: {}",
                    String::from_utf8_lossy(&why)
                )));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                eprintln!("railgauge: {node} went away");
                return Ok(GONE);
            }
        }
    }
}

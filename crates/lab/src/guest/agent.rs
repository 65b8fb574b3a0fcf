//! Inside a guest: runs the commands that clients ask for, one connection each.
//!
//! A command ends with its connection: when the client is gone, its whole process group is killed. A command that ended has
//! its files on the machine before the client hears of it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::super::LabError;
use super::init::control_namespace;
use super::message::Message;
use super::network::CONTROL_PEER;

/// How long the output of a command that ended may still come, from processes it left behind.
const LATE_OUTPUT: Duration = Duration::from_millis(200);

/// Serves clients for as long as the guest lives.
pub fn serve() -> Result<(), LabError> {
    let namespace = control_namespace()?;
    // Sockets stay where they were made, so only the thread that makes this one has to go there.
    let door = std::thread::spawn(move || -> Result<TcpListener, LabError> {
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(LabError::system("cannot reach the control cable"))?;
        TcpListener::bind(CONTROL_PEER).map_err(LabError::system("cannot listen on the control cable"))
    });
    let door = match door.join() {
        Ok(door) => door?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    for client in door.incoming().flatten() {
        std::thread::spawn(move || {
            let _ = client.set_nodelay(true);
            if let Err(error) = attend(&client) {
                let _ = Message::Refused(error.to_string().into_bytes()).write(&mut &client);
            }
        });
    }
    Ok(())
}

/// Does what one client asks for.
fn attend(client: &TcpStream) -> io::Result<()> {
    let (mut words, mut variables, mut directory) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match Message::read(&mut &*client)? {
            Some(Message::Word(word)) => words.push(OsString::from_vec(word)),
            Some(Message::Variable(variable)) => variables.extend(split(&variable)),
            Some(Message::Directory(path)) => directory = path,
            Some(Message::Carrier(what)) => {
                let done = set_carrier(&what);
                let answer = done.map_or_else(
                    |error| Message::Refused(error.to_string().into()),
                    |()| Message::Ended(0),
                );
                answer.write(&mut &*client)?;
            }
            Some(Message::Start) => break,
            Some(_) | None => return Ok(()),
        }
    }
    let Some((program, arguments)) = words.split_first() else {
        return Err(io::Error::other("there is no command to run"));
    };
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(variables)
        .current_dir(OsString::from_vec(directory))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child =
        child.map_err(|error| io::Error::other(format!("cannot run {}: {error}", program.display())))?;
    run(child, client)
}

/// Passes input, output and signals until the command has ended, and says how it did.
fn run(mut child: Child, client: &TcpStream) -> io::Result<()> {
    let group = Pid::from_raw(child.id() as i32);
    let answers = Arc::new(Mutex::new(client.try_clone()?));
    let (done, finished) = channel();
    for (output, tag) in [
        (
            child
                .stdout
                .take()
                .map(|output| Box::new(output) as Box<dyn Read + Send>),
            Message::Output as fn(_) -> _,
        ),
        (
            child
                .stderr
                .take()
                .map(|output| Box::new(output) as Box<dyn Read + Send>),
            Message::Error as fn(_) -> _,
        ),
    ] {
        let (answers, done) = (Arc::clone(&answers), done.clone());
        std::thread::spawn(move || {
            if let Some(output) = output {
                pass_on(output, tag, &answers);
            }
            let _ = done.send(());
        });
    }
    let input = child.stdin.take();
    let requests = client.try_clone()?;
    std::thread::spawn(move || listen(requests, input, group));
    let status = child.wait()?;
    wait_for_output(&finished);
    nix::unistd::sync();
    let mut answers = answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Message::Ended(code(status)).write(&mut *answers)?;
    let _ = answers.shutdown(std::net::Shutdown::Write);
    Ok(())
}

fn pass_on(mut output: impl Read, tag: fn(Vec<u8>) -> Message, answers: &Mutex<TcpStream>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        let mut answers = answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if tag(buffer[..count].to_vec()).write(&mut *answers).is_err() {
            return;
        }
    }
}

/// Both outputs are closed, or what left them open is not waited for.
fn wait_for_output(finished: &Receiver<()>) {
    let until = Instant::now() + LATE_OUTPUT;
    for _ in 0..2 {
        let _ = finished.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// Hears a client out; when it is gone, so is its command.
fn listen(mut requests: TcpStream, mut input: Option<impl Write>, group: Pid) {
    while let Ok(Some(message)) = Message::read(&mut requests) {
        match message {
            Message::Input(bytes) if bytes.is_empty() => input = None,
            Message::Input(bytes) => {
                if let Some(pipe) = &mut input
                    && pipe.write_all(&bytes).is_err()
                {
                    input = None;
                }
            }
            Message::Signal(number) => {
                if let Ok(signal) = Signal::try_from(i32::from(number)) {
                    let _ = killpg(group, signal);
                }
            }
            _ => break,
        }
    }
    let _ = killpg(group, Signal::SIGKILL);
}

/// `NAME=VALUE`, taken apart.
fn split(variable: &[u8]) -> Option<(OsString, OsString)> {
    let at = variable.iter().skip(1).position(|byte| *byte == b'=')? + 1;
    let (name, value) = (variable[..at].to_vec(), variable[at + 1..].to_vec());
    Some((OsString::from_vec(name), OsString::from_vec(value)))
}

fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 255,
    }
}

/// `rail0=0`: the interface has no signal any more.
fn set_carrier(what: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(what);
    let (interface, state) = text
        .split_once('=')
        .ok_or_else(|| io::Error::other("no carrier"))?;
    std::fs::write(Path::new("/sys/class/net").join(interface).join("carrier"), state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_apart_at_the_first_sign() {
        let pair = |text: &str| split(text.as_bytes());
        assert_eq!(pair("A=b=c"), Some(("A".into(), "b=c".into())));
        assert_eq!(pair("A="), Some(("A".into(), "".into())));
        assert_eq!(pair("A"), None);
        assert_eq!(pair("=A"), None);
    }

    #[test]
    fn a_command_ends_with_its_client_and_says_how_it_ended() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let ask = |script: &str| {
            let mut client = TcpStream::connect(door.local_addr().unwrap()).unwrap();
            let (there, _) = door.accept().unwrap();
            std::thread::spawn(move || attend(&there));
            for word in ["sh", "-c", script] {
                Message::Word(word.into()).write(&mut client).unwrap();
            }
            Message::Variable(b"PATH=/usr/bin:/bin".to_vec())
                .write(&mut client)
                .unwrap();
            Message::Directory(b"/".to_vec()).write(&mut client).unwrap();
            Message::Start.write(&mut client).unwrap();
            client
        };
        let mut client = ask("read line; echo got $line; echo bad >&2; exit 37");
        Message::Input(b"this\n".to_vec()).write(&mut client).unwrap();
        let mut heard = Vec::new();
        while let Some(message) = Message::read(&mut client).unwrap() {
            heard.push(message);
        }
        assert!(
            heard.contains(&Message::Output(b"got this\n".to_vec())),
            "{heard:?}"
        );
        assert!(heard.contains(&Message::Error(b"bad\n".to_vec())), "{heard:?}");
        assert_eq!(heard.last(), Some(&Message::Ended(37)));

        let mut client = ask("sleep 100");
        Message::Signal(15).write(&mut client).unwrap();
        assert_eq!(
            Message::read(&mut client).unwrap(),
            Some(Message::Ended(128 + 15))
        );

        let file = tempfile::NamedTempFile::new().unwrap();
        let client = ask(&format!("echo $$ > {}; exec sleep 100", file.path().display()));
        let pid = || std::fs::read_to_string(file.path()).unwrap().trim().to_string();
        let until = Instant::now() + Duration::from_secs(10);
        while pid().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let process = format!("/proc/{}", pid());
        assert!(Path::new(&process).exists());
        drop(client);
        while Path::new(&process).exists() {
            assert!(Instant::now() < until, "it outlived its client");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

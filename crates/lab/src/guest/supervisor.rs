//! Outside a guest: the process that starts its kernel and reports to it when a cable loses or regains its carrier.
//!
//! There is at most one per host: it and its kernel hold a lock for as long as either lives.

use std::collections::HashMap;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use super::super::{Lab, LabError, LabName, Node};
use super::lock;
use super::message::Message;
use super::network::{CONTROL_PEER, interfaces, vectors};

/// The memory of a guest; what it never touches costs nothing.
const MEMORY: &str = "384M";
/// Where process 1 finds its programs.
const PATH: &str = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How often cables are polled.
const TICK: Duration = Duration::from_millis(20);
/// How long a guest may take to confirm a change of carrier.
const HEARING: Duration = Duration::from_secs(1);
/// How long a supervisor may take until its kernel runs.
const START: Duration = Duration::from_secs(10);

/// The kernel at `path`, from whatever folder hosts will be started.
pub fn kernel(path: &Path) -> Result<PathBuf, LabError> {
    let whole =
        std::fs::canonicalize(path).map_err(LabError::system(format!("kernel {}", path.display())))?;
    let mode = whole
        .metadata()
        .map(|metadata| (metadata.is_file(), metadata.permissions().mode()));
    match mode {
        Ok((true, mode)) if mode & 0o100 != 0 => Ok(whole),
        _ => Err(LabError::CannotRun(format!(
            "{} is not a program; build the kernel with ci/rdma-kernel",
            path.display()
        ))),
    }
}

/// Starts a host unless it runs already.
pub fn ensure_running(lab: &Lab, node: Node) -> Result<(), LabError> {
    if is_running(lab, node)? {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(LabError::system("cannot find this program"))?;
    let mut supervisor = Command::new(program)
        .args(["lab", "guest", lab.name.as_str(), &node.to_string()])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(console(lab, node)?)
        .spawn()
        .map_err(LabError::system(format!("cannot start {node}")))?;
    let until = Instant::now() + START;
    while !is_running(lab, node)? {
        // One that found another supervisor at work is gone, and that is well.
        let is_gone = matches!(supervisor.try_wait(), Ok(Some(status)) if !status.success());
        if is_gone || Instant::now() > until {
            return Err(start_error(lab, node));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Whether a host runs, or is about to.
pub fn is_running(lab: &Lab, node: Node) -> Result<bool, LabError> {
    let path = lock_file(lab, node);
    lock::is_taken(&path).map_err(LabError::system(format!(
        "cannot report_changes at {}",
        path.display()
    )))
}

/// The error of a host that never answered, with the last it said.
pub fn start_error(lab: &Lab, node: Node) -> LabError {
    let said = std::fs::read(console_file(lab, node)).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(4)..].join("; ");
    LabError::CannotRun(format!("{node} did not start: {last}"))
}

/// Starts a host's kernel and stays until that ends. The process that runs this does nothing else.
pub fn supervise(name: &LabName, host: &str) -> Result<(), LabError> {
    let lab = Lab::open(name)?;
    let node = lab
        .wiring
        .node("host", host, |node| matches!(node, Node::Host(_)))?;
    let shape = &lab.wiring.shape;
    let (Some(kernel), Node::Host(number)) = (&shape.guests, node) else {
        return Err(LabError::CannotRun(format!("{node} has no kernel of its own")));
    };
    let path = lock_file(&lab, node);
    let held = lock::take(&path).map_err(LabError::system(format!("cannot lock {}", path.display())))?;
    let Some(held) = held else {
        return Ok(());
    };
    held.pass_on()
        .map_err(LabError::system("cannot pass on the host's lock"))?;
    let namespace = lab.namespace(node)?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(LabError::system(format!("{node}: cannot enter its network")))?;
    let memory = mounts(&lab, node)?;
    let this = std::env::current_exe().map_err(LabError::system("cannot find this program"))?;
    let mut kernel = Command::new(kernel)
        .args(arguments(&this, name, host)?)
        .args(vectors(shape, number))
        .args(["--", "lab", "guest-init", name.as_str(), host])
        .env_clear()
        .env("TMPDIR", &memory)
        .env("HOME", &memory)
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .stdout(console(&lab, node)?)
        .stderr(console(&lab, node)?)
        .spawn()
        .map_err(LabError::system(format!(
            "{node}: cannot start {}",
            kernel.display()
        )))?;
    let mut cables = Cables::new(interfaces(shape).into_iter().map(|(name, _)| name));
    while matches!(kernel.try_wait(), Ok(None)) {
        cables.report_changes();
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// Everything a kernel is reported but its interfaces: the machine's files as its root, no terminals, an end instead of a reboot.
fn arguments(this: &Path, name: &LabName, host: &str) -> Result<Vec<String>, LabError> {
    let program = this.to_str().filter(|path| !path.contains(char::is_whitespace));
    let program = program.ok_or_else(|| {
        LabError::CannotRun(format!(
            "a guest cannot start from a path with spaces: {}",
            this.display()
        ))
    })?;
    let fixed = "root=/dev/root rootfstype=hostfs rootflags=/ rw con=null con0=null,fd:1 ssl=null quiet noreboot panic=-1";
    let mut words: Vec<String> = fixed.split(' ').map(str::to_string).collect();
    words.push(format!("mem={MEMORY}"));
    // Not for the kernel, which hands on to process 1 what it does not know.
    words.push(format!("PATH={PATH}"));
    words.push(format!("umid=rg-{name}-{host}"));
    words.push(format!("init={program}"));
    Ok(words)
}

/// Mounts that only the kernel sees: memory for it, and this namespace's interfaces. The folder of its memory.
fn mounts(lab: &Lab, node: Node) -> Result<PathBuf, LabError> {
    let trouble = |what: &str| format!("{node}: cannot {what}");
    unshare(CloneFlags::CLONE_NEWNS).map_err(LabError::system(trouble("leave this machine's mounts")))?;
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(LabError::system(trouble("have mounts of its own")))?;
    mount(
        Some("sysfs"),
        "/sys",
        Some("sysfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(LabError::system(trouble("see its interfaces")))?;
    let memory = lab.folder().of_node(node).join("memory");
    lab.folder().make(&memory)?;
    mount(
        Some("tmpfs"),
        &memory,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=1g"),
    )
    .map_err(LabError::system(trouble("have memory of its own")))?;
    Ok(memory)
}

fn lock_file(lab: &Lab, node: Node) -> PathBuf {
    lab.folder().of_node(node).join("kernel.lock")
}

fn console_file(lab: &Lab, node: Node) -> PathBuf {
    lab.folder().of_node(node).join("console.txt")
}

fn console(lab: &Lab, node: Node) -> Result<File, LabError> {
    let path = console_file(lab, node);
    let file = File::options().create(true).append(true).open(&path);
    file.map_err(LabError::system(format!("cannot open {}", path.display())))
}

/// What is known of the signal on a host's cables, and what its guest was reported.
struct Cables {
    names: Vec<String>,
    reported: HashMap<String, (bool, u64)>,
}

impl Cables {
    fn new(names: impl Iterator<Item = String>) -> Cables {
        let names: Vec<String> = names.collect();
        // A kernel starts with all its cables up.
        let reported = names
            .iter()
            .map(|name| (name.clone(), (true, changes(name))))
            .collect();
        Cables { names, reported }
    }

    /// Tells the guest what has changed; what it could not be reported is reported next time.
    fn report_changes(&mut self) {
        for name in &self.names {
            let now = (has_signal(name), changes(name));
            let before = self.reported.get(name).copied().unwrap_or((true, 0));
            let steps: &[bool] = match (before.0, now.0) {
                _ if before == now => &[],
                (true, true) => &[false, true],
                (false, false) => &[true, false],
                (_, after) => &[after],
            };
            if steps.iter().all(|up| report_carrier(name, *up).is_ok()) {
                self.reported.insert(name.clone(), now);
            }
        }
    }
}

fn has_signal(interface: &str) -> bool {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/carrier"))
        .is_ok_and(|text| text.trim() == "1")
}

fn changes(interface: &str) -> u64 {
    let text =
        std::fs::read_to_string(format!("/sys/class/net/{interface}/carrier_changes")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn report_carrier(interface: &str, up: bool) -> std::io::Result<()> {
    let mut guest = TcpStream::connect_timeout(&CONTROL_PEER, HEARING)?;
    guest.set_read_timeout(Some(HEARING))?;
    Message::Carrier(format!("{interface}={}", u8::from(up)).into_bytes()).write(&mut guest)?;
    match Message::read(&mut guest)? {
        Some(Message::Ended(0)) => Ok(()),
        _ => Err(std::io::Error::other(
            "the guest did not confirm the change of carrier",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_the_machines_files_and_ends_instead_of_rebooting() {
        let name: LabName = "lab".parse().unwrap();
        let line = arguments(Path::new("/x/railgauge"), &name, "h3")
            .unwrap()
            .join(" ");
        assert!(line.contains("rootfstype=hostfs rootflags=/ rw "), "{line}");
        assert!(line.contains(" noreboot panic=-1 "), "{line}");
        assert!(line.ends_with(" umid=rg-lab-h3 init=/x/railgauge"), "{line}");
        let error = arguments(Path::new("/a b/railgauge"), &name, "h3").unwrap_err();
        assert!(error.to_string().contains("spaces: /a b/railgauge"), "{error}");
    }
}

//! Running a command on a lab host: with its network, name, devices, shared memory and clock.
//!
//! The process enters the host's network namespace and gets mount, UTS and IPC namespaces of its own. `/sys` is that of the
//! host, `/dev/shm` is private, `/etc/hosts` names the lab's hosts; `/tmp` and the working directory stay what they were.
//! Nothing here may run after a second thread was started: a process enters a clock's namespace alone.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::{Lab, LabError, Node, guest};

/// The kernel's number for time namespaces, which the bindings do not name.
const CLONE_NEWTIME: CloneFlags = CloneFlags::from_bits_retain(0x80);
/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;

/// What to run on a host.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<OsString>,
    /// Whether it ends when the process that started it ends.
    pub dies_with_parent: bool,
}

/// Runs `command` on `node`. Where the host is a namespace this process becomes the command, and only an error is
/// returned; where it has a kernel of its own, the command runs there and its exit code is returned.
pub fn exec(lab: &Lab, node: Node, command: &Command) -> Result<u8, LabError> {
    match node {
        Node::Host(_) if lab.wiring.shape.guests.is_some() => guest::exec(lab, node, command),
        _ => Err(become_command(lab, node, command)),
    }
}

fn become_command(lab: &Lab, node: Node, command: &Command) -> LabError {
    let Some((program, arguments)) = command.words.split_first() else {
        return LabError::CannotRun("there is no command to run".to_string());
    };
    if let Err(error) = enter(lab, node) {
        return error;
    }
    if command.dies_with_parent
        && let Err(error) = set_pdeathsig(Signal::SIGKILL)
    {
        return LabError::system("cannot tie the command to its parent")(error);
    }
    let error = std::process::Command::new(program)
        .args(arguments)
        .env("TMPDIR", lab.folder().temporary(node))
        .exec();
    LabError::CannotRun(format!("{node}: cannot run {}: {error}", program.display()))
}

fn enter(lab: &Lab, node: Node) -> Result<(), LabError> {
    super::tools::be_root()?;
    let network = lab.namespace(node)?;
    set_clock(lab.in_force().clock_offset(node), node)?;
    let cannot = |what: &str| format!("{node}: cannot {what}");
    setns(network, CloneFlags::CLONE_NEWNET).map_err(LabError::system(cannot("enter its network")))?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .map_err(LabError::system(cannot("leave this machine's namespaces")))?;
    nix::unistd::sethostname(node.to_string()).map_err(LabError::system(cannot("take its name")))?;
    // Slave, not private: what `lab down` unmounts must vanish here too.
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    match mount(None::<&str>, "/", None::<&str>, flags, None::<&str>) {
        Err(Errno::EINVAL) => {
            return Err(LabError::CannotRun(format!(
                "{node}: the root folder is not a mount point, as in a plain chroot, so a lab host cannot have mounts of its own; \
                 bind the chroot's folder onto itself before entering it"
            )));
        }
        result => result.map_err(LabError::system(cannot("have mounts of its own")))?,
    }
    let fresh = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    attach(
        Some("sysfs"),
        Path::new("/sys"),
        Some("sysfs"),
        fresh | MsFlags::MS_NOEXEC,
        node,
    )?;
    attach(Some("tmpfs"), Path::new("/dev/shm"), Some("tmpfs"), fresh, node)?;
    bind(&lab.folder().hosts_file(), Path::new("/etc/hosts"), node)?;
    match node {
        Node::Host(_) => show_nics(lab, node),
        _ => Ok(()),
    }
}

/// Puts the fake NICs beside what `/sys/class` already shows: a folder of mounts, moved over it when it is complete.
fn show_nics(lab: &Lab, node: Node) -> Result<(), LabError> {
    let class = Path::new("/sys/class");
    let stage = lab.folder().of_node(node).join("class");
    attach(
        Some("tmpfs"),
        &stage,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        node,
    )?;
    let entries =
        std::fs::read_dir(class).map_err(LabError::system(format!("{node}: cannot read /sys/class")))?;
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name() != "infiniband")
    {
        let place = stage.join(entry.file_name());
        lab.folder().make(&place)?;
        bind(&entry.path(), &place, node)?;
    }
    let place = stage.join("infiniband");
    lab.folder().make(&place)?;
    bind(&lab.folder().nics(node), &place, node)?;
    let moved = mount(Some(&stage), class, None::<&str>, MsFlags::MS_MOVE, None::<&str>);
    moved.map_err(LabError::system(format!("{node}: cannot show its NICs")))
}

/// Sets this process's monotonic clocks off by `offset`; does nothing when they are right already.
fn set_clock(offset: i64, node: Node) -> Result<(), LabError> {
    let cannot = || format!("{node}: cannot set its clock off");
    // A process of a host whose clock is off may start one on another host, whose clock is not.
    if offset == 0 && !in_foreign_time() {
        return Ok(());
    }
    unshare(CLONE_NEWTIME).map_err(LabError::system(cannot()))?;
    let (seconds, nanos) = (offset.div_euclid(SECOND), offset.rem_euclid(SECOND));
    let offsets = format!("monotonic {seconds} {nanos}\nboottime {seconds} {nanos}\n");
    std::fs::write("/proc/self/timens_offsets", offsets).map_err(LabError::system(cannot()))?;
    let namespace = File::open("/proc/self/ns/time_for_children").map_err(LabError::system(cannot()))?;
    setns(namespace, CLONE_NEWTIME).map_err(LabError::system(cannot()))
}

/// Whether this process's clock is not the machine's.
fn in_foreign_time() -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/time")).ok();
    of("self") != of("1")
}

fn bind(from: &Path, to: &Path, node: Node) -> Result<(), LabError> {
    let done = mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    done.map_err(LabError::system(format!("{node}: cannot show {}", to.display())))
}

fn attach(
    source: Option<&str>,
    to: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    node: Node,
) -> Result<(), LabError> {
    let done = mount(source, to, kind, flags, None::<&str>);
    done.map_err(LabError::system(format!("{node}: cannot mount {}", to.display())))
}

//! Process 1 of a guest: file systems, name, network, RDMA devices; then the agent, until that ends.
//!
//! Every error is written to the console and ends the guest, so that no client waits for one that will never answer.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::wait::wait;

use super::super::tools::{feed, find};
use super::super::{Lab, LabError, LabName, Node, apply};
use super::network::{CONTROL_INSIDE, control_links_inside, devices, guest_config, interfaces};

/// The namespace, inside the guest, of the interface that commands do not see.
const CONTROL_NAMESPACE: &str = "control";
/// How long what was written may stay inside, in hundredths of a second.
const SOON: &str = "10";
/// Where such namespaces are kept.
const NAMESPACES: &str = "/run/netns";

/// Starts a guest and stays until its agent ends; never comes back.
pub fn init(name: &LabName, host: &str) -> LabError {
    let ended = start(name, host).and_then(|agent| {
        // Process 1 inherits all orphans and has to reap them.
        while wait().map_err(LabError::system("cannot wait"))?.pid() != Some(agent) {}
        Err(LabError::CannotRun("the agent ended".to_string()))
    });
    let error = match ended {
        Ok(never) => never,
        Err(error) => error,
    };
    eprintln!("railgauge: {host}: {error}");
    nix::unistd::sync();
    match reboot(RebootMode::RB_POWER_OFF) {
        Ok(never) => match never {},
        Err(error) => LabError::system("cannot switch off")(error),
    }
}

/// The namespace of the agent's cable.
pub fn control_namespace() -> Result<File, LabError> {
    let path = Path::new(NAMESPACES).join(CONTROL_NAMESPACE);
    File::open(path).map_err(LabError::system("cannot open the control cable's namespace"))
}

fn start(name: &LabName, host: &str) -> Result<nix::unistd::Pid, LabError> {
    kernel_views()?;
    let lab = Lab::open(name)?;
    let node = lab
        .wiring
        .node("host", host, |node| matches!(node, Node::Host(_)))?;
    let folder = lab.folder();
    attach("tmpfs", &folder.temporary(node))?;
    let hosts = mount(
        Some(&folder.hosts_file()),
        "/etc/hosts",
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    );
    hosts.map_err(LabError::system("cannot show /etc/hosts"))?;
    nix::unistd::sethostname(host).map_err(LabError::system("cannot take its name"))?;
    network(&lab, node)?;
    let this = std::env::current_exe().map_err(LabError::system("cannot find this program"))?;
    let agent = Command::new(this).args(["lab", "guest-agent"]).spawn();
    let agent = agent.map_err(LabError::system("cannot start the agent"))?;
    Ok(nix::unistd::Pid::from_raw(agent.id() as i32))
}

/// What the kernel shows, over what the machine's files show of the machine's own kernel.
fn kernel_views() -> Result<(), LabError> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        attach(kind, Path::new(place))?;
    }
    for folder in ["/dev/shm", "/dev/pts"] {
        std::fs::create_dir_all(folder).map_err(LabError::system(format!("cannot make {folder}")))?;
    }
    attach("tmpfs", Path::new("/dev/shm"))?;
    attach("devpts", Path::new("/dev/pts"))?;
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, link).map_err(LabError::system(format!("cannot make {link}")))?;
    }
    attach("tmpfs", Path::new(NAMESPACES))?;
    // What a program has written is soon where the machine can read it, also when this kernel is killed.
    for setting in ["dirty_writeback_centisecs", "dirty_expire_centisecs"] {
        let path = Path::new("/proc/sys/vm").join(setting);
        std::fs::write(&path, SOON).map_err(LabError::system(format!("cannot set {setting}")))?;
    }
    Ok(())
}

fn network(lab: &Lab, node: Node) -> Result<(), LabError> {
    let place = node.to_string();
    let ip = |lines: &[String]| feed("ip", &["-batch", "-"], lines, &place);
    let shape = &lab.wiring.shape;
    let mut lines = vec![
        format!("netns add {CONTROL_NAMESPACE}"),
        format!("link set dev {CONTROL_INSIDE} netns {CONTROL_NAMESPACE}"),
    ];
    lines.extend(
        interfaces(shape)
            .iter()
            .map(|(name, born)| format!("link set dev {born} name {name}")),
    );
    ip(&lines)?;
    feed(
        "ip",
        &["-n", CONTROL_NAMESPACE, "-batch", "-"],
        &control_links_inside(),
        &place,
    )?;
    apply::here(&guest_config(&lab.wiring, node), node)?;
    if find("rdma").is_none() {
        return Err(LabError::MissingTool {
            tool: "rdma",
            package: "iproute2",
        });
    }
    for (device, interface) in devices(shape) {
        let words = ["link", "add", &device, "type", "rxe", "netdev", &interface];
        feed("rdma", &words, &[], &place)?;
    }
    Ok(())
}

fn attach(kind: &str, place: &Path) -> Result<(), LabError> {
    let done = mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>);
    done.map_err(LabError::system(format!("cannot mount {}", place.display())))
}

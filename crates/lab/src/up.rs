//! `lab up`: from nothing to a fabric that forwards.
//!
//! The state file is written first and says `ready` last; whatever happens in between, `lab down` finds everything by the
//! lab's name. An `up` that fails takes back what it made.

use nix::mount::{MsFlags, mount};

use super::wiring::{MANAGEMENT_SWITCH, management_address};
use super::{Lab, LabError, LabName, Node, Shape, Wiring};
use super::{apply, config, down, inventory, neighbour_table, switches, tools};

/// Builds a lab.
pub fn up(name: &LabName, shape: &Shape) -> Result<Lab, LabError> {
    shape.check()?;
    tools::make_sure()?;
    let lab = Lab {
        name: name.clone(),
        wiring: Wiring::new(shape),
        faults: Vec::new(),
    };
    let lock = lab.folder().lock()?;
    lock.pass_on()?;
    if name.is_somewhere() {
        return Err(LabError::Exists(name.to_string()));
    }
    let built = build(&lab);
    if built.is_err() {
        // The first error is the one worth reading.
        let _ = down::remove(name);
        lock.remove();
    }
    built.map(|()| lab)
}

fn build(lab: &Lab) -> Result<(), LabError> {
    neighbour_table::make_room(&lab.wiring)?;
    let folder = lab.folder();
    folder.make(folder.path())?;
    lab.save(false)?;
    folder.write(&folder.topology(), &lab.wiring.topology().to_toml())?;
    switches::write(lab)?;
    folder.write(&folder.hosts_file(), &hosts_file(&lab.wiring.shape))?;
    for node in lab.wiring.shape.nodes() {
        folder.make(&folder.temporary(node))?;
        match node {
            Node::Host(host) => {
                folder.make(&folder.of_node(node).join("class"))?;
                inventory::write(lab, host)?;
            }
            Node::Leaf { .. } | Node::Spine { .. } => folder.make(&folder.sysfs(node))?,
            Node::Management => {}
        }
    }
    let namespace = |node: Node| lab.name.namespace(node);
    let batch = ["-batch", "-"];
    tools::feed(
        "ip",
        &batch,
        &config::namespaces(&lab.wiring, &namespace),
        "this machine",
    )?;
    apply::settings(lab)?;
    tools::feed(
        "ip",
        &batch,
        &config::cables(&lab.wiring, &namespace),
        "this machine",
    )?;
    apply::everything(lab)?;
    export_counters(lab)?;
    lab.save(true)
}

/// Mounts the sysfs of every switch, as that switch sees it, where anybody can read it.
fn export_counters(lab: &Lab) -> Result<(), LabError> {
    let switches: Vec<Node> = lab.wiring.shape.switches().collect();
    apply::in_namespaces(lab, &switches, |node| {
        let place = lab.folder().sysfs(node);
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let mounted = mount(Some("sysfs"), &place, Some("sysfs"), flags, None::<&str>);
        mounted.map_err(LabError::system(format!("cannot show the counters of {node}")))
    })
}

/// The hosts' names with their management addresses.
fn hosts_file(shape: &Shape) -> String {
    let hosts = (0..shape.hosts).map(|host| format!("{} h{host}\n", management_address(host)));
    format!(
        "127.0.0.1 localhost\n{MANAGEMENT_SWITCH} mgmt\n{}",
        hosts.collect::<String>()
    )
}

//! Making namespaces look like their configuration: entering them on threads and feeding `ip`, `tc`, `nft` and `ethtool`.
//!
//! A thread that has entered a namespace never comes back; it ends. The process itself stays where it was.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sched::{CloneFlags, setns};

use super::config::{NodeConfig, Sysctl, config, rail_cables};
use super::faults::Faults;
use super::routes::DISPLACED;
use super::tools::feed;
use super::{Cable, Fault, Lab, LabError, Node, Wiring};

/// Namespaces are configured by this many threads at once: more would only queue for the kernel's network lock.
const THREADS: usize = 4;
/// How long the kernel may take to notice that both ends of a cable are up.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs `work` inside the namespace of every one of `nodes`.
pub fn in_namespaces<F>(lab: &Lab, nodes: &[Node], work: F) -> Result<(), LabError>
where
    F: Fn(Node) -> Result<(), LabError> + Sync,
{
    let share = nodes.len().div_ceil(THREADS).max(1);
    let enter = |node: Node| -> Result<(), LabError> {
        let namespace = lab.namespace(node)?;
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(LabError::system(format!("cannot enter {node}")))?;
        work(node)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = nodes
            .chunks(share)
            .map(|nodes| scope.spawn(|| nodes.iter().try_for_each(|node| enter(*node))))
            .collect();
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Sets the kernel settings of all nodes; must come before interfaces are made, which inherit them.
pub fn settings(lab: &Lab) -> Result<(), LabError> {
    in_namespaces(lab, &lab.wiring.shape.nodes(), |node| {
        config(&lab.plugged(), lab.in_force(), node)
            .sysctls
            .iter()
            .try_for_each(|sysctl| set(sysctl, node))
    })
}

/// Configures all nodes of a lab whose cables have just been plugged.
pub fn everything(lab: &Lab) -> Result<(), LabError> {
    let nodes = lab.wiring.shape.nodes();
    in_namespaces(lab, &nodes, |node| {
        here(&config(&lab.plugged(), lab.in_force(), node), node)
    })?;
    in_namespaces(lab, &nodes, |node| await_carriers(lab, node))
}

/// Waits until all cables of a node have a carrier: the kernel notices that a moment after both ends are up, and until then a route
/// over the cable does not exist.
fn await_carriers(lab: &Lab, node: Node) -> Result<(), LabError> {
    let faults = lab.in_force();
    let wiring = lab.plugged();
    let ports = wiring.ports_of(node);
    let mut without: HashSet<&str> = ports
        .filter(|(_, cable)| !faults.is_cut(cable) && !faults.is_flapping(cable))
        .map(|(port, _)| port.interface.as_str())
        .collect();
    let until = Instant::now() + CARRIER_TIMEOUT;
    loop {
        let interfaces =
            getifaddrs().map_err(LabError::system(format!("cannot list the ports of {node}")))?;
        for interface in interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_RUNNING))
        {
            without.remove(interface.interface_name.as_str());
        }
        let Some(port) = without.iter().next() else {
            return Ok(());
        };
        if Instant::now() > until {
            let message = format!("{port} has no carrier after {} s", CARRIER_TIMEOUT.as_secs());
            return Err(LabError::Tool {
                tool: "the kernel".to_string(),
                place: node.to_string(),
                message,
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Configures the namespace that this thread is in, where nothing is configured yet.
pub fn here(wanted: &NodeConfig, node: Node) -> Result<(), LabError> {
    // Before the links are up, so that no packet passes unshaped.
    for interface in &wanted.plain {
        feed(
            "ethtool",
            &["-K", interface, "gso", "off", "tso", "off", "gro", "off"],
            &[],
            &node.to_string(),
        )?;
    }
    change(&NodeConfig::default(), wanted, node)
}

/// States everything again, in case a command was killed half way.
pub fn restate_everything(lab: &Lab) -> Result<(), LabError> {
    let unknown = NodeConfig {
        filter: vec![String::new()],
        ..NodeConfig::default()
    };
    in_namespaces(lab, &lab.wiring.shape.nodes(), |node| {
        change(&unknown, &config(&lab.plugged(), lab.in_force(), node), node)
    })
}

/// Leads a lab from the faults it had to those it has.
pub fn difference(lab: &Lab, before: &[Fault]) -> Result<(), LabError> {
    let (old, new) = (lab.wiring.plugged(before), lab.plugged());
    let is_moved = |(old, new): &(&Cable, &Cable)| old.ends != new.ends;
    let moved: Vec<(&Cable, &Cable)> = old.cables.iter().zip(&new.cables).filter(is_moved).collect();
    if !moved.is_empty() {
        return replug(lab, &moved);
    }
    let differs = |node: &Node| {
        config(&lab.wiring.plugged(before), Faults(before), *node)
            != config(&lab.plugged(), lab.in_force(), *node)
    };
    let nodes: Vec<Node> = lab.wiring.shape.nodes().into_iter().filter(differs).collect();
    in_namespaces(lab, &nodes, |node| {
        let old = config(&lab.wiring.plugged(before), Faults(before), node);
        change(&old, &config(&lab.plugged(), lab.in_force(), node), node)
    })?;
    in_namespaces(lab, &nodes, |node| await_carriers(lab, node))
}

/// Pulls cables and plugs them in elsewhere; each as it was and as it shall be. Routes change everywhere.
fn replug(lab: &Lab, moved: &[(&Cable, &Cable)]) -> Result<(), LabError> {
    for (old, _) in moved {
        in_namespaces(lab, &[old.ends[0].node], |node| {
            let pull = format!("link del dev {}", old.ends[0].interface);
            feed("ip", &["-batch", "-"], &[pull], &node.to_string())
        })?;
    }
    let namespace = |node: Node| lab.name.namespace(node);
    let wiring = Wiring {
        shape: lab.wiring.shape.clone(),
        cables: moved.iter().map(|(_, new)| (*new).clone()).collect(),
    };
    feed(
        "ip",
        &["-batch", "-"],
        &rail_cables(&wiring, &namespace),
        "this machine",
    )?;
    in_namespaces(lab, &lab.wiring.shape.nodes(), |node| {
        let flush = format!("route flush proto {DISPLACED}");
        feed("ip", &["-batch", "-"], &[flush], &node.to_string())
    })?;
    everything(lab)
}

/// States all links and routes of a node again, after something took them down behind the configuration's back.
pub fn restate(lab: &Lab, node: Node) -> Result<(), LabError> {
    in_namespaces(lab, &[node], |node| {
        let wanted = config(&lab.plugged(), lab.in_force(), node);
        let lines = [wanted.links, wanted.routes].concat();
        feed("ip", &["-batch", "-"], &lines, &node.to_string())
    })
}

/// Applies what is in `wanted` and was not in `old`, in this thread's namespace.
fn change(old: &NodeConfig, wanted: &NodeConfig, node: Node) -> Result<(), LabError> {
    let place = node.to_string();
    let new = |old: &[String], wanted: &[String]| -> Vec<String> {
        wanted
            .iter()
            .filter(|line| !old.contains(line))
            .cloned()
            .collect()
    };
    for sysctl in wanted
        .sysctls
        .iter()
        .filter(|sysctl| !old.sysctls.contains(sysctl))
    {
        set(sysctl, node)?;
    }
    let rates = new(&old.rates, &wanted.rates);
    if !rates.is_empty() {
        feed("tc", &["-batch", "-"], &rates, &place)?;
    }
    let lines = [new(&old.links, &wanted.links), new(&old.routes, &wanted.routes)].concat();
    if !lines.is_empty() {
        feed("ip", &["-batch", "-"], &lines, &place)?;
    }
    if old.filter != wanted.filter {
        feed("nft", &["-f", "-"], &ruleset(&wanted.filter), &place)?;
    }
    Ok(())
}

/// A whole packet filter in one transaction: what was there is replaced.
fn ruleset(chains: &[String]) -> Vec<String> {
    let table = "table netdev railgauge";
    let mut lines = vec![format!("{table} {{}}"), format!("delete {table}")];
    if !chains.is_empty() {
        lines.push(format!("{table} {{"));
        lines.extend_from_slice(chains);
        lines.push("}".to_string());
    }
    lines
}

fn set(sysctl: &Sysctl, node: Node) -> Result<(), LabError> {
    let path = Path::new("/proc/sys").join(sysctl.path);
    match std::fs::write(&path, &sysctl.value) {
        Err(error) if sysctl.optional && error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(LabError::system(format!("cannot set {} of {node}", sysctl.path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn healing_the_last_loss_leaves_no_filter_behind() {
        assert_eq!(
            ruleset(&[]),
            ["table netdev railgauge {}", "delete table netdev railgauge"]
        );
        assert_eq!(ruleset(&["chain a {}".to_string()]).len(), 5);
    }
}

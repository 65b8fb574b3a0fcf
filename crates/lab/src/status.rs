//! What a lab is and what is wrong with it on purpose.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::state::NAMESPACES;
use super::{Fault, Lab, LabName, Node, Shape, processes};

/// The state of a lab.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Its name.
    pub name: LabName,
    /// Its size.
    pub shape: Shape,
    /// Faults in force.
    pub faults: Vec<Fault>,
    /// Processes on each host.
    pub processes: Vec<(Node, usize)>,
    /// Its topology file.
    pub topology: PathBuf,
}

impl Status {
    /// Looks at a lab.
    pub fn of(lab: &Lab) -> Status {
        let running = |node: Node| {
            let namespace = Path::new(NAMESPACES).join(lab.name.namespace(node));
            (node, processes::in_namespaces(&[namespace]).len())
        };
        Status {
            name: lab.name.clone(),
            shape: lab.wiring.shape.clone(),
            faults: lab.faults.clone(),
            processes: lab.wiring.shape.host_nodes().map(running).collect(),
            topology: lab.topology_file(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lab {}: {}", self.name, self.shape.describe())?;
        writeln!(f, "topology: {}", self.topology.display())?;
        let busy = self.processes.iter().filter(|(_, count)| *count > 0);
        let busy: Vec<String> = busy.map(|(node, count)| format!("{node}: {count}")).collect();
        if !busy.is_empty() {
            writeln!(f, "processes: {}", busy.join(", "))?;
        }
        match self.faults.as_slice() {
            [] => writeln!(f, "no faults"),
            faults => faults.iter().try_for_each(|fault| writeln!(f, "fault: {fault}")),
        }
    }
}

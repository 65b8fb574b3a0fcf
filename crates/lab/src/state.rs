//! A lab that is up: its shape and the faults in force, as its folder says.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::faults::Faults;
use super::folder::Folder;
use super::{Fault, LabError, LabName, Node, Shape, Wiring};

/// Where `ip netns` keeps its namespaces.
pub const NAMESPACES: &str = "/run/netns";

/// What the state file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    name: LabName,
    ready: bool,
    shape: Shape,
    faults: Vec<Fault>,
}

/// A lab.
#[derive(Debug)]
pub struct Lab {
    /// Its name.
    pub name: LabName,
    /// Its cables.
    pub wiring: Wiring,
    /// What is wrong with it on purpose.
    pub faults: Vec<Fault>,
}

impl Lab {
    /// A lab that was brought up.
    pub fn open(name: &LabName) -> Result<Lab, LabError> {
        let path = Folder::of(name).state();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(_) if name.is_somewhere() => return Err(LabError::Unfinished(name.to_string())),
            Err(_) => return Err(none(name)),
        };
        let state: State = serde_json::from_str(&text)
            .map_err(LabError::system(format!("cannot read {}", path.display())))?;
        if !state.ready {
            return Err(LabError::Unfinished(name.to_string()));
        }
        Ok(Lab {
            name: state.name,
            wiring: Wiring::new(&state.shape),
            faults: state.faults,
        })
    }

    /// Writes the state; `ready` when the lab can be used.
    pub(super) fn save(&self, ready: bool) -> Result<(), LabError> {
        let state = State {
            name: self.name.clone(),
            ready,
            shape: self.wiring.shape.clone(),
            faults: self.faults.clone(),
        };
        let text =
            serde_json::to_string_pretty(&state).map_err(LabError::system("cannot write the lab's state"))?;
        self.folder().write(&self.folder().state(), &text)
    }

    /// Its folder.
    pub(super) fn folder(&self) -> Folder {
        Folder::of(&self.name)
    }

    /// Its topology file.
    pub fn topology_file(&self) -> PathBuf {
        self.folder().topology()
    }

    /// The cables as they are plugged.
    pub(super) fn plugged(&self) -> Wiring {
        self.wiring.plugged(&self.faults)
    }

    /// The faults in force.
    pub(super) fn in_force(&self) -> Faults<'_> {
        Faults(&self.faults)
    }

    /// The namespace of a node, opened.
    pub(super) fn namespace(&self, node: Node) -> Result<File, LabError> {
        let path = Path::new(NAMESPACES).join(self.name.namespace(node));
        File::open(&path).map_err(LabError::system(format!(
            "cannot open the network namespace of {node}"
        )))
    }
}

impl LabName {
    /// Whether anything of the lab is there: a folder or a namespace.
    pub fn is_somewhere(&self) -> bool {
        Folder::of(self).path().exists() || namespaces().iter().any(|(lab, _, _)| lab == self)
    }
}

/// All namespaces of all labs: the lab, the node, the file.
pub fn namespaces() -> Vec<(LabName, Node, PathBuf)> {
    let entries = std::fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let (lab, node) = LabName::of_namespace(entry.file_name().to_str()?)?;
            Some((lab, node, entry.path()))
        })
        .collect()
}

fn none(name: &LabName) -> LabError {
    let labs: Vec<String> = Folder::all().iter().map(LabName::to_string).collect();
    LabError::NoLab {
        name: name.to_string(),
        present: match labs.is_empty() {
            true => "make one with: railgauge lab up 4x2".to_string(),
            false => format!("there is {}", labs.join(", ")),
        },
    }
}

//! Why a lab command could not do what it was asked for.

use std::io;

/// Why a lab command failed; names the lab, the node or the tool.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Namespaces belong to root.
    #[error("a lab is made of network namespaces, which only root may create: run this with sudo")]
    NotRoot,
    /// A program is missing.
    #[error("`{tool}` is not installed; on Debian: apt install {package}")]
    MissingTool {
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A name that cannot be a lab's.
    #[error("`{0}` cannot name a lab: 1 to 12 of a-z, 0-9 and `-`, beginning with a letter or digit")]
    BadName(String),
    /// A shape that cannot be built.
    #[error("{0}")]
    BadShape(String),
    /// There is one already.
    #[error("lab `{0}` is up already; remove it with: railgauge lab down --name {0}")]
    Exists(String),
    /// There is none.
    #[error("there is no lab `{name}`; {present}")]
    NoLab {
        /// The name asked for.
        name: String,
        /// Which labs there are, in words.
        present: String,
    },
    /// `lab up` did not get to its end.
    #[error("lab `{0}` was never finished; remove it with: railgauge lab down --name {0}")]
    Unfinished(String),
    /// Somebody else changes it.
    #[error("another command is working on lab `{0}` and did not finish in time")]
    Busy(String),
    /// A name that is not in the lab.
    #[error("the lab has no {kind} `{given}`; {hint}")]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// What was given.
        given: String,
        /// The nearest name, or all.
        hint: String,
    },
    /// A fault that cannot be read or does not apply here.
    #[error("fault `{given}`: {why}")]
    BadFault {
        /// What was given.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// A program that configures the network refused.
    #[error("{tool} failed in {place}: {message}")]
    Tool {
        /// The program.
        tool: String,
        /// The namespace.
        place: String,
        /// What it said.
        message: String,
    },
    /// A run that cannot be started.
    #[error("{0}")]
    CannotRun(String),
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl LabError {
    /// For `map_err`: the system refused `what`.
    pub(super) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> LabError {
        let what = what.into();
        |source| LabError::System {
            what,
            source: source.into(),
        }
    }

    /// The code the command ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::BadName(_)
            | LabError::BadShape(_)
            | LabError::Unknown { .. }
            | LabError::BadFault { .. } => 2,
            LabError::NotRoot
            | LabError::MissingTool { .. }
            | LabError::Exists(_)
            | LabError::NoLab { .. }
            | LabError::Unfinished(_)
            | LabError::CannotRun(_) => 3,
            LabError::Busy(_) | LabError::Tool { .. } | LabError::System { .. } => 1,
        }
    }
}

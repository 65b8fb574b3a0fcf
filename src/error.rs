//! Why a command ends without a verdict, and with which exit code.

use engine::launch::env::RankAssignmentError;
use engine::launch::token_source::TokenError;
use engine::launch::{JoinError, RendezvousError};
use engine::measure::{MeasureError, SinkError};
use judge::burn_in::FolderError;
use lab::LabError;
use plan::PlanError;
use record::LoadError;
use topology::suite::SuiteError;

/// Why a command ended without a verdict.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Environment(String),
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    RankAssignment(#[from] RankAssignmentError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Folder(FolderError),
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
}

impl CliError {
    /// An error of the operating system while doing `what`.
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CliError {
        let what = what.into();
        |source| CliError::System { what, source }
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage(_) | CliError::Suite(_) | CliError::Load(_) => 2,
            CliError::Environment(_) => 3,
            CliError::Plan(error) => error.exit_code(),
            CliError::Lab(error) => error.exit_code(),
            CliError::RankAssignment(RankAssignmentError::Disagree { .. }) => 3,
            CliError::RankAssignment(_) | CliError::Token(_) => 2,
            CliError::Measure(MeasureError::CannotTakePart { .. } | MeasureError::RailsDiffer(_)) => 3,
            CliError::Measure(MeasureError::InterruptedEarly | MeasureError::BudgetEarly)
            | CliError::Rendezvous(RendezvousError::Interrupted) => 20,
            CliError::Rendezvous(RendezvousError::Missing { .. })
            | CliError::Measure(MeasureError::LostEarly { .. }) => 21,
            CliError::Join(JoinError::Variable { .. }) => 2,
            CliError::Join(JoinError::Unreachable { .. }) => 21,
            CliError::Join(_) | CliError::Rendezvous(_) => 3,
            CliError::Measure(_) | CliError::Sink(_) | CliError::Folder(_) | CliError::System { .. } => 1,
        }
    }
}

impl From<FolderError> for CliError {
    fn from(error: FolderError) -> CliError {
        match error {
            FolderError::Content { .. } => CliError::Usage(error.to_string()),
            FolderError::System { .. } => CliError::Folder(error),
        }
    }
}

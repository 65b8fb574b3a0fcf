//! Why a suite cannot be planned on a fabric.

use topology::suite::SuiteError;

/// Why a suite cannot be planned on a fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There are no ranks.
    #[error("there are no ranks to plan for")]
    NoRanks,
    /// Ranks keep their data in different kinds of memory.
    #[error("ranks keep their data in different kinds of memory ({0}); a run needs one kind")]
    MixedDevices(String),
    /// The ranks cannot use RDMA.
    #[error("test `{test}` asks for the verbs transport: {why}")]
    NoVerbs {
        /// Test.
        test: String,
        /// Why not, and what to do.
        why: String,
    },
    /// NICs cannot use the GPUs' memory, and were told to.
    #[error("test `{test}` asks for gpudirect = \"on\": {why}")]
    NoGpuDirect {
        /// Test.
        test: String,
        /// Why not.
        why: String,
    },
    /// A pinned source port that RoCE packets cannot have.
    #[error(
        "test `{test}`: source_port = {first}, but over verbs packets are sent from ports 49152 to 65535 only"
    )]
    PortNotOfRoce {
        /// Test.
        test: String,
        /// First port.
        first: u16,
    },
    /// More streams than there are ports.
    #[error(
        "test `{test}`: its streams need {ports} source ports from {first} on, and the last is 65535; use fewer `flows` or `sets`, or a lower source_port"
    )]
    TooManyStreams {
        /// Test.
        test: String,
        /// First port.
        first: u16,
        /// Ports that are needed.
        ports: usize,
    },
    /// Ranks share no memory.
    #[error(
        "test `{test}` asks for the shm transport, but the ranks are in different processes; \
         run them as threads (without --procs) or use --transport tcp"
    )]
    NotInOneProcess {
        /// Test.
        test: String,
    },
    /// Shared memory is CPU memory.
    #[error(
        "test `{test}` asks for the shm transport, which is between ranks on the CPU; \
         on GPUs leave the transport to the plan (auto) or use --transport peer or tcp"
    )]
    SharedMemoryOnGpus {
        /// Test.
        test: String,
    },
    /// Peer memory is GPU memory.
    #[error("test `{test}` asks for the peer transport, which is between GPUs; use it with --device cuda")]
    PeerWithoutGpus {
        /// Test.
        test: String,
    },
    /// Some ranks do not reach each other's GPU memory.
    #[error(
        "test `{test}` asks for the peer transport, but not every two ranks can use each other's GPU memory \
         (they are on different hosts, or on GPUs without peer access); use --transport tcp"
    )]
    NotDirect {
        /// Test.
        test: String,
    },
    /// Kernels that wait for each other would not all run at the same time.
    #[error(
        "test `{test}`: {ranks} ranks share GPU {gpu}, which runs {blocks} thread blocks at the same time; \
         ranks that wait for each other must all be on it at once, so use fewer ranks per GPU"
    )]
    NotTogether {
        /// Test.
        test: String,
        /// The GPU.
        gpu: String,
        /// Ranks on it.
        ranks: u32,
        /// Blocks it runs at the same time.
        blocks: u32,
    },
    /// No rail reaches all ranks.
    #[error("test `{test}` needs a rail that all ranks have; {why}")]
    NoRail {
        /// Test.
        test: String,
        /// Who lacks what.
        why: String,
    },
    /// A rail was asked for that does not exist.
    #[error("no rail `{rail}` that all ranks have; {suggestion}")]
    UnknownRail {
        /// Rail.
        rail: String,
        /// What there is.
        suggestion: String,
    },
    /// A group names a rank that does not exist.
    #[error("test `{test}`: a group names rank {rank}, but the ranks are 0 to {last}")]
    UnknownRank {
        /// Test.
        test: String,
        /// Rank.
        rank: u32,
        /// The last rank there is.
        last: u32,
    },
    /// The root is not in the group.
    #[error("test `{test}`: root {root} is not in a group of {ranks} ranks (they count from 0)")]
    RootOutside {
        /// Test.
        test: String,
        /// Root.
        root: u32,
        /// Size of the group.
        ranks: usize,
    },
    /// Pinned source ports run past the last port.
    #[error("test `{test}`: {flows} flows of {ranks} ranks pinned from port {first} on run past port 65535")]
    TooManyPorts {
        /// Test.
        test: String,
        /// First port.
        first: u16,
        /// Flows per peer and rail.
        flows: u16,
        /// Ranks.
        ranks: usize,
    },
    /// The plan has too many cells.
    #[error(
        "test `{test}` makes {cells} cells on this fabric, more than {most}; give it fewer sizes, types or ranks"
    )]
    TooManyCells {
        /// Test.
        test: String,
        /// How many.
        cells: u64,
        /// How many are accepted.
        most: u64,
    },
    /// The filter leaves nothing.
    #[error("--only {filter} matches no cell of this plan; {there_is}")]
    NothingLeft {
        /// The filter.
        filter: String,
        /// What it could have matched.
        there_is: String,
    },
    /// A built-in table of expected rates is broken.
    #[error(transparent)]
    Table(#[from] SuiteError),
}

impl PlanError {
    /// The exit code it causes: 2 for what was typed, 3 for an environment that is not what the suite asks for.
    pub fn exit_code(&self) -> u8 {
        match self {
            PlanError::NoRanks
            | PlanError::MixedDevices(_)
            | PlanError::NoVerbs { .. }
            | PlanError::NoGpuDirect { .. }
            | PlanError::NotInOneProcess { .. }
            | PlanError::SharedMemoryOnGpus { .. }
            | PlanError::PeerWithoutGpus { .. }
            | PlanError::NotDirect { .. }
            | PlanError::NotTogether { .. }
            | PlanError::NoRail { .. }
            | PlanError::UnknownRank { .. }
            | PlanError::RootOutside { .. } => 3,
            PlanError::UnknownRail { .. }
            | PlanError::TooManyPorts { .. }
            | PlanError::TooManyStreams { .. }
            | PlanError::PortNotOfRoce { .. }
            | PlanError::TooManyCells { .. }
            | PlanError::NothingLeft { .. }
            | PlanError::Table(_) => 2,
        }
    }
}

//! The closed sets of names that suites, plans, cells and reports share.
//!
//! Each name is written the same way everywhere (command line, suite file, JSON, report). The lists are the registries:
//! what is not listed here does not exist, and an error about an unknown name prints the list.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, EnumString, IntoStaticStr, VariantNames};

macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumIter, EnumString, IntoStaticStr, VariantNames)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
    };
}

closed_set! {
    /// What is done with the data.
    Collective {
        /// Every rank ends with the reduction of all inputs.
        AllReduce,
        /// Every rank ends with its own block of the reduction.
        ReduceScatter,
        /// Every rank ends with the blocks of all ranks.
        AllGather,
        /// Every rank ends with the root's data.
        Broadcast,
        /// Every rank sends a different block to every other.
        AllToAll,
        /// The first rank of the cell sends, the second receives.
        PointToPoint,
        /// Both ranks of the cell send and receive at the same time.
        Bidirectional,
        /// The first rank of the cell sends, the second sends it back.
        RoundTrip,
        /// Every rank sends its block to the root at the same time.
        Incast,
        /// The first rank of the cell sends many streams to the second, each as fast as its own way allows.
        Streams,
        /// Every rank sends small packets to some of the others, now and then.
        Probes,
    }
}

closed_set! {
    /// How a collective moves its data.
    Algorithm {
        /// Each rank talks to the next one only.
        Ring,
        /// One binary tree: reduce towards the root, broadcast back.
        Tree,
        /// Two complementary binary trees, half the payload on each.
        DoubleTree,
        /// Sender to receiver, no relay.
        Direct,
        /// The same, by a GPU's copy engine instead of a kernel.
        CopyEngine,
    }
}

closed_set! {
    /// Which ranks of a fabric run a collective with each other.
    GroupKind {
        /// All ranks on one leaf.
        Leaf,
        /// All ranks of two neighbouring leaves.
        CrossLeaf,
        /// Half of one leaf with half of its neighbour.
        MixedHalves,
        /// One rank of every leaf, so that every hop crosses a spine.
        CrossSpine,
        /// All ranks whose leaves reach each other over the same spines.
        Pod,
    }
}

closed_set! {
    /// The type of one element.
    DType {
        /// 32-bit float.
        F32,
        /// 64-bit float.
        F64,
        /// IEEE half precision.
        F16,
        /// bfloat16.
        Bf16,
        /// Signed 32-bit integer.
        I32,
        /// Signed 64-bit integer.
        I64,
        /// Unsigned 32-bit integer.
        U32,
        /// Unsigned byte.
        U8,
    }
}

closed_set! {
    /// How two elements become one.
    ReduceOp {
        /// Addition; integers wrap.
        Sum,
        /// Multiplication; integers wrap.
        Prod,
        /// The smaller.
        Min,
        /// The larger.
        Max,
        /// Sum divided by the number of ranks; integers divide towards zero.
        Avg,
    }
}

closed_set! {
    /// Whether the result replaces the input.
    Placement {
        /// Input and output are the same memory.
        InPlace,
        /// The input is left untouched.
        OutOfPlace,
    }
}

closed_set! {
    /// What carries bytes between two ranks.
    TransportKind {
        /// Memory shared by the ranks of one process.
        Shm,
        /// TCP sockets bound to a rail's address.
        Tcp,
        /// GPU peer memory: NVLink, PCIe or IPC.
        Peer,
        /// RDMA verbs.
        Verbs,
        /// UDP datagrams bound to a rail's address: probes only.
        Udp,
    }
}

impl TransportKind {
    /// Whether bytes travel over rails.
    pub fn has_rails(self) -> bool {
        matches!(
            self,
            TransportKind::Tcp | TransportKind::Verbs | TransportKind::Udp
        )
    }
}

closed_set! {
    /// Where a rank's data lies and who does its arithmetic.
    DeviceKind {
        /// CPU memory and CPU arithmetic.
        Host,
        /// GPU memory and GPU arithmetic.
        Cuda,
    }
}

closed_set! {
    /// Who moves the data of a cell.
    Engine {
        /// Our own schedules and kernels.
        Ours,
        /// The NCCL library, as the reference beside ours.
        Nccl,
    }
}

impl Default for Engine {
    /// Our own: what every cell recorded before there were two engines was run by.
    fn default() -> Engine {
        Engine::Ours
    }
}

closed_set! {
    /// How a rank gets at the memory of another rank's GPU.
    Reach {
        /// Both are in one process and on one GPU.
        SameGpu,
        /// On one GPU, in two processes: memory is opened by its handle.
        Ipc,
        /// In one process, on two GPUs that read each other's memory.
        PeerAccess,
        /// In two processes, on two such GPUs.
        IpcPeer,
        /// Not at all: a thread of the CPU carries the data over the network.
        Proxy,
    }
}

impl Reach {
    /// Whether kernels use the other's memory where it is.
    pub fn is_direct(self) -> bool {
        self != Reach::Proxy
    }
}

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::U8 => 1,
            DType::F16 | DType::Bf16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 => 8,
        }
    }
}

impl Collective {
    /// Whether it loads a rail on purpose, so that it is seen what that does to others.
    pub fn is_load(self) -> bool {
        matches!(self, Collective::Incast | Collective::AllToAll)
    }

    /// Whether elements are combined, so that the reduction operator matters.
    pub fn reduces(self) -> bool {
        matches!(self, Collective::AllReduce | Collective::ReduceScatter)
    }

    /// Whether the payload is `ranks` equal blocks of whole elements (nccl-tests counts the size over all of them).
    pub fn is_blocked(self) -> bool {
        matches!(
            self,
            Collective::ReduceScatter | Collective::AllGather | Collective::AllToAll | Collective::Incast
        )
    }

    /// Whether it is a fixed list of steps that comes to an end, rather than whatever arrives within some time.
    pub fn is_scheduled(self) -> bool {
        !matches!(self, Collective::Streams | Collective::Probes)
    }

    /// Whether it takes place between two ranks.
    pub fn is_pairwise(self) -> bool {
        matches!(
            self,
            Collective::PointToPoint
                | Collective::Bidirectional
                | Collective::RoundTrip
                | Collective::Streams
        )
    }

    /// Whether one of its ranks has a part of its own.
    pub fn has_root(self) -> bool {
        matches!(self, Collective::Broadcast | Collective::Incast)
    }

    /// The algorithms that exist for it; the first is the default.
    pub fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Collective::AllReduce => &[Algorithm::Ring, Algorithm::Tree, Algorithm::DoubleTree],
            Collective::ReduceScatter | Collective::AllGather => &[Algorithm::Ring],
            Collective::Broadcast => &[Algorithm::Tree],
            Collective::AllToAll
            | Collective::RoundTrip
            | Collective::Incast
            | Collective::Streams
            | Collective::Probes => &[Algorithm::Direct],
            Collective::PointToPoint | Collective::Bidirectional => {
                &[Algorithm::Direct, Algorithm::CopyEngine]
            }
        }
    }

    /// Bus bandwidth over algorithm bandwidth for `ranks` ranks, as nccl-tests defines it.
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let n = ranks.max(1) as f64;
        match self {
            Collective::AllReduce => 2.0 * (n - 1.0) / n,
            Collective::ReduceScatter | Collective::AllGather | Collective::AllToAll | Collective::Incast => {
                (n - 1.0) / n
            }
            Collective::Broadcast
            | Collective::PointToPoint
            | Collective::Bidirectional
            | Collective::RoundTrip
            | Collective::Streams
            | Collective::Probes => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn a_name_is_written_the_same_in_json_and_on_the_command_line() {
        for algorithm in Algorithm::iter() {
            let json = serde_json::to_string(&algorithm).unwrap();
            assert_eq!(json, format!("\"{algorithm}\""));
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        assert_eq!(DType::Bf16.to_string(), "bf16");
        assert_eq!(DType::VARIANTS.len(), 8);
    }
}

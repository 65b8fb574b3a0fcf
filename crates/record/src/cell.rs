//! A cell: one measurement, as planned and as recorded.

use serde::{Deserialize, Serialize};

use super::{
    Algorithm, Collective, DType, DeviceKind, Engine, GroupKind, MemoryPath, Placement, ProbeTerms, ReduceOp,
    StreamTerms, TransportKind, VerbsTerms,
};
use crate::units::Bytes;

/// Whether a cell had the fabric to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Nothing else of this run was on the wire.
    Alone,
    /// The other cells of its slot ran at the same time.
    Together,
    /// So did they, and together they filled uplinks over which switches spray packets. Where packets meet by chance some are dropped: flows do
    /// not reach what they reach with room to spare.
    FillingUp,
    /// The same on links down to a leaf.
    FillingDown,
    /// The rest of its slot loaded another rail.
    AcrossRails,
}

impl Load {
    /// What is added to the name of a test with this load.
    pub fn suffix(self) -> &'static str {
        match self {
            Load::Alone => "",
            Load::Together => ", together",
            Load::FillingUp => ", filling uplinks",
            Load::FillingDown => ", filling downlinks",
            Load::AcrossRails => ", beside a load on another rail",
        }
    }

    /// As tables and metrics write it.
    pub fn name(self) -> &'static str {
        match self {
            Load::Alone => "alone",
            Load::Together => "together",
            Load::FillingUp => "filling-up",
            Load::FillingDown => "filling-down",
            Load::AcrossRails => "across-rails",
        }
    }

    /// Whether the slot fills links over which packets are sprayed.
    pub fn is_filling(self) -> bool {
        matches!(self, Load::FillingUp | Load::FillingDown)
    }
}

/// One measurement: what runs, between which ranks, on which rails, with which algorithm, size, type and flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// Position in the plan; samples refer to it.
    pub id: u32,
    /// Name of the suite's test it belongs to.
    pub test: String,
    /// Cells with the same slot run at the same time, slots one after another.
    pub slot: u32,
    /// Alone or together with the rest of its slot.
    pub load: Load,
    /// What is done.
    pub collective: Collective,
    /// How it is done.
    pub algorithm: Algorithm,
    /// Who takes part; the position in this list is the rank within the schedule.
    pub ranks: Vec<u32>,
    /// Position (in `ranks`) of the root, for collectives that have one.
    pub root: u32,
    /// Rails by name; empty for transports without rails. The payload is striped over all of them.
    pub rails: Vec<String>,
    /// Connections per peer and rail.
    pub flows: u16,
    /// First of the pinned source ports: dialling rank `r` (point to point: the sender) uses `source_port + r * flows + flow`;
    /// streams use `source_port + flow`.
    pub source_port: Option<u16>,
    /// What carries the bytes.
    pub transport: TransportKind,
    /// Where the data lies.
    pub device: DeviceKind,
    /// Payload as nccl-tests counts it (over all blocks for blocked collectives), a whole number of elements.
    pub size: Bytes,
    /// Element type.
    pub dtype: DType,
    /// Reduction operator; `sum` where nothing is reduced.
    pub op: ReduceOp,
    /// In place or out of place.
    pub placement: Placement,
    /// Who moves the data; our own engine when it is not written down.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: Engine,
    /// Collectives run back to back and timed as one, launches included. Recorded times are of one collective: the total over
    /// this number. 1, each by itself, when it is not written down.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub batch: u16,
    /// The terms of its queue pairs, when it goes over RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbs: Option<VerbsTerms>,
    /// The directed links that data from the first rank to the second crosses, in order, each as `h2/rail1->leaf1/p0`; empty
    /// when they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// The second rank's rail, where it is another one than the first rank's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_rail: Option<String>,
    /// What its ranks have in common, in a test of groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupKind>,
    /// What is particular to many streams, when that is what it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamTerms>,
    /// What is particular to probes, when that is what it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeTerms>,
    /// What the slowest link carries that it may cross, in Mbit/s, where links of the fabric differ in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_mbit: Option<u64>,
}

fn is_default(engine: &Engine) -> bool {
    *engine == Engine::default()
}

fn alone() -> u16 {
    1
}

fn is_alone(batch: &u16) -> bool {
    *batch == alone()
}

impl Cell {
    /// Number of ranks taking part.
    pub fn world(&self) -> usize {
        self.ranks.len()
    }

    /// The source port that `rank` uses for one of its flows, when ports are pinned.
    pub fn port_of(&self, rank: u32, flow: u16) -> Option<u16> {
        // Streams have one sender, whose ports are its own.
        if let Some(terms) = &self.streams {
            if terms.is_chosen() {
                return terms.ports.get(usize::from(flow)).copied();
            }
            let flow = if terms.one_port { 0 } else { flow };
            return Some(self.source_port?.wrapping_add(flow));
        }
        let rank = u16::try_from(rank).unwrap_or(u16::MAX);
        let first_of_rank = self
            .source_port?
            .wrapping_add(rank.wrapping_mul(self.flows.max(1)));
        Some(first_of_rank.wrapping_add(flow))
    }

    /// Whether NICs read and write the memory of its ranks' GPUs themselves.
    pub fn is_gpudirect(&self) -> bool {
        self.verbs
            .is_some_and(|terms| terms.memory == MemoryPath::GpuDirect)
    }

    /// Elements of the payload.
    pub fn elements(&self) -> usize {
        self.size.as_usize() / self.dtype.size()
    }

    /// Whether `other` is the same measurement on other parts: its peer when speeds are compared.
    pub fn is_peer_of(&self, other: &Cell) -> bool {
        self.id != other.id && self.peer_key() == other.peer_key()
    }

    /// Whether `other` is the same measurement, on the same parts, by another engine.
    pub fn is_counterpart_of(&self, other: &Cell) -> bool {
        self.engine != other.engine && self.work_key() == other.work_key()
    }

    /// What is measured on which parts, whoever runs it.
    pub fn work_key(&self) -> impl std::hash::Hash + Ord + '_ {
        (
            (&self.test, self.load, self.collective, self.algorithm),
            (&self.ranks, self.root, &self.rails, &self.to_rail),
            (self.flows, self.source_port),
            (self.transport, self.device, self.size),
            (self.dtype, self.op, self.placement, self.batch, self.verbs),
        )
    }

    /// What two cells must share for their speeds to be comparable.
    pub fn peer_key(&self) -> impl std::hash::Hash + Ord + '_ {
        (
            (&self.test, self.load, self.collective, self.algorithm),
            (self.ranks.len(), self.rails.len(), self.to_rail.is_some()),
            (
                self.flows,
                self.group,
                self.streams.as_ref().map(|terms| terms.set),
            ),
            (self.transport, self.device, self.size),
            (self.dtype, self.op, self.placement),
            (self.engine, self.batch, self.verbs, self.line_mbit),
        )
    }

    /// The cell in a few words, for progress lines and findings.
    pub fn describe(&self) -> String {
        let what = match (&self.streams, &self.probes) {
            (Some(_), _) => format!("{} streams", self.flows),
            (None, Some(terms)) => format!("{} flows of {} probes", terms.flows.len(), self.size),
            (None, None) => format!(
                "{} {} {} {}",
                self.algorithm, self.collective, self.size, self.dtype
            ),
        };
        let ranks = match self.ranks.as_slice() {
            [a, b] => format!("ranks {a}:{b}"),
            ranks => format!("{} ranks", ranks.len()),
        };
        let group = match self.group {
            Some(group) => format!(" ({group} group)"),
            None => String::new(),
        };
        let rails = if self.rails.is_empty() {
            String::new()
        } else {
            format!(" on {}", self.rails.join("+"))
        };
        let rails = match &self.to_rail {
            Some(other) => format!("{rails} to {other}"),
            None => rails,
        };
        let load = match self.load {
            Load::Alone => "",
            Load::Together => ", together with the rest of its slot",
            Load::FillingUp => ", filling uplinks together with the rest of its slot",
            Load::FillingDown => ", filling downlinks together with the rest of its slot",
            Load::AcrossRails => ", beside a load on another rail",
        };
        let engine = match self.engine {
            Engine::Ours => "",
            Engine::Nccl => "NCCL ",
        };
        let memory = match self.verbs.map(|terms| terms.memory) {
            None | Some(MemoryPath::Host) => String::new(),
            Some(memory) => format!(" ({})", memory.in_words()),
        };
        let batch = match self.batch {
            1 => String::new(),
            batch => format!(", {batch} back to back"),
        };
        format!(
            "{engine}{what}, {ranks}{group} over {}{memory}{rails}{load}{batch}",
            self.transport
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"id":1,"test":"t","slot":0,"load":"alone","collective":"all-reduce","algorithm":"ring",
        "ranks":[0,1],"root":0,"rails":[],"flows":1,"source_port":null,"transport":"shm","device":"host","size":8,
        "dtype":"f32","op":"sum","placement":"in-place"}"#;

    #[test]
    fn a_cell_recorded_before_there_were_engines_is_ours_and_is_written_as_it_was() {
        let cell: Cell = serde_json::from_str(OLD).unwrap();
        assert_eq!((cell.engine, cell.batch), (Engine::Ours, 1));
        let again = serde_json::to_string(&cell).unwrap();
        let lines: String = OLD.split('\n').map(str::trim_start).collect();
        assert_eq!(again, lines);
        let nccl = Cell {
            engine: Engine::Nccl,
            batch: 20,
            ..cell
        };
        let again: Cell = serde_json::from_str(&serde_json::to_string(&nccl).unwrap()).unwrap();
        assert_eq!(again, nccl);
    }
}

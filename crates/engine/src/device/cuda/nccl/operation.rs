//! What one rank asks of NCCL in one cell, as calls of the library.

use std::ffi::c_int;

use super::library::NcclError;
use record::{Cell, Collective, DType, Placement, ReduceOp};

/// What one rank does in one collective, and where its memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    collective: Collective,
    dtype: DType,
    op: ReduceOp,
    elements: u64,
    ranks: u64,
    rank: u64,
    root: u64,
    input: u64,
    output: u64,
}

/// One call of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    AllReduce {
        from: u64,
        to: u64,
        count: usize,
    },
    ReduceScatter {
        from: u64,
        to: u64,
        count: usize,
    },
    AllGather {
        from: u64,
        to: u64,
        count: usize,
    },
    Broadcast {
        from: u64,
        to: u64,
        count: usize,
        root: u64,
    },
    Send {
        from: u64,
        count: usize,
        peer: u64,
    },
    Receive {
        to: u64,
        count: usize,
        peer: u64,
    },
}

impl Operation {
    /// The part of the rank at position `rank` of `cell`, whose payload lies at `input` and `output`.
    pub fn new(cell: &Cell, rank: usize, input: u64, output: u64) -> Result<Operation, NcclError> {
        if (input == output) != (cell.placement == Placement::InPlace) {
            return Err(NcclError::Misuse("in place means one memory, out of place two"));
        }
        if cell.collective.is_blocked() && !cell.elements().is_multiple_of(cell.world()) {
            return Err(NcclError::Misuse("NCCL's blocks are all of one size"));
        }
        Ok(Operation {
            collective: cell.collective,
            dtype: cell.dtype,
            op: cell.op,
            elements: cell.elements() as u64,
            ranks: cell.world() as u64,
            rank: rank as u64,
            root: u64::from(cell.root),
            input,
            output,
        })
    }

    /// Element type and operator as the library numbers them.
    pub(super) fn codes(&self) -> (c_int, c_int) {
        (data_type(self.dtype), operator(self.op))
    }

    /// The calls that do it; several belong into one group.
    pub(super) fn calls(&self) -> Vec<Call> {
        let whole = self.elements as usize;
        let block = (self.elements / self.ranks) as usize;
        let block_at = |base: u64, index: u64| base + index * block as u64 * self.dtype.size() as u64;
        let (input, output, me) = (self.input, self.output, self.rank);
        let send = |from: u64, count: usize, peer: u64| Call::Send { from, count, peer };
        let receive = |to: u64, count: usize, peer: u64| Call::Receive { to, count, peer };
        match self.collective {
            Collective::AllReduce => vec![Call::AllReduce {
                from: input,
                to: output,
                count: whole,
            }],
            Collective::ReduceScatter => vec![Call::ReduceScatter {
                from: input,
                to: block_at(output, me),
                count: block,
            }],
            Collective::AllGather => vec![Call::AllGather {
                from: block_at(input, me),
                to: output,
                count: block,
            }],
            Collective::Broadcast => vec![Call::Broadcast {
                from: input,
                to: output,
                count: whole,
                root: self.root,
            }],
            Collective::AllToAll => {
                let with = |peer: u64| {
                    let out = send(block_at(input, peer), block, peer);
                    [out, receive(block_at(output, peer), block, peer)]
                };
                (0..self.ranks).flat_map(with).collect()
            }
            Collective::PointToPoint => match me {
                0 => vec![send(input, whole, 1)],
                1 => vec![receive(output, whole, 0)],
                _ => Vec::new(),
            },
            Collective::Bidirectional => match me {
                0 | 1 => vec![send(input, whole, 1 - me), receive(output, whole, 1 - me)],
                _ => Vec::new(),
            },
            Collective::Incast => {
                let root = self.root;
                let out = send(block_at(input, me), block, root);
                let from = |peer: u64| receive(block_at(output, peer), block, peer);
                let arrive = (0..self.ranks).filter(|_| me == root).map(from);
                [out].into_iter().chain(arrive).collect()
            }
            // Both ways of a round trip would be started at once, and streams have no end: the plan has NCCL run none.
            Collective::RoundTrip | Collective::Streams | Collective::Probes => Vec::new(),
        }
    }
}

/// `ncclDataType_t`.
fn data_type(dtype: DType) -> c_int {
    match dtype {
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
    }
}

/// `ncclRedOp_t`.
fn operator(op: ReduceOp) -> c_int {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
        ReduceOp::Avg => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::units::Bytes;
    use record::{DeviceKind, Engine, Load, TransportKind};

    const INPUT: u64 = 0x1000;
    const OUTPUT: u64 = 0x9000;

    /// Twelve f32 elements.
    fn cell(collective: Collective, ranks: u32) -> Cell {
        Cell {
            id: 0,
            test: "t".into(),
            slot: 0,
            load: Load::Alone,
            collective,
            algorithm: collective.algorithms()[0],
            ranks: (0..ranks).collect(),
            root: 1,
            rails: Vec::new(),
            flows: 1,
            source_port: None,
            transport: TransportKind::Peer,
            device: DeviceKind::Cuda,
            size: Bytes(48),
            dtype: DType::F32,
            op: ReduceOp::Sum,
            placement: Placement::OutOfPlace,
            engine: Engine::Nccl,
            batch: 1,
            verbs: None,
            path: Vec::new(),
            to_rail: None,
            group: None,
            streams: None,
            probes: None,
            line_mbit: None,
        }
    }

    fn calls(cell: &Cell, rank: usize) -> Vec<Call> {
        Operation::new(cell, rank, INPUT, OUTPUT).unwrap().calls()
    }

    #[test]
    fn blocks_lie_where_the_check_looks_for_them() {
        // Three ranks, blocks of four elements of four bytes.
        let scatter = calls(&cell(Collective::ReduceScatter, 3), 2);
        let (from, to, count) = (INPUT, OUTPUT + 32, 4);
        assert_eq!(scatter, [Call::ReduceScatter { from, to, count }]);
        let gather = calls(&cell(Collective::AllGather, 3), 2);
        let (from, to) = (INPUT + 32, OUTPUT);
        assert_eq!(gather, [Call::AllGather { from, to, count }]);
        let all = calls(&cell(Collective::AllToAll, 3), 0);
        assert_eq!(all.len(), 6);
        let (from, to, peer) = (INPUT + 16, OUTPUT + 16, 1);
        assert_eq!(
            all[2..4],
            [
                Call::Send { from, count, peer },
                Call::Receive { to, count, peer }
            ]
        );
        let broadcast = calls(&cell(Collective::Broadcast, 3), 0);
        let (from, to, count, root) = (INPUT, OUTPUT, 12, 1);
        assert_eq!(
            broadcast,
            [Call::Broadcast {
                from,
                to,
                count,
                root
            }]
        );
    }

    #[test]
    fn a_pair_sends_one_way_or_both() {
        let one_way = cell(Collective::PointToPoint, 2);
        let (from, to, count) = (INPUT, OUTPUT, 12);
        assert_eq!(calls(&one_way, 0), [Call::Send { from, count, peer: 1 }]);
        assert_eq!(calls(&one_way, 1), [Call::Receive { to, count, peer: 0 }]);
        let both = cell(Collective::Bidirectional, 2);
        for rank in 0..2u64 {
            let peer = 1 - rank;
            let wanted = [
                Call::Send { from, count, peer },
                Call::Receive { to, count, peer },
            ];
            assert_eq!(calls(&both, rank as usize), wanted);
        }
    }

    #[test]
    fn what_nccl_could_not_do_as_the_cell_says_is_refused() {
        let mut odd = cell(Collective::AllGather, 3);
        odd.size = Bytes(52);
        assert!(
            Operation::new(&odd, 0, INPUT, OUTPUT).is_err(),
            "13 elements over 3 ranks"
        );
        let out_of_place = cell(Collective::AllReduce, 2);
        assert!(Operation::new(&out_of_place, 0, INPUT, INPUT).is_err());
        assert!(Operation::new(&out_of_place, 0, INPUT, OUTPUT).is_ok());
    }
}

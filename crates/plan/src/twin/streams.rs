//! Streams of patterns over the simulated fabric: all of a slot at once, each with the path that its switches give it.
//!
//! Streams share links max-min fairly; what each delivers in a window varies as times of flows do. What is left out is what makes congestion control
//! unfair: on a cable that several streams share, each gets the same.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{Answers, Twin, WITHIN_A_HOST, hash, shares};
use record::units::Nanos;
use record::{Cell, CellDone, Event, PathPlacement, StopReason, StreamPath, StreamRecord, TestRecord};
use topology::graph::{Crossing, fair_shares};

/// A stream of a slot: the place of its cell, its number there, and what it crosses.
type Stream = (usize, u16, Vec<Crossing>);

/// Whether a cell is part of a pattern of traffic.
pub(super) fn is_of_pattern(cell: &Cell) -> bool {
    let terms = cell.streams.as_ref();
    terms.is_some_and(|terms| terms.pattern.is_some())
}

impl Twin<'_> {
    /// Tells the paths of streams where switches answer and place them by their ports.
    pub fn tell_paths_of_streams(&self, cells: &mut [Cell]) {
        if self.placement != PathPlacement::Steady || self.answers != Answers::Ports {
            return;
        }
        for cell in cells.iter_mut().filter(|cell| is_of_pattern(cell)) {
            let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
                continue;
            };
            let way = |stream| {
                let port = cell.port_of(*from, stream)?;
                let path = self.route(*from, *to, rail, port)?;
                Some(StreamPath {
                    links: path.iter().map(|link| self.graph.name(*link)).collect(),
                    whole: true,
                    steady: Some(true),
                })
            };
            let ways: Option<Vec<StreamPath>> = (0..cell.flows).map(way).collect();
            if let (Some(terms), Some(ways)) = (cell.streams.as_mut(), ways) {
                terms.ways = ways;
            }
        }
    }

    /// Everything that is recorded of cells whose streams are on the wire at the same time.
    pub(super) fn stream(&self, cells: &[&Cell], test: &TestRecord, round: u16) -> Vec<Event> {
        let mut streams: Vec<Stream> = Vec::new();
        for (place, cell) in cells.iter().enumerate() {
            let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
                continue;
            };
            streams.extend((0..cell.flows).filter_map(|stream| {
                let port = cell.port_of(*from, stream).unwrap_or(0);
                // Every round has connections of its own.
                let connection = (hash((cell.id, round)) as u32, stream);
                Some((place, stream, self.crossed(*from, *to, rail, port, connection)?))
            }));
        }
        let slot = cells.first().map_or(0, |cell| cell.slot);
        let capacity = self.capacity_in(slot, round);
        let paths: Vec<&[Crossing]> = streams.iter().map(|(_, _, path)| path.as_slice()).collect();
        let mut rates = fair_shares(&paths, &capacity);
        if self.placement == PathPlacement::Sprayed {
            shares::send_dropped_again(&paths, &capacity, &self.nominal, &mut rates);
        }
        let iterations = test.min_iterations.max(1);
        let mut records: Vec<Vec<StreamRecord>> = vec![Vec::new(); cells.len()];
        for ((place, stream, _), rate) in streams.iter().zip(rates) {
            let cell = cells[*place];
            let window = cell
                .streams
                .as_ref()
                .map_or(0.0, |terms| terms.window.0 as f64 / 1e9);
            let rate = if rate.is_finite() { rate } else { WITHIN_A_HOST } * self.noise.efficiency;
            let mut random = ChaCha8Rng::seed_from_u64(hash((self.seed, "streams", cell.id, round, stream)));
            let rate = rate / self.noise.between(&mut random);
            let bytes = (0..iterations).map(|_| (rate / self.noise.within(&mut random) * window) as u64);
            records[*place].push(StreamRecord {
                stream: *stream,
                port: cell.port_of(cell.ranks[0], *stream),
                bytes: bytes.collect(),
                problem: None,
            });
        }
        let done = |(cell, streams): (&&Cell, Vec<StreamRecord>)| match streams.is_empty() {
            true => Event::NotRun {
                cell: cell.id,
                reason: "no path leads there".to_string(),
            },
            false => Event::CellDone(CellDone {
                cell: cell.id,
                round,
                iterations,
                verified: 0,
                stop: StopReason::Iterations,
                max_skew_ns: Nanos(1000),
                unseen_skew_ns: None,
                planned: Vec::new(),
                moved: Vec::new(),
                flows: Vec::new(),
                tcp: Vec::new(),
                streams,
                probes: Vec::new(),
            }),
        };
        cells.iter().zip(records).map(done).collect()
    }
}

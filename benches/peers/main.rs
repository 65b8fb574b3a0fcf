//! railgauge's host engine beside its peers, on this machine, in one run: Open MPI's MPI_Allreduce over shared memory and
//! over TCP, iperf3 on loopback, and the memory's own speed.
//!
//!     cargo bench --bench peers
//!
//! Peers and ours take turns, round by round, so that whatever else the machine does falls on both. Printed are ratios;
//! nothing here asserts. A peer that is missing is installed if that is possible (root and apt), else named as missing.

mod iperf;
mod memory;
mod openmpi;
mod ours;
mod tools;

use ours::{Traffic, Wire};

/// Rounds of taking turns.
const ROUNDS: usize = 5;

fn main() {
    // `cargo test` runs benches too, with this flag; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{}\n", tools::machine());
    memory::compare();
    tools::install(&["mpicc", "mpirun"], &["openmpi-bin", "libopenmpi-dev", "gcc"]);
    tools::install(&["iperf3"], &["iperf3"]);
    compare_with_mpi(
        "two ranks over shared memory",
        Wire::Shm,
        &sizes(64 << 10, 64 << 20),
    );
    compare_with_mpi(
        "two ranks over TCP loopback",
        Wire::Tcp,
        &sizes(16 << 20, 64 << 20),
    );
    compare_with_iperf();
}

fn sizes(from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |size| Some(size * 2))
        .take_while(|size| *size <= to)
        .collect()
}

fn median(values: &[f64]) -> f64 {
    record::stats::median(values).unwrap_or(f64::NAN)
}

fn compare_with_mpi(title: &str, wire: Wire, sizes: &[usize]) {
    println!("all-reduce f32 sum, out of place, {title}: median time of single iterations, max over ranks");
    let Some(peer) = openmpi::Peer::build() else {
        println!("  Open MPI is missing: no comparison\n");
        return;
    };
    println!("  peer: {}", peer.version());
    let mut ours_times = vec![Vec::new(); sizes.len()];
    let mut peer_times = vec![Vec::new(); sizes.len()];
    for _ in 0..ROUNDS {
        for (times, time) in peer_times.iter_mut().zip(peer.all_reduce(wire, sizes)) {
            times.push(time);
        }
        for (times, size) in ours_times.iter_mut().zip(sizes) {
            times.push(ours::all_reduce(wire, *size));
        }
    }
    println!(
        "  {:>10}  {:>11}  {:>11}  {:>10}  {:>6}",
        "size", "peer us", "ours us", "ours GB/s", "ratio"
    );
    let mut ratios = Vec::new();
    for ((size, ours), peer) in sizes.iter().zip(ours_times).zip(peer_times) {
        if peer.is_empty() {
            println!("  {size:>10}  the peer gave no figure");
            continue;
        }
        let (ours, peer) = (median(&ours), median(&peer));
        ratios.push(peer / ours);
        println!(
            "  {size:>10}  {:>11.1}  {:>11.1}  {:>10.2}  {:>6.2}",
            peer * 1e6,
            ours * 1e6,
            *size as f64 / ours / 1e9,
            peer / ours
        );
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    println!("  geometric mean {mean:.2}, lowest {lowest:.2}\n");
}

fn compare_with_iperf() {
    println!("TCP loopback against iperf3, same number of streams: GB/s per direction");
    println!(
        "  {:>8}  {:>14}  {:>8}  {:>8}  {:>6}",
        "streams", "what", "iperf3", "ours", "ratio"
    );
    for flows in [1, 2] {
        let mut one_way = f64::NAN;
        for traffic in [Traffic::OneWay, Traffic::BothWays, Traffic::AllReduce] {
            let (mut theirs, mut mine) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let Some(rate) = iperf::rate(flows, traffic != Traffic::OneWay) else {
                    println!("  iperf3 is missing: no comparison");
                    return;
                };
                theirs.push(rate);
                mine.push(ours::wire_rate(flows, traffic));
            }
            let (theirs, mine) = (median(&theirs), median(&mine));
            let row = |what: &str, theirs: f64, mine: f64| {
                println!(
                    "  {flows:>8}  {what:>14}  {theirs:>8.2}  {mine:>8.2}  {:>6.2}",
                    mine / theirs
                );
            };
            row(traffic.name(), theirs, mine);
            match traffic {
                Traffic::OneWay => one_way = theirs,
                Traffic::BothWays => {}
                Traffic::AllReduce => row("sum of both", one_way, 2.0 * mine),
            }
        }
    }
    println!(
        "  both ways and all-reduce against iperf3 --bidir; sum of both: the all-reduce's two directions together"
    );
    println!(
        "  against iperf3 one way. The all-reduce also reads, reduces and writes 64 MiB; iperf3 touches one buffer."
    );
}

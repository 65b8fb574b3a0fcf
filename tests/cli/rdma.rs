//! RDMA that was asked for and cannot be had, or asked for by halves: said before anything is measured.

use crate::harness::{Bench, SMALL};

#[test]
fn verbs_that_cannot_be_used_are_refused_with_rank_host_and_what_to_do() {
    // Ranks of this machine meet over loopback, which has no RDMA device, whatever else the machine has.
    let bench = Bench::new(SMALL);
    for words in ["--transport verbs", "--transport verbs --procs"] {
        let error = bench.run(words).must_exit(3).stderr;
        assert!(error.contains("asks for the verbs transport: "), "{error}");
        assert!(error.contains("rank 0 ("), "{error}");
        let advice = [
            "cargo build --release --features rdma",
            "install rdma-core",
            "load ib_uverbs",
            "`rdma link` or `ibv_devices`",
            "with --rails",
        ];
        assert!(advice.iter().any(|advice| error.contains(advice)), "{error}");
        std::fs::remove_dir_all(bench.out()).unwrap();
    }
}

#[test]
fn a_flag_about_rdma_that_nothing_would_obey_is_refused() {
    let bench = Bench::new(SMALL);
    let error = bench.run("--gid-index 3").must_exit(2).stderr;
    assert!(
        error.contains("--gid-index is about RDMA") && error.contains("--transport verbs"),
        "{error}"
    );
}

#[test]
fn terms_that_no_queue_pair_has_are_refused_as_typed() {
    let bench = Bench::new(SMALL);
    for (words, right) in [
        ("--path-mtu 1500", "256, 512, 1024, 2048 or 4096"),
        ("--service-level 16", "0..=15"),
        ("--traffic-class 256", "255"),
        ("--completion busy", "busy"),
    ] {
        let error = bench.run(words).must_exit(2).stderr;
        assert!(error.contains(right), "{words}: {error}");
        assert!(!bench.out().exists());
    }
}

#[test]
fn a_rail_that_is_neither_interface_nor_device_lists_what_there_is() {
    let bench = Bench::new(SMALL);
    let error = bench.run("--rails rail0=mlx5_99:7").must_exit(3).stderr;
    assert!(
        error.contains("no interface or RDMA device `mlx5_99:7`; it has ") && error.contains("lo"),
        "{error}"
    );
}

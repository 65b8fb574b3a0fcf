//! GPU memory over RDMA between lab hosts, with the CPU shim as the GPU. Its memory is memory of the process, so Soft-RoCE takes
//! it by its address, and GPUDirect's whole way is walked but for the dma-buf, which Soft-RoCE does not take.

use std::path::Path;
use std::process::Output;

use record::{MemoryPath, Recorded};

use super::harness::{TestLab, guests, said};
use crate::verdict::is_quiet_machine;

/// An all-reduce on "GPUs" of two hosts that NICs reach or do not, with GPUDirect as asked for.
fn all_reduce(lab: &TestLab, out: &Path, nics_reach: bool, gpudirect: &str) -> Output {
    let folder = crate::shim::folder().display();
    let program = env!("CARGO_BIN_EXE_railgauge");
    let variables = [
        format!("LD_LIBRARY_PATH={folder}"),
        format!("RAILGAUGE_SHIM_GPUDIRECT={}", u8::from(nics_reach)),
        "RAILGAUGE_SHIM_THREADS=8".to_string(),
        "RAILGAUGE_SHIM_SMS=2".to_string(),
    ];
    // On a busy machine Soft-RoCE twice refused a message of several packets that was sent as it should be (the receiver's queue pair went into the error
    // state before any receive of it was touched): there, messages are of one packet.
    let largest = if is_quiet_machine() { "256K" } else { "256" };
    let mut words = vec!["--program", "/usr/bin/env", "--"];
    words.extend(variables.iter().map(String::as_str));
    words.extend([
        program,
        "all-reduce",
        "-b",
        "8",
        "-e",
        largest,
        "-f",
        "32",
        "-n",
        "3",
        "-c",
        "1",
    ]);
    words.extend([
        "--device",
        "cuda",
        "--transport",
        "verbs",
        "--gpudirect",
        gpudirect,
    ]);
    words.extend(["--deadline", "30s", "--out", out.to_str().unwrap()]);
    lab.run("run", &words)
}

#[test]
fn gpu_data_goes_by_the_nic_where_it_can_and_through_the_host_where_it_cannot() {
    let Some(lab) = guests(&["2x1", "--leaves", "1", "--spines", "1", "--rate", "1gbit"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (true, "on", MemoryPath::GpuDirect),
        (true, "auto", MemoryPath::GpuDirect),
        (true, "off", MemoryPath::Staged),
        (false, "auto", MemoryPath::Staged),
    ];
    for (nics_reach, asked, expected) in cases {
        let out = folder.path().join(format!("{asked}-{nics_reach}"));
        let output = all_reduce(&lab, &out, nics_reach, asked);
        assert!(
            matches!(output.status.code(), Some(0 | 20)),
            "{asked}: {}",
            said(&output)
        );
        let text = said(&output);
        assert!(text.contains("# Out of bounds values : 0 OK"), "{text}");
        let recorded = Recorded::read(&out).unwrap();
        let went = recorded.run.cells.iter().map(|cell| cell.verbs.unwrap().memory);
        assert!(
            went.clone().all(|memory| memory == expected),
            "{asked}: {:?}",
            went.collect::<Vec<_>>()
        );
        let report = std::fs::read_to_string(out.join("report.md")).unwrap();
        assert!(
            report.contains(&expected.to_string()),
            "the report says which way it went"
        );
    }
    let output = all_reduce(&lab, &folder.path().join("refused"), false, "on");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.contains("rank 0 (h0)") && text.contains("does not support GPUDirect RDMA"),
        "{text}"
    );
}

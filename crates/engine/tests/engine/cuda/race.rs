//! The kernels under ThreadSanitizer. Run by `ci/kernels`: building the shim for it takes a minute.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the short collectives with a sanitized shim.
fn sanitized(variables: &[(&str, &str)]) -> Output {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let built = Command::new(root.join("kernels/shim/build"))
        .arg("--tsan")
        .status()
        .unwrap();
    assert!(built.success());
    // Without address randomisation, which the sanitizer cannot stand everywhere. What is not compiled for it, the program
    // itself, is not looked at.
    Command::new("setarch")
        .args(["-R", "env", "LD_PRELOAD=libtsan.so.2"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "cuda::collective::ring_tree_and_words_in_short",
            "--nocapture",
        ])
        .env("LD_LIBRARY_PATH", root.join("target/shim-tsan"))
        .env("RAILGAUGE_TEST_INSIDE", "1")
        .env(
            "TSAN_OPTIONS",
            "ignore_noninstrumented_modules=1 exitcode=66 history_size=4",
        )
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
#[ignore = "builds the shim for ThreadSanitizer: ci/kernels runs it"]
fn no_block_touches_data_that_was_not_handed_to_it() {
    let output = sanitized(&[]);
    let said = said(&output);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!said.contains("ThreadSanitizer"), "{said}");
}

#[test]
#[ignore = "builds the shim for ThreadSanitizer: ci/kernels runs it"]
fn a_flag_that_is_stored_without_release_is_found() {
    let output = sanitized(&[("RAILGAUGE_SHIM_FORGETS", "release")]);
    let said = said(&output);
    assert!(said.contains("WARNING: ThreadSanitizer: data race"), "{said}");
}

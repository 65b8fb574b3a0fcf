//! The secret comes from a variable or a file that only its owner can read.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::harness::{Lot, run_to_end};

#[test]
fn a_token_file_works_and_an_exposed_one_does_not() {
    let lot = Lot::new();
    let file = lot.path().join("token");
    let make = || {
        run_to_end(
            Command::new(env!("CARGO_BIN_EXE_railgauge"))
                .args(["token", "--out"])
                .arg(&file),
        )
    };
    assert_eq!(make().must_exit(0).stdout, "");
    make().must_exit(1).says(&["File exists"]);
    let words = "run suite.toml --out out --launch env --token-file token";
    let without = |rank| format!("{} RAILGAUGE_TOKEN=", lot.own(rank, 2));
    let other = lot.start(
        "run suite.toml --launch env",
        &format!("{} RAILGAUGE_TOKEN_FILE=token", without(1)),
    );
    lot.start(words, &without(0)).wait().must_exit(20);
    other.wait().must_exit(0);

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let ended = lot.start(words, &without(0)).wait().must_exit(2);
    ended.says(&["has mode 640: other users can read it", "chmod 600"]);
}

#[test]
fn a_missing_token_says_how_to_make_one() {
    let lot = Lot::new();
    let ended = lot.start(
        "run suite.toml --launch env",
        &format!("{} RAILGAUGE_TOKEN=", lot.own(0, 2)),
    );
    ended
        .wait()
        .must_exit(2)
        .says(&["export RAILGAUGE_TOKEN=$(railgauge token)"]);
}

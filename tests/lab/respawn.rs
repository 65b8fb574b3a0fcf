//! A process of a lab that died is started again as it was, and one that is done is not.

use crate::harness::{TestLab, labs_can_be_made};

/// Notes its place and its host; rank 2 dies the first time, rank 0 ends when rank 2 is there again, the others are done at once.
const SCRIPT: &str = r#"
cd "$1"
echo "$RAILGAUGE_RANK $RAILGAUGE_WORLD $RAILGAUGE_RENDEZVOUS $RAILGAUGE_TOKEN $(hostname)" >> starts.$RAILGAUGE_RANK
starts() { wc -l < starts.$1 2>/dev/null || echo 0; }
case $RAILGAUGE_RANK in
    0) until [ "$(starts 2)" -ge 2 ]; do sleep 0.05; done; exit 12 ;;
    2) [ "$(starts 2)" -ge 2 ] || kill -9 $$ ;;
esac
"#;

#[test]
fn a_process_that_was_killed_is_started_again_on_its_host_with_its_place() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x1", "--leaves", "1", "--spines", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let run = [
        "--respawn",
        "200ms",
        "--program",
        "/bin/sh",
        "--",
        "-c",
        SCRIPT,
        "sh",
        at,
    ];
    let ended = lab.run("run", &run);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(12), "{said}");
    assert!(said.contains("the process on h2 is started again"), "{said}");
    let starts = |rank: u32| {
        let text = std::fs::read_to_string(folder.path().join(format!("starts.{rank}"))).unwrap();
        text.lines().map(String::from).collect::<Vec<_>>()
    };
    let [first, second] = &starts(2)[..] else {
        panic!("{:?}", starts(2));
    };
    assert_eq!(first, second);
    assert!(first.starts_with("2 4 ") && first.ends_with(" h2"), "{first}");
    assert_eq!((starts(1).len(), starts(3).len()), (1, 1), "they were done");
}

#[test]
fn mpirun_starts_nobody_again() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "1", "--spines", "1"]);
    let refused = lab.run("run", &["--launch", "mpi", "--respawn", "1s", "--", "token"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("use --launch env"),
        "{said}"
    );
}

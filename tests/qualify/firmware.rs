//! Firmware joined with speed, live.

use record::{FindingKind, Judgement};

use crate::harness::{TestLab, labs_can_be_made};

/// Twelve NICs, so that three of them can be told from chance.
const SHAPE: [&str; 7] = ["6x2", "--leaves", "3", "--spines", "2", "--rate", "100mbit"];

#[test]
fn cables_that_are_slow_exactly_where_the_firmware_is_another_are_joined_with_it() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    for (host, rail) in [("h0", 0), ("h3", 1), ("h4", 1)] {
        let firmware = format!("firmware:{host}=28.39.1002,device=mlx5_{rail}");
        let slow = format!("slow:{host}/rail{rail}=50%");
        lab.does("fault", &[&firmware, &slow]);
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = lab.run(
        "run",
        &["--", "diagnose", "--json", "--out", out.to_str().unwrap()],
    );
    let judgement: Judgement = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code();
    assert_eq!(code, Some(12), "{}", judgement.summary);
    let effect = judgement.drift.as_ref().unwrap().deviations[0]
        .effect
        .clone()
        .unwrap();
    assert_eq!(
        (
            effect.slow_with,
            effect.with,
            effect.slow_without,
            effect.without,
            effect.explains
        ),
        (3, 3, 0, 9, true),
        "{effect:?}"
    );
    for slow in judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::SlowLink)
    {
        assert!(
            slow.evidence.iter().any(|said| said.contains("28.39.1002")),
            "{:?}",
            slow.evidence
        );
    }
}

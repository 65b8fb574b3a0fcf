//! How exactly a live verdict about speed is held.
//!
//! Speeds measured on a busy machine say little, so a live test asserts what load cannot spoil: the part at fault is named or
//! the run is inconclusive, and no other part is ever accused. `RAILGAUGE_QUIET_MACHINE=1` (set by `ci/qualify`) demands the
//! exact verdict. Exact verdicts are tested on recorded runs as well: `crates/report/tests/recorded/verdicts.rs`.

use record::{Finding, Judgement};

/// Whether nothing else runs on this machine, so that exact verdicts can be demanded.
pub fn is_quiet_machine() -> bool {
    std::env::var_os("RAILGAUGE_QUIET_MACHINE").is_some()
}

/// Checks that the slow parts are these, given by the part that [`Finding::part`] names. `otherwise` is the exit code when nothing
/// is slow: 0, or that of another fault.
pub fn check_slow_parts(judgement: &Judgement, code: Option<i32>, slow: &[&str], otherwise: i32) {
    let is_slow = |finding: &&Finding| finding.kind.exit_code() == 12;
    let mut accused: Vec<String> = judgement
        .findings
        .iter()
        .filter(is_slow)
        .map(Finding::part)
        .collect();
    accused.sort();
    let mut wanted: Vec<&str> = slow.to_vec();
    wanted.sort_unstable();
    let wanted_code = if slow.is_empty() { otherwise } else { 12 };
    let said = format!("{}: accused {accused:?}", judgement.summary);
    if is_quiet_machine() {
        assert_eq!(
            (code, &accused[..]),
            (
                Some(wanted_code),
                &wanted.iter().map(|part| part.to_string()).collect::<Vec<_>>()[..]
            ),
            "{said}"
        );
    } else {
        let only_these = accused.iter().all(|part| wanted.contains(&part.as_str()));
        assert!(only_these, "another part is accused: {said}");
        let codes = [wanted_code, if otherwise == 0 { 20 } else { otherwise }, 20];
        assert!(
            code.is_some_and(|code| codes.contains(&code)),
            "exit code {code:?}: {said}"
        );
    }
}

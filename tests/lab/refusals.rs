//! What cannot be done is refused with what would be right. These need no lab and no root.

use std::os::unix::process::CommandExt;

use crate::harness::{command, lab, labs_can_be_made, name};

#[test]
fn absurd_shapes_and_names_are_usage_errors() {
    let cases: [(&[&str], &str); 8] = [
        (&["up", "1x2"], "hosts: a lab has 2 to 128"),
        (&["up", "4x99"], "rails: a lab has 1 to 8"),
        (&["up", "four"], "HOSTSxRAILS"),
        (&["up", "4x2", "--leaves", "9"], "9 leaves for 4 hosts"),
        (&["up", "4x2", "--rate", "1kbit"], "bits per second"),
        (&["up", "4x2", "--name", "../x"], "cannot name a lab"),
        (&["up", "4x2", "--name", "thirteen-long"], "cannot name a lab"),
        (&["fault", "melt:h0"], "unknown fault"),
    ];
    for (arguments, wanted) in cases {
        let output = lab(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}

#[test]
fn a_lab_that_is_not_there_is_said_to_be_missing() {
    let name = name();
    for action in ["status", "topology", "counters"] {
        let output = lab(&[action, "--name", &name]);
        assert_eq!(output.status.code(), Some(3), "{action}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("there is no lab `{name}`")), "{said}");
    }
}

#[test]
fn without_root_it_is_refused_politely() {
    if !labs_can_be_made() {
        return;
    }
    let output = command(&["up", "4x2", "--name", &name()])
        .uid(65_534)
        .gid(65_534)
        .output();
    let Ok(output) = output else {
        crate::skip::skip(
            "other-user",
            "the program cannot be run as another user from here",
        );
        return;
    };
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("sudo"),
        "{output:?}"
    );
}

//! The programs that configure the network: whether they are there, and running them with lines on standard input.
//!
//! No shell anywhere: arguments are lists, and every name in a line was checked when it was read.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::LabError;

/// What a lab needs, and the Debian packages that have it.
const NEEDED: [(&str, &str); 4] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("ethtool", "ethtool"),
];

/// Places of system programs that a user's search path may lack.
const SYSTEM_PATHS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Refuses without root, and without a program a lab needs.
pub fn make_sure() -> Result<(), LabError> {
    be_root()?;
    for (tool, package) in NEEDED {
        find(tool).ok_or(LabError::MissingTool { tool, package })?;
    }
    Ok(())
}

/// Refuses without root.
pub fn be_root() -> Result<(), LabError> {
    match nix::unistd::Uid::effective().is_root() {
        true => Ok(()),
        false => Err(LabError::NotRoot),
    }
}

/// Where a program is.
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(SYSTEM_PATHS.map(PathBuf::from));
    folders
        .into_iter()
        .map(|folder| folder.join(tool))
        .find(|file| file.is_file())
}

/// Runs a program of this thread's network namespace, called `place` in errors, with `lines` on its standard input.
pub fn feed(tool: &str, arguments: &[&str], lines: &[String], place: &str) -> Result<(), LabError> {
    let trouble = |message: String| LabError::Tool {
        tool: tool.to_string(),
        place: place.to_string(),
        message,
    };
    let program = find(tool).ok_or_else(|| trouble("it is not installed".to_string()))?;
    let stdin = if lines.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| trouble(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        let mut text = lines.join("\n");
        text.push('\n');
        // A program that ends early says why on its standard error, which is what the user needs to see.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| trouble(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut message = said.trim().lines().take(4).collect::<Vec<_>>().join("; ");
    if let Some(line) = failed_line(&said).and_then(|number| lines.get(number - 1)) {
        message.push_str(&format!(" (`{line}`)"));
    }
    Err(trouble(message))
}

/// The number of the line that `ip` or `tc` stopped at: `Command failed -:3`.
fn failed_line(said: &str) -> Option<usize> {
    let number = said
        .lines()
        .find_map(|line| line.strip_prefix("Command failed -:"))?;
    number.trim().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_line_is_shown() {
        assert_eq!(
            failed_line("RTNETLINK answers: File exists\nCommand failed -:3\n"),
            Some(3)
        );
        assert_eq!(failed_line("anything else"), None);
    }

    #[test]
    fn a_program_that_refuses_says_why_with_the_place() {
        let error = feed(
            "sh",
            &["-c", "cat >/dev/null; echo no such thing >&2; exit 3"],
            &["x".into()],
            "h0",
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "sh failed in h0: no such thing");
        assert!(
            feed("no-such-program", &[], &[], "h0")
                .unwrap_err()
                .to_string()
                .contains("not installed")
        );
    }
}

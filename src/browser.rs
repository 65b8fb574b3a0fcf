//! Opens a page in a browser, without a shell.
//!
//! A machine in a rack has none: then a warning names the page, and that is not a failure.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::terminal;

/// How long an opener is watched: one that cannot open anything exits at once.
const WATCHED: Duration = Duration::from_millis(1500);

/// Opens a page, or warns where it is.
pub(super) fn open(page: &Path) {
    let page = std::path::absolute(page).unwrap_or_else(|_| page.to_path_buf());
    let wanted = std::env::var("BROWSER").ok();
    let opened = commands(wanted.as_deref(), &page)
        .into_iter()
        .any(|words| starts(&words));
    if !opened {
        terminal::warn(format_args!(
            "cannot start a browser here; the page is {}",
            page.display()
        ));
    }
}

/// Commands to try, in order: what `BROWSER` lists, with the page in place of `%s` or at its end, then the desktop's own.
fn commands(wanted: Option<&str>, page: &Path) -> Vec<Vec<String>> {
    let page = page.display().to_string();
    let with_page = |command: &str| {
        let mut words: Vec<String> = command.split_whitespace().map(String::from).collect();
        match words.iter().any(|word| word.contains("%s")) {
            true => words
                .iter_mut()
                .for_each(|word| *word = word.replace("%s", &page)),
            false => words.push(page.clone()),
        }
        words
    };
    let wanted = wanted.unwrap_or_default().split(':');
    let wanted = wanted.filter(|command| !command.trim().is_empty());
    let own = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    wanted.chain([own]).map(with_page).collect()
}

/// Whether a command was started and did not give up at once.
fn starts(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.is_ok_and(keeps_going)
}

fn keeps_going(mut child: Child) -> bool {
    let until = Instant::now() + WATCHED;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_blanks_and_marks_stays_one_word() {
        let page = Path::new("/tmp/a b; touch x/report.html");
        let commands = commands(Some("firefox -new-tab:lynx %s -nocolor"), page);
        assert_eq!(
            commands[0],
            ["firefox", "-new-tab", "/tmp/a b; touch x/report.html"]
        );
        assert_eq!(commands[1], ["lynx", "/tmp/a b; touch x/report.html", "-nocolor"]);
        assert_eq!(commands[2].len(), 2);
        assert_eq!(super::commands(None, page).len(), 1);
    }

    #[test]
    fn a_browser_that_is_not_there_or_gives_up_is_not_taken_for_one() {
        assert!(!starts(&["/nonexistent/browser".to_string()]));
        assert!(!starts(&["false".to_string()]));
        assert!(starts(&["true".to_string()]));
        assert!(!starts(&[]));
    }
}

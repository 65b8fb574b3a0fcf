//! How the page looks and what its script may do: both are part of the page, and nothing else is let in.

use super::builder::HtmlBuilder;

/// Light colours and all shapes.
const STYLE: &str = include_str!("style.css");
/// Dark colours.
const DARK: &str = include_str!("dark.css");
/// Sorting, filtering and tips.
const SCRIPT: &str = include_str!("script.js");
/// What a browser must find the script to be before it runs it: SHA-256, in base 64.
const SCRIPT_HASH: &str = "1dTw/r2qvjSpM15yZWX1RKwPTIANrPJlKcIGBA4wwFk=";

/// What a browser lets this page do: show its own styles and run its own script. It can load nothing and send nothing.
pub(super) fn policy() -> String {
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}

/// The style sheet. Paper is light, whatever the screen is.
pub(super) fn style(out: &mut HtmlBuilder) {
    out.within("style", &[], |out| {
        out.fixed(STYLE);
        out.fixed("@media screen and (prefers-color-scheme: dark) {\n");
        out.fixed(DARK);
        out.dark_inks();
        out.fixed("\n}\n");
    });
}

/// The script, behind everything it works on.
pub(super) fn script(out: &mut HtmlBuilder) {
    out.within("script", &[], |out| out.fixed(SCRIPT));
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::contrast_tests;

    /// Text and what it stands on; the same names in both sheets.
    const PAIRS: &[(&str, &str)] = &[
        ("ink", "paper"),
        ("ink", "panel"),
        ("soft", "paper"),
        ("soft", "panel"),
        ("link", "paper"),
        ("link", "panel"),
        ("good", "paper"),
        ("good", "good-paper"),
        ("bad", "panel"),
        ("bad", "bad-paper"),
        ("unclear", "panel"),
        ("unclear", "unclear-paper"),
        ("code", "code-paper"),
        ("paper", "ink"),
    ];

    fn colour(sheet: &str, name: &str) -> [u8; 3] {
        let start = format!("--{name}: #");
        let at = sheet.find(&start).unwrap_or_else(|| panic!("{name}")) + start.len();
        [0, 2, 4].map(|digit| u8::from_str_radix(&sheet[at + digit..at + digit + 2], 16).unwrap())
    }

    #[test]
    fn all_text_can_be_read_on_light_and_dark_screens() {
        for (sheet, what) in [(STYLE, "light"), (DARK, "dark")] {
            for (text, ground) in PAIRS {
                let is = contrast_tests::between(colour(sheet, text), colour(sheet, ground));
                assert!(is >= 4.5, "{what}: {text} on {ground} has {is:.2}");
            }
        }
    }

    #[test]
    fn every_colour_is_one_that_the_contrast_of_is_checked() {
        for line in STYLE.lines().filter(|line| !line.trim_start().starts_with("--")) {
            assert!(!line.contains(": #"), "a colour without a name: {line}");
        }
        let names = |sheet: &str| -> Vec<String> {
            let lines = sheet.lines().filter(|line| line.trim_start().starts_with("--"));
            lines
                .map(|line| line.split(':').next().unwrap().trim().to_string())
                .collect()
        };
        assert_eq!(names(STYLE), names(DARK), "both sheets have the same colours");
    }

    #[test]
    fn the_browser_runs_the_script_that_is_in_the_page() {
        let mut child = Command::new("sha256sum")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(SCRIPT.as_bytes()).unwrap();
        let said = child.wait_with_output().unwrap().stdout;
        let hex = String::from_utf8(said).unwrap();
        let bytes: Vec<u8> = (0..32)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        assert_eq!(SCRIPT_HASH, base64(&bytes), "put this into SCRIPT_HASH");
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let bits =
                three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            for letter in 0..4 {
                match letter <= three.len() {
                    true => text.push(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63] as char),
                    false => text.push('='),
                }
            }
        }
        text
    }

    #[test]
    fn the_script_ends_where_it_should_and_reaches_for_nothing() {
        for word in [
            "</",
            "fetch",
            "XMLHttpRequest",
            "innerHTML",
            "eval",
            "import",
            "localStorage",
            "cookie",
        ] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
    }
}

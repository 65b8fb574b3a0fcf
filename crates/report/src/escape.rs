//! Making text from other machines inert: host names, rails, test names, reasons.
//!
//! Whatever is in such a name, it cannot move a terminal's cursor, reorder the text around it, start a line, a link, a tag
//! or a table cell. It stays readable: what is not printable is shown as an escape.

use std::fmt::Write;

/// The longest text in a cell of a table on a terminal.
const LONGEST_CELL: usize = 80;

/// Text for one line of a terminal or a log: control characters and marks that reorder or hide text become visible.
pub fn line(text: &str) -> String {
    replaced(
        text,
        |c| matches!(c, ' '..='~'),
        |c, out| match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push(' '),
            c if c.is_control() || is_invisible(c) => _ = write!(out, "\\u{{{:x}}}", c as u32),
            c => out.push(c),
        },
    )
}

/// Text with every character but the plain ones put there by `other`. Nearly all are plain: runs of them are copied in one piece.
fn replaced(text: &str, is_plain: impl Fn(char) -> bool, other: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| !is_plain(*c)) {
        out.push_str(&text[start..at]);
        other(c, &mut out);
        start = at + c.len_utf8();
    }
    out.push_str(&text[start..]);
    out
}

/// Text that may have lines of its own, such as an error that lists several things: no line but the first begins where one of ours
/// would, so no name can imitate our own output.
pub fn block(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(line).collect();
    let indented =
        |(number, line): (usize, &String)| match number == 0 || line.is_empty() || line.starts_with(' ') {
            true => line.clone(),
            false => format!("  {line}"),
        };
    let lines: Vec<String> = lines.iter().enumerate().map(indented).collect();
    lines.join("\n")
}

/// Text for one cell of a table: inert, and no longer than a table can bear.
pub fn cell(text: &str) -> String {
    let text = line(text);
    match text.chars().count() > LONGEST_CELL {
        false => text,
        true => text.chars().take(LONGEST_CELL - 3).chain("...".chars()).collect(),
    }
}

/// JSON as it is written by `serde_json`, with what would move a cursor or reorder text escaped, too. It says the same.
pub fn json(text: &str) -> String {
    replaced(
        text,
        |c| matches!(c, ' '..='~' | '\n'),
        |c, out| match c.is_control() || is_invisible(c) {
            false => out.push(c),
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    _ = write!(out, "\\u{unit:04x}");
                }
            }
        },
    )
}

/// Text between tags or in a quoted attribute of HTML, XML and SVG: no markup, and inert like [`line()`].
pub fn markup(text: &str) -> String {
    let is_plain = |c| matches!(c, ' '..='~') && !matches!(c, '&' | '<' | '>' | '"' | '\'');
    replaced(&line(text), is_plain, |c, out| match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        // Not characters of XML, whatever stands for them.
        '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
        c => out.push(c),
    })
}

/// Text within a paragraph, list item, heading or table cell of Markdown (with GitHub's extensions): no markup, no HTML,
/// no links, not even of bare addresses and names.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.replace("://", "&#58;//").replace("www.", "www&#46;")
}

/// Text as a block of Markdown code, with a fence longer than any run of backticks in it.
pub fn markdown_code(text: &str) -> String {
    let text = line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Characters that show nothing but change how the text around them is shown.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_line_ends_are_shown_not_obeyed() {
        assert_eq!(line("a\u{1b}[2Jb\nc\u{9b}31m"), r"a\u{1b}[2Jb\nc\u{9b}31m");
        assert_eq!(line("node\u{202e}10edon"), r"node\u{202e}10edon");
        assert_eq!(line("rail größe 日本"), "rail größe 日本");
    }

    #[test]
    fn a_name_with_lines_cannot_pretend_to_be_a_line_of_ours() {
        assert_eq!(
            block("no answer from h1\nrailgauge: PASS\u{1b}[2J\n  indented"),
            "no answer from h1\n  railgauge: PASS\\u{1b}[2J\n  indented"
        );
        assert_eq!(block("a\r\nb\rc"), "a\n  b\\rc");
    }

    #[test]
    fn json_says_the_same_and_moves_no_cursor() {
        let value = serde_json::json!({"h\u{9b}1": ["\u{1b}[2J\u{7f}\u{202e}\u{e0001}\n", "größe", 1.5]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let inert = json(&text);
        assert!(
            !inert
                .chars()
                .any(|c| (c.is_control() && c != '\n') || is_invisible(c)),
            "{inert:?}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&inert).unwrap(), value);
        assert_eq!(json("{\n  \"a\": \"größe\"\n}"), "{\n  \"a\": \"größe\"\n}");
    }

    #[test]
    fn a_name_without_an_end_does_not_make_a_table_one() {
        assert_eq!(cell(&"x".repeat(10_000)).len(), LONGEST_CELL);
        assert_eq!(cell("28.43.2026"), "28.43.2026");
    }

    #[test]
    fn markup_is_inert_in_markdown() {
        let text = markdown("<img src=x> [click](http://x) **b** | `c` @you www.x.y a_b");
        for live in ["<img", "[click]", "http://", "**b", " | ", "@you", "www.x", "a_b"] {
            assert!(!text.contains(live), "{live}: {text}");
        }
    }

    #[test]
    fn code_cannot_close_its_own_fence() {
        assert_eq!(markdown_code("a ``` b"), "````\na ``` b\n````");
        assert_eq!(markdown_code("plain\n```"), "````\nplain\\n```\n````");
    }
}

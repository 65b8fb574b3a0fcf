//! Making text from other machines inert: host names, rails, test names, reasons.
//!
//! Whatever is in such a name, it cannot move a terminal's cursor, reorder the text around it, start a line, a link, a tag
//! or a table cell. It stays readable: what is not printable is shown as an escape.

use std::fmt::Write;

/// Text for one line of a terminal or a log: control characters and marks that reorder or hide text become visible.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push(' '),
            c if c.is_control() || is_invisible(c) => _ = write!(out, "\\u{{{:x}}}", c as u32),
            c => out.push(c),
        }
    }
    out
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

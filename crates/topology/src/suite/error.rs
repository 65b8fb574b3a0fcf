//! Errors in suite files, with their position.

use std::fmt;

/// A position in a file, counted from 1 as editors do; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Position {
    /// The place of byte `offset` in `text`; the end of the text when that lies beyond it.
    pub fn of_byte(text: &str, offset: usize) -> Position {
        let mut position = Position { line: 1, column: 1 };
        for (_, c) in text.char_indices().take_while(|(at, _)| *at < offset) {
            if c == '\n' {
                position.line += 1;
                position.column = 1;
            } else {
                position.column += 1;
            }
        }
        position
    }
}

/// Why a suite (or an expected-rate table) cannot be used. Prints as `file:line:column: message`, which editors and CI
/// systems turn into a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SuiteError {
    /// The file, or the name under which it is built in.
    pub origin: String,
    /// The position in it; none when the error is about the whole file.
    pub at: Option<Position>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{}:{}:{}: {}", self.origin, at.line, at.column, self.message),
            None => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_so_that_the_editor_jumps_to_the_right_one() {
        let text = "a = 1\nµµ = \"x\"\n";
        let quote = text.find('"').unwrap();
        assert_eq!(Position::of_byte(text, quote), Position { line: 2, column: 6 });
        assert_eq!(Position::of_byte(text, 10_000).line, 3);
    }
}

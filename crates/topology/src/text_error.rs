//! An error in a text and its line, for the readers of topologies, counters and inventories.
//!
//! These readers do not know which file a text came from; their callers add its name.

/// An error and its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The line; none when the error is about the whole text.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl TextError {
    /// An error in one line.
    pub fn at(line: usize, message: impl Into<String>) -> TextError {
        TextError {
            line: Some(line),
            message: message.into(),
        }
    }

    /// An error about the whole text.
    pub fn whole_text(message: impl Into<String>) -> TextError {
        TextError {
            line: None,
            message: message.into(),
        }
    }

    /// An error of the JSON parser.
    pub fn json(error: &serde_json::Error) -> TextError {
        TextError::at(error.line(), error.to_string())
    }

    /// An error of the TOML parser about `text`, as one line.
    pub fn toml(text: &str, error: &toml::de::Error) -> TextError {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        let line = error.span().map(|span| line_of(text, span.start));
        TextError { line, message }
    }
}

/// The line of a byte offset, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// The line ends of a text, to find the lines of many offsets.
pub struct Lines(Vec<usize>);

impl Lines {
    /// Finds the line ends of a text.
    pub fn of(text: &str) -> Lines {
        Lines(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line of a byte offset, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}

//! What is wrong with a text from elsewhere, and where in it: the same for topologies, counters and inventories.
//!
//! Readers of a text do not know where it came from; whoever does puts the place in front.

/// What is wrong, and in which line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The line; none when the text as a whole is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl Trouble {
    /// Something wrong in one line.
    pub fn at(line: usize, message: impl Into<String>) -> Trouble {
        Trouble {
            line: Some(line),
            message: message.into(),
        }
    }

    /// Something wrong with all of it.
    pub fn of_all(message: impl Into<String>) -> Trouble {
        Trouble {
            line: None,
            message: message.into(),
        }
    }

    /// What a reader of JSON says, with its line.
    pub fn of_json(error: &serde_json::Error) -> Trouble {
        Trouble::at(error.line(), error.to_string())
    }

    /// What a reader of TOML says of `text`, in one line.
    pub fn of_toml(text: &str, error: &toml::de::Error) -> Trouble {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        let line = error.span().map(|span| line_of(text, span.start));
        Trouble { line, message }
    }
}

/// The line in which a byte of a text stands, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// The same for many places in one text.
pub struct Lines(Vec<usize>);

impl Lines {
    /// Where the lines of a text end.
    pub fn of(text: &str) -> Lines {
        Lines(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line in which a byte stands, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}

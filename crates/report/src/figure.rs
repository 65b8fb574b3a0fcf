//! A figure of a report: a drawing, and everything that it shows as text.

use std::io;

use record::{Judgement, Recorded};

/// One drawing with the words that belong to it. Texts are inert in any format only after escaping, save for `svg`, which is markup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Distinct within a report, fit for an id in HTML.
    pub id: String,
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, what is notable, and what was left out.
    pub caption: String,
    /// What a reader who does not see it must know: the same facts in words.
    pub alternative: String,
    /// The drawing, with `viewBox`, without a prologue; colours are those of the palette only.
    pub svg: String,
}

/// A kind of figure: which of them a run has.
pub trait FigureKind: Sync {
    /// The figures of this kind, none where a run has nothing to show.
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>>;
}

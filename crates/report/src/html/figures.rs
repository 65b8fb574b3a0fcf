//! Figures: each with what it shows, how to read it, and the same in words.

use super::Facts;
use super::out::Out;
use crate::figure::Figure;

/// All figures of the run.
pub(super) fn section(out: &mut Out, facts: &Facts<'_>) {
    if facts.figures.is_empty() {
        out.paragraph("None: nothing was measured that could be drawn.");
    }
    facts.figures.iter().for_each(|figure| one(out, figure));
}

/// One figure.
pub(crate) fn one(out: &mut Out, figure: &Figure) {
    // Sections have ids, too: a figure about links is not the section about them.
    let id = format!("figure-{}", figure.id);
    let [title, words] = ["title", "words"].map(|part| format!("{id}-{part}"));
    out.within("figure", &[("id", &id)], |out| {
        out.within("figcaption", &[], |out| {
            out.leaf("h3", &[("id", &title)], &figure.title);
            out.paragraph(&figure.caption);
        });
        out.drawing(figure, &title, &words);
        out.details("The same in words", |out| {
            out.within("div", &[("id", &words)], |out| {
                figure.alternative.lines().for_each(|line| out.paragraph(line));
            });
        });
    });
    out.fixed("\n");
}

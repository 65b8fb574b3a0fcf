//! The one way in which the page is written.
//!
//! Held true: text is always escaped, since nothing here takes text as markup but what is part of this program; elements are
//! always closed, since they are opened around what they hold. So no name from another machine can become markup.

use crate::escape;
use crate::figure::Figure;
use crate::table::{Entry, Table, Tone};

/// Attributes of an element: names are ours, values are any text.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A page that is being written.
#[derive(Debug, Default)]
pub(crate) struct HtmlBuilder {
    html: String,
}

impl HtmlBuilder {
    /// An empty page.
    pub(crate) fn new() -> HtmlBuilder {
        HtmlBuilder::default()
    }

    /// What was written.
    pub(crate) fn finish(self) -> String {
        self.html
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.html.push('<');
        self.html.push_str(tag);
        for (name, value) in attributes {
            self.html.push(' ');
            self.html.push_str(name);
            if !value.is_empty() {
                self.html.push_str("=\"");
                self.html.push_str(&escape::markup(value));
                self.html.push('"');
            }
        }
        self.html.push('>');
    }

    /// An element around whatever `inner` writes.
    pub(crate) fn within(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inner: impl FnOnce(&mut HtmlBuilder),
    ) {
        self.open(tag, attributes);
        inner(self);
        self.html.push_str("</");
        self.html.push_str(tag);
        self.html.push('>');
    }

    /// An element that holds text and nothing else.
    pub(crate) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |out| out.text(text));
    }

    /// An element that holds nothing and has no end, such as `meta`.
    pub(crate) fn alone(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
    }

    /// Text, whatever is in it.
    pub(crate) fn text(&mut self, text: &str) {
        self.html.push_str(&escape::markup(text));
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.leaf("p", &[], text);
    }

    /// A list of texts.
    pub(crate) fn list<'t>(&mut self, items: impl IntoIterator<Item = &'t str>) {
        self.within("ul", &[], |out| {
            items.into_iter().for_each(|item| out.leaf("li", &[], item));
        });
    }

    /// A command to copy: one click marks all of it.
    pub(crate) fn command(&mut self, command: &str) {
        self.within("pre", &[("class", "command")], |out| {
            out.leaf("code", &[], command);
        });
    }

    /// Something that is only there for those who open it.
    pub(crate) fn details(&mut self, summary: &str, inner: impl FnOnce(&mut HtmlBuilder)) {
        self.within("details", &[], |out| {
            out.leaf("summary", &[], summary);
            inner(out);
        });
    }

    /// Markup that is part of this program: a style sheet, a script, a line end.
    pub(crate) fn fixed(&mut self, markup: &'static str) {
        self.html.push_str(markup);
    }

    /// The rules that turn the inks of figures dark; made by this program from its own palette.
    pub(crate) fn dark_inks(&mut self) {
        self.html.push_str(&crate::figures::palette::dark_rules());
    }

    /// The drawing of a figure, named for those who do not see it by the elements with these ids.
    pub(crate) fn drawing(&mut self, figure: &Figure, label: &str, description: &str) {
        // A drawing within a page needs no namespace, and its name is beside it.
        let svg = figure.svg.trim();
        let Some((head, rest)) = svg.strip_prefix("<svg").and_then(|svg| svg.split_once('>')) else {
            return;
        };
        let head = head
            .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
            .replace(" role=\"img\"", "");
        self.html.push_str("<svg role=\"img\" aria-labelledby=\"");
        self.html.push_str(&escape::markup(label));
        self.html.push_str("\" aria-describedby=\"");
        self.html.push_str(&escape::markup(description));
        self.html.push('"');
        self.html.push_str(&head);
        self.html.push('>');
        self.html.push_str(rest);
    }

    /// A figure with its title, caption and words.
    pub(crate) fn figure(&mut self, figure: &Figure) {
        // Sections have ids, too: a figure about links is not the section about them.
        let id = format!("figure-{}", figure.id);
        let [title, words] = ["title", "words"].map(|part| format!("{id}-{part}"));
        self.within("figure", &[("id", &id)], |out| {
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
        self.fixed("\n");
    }

    /// A table in a box of its own, within which it scrolls where it is wider than the page. Nothing where it has no rows.
    pub(crate) fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        let caption = table.caption.as_str();
        let wide = [
            ("class", "wide"),
            ("role", "region"),
            ("tabindex", "0"),
            ("aria-label", caption),
        ];
        self.within("div", &wide, |out| {
            out.within("table", &[], |out| {
                out.leaf("caption", &[], caption);
                out.within("thead", &[], |out| out.head(table));
                out.within("tbody", &[], |out| {
                    table.rows.iter().for_each(|row| out.row(table, row));
                });
            });
        });
        self.fixed("\n");
    }

    fn head(&mut self, table: &Table) {
        self.within("tr", &[], |out| {
            for column in &table.columns {
                let class = if column.is_figure { "n" } else { "t" };
                out.leaf("th", &[("scope", "col"), ("class", class)], &column.name);
            }
        });
    }

    fn row(&mut self, table: &Table, row: &[Entry]) {
        self.within("tr", &[], |out| {
            for (at, (entry, column)) in row.iter().zip(&table.columns).enumerate() {
                let class = class_of(entry.tone, column.is_figure);
                match (at, class) {
                    (0, "") => out.leaf("th", &[("scope", "row")], &entry.text),
                    (0, class) => out.leaf("th", &[("scope", "row"), ("class", class)], &entry.text),
                    (_, "") => out.leaf("td", &[], &entry.text),
                    (_, class) => out.leaf("td", &[("class", class)], &entry.text),
                }
            }
        });
        self.fixed("\n");
    }
}

/// The CSS class of a tone; numbers are right-aligned.
fn class_of(tone: Tone, is_figure: bool) -> &'static str {
    match (tone, is_figure) {
        (Tone::Plain, false) => "",
        (Tone::Plain, true) => "n",
        (Tone::Good, false) => "good",
        (Tone::Good, true) => "n good",
        (Tone::Bad, false) => "bad",
        (Tone::Bad, true) => "n bad",
        (Tone::Unclear, false) => "unclear",
        (Tone::Unclear, true) => "n unclear",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::text;

    #[test]
    fn neither_text_nor_an_attribute_can_become_markup() {
        let mut out = HtmlBuilder::new();
        let hostile = "\"><script>alert('1')</script>&";
        out.leaf("p", &[("title", hostile)], hostile);
        let mut table = Table::new(hostile, [text(hostile)]);
        table.row([Entry::from(hostile)]);
        out.table(&table);
        out.command(hostile);
        let html = out.finish();
        assert!(
            !html.contains("<script") && !html.contains("title=\"\""),
            "{html}"
        );
        assert_eq!(html.matches("&lt;script&gt;").count(), 7, "{html}");
    }

    #[test]
    fn a_drawing_has_a_name_and_a_description_for_those_who_do_not_see_it() {
        let figure = Figure {
            id: "f".to_string(),
            title: String::new(),
            caption: String::new(),
            alternative: String::new(),
            svg: "<svg viewBox=\"0 0 1 1\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"></svg>\n"
                .to_string(),
        };
        let mut out = HtmlBuilder::new();
        out.drawing(&figure, "f-title", "f-words");
        let wanted = "<svg role=\"img\" aria-labelledby=\"f-title\" aria-describedby=\"f-words\" viewBox=\"0 0 1 1\"></svg>";
        assert_eq!(out.finish(), wanted);
    }
}

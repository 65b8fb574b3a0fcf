//! Reads a page back for tests, and panics at anything that we would not have written.

/// Elements that hold nothing and have no end.
const ALONE: &[&str] = &["meta", "input"];
/// Every element of our pages, those of drawings included.
const KNOWN: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "header",
    "h1",
    "h2",
    "h3",
    "p",
    "nav",
    "ul",
    "li",
    "main",
    "section",
    "article",
    "span",
    "strong",
    "dl",
    "dt",
    "dd",
    "pre",
    "code",
    "div",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "label",
    "input",
    "output",
    "figure",
    "figcaption",
    "details",
    "summary",
    "footer",
    "script",
    "svg",
    "rect",
    "text",
    "tspan",
    "polyline",
    "circle",
    "line",
    "path",
    "polygon",
    "g",
    "desc",
    "ellipse",
    "defs",
    "pattern",
];

/// An element as it was opened.
#[derive(Debug, Clone)]
pub(in super::super) struct Element {
    /// Its name.
    pub(in super::super) name: String,
    /// Names and values of its attributes, not unescaped.
    pub(in super::super) attributes: Vec<(String, String)>,
    /// The elements around it, the outermost first.
    pub(in super::super) around: Vec<String>,
}

impl Element {
    /// The value of an attribute, when it has it.
    pub(in super::super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// All elements of a page in order. Each is known, has quoted attributes only, and is closed where it must be.
pub(in super::super) fn elements(page: &str) -> Vec<Element> {
    let mut rest = page.strip_prefix("<!doctype html>").expect("a page");
    let mut open: Vec<String> = Vec::new();
    let mut all: Vec<Element> = Vec::new();
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix('/') {
            let (name, tail) = tail.split_once('>').expect("an end");
            assert_eq!(open.pop().as_deref(), Some(name), "closed in order");
            rest = tail;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).expect("a name");
        let name = rest[..end].to_string();
        assert!(KNOWN.contains(&name.as_str()), "<{}", &rest[..rest.len().min(60)]);
        rest = &rest[end..];
        let (attributes, is_closed, tail) = attributes(rest);
        let text = tail.split('<').next().unwrap_or_default();
        assert!(name == "style" || name == "script" || is_escaped(text), "{text}");
        all.push(Element {
            name: name.clone(),
            attributes,
            around: open.clone(),
        });
        rest = tail;
        if name == "style" || name == "script" {
            // What is in them is ours, and is not markup.
            let end = rest.find(&format!("</{name}>")).expect("its end");
            rest = &rest[end..];
        }
        if !is_closed && !ALONE.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    all
}

/// Attributes up to the end of the tag, whether it closes itself, and what follows.
fn attributes(mut rest: &str) -> (Vec<(String, String)>, bool, &str) {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(tail) = rest.strip_prefix("/>") {
            return (found, true, tail);
        }
        if let Some(tail) = rest.strip_prefix('>') {
            return (found, false, tail);
        }
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_:".contains(c)))
            .expect("an attribute");
        assert!(end > 0, "no attribute: {}", &rest[..rest.len().min(60)]);
        let name = rest[..end].to_string();
        rest = &rest[end..];
        let value = match rest.strip_prefix("=\"") {
            None => String::new(),
            Some(tail) => {
                let (value, tail) = tail.split_once('"').expect("the end of a value");
                assert!(is_escaped(value), "{value}");
                rest = tail;
                value.to_string()
            }
        };
        found.push((name, value));
    }
}

/// Whether every `&` begins an entity.
fn is_escaped(text: &str) -> bool {
    let entities = ["amp;", "lt;", "gt;", "quot;", "#39;", "apos;"];
    text.split('&')
        .skip(1)
        .all(|behind| entities.iter().any(|entity| behind.starts_with(entity)))
}

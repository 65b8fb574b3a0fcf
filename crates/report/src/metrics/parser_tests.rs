//! Reading the text format back, for tests: strict, so that what it takes every reader takes.

use std::collections::BTreeMap;

/// One line that is not a comment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Every series of a file, or what is wrong with it.
pub(crate) fn read(text: &str) -> Result<Vec<Series>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no end")?;
    let mut all: Vec<Series> = Vec::new();
    let mut declared = BTreeMap::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            match words.as_slice() {
                ["HELP", name, _] => declared
                    .insert(name.to_string(), None)
                    .map_or(Ok(()), |_| Err(format!("{name} is declared twice")))?,
                ["TYPE", name, "gauge"] => _ = declared.insert(name.to_string(), Some(())),
                ["UNIT", name, unit] if name.ends_with(&format!("_{unit}")) => {}
                _ => return Err(format!("no comment: {line}")),
            }
            continue;
        }
        let series = read_line(line).ok_or_else(|| format!("no series: {line}"))?;
        if declared.get(&series.name) != Some(&Some(())) {
            return Err(format!("not declared: {line}"));
        }
        all.push(series);
    }
    let mut keys: Vec<_> = all.iter().map(|one| (&one.name, &one.labels)).collect();
    keys.sort();
    match keys.windows(2).find(|two| two[0] == two[1]) {
        Some(twice) => Err(format!("there twice: {twice:?}")),
        None => Ok(all),
    }
}

fn read_line(line: &str) -> Option<Series> {
    let (name, rest) = line.split_once('{')?;
    let is_name = |text: &str| {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        !text.is_empty() && text.chars().all(letters)
    };
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        if !is_name(label) || labels.insert(label.to_string(), value).is_some() {
            return None;
        }
        if let Some(value) = after.strip_prefix("} ") {
            let value = value.parse().ok()?;
            let name = name.to_string();
            return is_name(&name).then_some(Series { name, labels, value });
        }
        rest = after.strip_prefix(',')?;
    }
}

/// The text up to the closing quote, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => out.push('\n'),
                escaped @ ('\\' | '"') => out.push(escaped),
                _ => return None,
            },
            other => out.push(other),
        }
    }
    None
}

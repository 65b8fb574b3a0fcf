//! Reading Rust sources well enough to see which module uses which: comments, strings and tests are overlooked.

use std::path::{Path, PathBuf};

/// A source file below `src`.
pub struct Source {
    /// Relative to `src`.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// All `.rs` files under `folder`, with paths relative to `root`.
pub fn read(folder: &Path, root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources.extend(read(&path, root));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(Source {
                text: std::fs::read_to_string(&path).unwrap(),
                path: path.strip_prefix(root).unwrap().to_path_buf(),
            });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// The code of `text` with comments, strings and character literals blanked; line breaks stay.
pub fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let starts = |at: usize, word: &str| {
        word.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        let end = if starts(at, "//") {
            (at..chars.len())
                .find(|i| chars[*i] == '\n')
                .unwrap_or(chars.len())
        } else if starts(at, "/*") {
            (at + 2..chars.len())
                .find(|i| starts(*i, "*/"))
                .map_or(chars.len(), |i| i + 2)
        } else if !after_word && (starts(at, "r\"") || starts(at, "r#")) {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if chars.get(at + 1 + hashes) == Some(&'"') {
                let closing = format!("\"{}", "#".repeat(hashes));
                let body = at + hashes + 2;
                (body..chars.len())
                    .find(|i| starts(*i, &closing))
                    .map_or(chars.len(), |i| i + 1 + hashes)
            } else {
                at
            }
        } else if chars[at] == '"' {
            closing_quote(&chars, at + 1, '"')
        } else if chars[at] == '\'' && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\''))
        {
            closing_quote(&chars, at + 1, '\'')
        } else {
            at
        };
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The position after the next `quote` that is not escaped.
fn closing_quote(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `code` with every item under `#[cfg(test)]` blanked, and the names of the files that hold such modules.
///
/// Formatted source is assumed, which the format check guarantees: a block ends at a brace indented like its beginning.
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut kept = Vec::new();
    let mut test_files = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        kept.push(line);
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = [format!("{indent}}}"), format!("{indent}}};")];
        for (index, line) in lines.by_ref().enumerate() {
            kept.push("");
            let words: Vec<&str> = line.trim().trim_start_matches("pub ").split([' ', ';']).collect();
            if let (0, ["mod", name, ..]) = (index, words.as_slice())
                && line.ends_with(';')
            {
                test_files.push(name.to_string());
            }
            let is_attribute = line.trim_start().starts_with("#[");
            if ends.iter().any(|end| line == end)
                || (line.starts_with(indent) && line.ends_with(';') && !is_attribute && index == 0)
            {
                break;
            }
        }
    }
    (kept.join("\n"), test_files)
}

/// The names after `crate::` in `code`, and after as many `super::` as lead out of the module, with their lines.
pub fn roots(code: &str, depth: usize) -> Vec<(String, usize)> {
    let supers = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", supers.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let is_longer =
                code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
            if is_longer {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            names(&code[at + prefix.len()..])
                .into_iter()
                .for_each(|name| found.push((name, line)));
        }
    }
    found
}

/// The first name of a path, or of every path in a group such as `{a::b, c}`.
fn names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(group) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let mut names = vec![name(group)];
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The folder in which the submodules of `path` lie.
pub fn folder_of_submodules(path: &Path) -> PathBuf {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => path.parent().map(Path::to_path_buf).unwrap_or_default(),
        _ => path.with_extension(""),
    }
}

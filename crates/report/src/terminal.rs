//! The summary for a person: the verdict, the worst finding in full, the rest in a line each; on a terminal at most 24 lines
//! of 80, in a log everything in full.
//!
//! Held true: the part that the worst finding accuses is always named, by the name that it has on the page, whatever else has to be cut.
//! Colour is decoration: every fact is also in the words. `NO_COLOR` in the environment wins over everything.

use std::path::Path;

use super::escape;
use super::links;
use crate::verdict_words::verdict_words;
use record::{Finding, History, Judgement, Verdict, files};

/// What the summary is written on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    color: bool,
    lines: usize,
    columns: usize,
    /// Most tests that are listed.
    tests: usize,
}

/// How much is said of the worst finding: most lines of its sentence, its rule and its next step, and whether the command that
/// repeats it is said.
#[derive(Debug, Clone, Copy)]
struct Detail {
    sentence: usize,
    rule: usize,
    next: usize,
    repeat: bool,
}

/// Everything, then less and less, until it fits.
const DETAILS: [Detail; 4] = [
    Detail::of(5, 3, 3, true),
    Detail::of(4, 2, 2, true),
    Detail::of(3, 1, 2, false),
    Detail::of(1, 0, 1, false),
];

impl Detail {
    const fn of(sentence: usize, rule: usize, next: usize, repeat: bool) -> Detail {
        Detail {
            sentence,
            rule,
            next,
            repeat,
        }
    }
}

/// Issues of the last nights that a terminal has room for.
const MOST_ISSUES: usize = 3;
/// The longest path or name that is not cut, in columns: two lines of a terminal.
const LONGEST_NAME: usize = 140;

impl Page {
    /// The smallest terminal it must fit, with or without colour. `NO_COLOR` in the environment wins.
    pub fn terminal(color: bool) -> Page {
        let color = color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Page {
            color,
            lines: 24,
            columns: 80,
            tests: 5,
        }
    }

    /// A log: nothing is cut, nothing is coloured.
    pub fn log() -> Page {
        Page {
            color: false,
            lines: usize::MAX,
            columns: usize::MAX,
            tests: usize::MAX,
        }
    }

    /// The most lines there is room for.
    pub(super) fn most_lines(&self) -> usize {
        self.lines
    }

    /// Whether nothing has to be cut.
    pub(super) fn is_log(&self) -> bool {
        self.columns == usize::MAX
    }

    fn with(&self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }

    pub(super) fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn verdict(&self, verdict: &Verdict, text: &str) -> String {
        let code = match verdict {
            Verdict::Pass => "1;32",
            Verdict::Fail(_) => "1;31",
            Verdict::Inconclusive(_) | Verdict::NotRun(_) => "1;33",
        };
        self.with(code, text)
    }

    /// Inert text cut to one line.
    pub(super) fn clip(&self, text: &str) -> String {
        match text.char_indices().nth(self.columns) {
            None => text.to_string(),
            Some(_) => text.chars().take(self.columns - 3).chain("...".chars()).collect(),
        }
    }

    /// Inert text, cut where it is longer than any name should be.
    fn start_of(&self, text: &str) -> String {
        match self.is_log() || text.chars().count() <= LONGEST_NAME {
            true => text.to_string(),
            false => text.chars().take(LONGEST_NAME).chain("...".chars()).collect(),
        }
    }

    /// The same from its end, where paths differ.
    fn end_of(&self, text: &str) -> String {
        let length = text.chars().count();
        match self.is_log() || length <= LONGEST_NAME {
            true => text.to_string(),
            false => "..."
                .chars()
                .chain(text.chars().skip(length - LONGEST_NAME))
                .collect(),
        }
    }

    /// Breaks text at spaces into at most `most` lines behind a label; what does not fit is cut.
    pub(super) fn wrap(&self, label: &str, text: &str, most: usize) -> Vec<String> {
        let indent = " ".repeat(label.len().max(2));
        let mut lines = vec![label.to_string()];
        let text = escape::line(text);
        for word in text.split(' ') {
            let is_full = lines.len() == most;
            let Some(line) = lines.last_mut() else { break };
            if line.chars().count() + 1 + word.chars().count() <= self.columns {
                if !line.is_empty() && !line.ends_with(' ') {
                    line.push(' ');
                }
                line.push_str(word);
            } else if is_full {
                *line = line
                    .chars()
                    .take(self.columns - 4)
                    .chain(" ...".chars())
                    .collect();
                break;
            } else {
                lines.push(format!("{indent}{word}"));
            }
        }
        lines.iter().map(|line| self.clip(line)).collect()
    }

    /// How many lines of the terminal these take; only the long ones (commands, paths) run over.
    pub(super) fn height(&self, lines: &[String]) -> usize {
        let columns = |line: &String| {
            let escapes: usize = line
                .split('\u{1b}')
                .skip(1)
                .map(|part| 1 + part.find('m').map_or(0, |at| at + 1))
                .sum();
            line.chars().count().saturating_sub(escapes)
        };
        lines
            .iter()
            .map(|line| columns(line).div_ceil(self.columns).max(1))
            .sum()
    }
}

/// The summary of a judged run. `folder` is where the files are.
pub fn summary(judgement: &Judgement, folder: &Path, page: Page) -> String {
    summary_with_history(judgement, None, folder, page)
}

/// The same, with what changed since the last nights.
pub fn summary_with_history(
    judgement: &Judgement,
    history: Option<&History>,
    folder: &Path,
    page: Page,
) -> String {
    let head = head(judgement, &page);
    // The worst finding goes before the list of tests, which is shortened first.
    let fewer = [page.tests, 2, 0]
        .into_iter()
        .filter(|tests| *tests <= page.tests);
    let layouts = DETAILS
        .into_iter()
        .flat_map(|detail| fewer.clone().map(move |tests| (tests, detail)));
    let mut layouts = layouts.peekable();
    while let Some((tests, detail)) = layouts.next() {
        let page = Page { tests, ..page };
        let tail = [history_lines(history, &page), tail(judgement, folder, &page)].concat();
        let room = page.lines.saturating_sub(page.height(&head) + page.height(&tail));
        let is_last = layouts.peek().is_none();
        if let Some(findings) = findings(judgement, &page, detail, room, is_last) {
            return [head, findings, tail].concat().join("\n") + "\n";
        }
    }
    head.join("\n") + "\n"
}

/// The verdict, and what was done to the run on purpose.
fn head(judgement: &Judgement, page: &Page) -> Vec<String> {
    let mut head = vec![headline(judgement, page)];
    if !judgement.injected.is_empty() {
        let faults: Vec<String> = judgement
            .injected
            .iter()
            .map(|fault| escape::line(fault))
            .collect();
        head.push(page.clip(&format!(
            "negative control, injected on purpose: {}",
            faults.join("; ")
        )));
    }
    head
}

/// What changed since earlier runs: a sentence, and on a terminal the first few issues.
fn history_lines(history: Option<&History>, page: &Page) -> Vec<String> {
    let Some(history) = history else { return Vec::new() };
    let mut lines = page.wrap("history    ", &history.summary, 2);
    let issues = super::history::lines(history);
    let most = if page.is_log() {
        super::history::MOST_ISSUES
    } else {
        MOST_ISSUES
    };
    lines.extend(
        issues
            .iter()
            .take(most)
            .map(|line| page.clip(&format!("  {line}"))),
    );
    match issues.len().saturating_sub(most) {
        0 => {}
        more => lines.push(format!("  ... {more} more in {}", files::MARKDOWN)),
    }
    lines
}

/// What comes after the findings.
fn tail(judgement: &Judgement, folder: &Path, page: &Page) -> Vec<String> {
    let mut tail = tests(judgement, page);
    let engines = super::engines::lines(judgement, page.is_log());
    tail.extend(engines.iter().map(|line| page.clip(line)));
    tail.extend(
        super::ecmp::summary(judgement).map_or_else(Vec::new, |text| page.wrap("ecmp       ", &text, 2)),
    );
    tail.extend(super::congestion::summary(judgement).map(|line| page.clip(&line)));
    tail.extend(super::congestion::summary_under_load(judgement).map(|line| page.clip(&line)));
    tail.extend(super::congestion::summary_of_shares(judgement).map(|line| page.clip(&line)));
    tail.extend(
        super::traffic::summary(judgement).map_or_else(Vec::new, |text| page.wrap("traffic    ", &text, 3)),
    );
    tail.extend(super::probes::summary(judgement).map(|line| page.clip(&line)));
    tail.extend(super::gpus::summary(judgement).map(|line| page.clip(&line)));
    tail.extend(super::rdma::summary(judgement).map(|line| page.clip(&line)));
    tail.extend(super::inventory::summary(judgement).map(|line| page.clip(&line)));
    tail.push(page.clip(&coverage(judgement)));
    let picture = (!judgement.ecmp.is_empty()).then(|| format!(", {}", files::ECMP));
    tail.push(format!(
        "files      {}/{{{}, {}, {}, {}{}}}",
        page.end_of(&escape::line(&folder.display().to_string())),
        files::HTML,
        files::MARKDOWN,
        files::FINDINGS,
        files::BANDWIDTH,
        picture.unwrap_or_default()
    ));
    tail
}

/// The findings in so many lines, the worst with so much detail; none when not even the worst fits, unless it `must`.
fn findings(
    judgement: &Judgement,
    page: &Page,
    detail: Detail,
    room: usize,
    must: bool,
) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for (listed, finding) in judgement.findings.iter().enumerate() {
        let left = judgement.findings.len() - listed;
        let more = match listed == 0 || page.is_log() {
            true => in_full(finding, page, detail),
            false => vec![in_one_line(finding, page)],
        };
        let fits = page.height(&lines) + page.height(&more) + usize::from(left > 1) <= room;
        if !fits && listed == 0 && !must {
            return None;
        }
        if !fits && listed > 0 {
            lines.push(format!("... {left} more in {}", files::MARKDOWN));
            break;
        }
        lines.extend(more);
    }
    Some(lines)
}

fn headline(judgement: &Judgement, page: &Page) -> String {
    let (word, why) = verdict_words(&judgement.verdict);
    let count = judgement.findings.len();
    let what = match (count, why) {
        (0, Some(why)) => escape::line(why),
        (0, None) => format!("{} cells measured, all as expected", judgement.coverage.measured),
        (1, _) => "1 finding".to_string(),
        (n, _) => format!("{n} findings"),
    };
    let suite = escape::line(&judgement.suite);
    let text = page.clip(&format!(
        "{:<13}{suite}: {what} (exit code {})",
        word.to_uppercase(),
        judgement.exit_code
    ));
    match text.split_once(' ') {
        Some((word, rest)) => format!("{} {rest}", page.verdict(&judgement.verdict, word)),
        None => text,
    }
}

fn in_full(finding: &Finding, page: &Page, detail: Detail) -> Vec<String> {
    let mut lines = page.wrap(
        "",
        &format!("{}: {}", finding.kind, finding.sentence),
        detail.sentence,
    );
    if let Some(first) = lines.first_mut() {
        *first = page.bold(first);
    }
    // Neither it nor the command is wrapped: they are meant to be copied.
    let part = escape::line(&finding.part());
    lines.push(format!("  part     {}", page.start_of(&part)));
    if detail.rule > 0 {
        lines.extend(page.wrap("  rule     ", &finding.rule, detail.rule));
    }
    lines.extend(page.wrap("  next     ", &finding.next_step, detail.next));
    let repeat = finding.repeat.iter().filter(|_| detail.repeat);
    lines.extend(repeat.map(|repeat| format!("  repeat   {}", escape::line(repeat))));
    lines
}

/// One line that names the part, too: before the sentence where the sentence does not get to it.
fn in_one_line(finding: &Finding, page: &Page) -> String {
    let (kind, sentence) = (finding.kind, escape::line(&finding.sentence));
    let part = escape::line(&finding.part());
    let text = page.clip(&format!("{kind}: {sentence}"));
    match text.contains(&part) {
        true => page.bold(&text),
        false => page.bold(&page.clip(&format!("{kind}: {part}: {sentence}"))),
    }
}

fn tests(judgement: &Judgement, page: &Page) -> Vec<String> {
    let mut lines = Vec::new();
    // Those that did not pass come first, so that a cut list loses the least.
    let mut tests: Vec<_> = judgement.tests.iter().collect();
    tests.sort_by_key(|test| test.verdict == Verdict::Pass);
    for test in tests.iter().take(page.tests) {
        let (word, why) = verdict_words(&test.verdict);
        let name = escape::line(&test.name);
        let why = why.map(escape::line).unwrap_or_default();
        let text = page.clip(&format!(
            "{word:<13} {name:<16} {:>4} of {:<4} cells  {why}",
            test.measured, test.planned
        ));
        let (word, rest) = text.split_at(word.len());
        lines.push(format!(
            "{}{}",
            page.verdict(&test.verdict, word),
            rest.trim_end()
        ));
    }
    if tests.len() > page.tests {
        lines.push(format!(
            "... {} more tests in {}",
            tests.len() - page.tests,
            files::MARKDOWN
        ));
    }
    lines
}

fn coverage(judgement: &Judgement) -> String {
    let coverage = &judgement.coverage;
    let untested = match coverage.untested.as_slice() {
        [] => "nothing left out".to_string(),
        [first, ..] => {
            format!(
                "{} left out, first: {} ({})",
                coverage.untested.len(),
                escape::line(&first.what),
                escape::line(&first.why)
            )
        }
    };
    let links = links::in_one_line(coverage).map_or_else(String::new, |links| format!("; {links}"));
    format!(
        "coverage   {} of {} cells measured{links}; {untested}",
        coverage.measured, coverage.planned
    )
}

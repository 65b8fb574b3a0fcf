//! `report.html`: the whole judgement on one page that needs nothing but a browser.
//!
//! Held true: nothing is loaded and nothing can leave the page; every fact is there without the script, which only sorts,
//! filters and shows tips; whatever fails has its own words on the page however large the run is, and only what passed is
//! summed up; every text from a run is written by [`HtmlBuilder`], which escapes it.

mod builder;
mod cells;
mod clocks;
mod ecmp;
mod facts;
mod findings;
mod gpus;
mod links;
mod method;
mod nodes;
mod overview;
mod short_sections;
mod style;

use std::io;

use crate::verdict_words::verdict_words;
use crate::writer::Writer;
pub(super) use builder::HtmlBuilder;
use facts::Facts;
pub(super) use overview::class_of_verdict;
use record::{Judgement, Recorded, files};

/// The report as one page for a browser.
pub(super) struct Html;

impl Writer for Html {
    fn file(&self) -> &'static str {
        files::HTML
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let facts = Facts::of(recorded, judgement)?;
        Ok(framed(&title(judgement), |out| body(out, &facts)))
    }
}

/// A section of the page.
struct Section {
    /// What links point to.
    id: &'static str,
    /// Its heading.
    title: &'static str,
    /// Whether this run has it.
    is_wanted: fn(&Facts<'_>) -> bool,
    write: fn(&mut HtmlBuilder, &Facts<'_>),
}

fn always(_: &Facts<'_>) -> bool {
    true
}

/// What fills the first screen: the verdict, and what to do about the worst of it.
const FIRST: &[Section] = &[
    Section {
        id: "verdict",
        title: "Verdict",
        is_wanted: always,
        write: overview::verdict,
    },
    Section {
        id: "worst",
        title: "What to look at first",
        is_wanted: always,
        write: overview::worst,
    },
];

/// Everything else, in the order of the page. A new section is a function and a line in this list.
const SECTIONS: &[Section] = &[
    Section {
        id: "findings",
        title: "Findings",
        is_wanted: always,
        write: findings::section,
    },
    Section {
        id: "history",
        title: crate::history::TITLE,
        is_wanted: short_sections::has_history,
        write: short_sections::history,
    },
    Section {
        id: "tests",
        title: "Tests",
        is_wanted: always,
        write: short_sections::tests,
    },
    Section {
        id: "figures",
        title: "Figures",
        is_wanted: always,
        write: short_sections::figures,
    },
    Section {
        id: "ecmp",
        title: "Load on equal-cost paths (ECMP)",
        is_wanted: always,
        write: ecmp::section,
    },
    Section {
        id: "probes",
        title: "Probes",
        is_wanted: short_sections::has_probes,
        write: short_sections::probes,
    },
    Section {
        id: "links",
        title: "Links",
        is_wanted: always,
        write: links::section,
    },
    Section {
        id: "comparisons",
        title: "Comparisons",
        is_wanted: always,
        write: short_sections::comparisons,
    },
    Section {
        id: "nodes",
        title: "Nodes and firmware",
        is_wanted: always,
        write: nodes::section,
    },
    Section {
        id: "counters",
        title: "Port counters that changed",
        is_wanted: always,
        write: short_sections::counters,
    },
    Section {
        id: "gpus",
        title: "GPUs",
        is_wanted: always,
        write: gpus::section,
    },
    Section {
        id: "cells",
        title: "Cells",
        is_wanted: always,
        write: cells::section,
    },
    Section {
        id: "coverage",
        title: "Coverage",
        is_wanted: always,
        write: short_sections::coverage,
    },
    Section {
        id: "method",
        title: "Method",
        is_wanted: always,
        write: method::section,
    },
];

/// A whole page in our style, with this title and whatever `body` writes. It may load nothing and run no script but ours.
pub(super) fn framed(title: &str, body: impl FnOnce(&mut HtmlBuilder)) -> String {
    let mut out = HtmlBuilder::new();
    out.fixed("<!doctype html>\n");
    out.within("html", &[("lang", "en")], |out| {
        out.within("head", &[], |out| head(out, title));
        out.fixed("\n");
        out.within("body", &[], body);
    });
    out.fixed("\n");
    out.finish()
}

/// `smoke: FAIL`.
fn title(judgement: &Judgement) -> String {
    format!(
        "{}: {}",
        judgement.suite,
        verdict_words(&judgement.verdict).0.to_uppercase()
    )
}

fn head(out: &mut HtmlBuilder, title: &str) {
    out.alone("meta", &[("charset", "utf-8")]);
    let policy = style::policy();
    let policy = [
        ("http-equiv", "Content-Security-Policy"),
        ("content", policy.as_str()),
    ];
    out.alone("meta", &policy);
    let viewport = [
        ("name", "viewport"),
        ("content", "width=device-width, initial-scale=1"),
    ];
    out.alone("meta", &viewport);
    out.alone("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    out.leaf("title", &[], title);
    style::style(out);
}

fn body(out: &mut HtmlBuilder, facts: &Facts<'_>) {
    out.leaf(
        "a",
        &[("class", "skip"), ("href", "#verdict")],
        "Skip to the verdict",
    );
    out.within("header", &[], |out| {
        out.leaf("h1", &[], &title(facts.judgement));
        out.leaf("p", &[("class", "when")], &overview::when(facts));
        out.within("nav", &[("aria-label", "Sections")], |out| {
            out.within("ul", &[], |out| {
                for section in FIRST
                    .iter()
                    .chain(SECTIONS)
                    .filter(|section| (section.is_wanted)(facts))
                {
                    let target = format!("#{}", section.id);
                    out.within("li", &[], |out| {
                        out.leaf("a", &[("href", &target)], section.title);
                    });
                }
            });
        });
    });
    out.within("main", &[], |out| {
        FIRST.iter().for_each(|section| written(out, section, facts));
        tools(out);
        SECTIONS.iter().for_each(|section| written(out, section, facts));
    });
    out.within("footer", &[], |out| {
        let made = format!("Judged by railgauge {}.", facts.judgement.version);
        out.leaf("p", &[("class", "hint")], &made);
    });
    style::script(out);
}

fn written(out: &mut HtmlBuilder, section: &Section, facts: &Facts<'_>) {
    if !(section.is_wanted)(facts) {
        return;
    }
    let heading = format!("{}-heading", section.id);
    let attributes = [("id", section.id), ("aria-labelledby", heading.as_str())];
    out.within("section", &attributes, |out| {
        out.leaf("h2", &[("id", &heading)], section.title);
        (section.write)(out, facts);
    });
    out.fixed("\n");
}

/// What needs the script stays hidden until the script shows it.
fn tools(out: &mut HtmlBuilder) {
    let hidden = [("id", "tools"), ("role", "search"), ("hidden", "")];
    out.within("div", &hidden, |out| {
        out.leaf("label", &[("for", "filter")], "Rows of all tables with");
        let filter = [
            ("id", "filter"),
            ("type", "search"),
            ("autocomplete", "off"),
            ("spellcheck", "false"),
        ];
        out.alone("input", &filter);
        let filtered = [("id", "filtered"), ("for", "filter"), ("aria-live", "polite")];
        out.leaf("output", &filtered, "");
    });
}

#[cfg(test)]
pub(super) mod parser_tests;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod section_tests;
#[cfg(test)]
mod tests;

//! `report.html`: the whole judgement on one page that needs nothing but a browser.
//!
//! Held true: nothing is loaded and nothing can leave the page; every fact is there without the script, which only sorts,
//! filters and shows tips; whatever fails has its own words on the page however large the run is, and only what passed is
//! summed up; every text from a run is written by [`out::Out`], which escapes it.

mod cells;
mod comparisons;
mod ecmp;
mod figures;
mod findings;
mod first;
mod gpus;
mod links;
mod method;
mod nights;
mod nodes;
mod out;
mod style;
mod tables;

use std::collections::HashMap;
use std::io;

use super::Writer;
use super::figure::Figure;
use super::terminal::words;
pub(super) use figures::one as figure;
pub(super) use first::class_of_verdict;
pub(super) use out::Out;
use record::{Judgement, Recorded, files};

/// The report as one page for a browser.
pub(super) struct Html;

impl Writer for Html {
    fn file(&self) -> &'static str {
        files::HTML
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let facts = Facts {
            recorded,
            judgement,
            figures: super::figures::all(recorded, judgement)?,
            hosts: recorded
                .run
                .ranks
                .iter()
                .map(|rank| (rank.rank, rank.host.as_str()))
                .collect(),
        };
        Ok(framed(&title(judgement), |out| body(out, &facts)))
    }
}

/// What the page is written from.
struct Facts<'a> {
    recorded: &'a Recorded,
    judgement: &'a Judgement,
    figures: Vec<Figure>,
    /// The host of every rank.
    hosts: HashMap<u32, &'a str>,
}

impl Facts<'_> {
    /// The host of a rank, or its number where nobody knows.
    fn host(&self, rank: u32) -> String {
        self.hosts
            .get(&rank)
            .map_or_else(|| format!("rank {rank}"), |host| host.to_string())
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
    write: fn(&mut Out, &Facts<'_>),
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
        write: first::verdict,
    },
    Section {
        id: "worst",
        title: "What to look at first",
        is_wanted: always,
        write: first::worst,
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
        title: super::history::TITLE,
        is_wanted: nights::is_wanted,
        write: nights::section,
    },
    Section {
        id: "tests",
        title: "Tests",
        is_wanted: always,
        write: tables::tests,
    },
    Section {
        id: "figures",
        title: "Figures",
        is_wanted: always,
        write: figures::section,
    },
    Section {
        id: "ecmp",
        title: "Spread over equal paths",
        is_wanted: always,
        write: ecmp::section,
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
        write: comparisons::section,
    },
    Section {
        id: "nodes",
        title: "Nodes and firmware",
        is_wanted: always,
        write: nodes::section,
    },
    Section {
        id: "counters",
        title: "Counters that moved",
        is_wanted: always,
        write: tables::counters,
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
        write: tables::coverage,
    },
    Section {
        id: "method",
        title: "Method",
        is_wanted: always,
        write: method::section,
    },
];

/// A whole page in our style, with this title and whatever `body` writes. It may load nothing and run no script but ours.
pub(super) fn framed(title: &str, body: impl FnOnce(&mut Out)) -> String {
    let mut out = Out::new();
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
        words(&judgement.verdict).0.to_uppercase()
    )
}

fn head(out: &mut Out, title: &str) {
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

fn body(out: &mut Out, facts: &Facts<'_>) {
    out.leaf(
        "a",
        &[("class", "skip"), ("href", "#verdict")],
        "Skip to the verdict",
    );
    out.within("header", &[], |out| {
        out.leaf("h1", &[], &title(facts.judgement));
        out.leaf("p", &[("class", "when")], &first::when(facts));
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

fn written(out: &mut Out, section: &Section, facts: &Facts<'_>) {
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
fn tools(out: &mut Out) {
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

/// A count and what it counts: `1 link`, `3 links`.
fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod proofs;
#[cfg(test)]
pub(super) mod reading;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod section_tests;

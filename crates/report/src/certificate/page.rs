//! The certificate as one page, made to be printed: the decision in large letters, then what it rests on.

use super::tables;
use crate::figure::Figure;
use crate::html::{self, HtmlBuilder};
use record::text::counted;
use record::{Certificate, Incident, PartDecision, Ruling};

/// The page.
pub(super) fn html(certificate: &Certificate, figures: &[Figure]) -> String {
    let decision = tables::word(certificate.ruling).to_uppercase();
    let title = format!("Burn-in {}: {decision}", certificate.suite);
    html::framed(&title, |out| {
        out.within("header", &[], |out| out.leaf("p", &[("class", "when")], &title));
        out.within("main", &[], |out| {
            section(out, "verdict", None, |out| {
                let class = html::class_of_verdict(tables::tone(certificate.ruling));
                out.leaf("h1", &[("class", class)], &decision);
                out.paragraph(&certificate.summary);
                out.within("dl", &[], |out| {
                    for (name, value) in tables::facts(certificate) {
                        out.leaf("dt", &[], name);
                        out.leaf("dd", &[], &value);
                    }
                });
                out.table(&tables::counts(certificate));
            });
            incidents(out, certificate);
            courses(out, figures);
            parts(out, certificate);
            section(out, "criteria", Some("Criteria"), |out| {
                out.table(&tables::criteria(&certificate.criteria))
            });
            section(
                out,
                "coverage",
                Some("Not loaded or measured"),
                |out| match certificate.untested.is_empty() {
                    true => out.paragraph("Everything was loaded and measured."),
                    false => out.table(&tables::untested(certificate)),
                },
            );
        });
        out.within("footer", &[], |out| {
            let made = format!("Decided by railgauge {}.", certificate.version);
            out.leaf("p", &[("class", "hint")], &made);
        });
    })
}

fn section(out: &mut HtmlBuilder, id: &str, title: Option<&str>, inner: impl FnOnce(&mut HtmlBuilder)) {
    out.within("section", &[("id", id)], |out| {
        if let Some(title) = title {
            out.leaf("h2", &[], title);
        }
        inner(out);
    });
    out.fixed("\n");
}

fn incidents(out: &mut HtmlBuilder, certificate: &Certificate) {
    section(out, "incidents", Some("Incidents"), |out| {
        if certificate.incidents.is_empty() {
            out.paragraph("None.");
        }
        certificate.incidents.iter().for_each(|one| incident(out, one));
    });
}

fn incident(out: &mut HtmlBuilder, incident: &Incident) {
    let class = if incident.counts {
        "finding"
    } else {
        "finding unclear"
    };
    out.within("article", &[("class", class)], |out| {
        out.within("h3", &[], |out| {
            out.leaf("span", &[("class", "kind")], &incident.kind.to_string());
            out.text(": ");
            out.text(&incident.part);
        });
        out.paragraph(&incident.sentence);
        out.within("dl", &[], |out| {
            let still = if incident.is_still_there {
                "present at the end"
            } else {
                "gone at the end"
            };
            let counts = if incident.counts { "counted" } else { "not counted" };
            let seen = format!(
                "{} of {}, first {}, last {}; {still}; {counts}",
                counted(incident.cycles.len(), "cycle"),
                incident.of_cycles,
                moment(&incident.first),
                moment(&incident.last)
            );
            entry(out, "seen in", &seen);
            entry(out, "next step", &incident.next_step);
        });
        if !incident.evidence.is_empty() {
            out.details("Evidence", |out| {
                out.list(incident.evidence.iter().map(String::as_str))
            });
        }
        if let Some(repeat) = &incident.repeat {
            out.command(repeat);
        }
    });
    out.fixed("\n");
}

fn entry(out: &mut HtmlBuilder, name: &str, value: &str) {
    out.leaf("dt", &[], name);
    out.leaf("dd", &[], value);
}

/// `cycle 12 at 2026-11-03T04:12:00Z (12m under load)`.
fn moment(moment: &record::Moment) -> String {
    format!(
        "cycle {} at {} ({} under load)",
        moment.cycle,
        moment.at,
        moment.load_ns.in_words()
    )
}

fn courses(out: &mut HtmlBuilder, figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    section(out, "courses", Some("How rejected parts changed"), |out| {
        figures.iter().for_each(|figure| out.figure(figure));
    });
}

/// Parts that need action are shown, accepted ones are folded.
fn parts(out: &mut HtmlBuilder, certificate: &Certificate) {
    for (id, title, parts) in [
        ("nodes", "Nodes", &certificate.nodes),
        ("links", "Links", &certificate.links),
        ("gpus", "GPUs", &certificate.gpus),
    ] {
        if parts.is_empty() {
            continue;
        }
        section(out, id, Some(title), |out| {
            let is_accepted = |part: &PartDecision| part.ruling == Ruling::Accept;
            let open = tables::parts("Rejected or to be extended", parts, |part| !is_accepted(part));
            out.table(&open);
            let accepted = parts.iter().filter(|part| is_accepted(part)).count();
            if accepted > 0 {
                out.details(&format!("{accepted} accepted"), |out| {
                    out.table(&tables::parts("Accepted", parts, is_accepted));
                });
            }
        });
    }
}

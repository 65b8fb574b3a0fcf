//! A fleet as one page for a browser: no script, nothing from elsewhere, light and dark, and it prints.

use std::fmt::Write;

use super::{Fleet, FleetRun};
use crate::record::Verdict;
use crate::report::escape::markup;

/// The look of the page. Every colour has a contrast of 4.5 or more on its ground; every fact is also in words.
const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1a1a1a;--dim:#595959;--line:#c8c8c8;--good:#0b6b2e;--bad:#b00020;--open:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ground:#16181b;--ink:#e8e8e8;--dim:#a8a8a8;--line:#44484d;--good:#6fd08c;--bad:#ff8a8a;--open:#f0b95a}}
body{background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.15rem;margin:1.5rem 0 .5rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid var(--line);overflow-wrap:break-word}
th{color:var(--dim);font-weight:600;white-space:nowrap}td.number,th.number{text-align:right;white-space:nowrap}td.when{white-space:nowrap}
.pass{color:var(--good)}.fail{color:var(--bad)}.open{color:var(--open)}.pass,.fail,.open{font-weight:700;white-space:nowrap}
footer{color:var(--dim);margin-top:2rem;font-size:.9rem}
@media print{body{max-width:none;font-size:11px}.wide{overflow:visible}tr{break-inside:avoid}}
";

/// The page.
pub fn html(fleet: &Fleet) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    _ = write(&mut out, fleet);
    out
}

fn write(out: &mut String, fleet: &Fleet) -> std::fmt::Result {
    let class = class(Some(&fleet.verdict()));
    let summary = markup(&fleet.summary);
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>railgauge fleet: {summary}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>"
    )?;
    writeln!(
        out,
        "<section id=\"verdict\">\n<h1 class=\"{class}\" style=\"white-space:normal\">{summary}</h1>\n\
         <p>Exit code {}.</p>\n</section>",
        fleet.exit_code
    )?;
    repeated(out, fleet)?;
    writeln!(
        out,
        "<section id=\"runs\">\n<h2>Runs</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">started</th>\
         <th scope=\"col\">run</th><th scope=\"col\">suite</th><th scope=\"col\">verdict</th><th scope=\"col\">worst part</th>\
         <th scope=\"col\" class=\"number\">findings</th><th scope=\"col\" class=\"number\">measured</th></tr></thead>\n<tbody>"
    )?;
    for run in &fleet.runs {
        row(out, run)?;
    }
    writeln!(
        out,
        "</tbody></table></div>\n</section>\n</main>\n<footer>Judged by railgauge {}.</footer>\n</body>\n</html>",
        markup(&fleet.version)
    )
}

fn repeated(out: &mut String, fleet: &Fleet) -> std::fmt::Result {
    if fleet.repeated.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section id=\"repeated\">\n<h2>Parts that fail in more than one run</h2>\n<div class=\"wide\"><table>\n<thead><tr>\
         <th scope=\"col\">part</th><th scope=\"col\">trouble</th><th scope=\"col\" class=\"number\">runs</th>\
         <th scope=\"col\">which</th></tr></thead>\n<tbody>"
    )?;
    for part in &fleet.repeated {
        let runs: Vec<String> = part.runs.iter().map(|run| markup(run)).collect();
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"number\">{} of {}</td><td>{}</td></tr>",
            markup(&part.part),
            markup(&part.kinds.join(", ")),
            part.runs.len(),
            fleet.runs.len(),
            runs.join(", ")
        )?;
    }
    writeln!(out, "</tbody></table></div>\n</section>")
}

/// The class that a verdict is coloured by.
fn class(verdict: Option<&Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Pass) => "pass",
        Some(Verdict::Fail(_)) => "fail",
        _ => "open",
    }
}

fn row(out: &mut String, run: &FleetRun) -> std::fmt::Result {
    let class = class(run.verdict.as_ref());
    let sentence = run.worst.as_ref().map_or_else(String::new, |worst| {
        format!("<br><small>{}</small>", markup(&worst.sentence))
    });
    let control = if run.negative_control {
        " (negative control)"
    } else {
        ""
    };
    writeln!(
        out,
        "<tr><td class=\"when\">{}</td><td>{}</td><td>{}</td><td><span class=\"{class}\">{}</span>{control}</td><td>{}{sentence}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{} of {}</td></tr>",
        markup(run.started.as_deref().unwrap_or("-")),
        markup(&run.name),
        markup(run.suite.as_deref().unwrap_or("-")),
        run.word(),
        markup(&run.said()),
        run.findings,
        run.measured,
        run.planned
    )
}

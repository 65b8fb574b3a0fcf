//! A fleet as one page for a browser: it looks like the page of a run, and has no script.

use super::{Fleet, tables};
use crate::html;
use crate::table::Tone;

/// The page.
pub fn html(fleet: &Fleet) -> String {
    let title = format!("railgauge fleet: {}", fleet.summary);
    html::framed(&title, |out| {
        out.within("main", &[], |out| {
            out.within("section", &[("id", "verdict")], |out| {
                let class = html::class_of_verdict(Tone::of(&fleet.verdict()));
                out.leaf("h1", &[("class", class)], &fleet.summary);
                out.paragraph(&format!("Exit code {}.", fleet.exit_code));
            });
            for (id, title, table) in [
                ("repeated", "What fails again", tables::repeated(fleet)),
                ("runs", "Runs", tables::runs(fleet)),
            ] {
                if !table.rows.is_empty() {
                    out.within("section", &[("id", id)], |out| {
                        out.leaf("h2", &[], title);
                        out.table(&table);
                    });
                }
            }
        });
        out.within("footer", &[], |out| {
            let made = format!("Judged by railgauge {}.", fleet.version);
            out.leaf("p", &[("class", "hint")], &made);
        });
    })
}

//! How well known faults are found: who was accused, who should have been.

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::simulation::Outcome;
use record::{Finding, FindingKind, Suspect};
use topology::graph::{Graph, LinkId};

/// One simulated run.
#[derive(Debug, Clone, Serialize)]
pub struct Tally {
    /// Its seed.
    pub seed: u64,
    /// Links that were slow, and what was left of them.
    pub slow: Vec<(String, f64)>,
    /// Those that were found.
    pub found: Vec<String>,
    /// Those that were not.
    pub missed: Vec<String>,
    /// Parts that were accused and were fine.
    pub wrong: Vec<String>,
    /// Cells measured.
    pub cells: usize,
    /// Slots they took, one after another.
    pub slots: usize,
    /// Steps of narrowing down.
    pub steps: usize,
    /// Seconds that judging the whole record took.
    pub judging_s: f64,
}

/// Several simulated runs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Power {
    /// Of those that were accused, the share that was slow; none when nobody was.
    pub precision: Option<f64>,
    /// Of those that were slow, the share that was found; none when nothing was.
    pub recall: Option<f64>,
    /// Every run.
    pub runs: Vec<Tally>,
}

impl Tally {
    /// Compares who was accused in a run with who was slow.
    pub fn of(outcome: &Outcome, graph: &Graph, slow: &[(LinkId, f64)], seed: u64) -> Tally {
        let findings = &outcome.judgement.findings;
        let accused: Vec<Accused> = findings
            .iter()
            .filter(|finding| finding.kind.exit_code() == FindingKind::SlowLink.exit_code())
            .map(|finding| Accused::of(finding, graph))
            .collect();
        let is_accused = |link: LinkId| accused.iter().any(|accused| accused.links.contains(&link));
        let is_slow = |link: &LinkId| slow.iter().any(|(other, _)| other == link);
        let name = |link: LinkId| graph.name(link);
        let (found, missed): (Vec<LinkId>, Vec<LinkId>) = slow
            .iter()
            .map(|(link, _)| *link)
            .partition(|link| is_accused(*link));
        let mut wrong = Vec::new();
        for accused in &accused {
            match accused.links.as_slice() {
                [] => wrong.push(accused.part.clone()),
                links => wrong.extend(links.iter().filter(|link| !is_slow(link)).map(|link| name(*link))),
            }
        }
        Tally {
            seed,
            slow: slow.iter().map(|(link, share)| (name(*link), *share)).collect(),
            found: found.into_iter().map(name).collect(),
            missed: missed.into_iter().map(name).collect(),
            wrong,
            cells: outcome.recorded.run.cells.len(),
            slots: outcome.slots,
            steps: outcome.steps,
            judging_s: outcome.judging.as_secs_f64(),
        }
    }
}

/// What a finding accuses first.
struct Accused {
    part: String,
    /// Empty when it is no link.
    links: Vec<LinkId>,
}

impl Accused {
    fn of(finding: &Finding, graph: &Graph) -> Accused {
        let link = finding.place.link.as_deref().and_then(|name| graph.named(name));
        let first = finding.suspects.first();
        // A cable that is slow in both directions is one accusation of two links.
        let both = first.is_some_and(Suspect::is_both_directions);
        let links = match (link, both) {
            (Some(link), true) => vec![link, link.reverse()],
            (Some(link), false) => vec![link],
            (None, _) => Vec::new(),
        };
        let part = first.map_or_else(
            || format!("{} ({})", finding.sentence, finding.kind),
            |suspect| suspect.part.clone(),
        );
        Accused { part, links }
    }
}

impl Power {
    /// Adds a run.
    pub fn add(&mut self, tally: Tally) {
        self.runs.push(tally);
        let sum = |of: fn(&Tally) -> usize| self.runs.iter().map(of).sum::<usize>();
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let (found, wrong) = (sum(|run| run.found.len()), sum(|run| run.wrong.len()));
        self.precision = share(found, found + wrong);
        self.recall = share(found, sum(|run| run.slow.len()));
    }

    /// As a table with a line for every run, and one for all.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_HORIZONTAL_ONLY)
            .set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header([
            "seed", "slow", "found", "missed", "wrong", "flows", "slots", "steps", "judging",
        ]);
        for run in &self.runs {
            table.add_row([
                run.seed.to_string(),
                run.slow.len().to_string(),
                run.found.len().to_string(),
                run.missed.join("\n"),
                run.wrong.join("\n"),
                run.cells.to_string(),
                run.slots.to_string(),
                run.steps.to_string(),
                format!("{:.2} s", run.judging_s),
            ]);
        }
        let share =
            |share: Option<f64>| share.map_or("none to count".to_string(), |share| format!("{share:.3}"));
        format!(
            "{table}\n{} runs: precision {}, recall {}\n",
            self.runs.len(),
            share(self.precision),
            share(self.recall)
        )
    }
}

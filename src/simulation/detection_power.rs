//! How well known faults are found: who was accused, who should have been.

use serde::Serialize;

use super::{FaultyLinks, SimulatedRun};
use crate::terminal;
use record::{Finding, FindingKind};
use topology::graph::{Graph, LinkId};

/// One simulated run.
#[derive(Debug, Clone, Serialize)]
pub struct RunTally {
    /// Its seed.
    pub seed: u64,
    /// Slow links, and the share of their rate that was left; lossy ones, and the share of their packets that got through; those that hold packets
    /// up, and the share of seconds in which they do not.
    pub slow: Vec<(String, f64)>,
    /// Those of them that were found.
    pub found: Vec<String>,
    /// Those that were missed.
    pub missed: Vec<String>,
    /// Healthy parts that were accused. A host's link that the noise makes 5 % slower for good is not healthy.
    pub wrong: Vec<String>,
    /// Everything that was accused: the part, the confidence where it has one, and whether it is at fault.
    pub accused: Vec<(String, Option<f64>, bool)>,
    /// The exit code of the run.
    pub exit_code: u8,
    /// Cells measured.
    pub cells: usize,
    /// Slots of the run.
    pub slots: usize,
    /// Steps of narrowing down.
    pub steps: usize,
    /// Seconds that judging took.
    pub judging_s: f64,
}

/// Several simulated runs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DetectionPower {
    /// Share of accused parts that were slow; none when no part was accused.
    pub precision: Option<f64>,
    /// Share of slow links that were found; none when no link was slow.
    pub recall: Option<f64>,
    /// Every run.
    pub runs: Vec<RunTally>,
}

impl RunTally {
    /// Compares the accused parts of a run with its faulty links.
    pub fn of(run: &SimulatedRun, graph: &Graph, faulty: &FaultyLinks, seed: u64) -> RunTally {
        let faulty = faulty.all();
        let findings = &run.judgement.findings;
        let accused: Vec<Accused> = findings
            .iter()
            .filter(|finding| finding.kind.exit_code() == FindingKind::SlowLink.exit_code())
            .map(|finding| Accused::of(finding, graph))
            .collect();
        let is_accused = |link: LinkId| accused.iter().any(|accused| accused.links.contains(&link));
        let is_slow = |link: &LinkId| {
            faulty.iter().any(|(faulty, _)| faulty == link) || run.slow_for_good.contains(link)
        };
        let name = |link: LinkId| graph.name(link);
        let (found, missed): (Vec<LinkId>, Vec<LinkId>) = faulty
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
        let right = |accused: &Accused| !accused.links.is_empty() && accused.links.iter().all(is_slow);
        RunTally {
            accused: accused
                .iter()
                .map(|accused| (accused.part.clone(), accused.confidence, right(accused)))
                .collect(),
            exit_code: run.judgement.exit_code,
            seed,
            slow: faulty.iter().map(|(link, left)| (name(*link), *left)).collect(),
            found: found.into_iter().map(name).collect(),
            missed: missed.into_iter().map(name).collect(),
            wrong,
            cells: run.recorded.run.cells.len(),
            slots: run.slots,
            steps: run.steps,
            judging_s: run.judging.as_secs_f64(),
        }
    }
}

/// The part that a finding accuses.
struct Accused {
    part: String,
    /// Empty when it has no links of its own.
    links: Vec<LinkId>,
    confidence: Option<f64>,
}

impl Accused {
    fn of(finding: &Finding, graph: &Graph) -> Accused {
        let place = &finding.place;
        let links: Vec<LinkId> = match (&place.link, finding.kind) {
            _ if !place.links.is_empty() => place.links.iter().filter_map(|name| graph.named(name)).collect(),
            (Some(link), _) => graph.named(link).into_iter().collect(),
            // Without a rail, all of them are meant.
            (None, FindingKind::SlowRail) => {
                let is_of_rail = |rail: Option<&String>| place.rail.is_none() || rail == place.rail.as_ref();
                let all = graph.links().filter(|(_, link)| is_of_rail(link.rail.as_ref()));
                all.map(|(id, _)| id).collect()
            }
            _ => Vec::new(),
        };
        let part = finding.suspects.first().map_or_else(
            || format!("{} ({})", finding.sentence, finding.kind),
            |suspect| suspect.part.clone(),
        );
        let confidence = finding.suspects.first().map(|suspect| suspect.confidence);
        Accused {
            part,
            links,
            confidence,
        }
    }
}

impl DetectionPower {
    /// Adds a run.
    pub fn add(&mut self, tally: RunTally) {
        self.runs.push(tally);
        let sum = |of: fn(&RunTally) -> usize| self.runs.iter().map(of).sum::<usize>();
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let (found, wrong) = (sum(|run| run.found.len()), sum(|run| run.wrong.len()));
        self.precision = share(found, found + wrong);
        self.recall = share(found, sum(|run| run.slow.len()));
    }

    /// A table with a line for each run, and a summary.
    pub fn table(&self) -> String {
        let mut table = terminal::table();
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
        let share = |share: Option<f64>| share.map_or("n/a".to_string(), |share| format!("{share:.3}"));
        format!(
            "{table}\n{} runs: precision {}, recall {}\n",
            self.runs.len(),
            share(self.precision),
            share(self.recall)
        )
    }
}

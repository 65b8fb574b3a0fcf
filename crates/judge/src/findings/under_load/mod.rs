//! Loss prevention and congestion control under load (docs/method.md, "Under load").

mod finding;
mod meant;
mod questions;
mod slots;
mod spots;
#[cfg(test)]
mod tests;

pub(super) use finding::CongestionFault;

use std::collections::BTreeSet;

use super::analysis::RunAnalysis;
use super::congestion;
use questions::Look;
use record::stats::ever_of;
use record::text;
use record::{Cell, Question, UnderLoad, UnderLoadAnswer as Answer, UnderLoadQuestion as Asked, Verdict};
use spots::{Spot, SpotSeen};

/// What is likelier than this by chance, at the place where it was seen, is not worth a question.
const OPEN: f64 = 0.1;

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Fault {
    asked: Asked,
    rail: String,
    spot: Spot,
    bad: usize,
    p_value: f64,
    /// What was seen, for the sentence.
    seen: String,
    evidence: Vec<String>,
    cells: BTreeSet<u32>,
}

/// What is known about all rails.
#[derive(Debug, Default)]
pub(super) struct UnderLoads {
    pub(super) faults: Vec<Fault>,
    pub(super) rows: Vec<UnderLoad>,
    pub(super) comparisons: usize,
    /// Cells that would tell more if they were measured again.
    pub(super) suspected: BTreeSet<u32>,
}

/// What was seen of a question on a rail, before anything is accused.
struct Suspicion {
    spot: SpotSeen,
    /// How often that happens where nothing is wrong.
    by_chance: f64,
    seen: String,
    evidence: Vec<String>,
    /// Why it may be something else.
    doubt: Option<Doubt>,
}

/// Why a suspicion may be something else.
enum Doubt {
    /// Too little was measured to tell; these cells would.
    TooFew(String, BTreeSet<u32>),
    /// It looks like something else.
    Else(String),
}

/// What one question found on one rail.
struct Looked {
    asked: Asked,
    rail: String,
    suspicions: Vec<Suspicion>,
    /// What was seen where nothing is suspected; an error where nothing could be seen.
    else_seen: Result<String, String>,
    compared: usize,
}

impl UnderLoads {
    pub(super) fn of(analysis: &RunAnalysis<'_>) -> UnderLoads {
        let rails = slots::rails(analysis);
        let rows = congestion::of(analysis);
        let meant = meant::of(analysis, &rails);
        let mut looked = Vec::new();
        for (name, rail) in &rails {
            let look = Look {
                analysis,
                name,
                rail,
                rows: &rows,
                meant: &meant[name],
            };
            looked.push(look.losses());
            looked.push(look.marks());
            looked.push(look.pauses());
            looked.push(look.other_rails());
        }
        let compared = looked.iter().map(|one| one.compared).sum::<usize>();
        let budget = analysis.run().rule.budget_of(Question::Congestion);
        let mut all = UnderLoads {
            comparisons: compared,
            ..UnderLoads::default()
        };
        looked
            .into_iter()
            .for_each(|one| all.settle(one, (compared, budget)));
        all
    }

    /// Turns what is improbable enough into faults.
    fn settle(&mut self, looked: Looked, (compared, budget): (usize, f64)) {
        let mut faults = Vec::new();
        let mut open = Vec::new();
        for Suspicion {
            spot,
            by_chance,
            seen,
            evidence,
            doubt,
        } in looked.suspicions
        {
            // Slots are measured again until it is clear: a bound that holds whenever one looks.
            let here = ever_of(spot.bad as u64, spot.of as u64, by_chance);
            let p_value = (here * compared as f64).min(1.0);
            match doubt {
                _ if here >= OPEN => {}
                None if p_value < budget => faults.push(Fault {
                    asked: looked.asked,
                    rail: looked.rail.clone(),
                    spot: spot.spot,
                    bad: spot.bad,
                    p_value,
                    seen,
                    evidence,
                    cells: spot.cells,
                }),
                None => {
                    self.suspected.extend(&spot.all);
                    open.push(format!("{seen}; {}", text::p_value(p_value)));
                }
                Some(Doubt::TooFew(why, cells)) => {
                    self.suspected.extend(&cells);
                    open.push(format!("{seen}; {why}"));
                }
                Some(Doubt::Else(doubt)) => open.push(format!("{seen}; {doubt}")),
            }
        }
        let (answer, seen) = match (faults.as_slice(), open.is_empty(), looked.else_seen) {
            ([], true, Ok(seen)) => (Answer::Fine, seen),
            ([], true, Err(why)) => (Answer::NotSeen, why),
            ([], false, _) => (Answer::Open, open.join("; ")),
            (faults, ..) => {
                let seen: Vec<&str> = faults.iter().map(|fault| fault.seen.as_str()).collect();
                (Answer::Fault, seen.join("; "))
            }
        };
        self.rows.push(UnderLoad {
            rail: looked.rail,
            question: looked.asked,
            answer,
            seen,
        });
        self.faults.extend(faults);
    }

    /// Whether anything is known about a rail of this cell.
    pub(super) fn sees(&self, cell: &Cell) -> bool {
        let mut rows = self.rows.iter().filter(|row| cell.rails.contains(&row.rail));
        rows.any(|row| row.answer != Answer::NotSeen)
    }

    /// What it means for a cell that is a load, or a victim: none where nothing speaks against it.
    pub(super) fn says(&self, cell: &Cell) -> Option<Verdict> {
        if let Some(fault) = self.faults.iter().find(|fault| fault.cells.contains(&cell.id)) {
            return Some(Verdict::Fail(fault.seen.clone()));
        }
        let is_open = |row: &&UnderLoad| row.answer == Answer::Open && cell.rails.contains(&row.rail);
        let open = self
            .rows
            .iter()
            .find(is_open)
            .filter(|_| cell.collective.is_load())?;
        Some(Verdict::Inconclusive(open.seen.clone()))
    }
}

//! Every iteration of the cell that a finding rests on, in the order they happened, above a healthy peer on the same scale.
//!
//! Readable without colour: a dot is an iteration, a triangle one beyond Tukey's fences; a dashed line across is the median, an upright
//! one the beginning of a round. Long stretches are drawn as bars from the shortest to the longest, with every outlier still by itself up to a
//! bound, which is said.

use std::collections::{BTreeSet, HashMap};
use std::io;

use super::canvas::{Canvas, DrawResult, Stroke, TextLook, clip, drawing};
use super::frame::{self, Frame, Scale};
use super::iterations::{Iteration, iterations};
use super::palette::{EDGE, FAULT, INK, LINES};
use super::shares;
use crate::figure::{Figure, FigureKind};
use record::stats::quantile_of_sorted;
use record::text::{counted, first_of};
use record::units::Nanos;
use record::{Cell, CellVerdict, FindingKind, Judgement, Recorded, Verdict};

/// Most cells shown, each with a peer.
const MOST_FIGURES: usize = 2;
/// Iterations drawn one by one; beyond, stretches are drawn.
const MOST_DOTS: usize = 400;
/// Outliers drawn one by one, the longest first.
const MOST_OUTLIERS: usize = 150;
/// Outliers that the text names.
const MOST_NAMED: usize = 12;
const WIDTH: i32 = 960;
const PANEL: i32 = 190;

/// The picture of iterations.
pub(super) struct Timeline;

/// A cell to be shown, why, and its peer; positions in the judgement.
struct Choice {
    cell: usize,
    why: String,
    peer: Option<usize>,
}

impl FigureKind for Timeline {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let choices = choices(recorded, judgement);
        let id = |at: usize| judgement.cells[at].cell.id;
        let wanted: BTreeSet<u32> = choices
            .iter()
            .flat_map(|choice| [Some(choice.cell), choice.peer])
            .flatten()
            .map(id)
            .collect();
        let all = iterations(recorded, |cell| wanted.contains(&cell));
        let mut figures = Vec::new();
        for choice in choices {
            let strand = |at: usize| Strand::of(&judgement.cells[at].cell, all.get(&id(at)).cloned());
            let Some(worst) = strand(choice.cell) else {
                continue;
            };
            let peer = choice.peer.and_then(strand);
            figures.push(figure(recorded, &choice, &worst, peer.as_ref(), figures.len())?);
        }
        Ok(figures)
    }
}

/// The cells that the worst findings rest on; without any, the least steady one.
fn choices(recorded: &Recorded, judgement: &Judgement) -> Vec<Choice> {
    let of_cells = shares::of_cells(recorded, judgement);
    let place_of: HashMap<u32, usize> = judgement
        .cells
        .iter()
        .enumerate()
        .map(|(place, cell)| (cell.cell.id, place))
        .collect();
    let measured = |place: &usize| judgement.cells[*place].iterations > 0;
    let mut chosen: Vec<(usize, String)> = Vec::new();
    let findings = judgement.findings.iter();
    for finding in findings.filter(|finding| finding.kind != FindingKind::IncompleteCoverage) {
        let cells = finding
            .cells
            .iter()
            .filter_map(|cell| place_of.get(cell).copied());
        let cells = cells.filter(measured);
        let key = |place: &usize| {
            let cell = &judgement.cells[*place];
            let unsteady = f64::from(cell.outliers) / f64::from(cell.iterations.max(1));
            match finding.kind == FindingKind::Intermittent {
                true => -unsteady,
                false => of_cells[*place].unwrap_or(f64::INFINITY),
            }
        };
        // Among equals the largest message is what is looked at first.
        let worst = cells.min_by(|a, b| {
            let size = |place: &usize| judgement.cells[*place].cell.size;
            key(a).total_cmp(&key(b)).then(size(b).cmp(&size(a)))
        });
        if let Some(place) = worst.filter(|place| chosen.iter().all(|(known, _)| known != place)) {
            chosen.push((place, format!("{}, {}", finding.kind, finding.part())));
        }
        if chosen.len() == MOST_FIGURES {
            break;
        }
    }
    if chosen.is_empty() {
        chosen.extend(
            least_steady(judgement).map(|place| (place, "the cell with the largest variation".to_string())),
        );
    }
    let with_peer = |(cell, why): (usize, String)| Choice {
        peer: healthy_peer(judgement, cell, &of_cells),
        cell,
        why,
    };
    chosen.into_iter().map(with_peer).collect()
}

fn least_steady(judgement: &Judgement) -> Option<usize> {
    let unsteady = |cell: &CellVerdict| {
        let all = cell.percentiles?;
        Some(all.max.0 as f64 / all.p50.0.max(1) as f64)
    };
    let cells = judgement.cells.iter().enumerate();
    let known = cells.filter_map(|(place, cell)| Some((place, unsteady(cell)?)));
    known
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        .map(|(place, _)| place)
}

/// The cell that measures the same on other parts, passed, and is nearest to what is expected.
fn healthy_peer(judgement: &Judgement, cell: usize, of_cells: &[Option<f64>]) -> Option<usize> {
    let mine = &judgement.cells[cell].cell;
    let off = |place: usize| (of_cells[place].unwrap_or(f64::INFINITY) - 1.0).abs();
    (0..judgement.cells.len())
        .filter(|place| {
            let other = &judgement.cells[*place];
            other.verdict == Verdict::Pass && other.cell.is_peer_of(mine)
        })
        .min_by(|a, b| off(*a).total_cmp(&off(*b)))
}

/// The iterations of one cell with what is normal for them.
struct Strand<'a> {
    cell: &'a Cell,
    iterations: Vec<Iteration>,
    median: f64,
    fences: (f64, f64),
}

impl<'a> Strand<'a> {
    fn of(cell: &'a Cell, iterations: Option<Vec<Iteration>>) -> Option<Strand<'a>> {
        let iterations = iterations?;
        let mut sorted: Vec<u64> = iterations.iter().map(|iteration| iteration.ns).collect();
        sorted.sort_unstable();
        let at = |quantile| quantile_of_sorted(&sorted, quantile);
        let (first, third) = (at(0.25)?, at(0.75)?);
        let reach = 1.5 * (third - first);
        Some(Strand {
            cell,
            median: at(0.5)?,
            fences: (first - reach, third + reach),
            iterations,
        })
    }

    fn is_outlier(&self, iteration: &Iteration) -> bool {
        let (low, high) = self.fences;
        (iteration.ns as f64) < low || iteration.ns as f64 > high
    }

    /// Positions of the outliers, the longest first.
    fn outliers(&self) -> Vec<usize> {
        let mut outliers: Vec<usize> = (0..self.iterations.len())
            .filter(|at| self.is_outlier(&self.iterations[*at]))
            .collect();
        outliers.sort_by_key(|at| (std::cmp::Reverse(self.iterations[*at].ns), *at));
        outliers
    }

    /// Positions at which another round begins.
    fn rounds(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.iterations.len()).filter(|at| self.iterations[*at].round != self.iterations[*at - 1].round)
    }

    fn draw(&self, canvas: &Canvas<'_>, frame: &Frame, is_worst: bool) -> DrawResult {
        let ink = if is_worst { LINES[1] } else { LINES[0] };
        let y = frame.y_of(self.median);
        canvas.line(&[(frame.left, y), (frame.right, y)], EDGE, Stroke::Dashed(1))?;
        for (number, start) in self.rounds().enumerate().take(20) {
            let x = frame.x_of(start as f64 - 0.5);
            canvas.line(&[(x, frame.top), (x, frame.bottom)], INK, Stroke::Dotted(1))?;
            canvas.text(
                (x + 4, frame.top + 6),
                &format!("round {}", number + 2),
                TextLook::NOTE.size(11.0),
            )?;
        }
        let outliers = self.outliers();
        if self.iterations.len() <= MOST_DOTS {
            for (at, iteration) in self.iterations.iter().enumerate() {
                if !self.is_outlier(iteration) {
                    canvas.dot(frame.at(at as f64, iteration.ns as f64), ink)?;
                }
            }
        } else {
            let size = self.iterations.len().div_ceil(MOST_DOTS);
            for (number, stretch) in self.iterations.chunks(size).enumerate() {
                let usual = || stretch.iter().filter(|iteration| !self.is_outlier(iteration));
                let (low, high) = (usual().map(|one| one.ns).min(), usual().map(|one| one.ns).max());
                if let (Some(low), Some(high)) = (low, high) {
                    let at = (number * size) as f64;
                    let (from, to) = (frame.at(at, low as f64), frame.at(at, high as f64));
                    canvas.line(&[(from.0, from.1 + 1), (to.0, to.1 - 1)], ink, Stroke::Solid(2))?;
                }
            }
        }
        for at in outliers.into_iter().take(MOST_OUTLIERS) {
            canvas.marker(frame.at(at as f64, self.iterations[at].ns as f64), 5, FAULT)?;
        }
        Ok(())
    }

    fn in_words(&self, recorded: &Recorded) -> String {
        let outliers = self.outliers();
        let one = |at: &usize| {
            let one = &self.iterations[*at];
            let rank = recorded.run.rank_name(one.rank);
            format!(
                "{} in iteration {} of round {}, set by {rank}",
                Nanos(one.ns),
                one.iter,
                one.round
            )
        };
        let outliers = match outliers.len() {
            0 => "no outlier".to_string(),
            many => format!(
                "{}: {}",
                counted(many, "outlier"),
                first_of(&outliers, MOST_NAMED, "; ", one)
            ),
        };
        format!(
            "{} (cell {}): median {} over {} in {}, {outliers}",
            peers_of(recorded, self.cell),
            self.cell.id,
            Nanos(self.median as u64),
            counted(self.iterations.len(), "iteration"),
            counted(self.rounds().count() + 1, "round")
        )
    }
}

/// What ran, between which ranks.
fn peers_of(recorded: &Recorded, cell: &Cell) -> String {
    match cell.ranks.as_slice() {
        [from, to] => format!(
            "{}, {} to {}",
            cell.describe(),
            recorded.run.rank_name(*from),
            recorded.run.rank_name(*to)
        ),
        _ => cell.describe(),
    }
}

fn figure(
    recorded: &Recorded,
    choice: &Choice,
    worst: &Strand<'_>,
    peer: Option<&Strand<'_>>,
    number: usize,
) -> io::Result<Figure> {
    let title = format!("Iterations: {}", clip(&choice.why, 80));
    let strands: Vec<(&str, &Strand<'_>)> = [("", Some(worst)), ("a healthy peer: ", peer)]
        .into_iter()
        .filter_map(|(who, strand)| Some((who, strand?)))
        .collect();
    let times = || {
        strands
            .iter()
            .flat_map(|(_, strand)| &strand.iterations)
            .map(|one| one.ns as f64)
    };
    // Times that differ by much are read better in ratios.
    let (low, high) = times().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), time| {
        (low.min(time), high.max(time))
    });
    let y = match high > 4.0 * low {
        true => Scale::ratios(times()),
        false => Scale::from_zero(times()),
    };
    let longest = strands
        .iter()
        .map(|(_, strand)| strand.iterations.len())
        .max()
        .unwrap_or(1);
    let x = Scale::linear(-1.0, longest as f64);
    let height = 40 + (PANEL + 74) * strands.len() as i32 + 24;
    let svg = drawing((WIDTH as u32, height as u32), &title, |canvas| {
        for (number, (who, strand)) in strands.iter().enumerate() {
            let top = 76 + (PANEL + 74) * number as i32;
            let frame = Frame {
                left: 76,
                top,
                right: WIDTH - 24,
                bottom: top + PANEL,
                x,
                y,
            };
            let name = clip(&format!("{who}{}", peers_of(recorded, strand.cell)), 120);
            canvas.text((16, top - 30), &name, TextLook::LEFT.bold())?;
            frame.draw(
                canvas,
                &frame::numbers(&x, 10),
                &frame::times(&y),
                "time of one iteration",
            )?;
            strand.draw(canvas, &frame, number == 0)?;
        }
        let note = "iterations in order; dot: one iteration; hollow triangle: outside Tukey's fences; dashed: median; dotted: start of a round";
        canvas.text((76, height - 20), note, TextLook::NOTE)
    })?;
    let outliers = worst.outliers().len();
    let more = match outliers.saturating_sub(MOST_OUTLIERS) {
        0 => String::new(),
        more => format!(" {more} shorter outliers are not drawn."),
    };
    let stretches = match longest > MOST_DOTS {
        true => " Iterations are drawn in groups, as bars from the shortest to the longest.",
        false => "",
    };
    let beside = match peer {
        Some(peer) => format!(" The peer's median is {}.", Nanos(peer.median as u64)),
        None => " No healthy peer was measured.".to_string(),
    };
    let mut alternative = worst.in_words(recorded);
    if let Some(peer) = peer {
        alternative += &format!(". Healthy peer: {}", peer.in_words(recorded));
    }
    Ok(Figure {
        id: format!("timeline-{number}"),
        caption: format!(
            "Chosen for: {}. Median {}, {} of {}. Constantly slow iterations point to a slow part; occasional ones to an intermittent cause.{beside}{more}{stretches}",
            choice.why,
            Nanos(worst.median as u64),
            counted(outliers, "outlier"),
            counted(worst.iterations.len(), "iteration")
        ),
        alternative,
        title,
        svg,
    })
}

//! The figures of a report.

pub mod palette;

use std::io;

use super::figure::{Drawing, Figure};
use super::{Writer, plot};
use crate::record::{Judgement, Recorded};

/// Every kind of figure. A new one is a file here and a line in this list.
pub const DRAWINGS: &[&dyn Drawing] = &[&Rates];

/// All figures of a run, in the order of the list.
pub fn all(recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for drawing in DRAWINGS {
        figures.extend(drawing.figures(recorded, judgement)?);
    }
    Ok(figures)
}

/// Wire rate over message size.
struct Rates;

impl Drawing for Rates {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        if judgement.cells.len() > 2000 {
            return Ok(Vec::new());
        }
        Ok(vec![Figure {
            id: "rates".to_string(),
            title: "Wire rate over message size".to_string(),
            caption: "One line per rail, algorithm and load.".to_string(),
            alternative: "The same rates stand in the table of cells.".to_string(),
            svg: plot::Bandwidth.render(recorded, judgement)?,
        }])
    }
}

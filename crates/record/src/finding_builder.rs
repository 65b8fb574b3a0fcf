//! How a finding is put together: kind and place first, then what is known. Everything else stays empty.

use super::{Confirmation, CurvePoint, Finding, FindingKind, Interval, Place, Suspect};
use crate::units::Rate;

impl Finding {
    /// A finding of which only kind and place are known.
    pub fn new(kind: FindingKind, place: Place) -> Finding {
        Finding {
            kind,
            sentence: String::new(),
            place,
            measured: None,
            expected: None,
            rule: String::new(),
            confirmation: None,
            not_told_apart_from: Vec::new(),
            evidence: Vec::new(),
            cells: Vec::new(),
            next_step: String::new(),
            repeat: None,
            suspects: Vec::new(),
            curve: Vec::new(),
        }
    }

    /// The whole finding in one sentence.
    pub fn with_sentence(self, sentence: impl Into<String>) -> Finding {
        Finding {
            sentence: sentence.into(),
            ..self
        }
    }

    /// The wire rate that was measured, and the one that was expected.
    pub fn with_rate(self, measured: Option<Interval<Rate>>, expected: Option<Rate>) -> Finding {
        Finding {
            measured,
            expected,
            ..self
        }
    }

    /// The rule that was broken, with its numbers.
    pub fn with_rule(self, rule: impl Into<String>) -> Finding {
        Finding {
            rule: rule.into(),
            ..self
        }
    }

    /// How the suspicion was confirmed.
    pub fn with_confirmation(self, confirmation: Confirmation) -> Finding {
        Finding {
            confirmation: Some(confirmation),
            ..self
        }
    }

    /// Parts that explain the data as well.
    pub fn ambiguous_with(self, parts: Vec<String>) -> Finding {
        Finding {
            not_told_apart_from: parts,
            ..self
        }
    }

    /// Facts that support it.
    pub fn with_evidence(self, evidence: Vec<String>) -> Finding {
        Finding { evidence, ..self }
    }

    /// Cells that it rests on.
    pub fn with_cells(self, cells: impl IntoIterator<Item = u32>) -> Finding {
        Finding {
            cells: cells.into_iter().collect(),
            ..self
        }
    }

    /// What to do next.
    pub fn with_next_step(self, next_step: impl Into<String>) -> Finding {
        Finding {
            next_step: next_step.into(),
            ..self
        }
    }

    /// The command that repeats the measurement.
    pub fn with_repeat(self, command: impl Into<String>) -> Finding {
        Finding {
            repeat: Some(command.into()),
            ..self
        }
    }

    /// Parts that may be at fault, the likeliest first.
    pub fn with_suspects(self, suspects: Vec<Suspect>) -> Finding {
        Finding { suspects, ..self }
    }

    /// The curve over message size that it rests on.
    pub fn with_curve(self, curve: Vec<CurvePoint>) -> Finding {
        Finding { curve, ..self }
    }
}

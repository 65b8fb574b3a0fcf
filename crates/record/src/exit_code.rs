//! Exit codes of verdicts, and which of several wins.
//!
//! What was found and confirmed counts more than what could not be settled beside it: a nightly job that reads 12 opens a ticket, one that
//! reads 20 measures again.

/// Nothing is wrong.
pub const PASS: u8 = 0;
/// The fabric differs from its document, its golden file or its like.
pub const DRIFT: u8 = 10;
/// Flows are spread badly over equal paths.
pub const ECMP: u8 = 11;
/// Something is slow, flapping or erring.
pub const SLOW: u8 = 12;
/// Inconclusive or incomplete.
pub const INCONCLUSIVE: u8 = 20;
/// A hang or a lost rank.
pub const LOST: u8 = 21;
/// Wrong data.
pub const CORRUPT: u8 = 22;

/// From the least to the worst.
const ORDER: [u8; 7] = [PASS, INCONCLUSIVE, DRIFT, ECMP, SLOW, LOST, CORRUPT];

/// The code that wins among several, 0 with none: 22, 21, 12, 11, 10, then 20; any other, which says that there is no verdict, only over 0.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let worst = codes.into_iter().max_by_key(|code| severity(*code));
    worst.unwrap_or(PASS)
}

/// Codes in this order are in the order in which they win.
pub fn severity(code: u8) -> impl Ord {
    match ORDER.iter().position(|known| *known == code) {
        Some(0) => (0, 0),
        Some(place) => (2, place),
        None => (1, usize::from(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmed_finding_wins_over_what_is_not_settled() {
        for (codes, wins) in [
            (vec![], 0),
            (vec![0, 20], 20),
            (vec![12, 20, 10], 12),
            (vec![20, 10], 10),
            (vec![11, 10, 20], 11),
            (vec![20, 21, 12], 21),
            (vec![22, 21], 22),
            (vec![0, 3], 3),
            (vec![3, 20], 20),
            (vec![12, 3], 12),
        ] {
            assert_eq!(worst(codes.iter().copied()), wins, "{codes:?}");
        }
    }
}

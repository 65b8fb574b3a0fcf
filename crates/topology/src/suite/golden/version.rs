//! Comparing version strings as vendors write them.
//!
//! `580.65.06`, `28.43.2026`, `MLNX_OFED_LINUX-24.10-0.7.0.0`, `2.28.9-rc1`: runs of digits are numbers, runs of letters are words, everything else
//! separates them. What stands before the first number that begins a word is a name and does not count. The order is total: missing
//! numbers count as zero, so `24.10` is `24.10.0`; a word that announces a release comes before it, any other word after it.

use std::cmp::Ordering;

/// A version that can be compared.
#[derive(Debug, Clone)]
pub struct Version(Vec<Piece>);

/// In the order in which pieces at the same place follow each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    /// A word that announces a release: `rc`, `beta`.
    Before(String),
    /// Zero, or nothing.
    Zero,
    /// Any other word: `nvidia` of a kernel's release.
    Word(String),
    /// A number above zero: how many digits it has, and which.
    Number(usize, String),
}

/// Words that announce a release.
const BEFORE: [&str; 6] = ["alpha", "beta", "dev", "pre", "preview", "rc"];

impl Version {
    /// The version in a text; none without a number.
    pub fn parse(text: &str) -> Option<Version> {
        let text = &text[start(text)?..];
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let same = |c: char| match first {
                '0'..='9' => c.is_ascii_digit(),
                _ => c.is_alphabetic() == first.is_alphabetic() && !c.is_ascii_digit(),
            };
            let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
            let (run, tail) = rest.split_at(end);
            rest = tail;
            if first.is_ascii_digit() {
                pieces.push(number(run));
            } else if first.is_alphabetic() {
                let word = run.to_lowercase();
                let before = BEFORE.contains(&word.as_str());
                pieces.push(if before {
                    Piece::Before(word)
                } else {
                    Piece::Word(word)
                });
            }
        }
        while pieces.last() == Some(&Piece::Zero) {
            pieces.pop();
        }
        Some(Version(pieces))
    }
}

fn number(digits: &str) -> Piece {
    match digits.trim_start_matches('0') {
        "" => Piece::Zero,
        digits => Piece::Number(digits.len(), digits.to_string()),
    }
}

/// Where the first number begins that is not part of a name such as `mlx5`; a `v` before it is not part of a name.
fn start(text: &str) -> Option<usize> {
    let mut before = [' ', ' '];
    for (at, c) in text.char_indices() {
        let [word, last] = before;
        let begins = !last.is_alphanumeric() || matches!(last, 'v' | 'V') && !word.is_alphanumeric();
        if c.is_ascii_digit() && begins {
            return Some(at);
        }
        before = [last, c];
    }
    text.find(|c: char| c.is_ascii_digit())
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let piece = |version: &Version, place: usize| version.0.get(place).cloned().unwrap_or(Piece::Zero);
        let longest = self.0.len().max(other.0.len());
        let mut orders = (0..longest).map(|place| piece(self, place).cmp(&piece(other, place)));
        orders
            .find(|order| *order != Ordering::Equal)
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap_or_else(|| panic!("no version in {text:?}"))
    }

    #[test]
    fn versions_of_the_field_come_in_the_order_of_their_release() {
        let in_order = [
            ["28.39.1002", "28.42.1000", "28.43.2026"].as_slice(),
            &[
                "MLNX_OFED_LINUX-23.10-1.1.9.0",
                "MLNX_OFED_LINUX-24.07-0.6.1.0",
                "MLNX_OFED_LINUX-24.10-0.7.0.0",
            ],
            &["535.183.01", "550.54.15", "580.65.06", "580.105.08"],
            &["2.9.9", "2.28.9-rc1", "2.28.9", "2.28.10", "v2.29"],
            &[
                "5.15.0-1053-nvidia",
                "5.15.0-1060-nvidia",
                "6.8.0-31-generic",
                "6.12.0",
            ],
            &["96.00.74.00.01", "96.00.89.00.01"],
            &["1.0-beta2", "1.0-rc1", "1.0", "1.0.1"],
            &["mlx5_core 23.10", "mlx5_core 24.07-0.6"],
        ];
        for versions in in_order {
            for pair in versions.windows(2) {
                assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
            }
        }
        assert_eq!(version("24.10"), version("24.10.0"));
        assert_eq!(version("24.07"), version("24.7"));
        assert!(Version::parse("inbox").is_none() && Version::parse("").is_none());
    }

    /// Texts that look like versions, and some that do not.
    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            r"[a-zA-Z0-9._ -]{0,12}",
            r"([0-9]{1,3}[.-](rc|a)?){0,4}[0-9]",
            ".*"
        ]
    }

    proptest! {
        #[test]
        fn the_order_is_total_so_that_no_range_contradicts_itself(a in texts(), b in texts(), c in texts()) {
            let (Some(a), Some(b), Some(c)) = (Version::parse(&a), Version::parse(&b), Version::parse(&c)) else {
                return Ok(());
            };
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&a), Ordering::Equal);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
            prop_assert_eq!(a == b, a.cmp(&b) == Ordering::Equal);
        }

        #[test]
        fn versions_of_numbers_are_in_the_order_of_their_numbers(
            a in prop::collection::vec(0u64.., 1..5), b in prop::collection::vec(0u64.., 1..5),
        ) {
            let text = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
            let padded = |numbers: &[u64]| (0..5).map(|at| numbers.get(at).copied().unwrap_or(0)).collect::<Vec<_>>();
            prop_assert_eq!(version(&text(&a)).cmp(&version(&text(&b))), padded(&a).cmp(&padded(&b)));
        }
    }
}

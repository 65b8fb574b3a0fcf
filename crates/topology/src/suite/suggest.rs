//! Suggestions for misspelled words.

/// Longer words are not compared: that takes quadratic time.
const LONGEST_SLIP: usize = 64;

/// The known word nearest to `given`, when one is near enough to be what was meant.
pub fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if given.len() > LONGEST_SLIP {
        return None;
    }
    let given = given.to_lowercase();
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(&given, &word.to_lowercase()), word))
        .filter(|(distance, word)| *distance <= word.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How an error about an unknown word ends: the nearest known word, or all of them when none is near.
pub fn suggestion(given: &str, known: &[&str]) -> String {
    match nearest(given, known.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// `text` between backquotes, cut when it is too long for an error message and without control characters.
pub fn quoted(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(LONGEST_SLIP)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(LONGEST_SLIP).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_a_letter_or_two_finds_the_word_that_was_meant() {
        let known = ["algorithm", "collective", "sizes", "op"];
        assert_eq!(nearest("algoritm", known), Some("algorithm"));
        assert_eq!(nearest("Colective", known), Some("collective"));
        assert_eq!(nearest("size", known), Some("sizes"));
    }

    #[test]
    fn a_word_that_resembles_nothing_lists_what_there_is_instead_of_guessing() {
        assert_eq!(suggestion("zebra", &["ring", "tree"]), "known are ring, tree");
        assert_eq!(nearest(&"a".repeat(100_000), ["ring"]), None);
    }

    #[test]
    fn what_a_file_says_cannot_drive_the_terminal_that_shows_the_error() {
        assert_eq!(quoted("a\u{1b}[2Jb"), "`a\u{fffd}[2Jb`");
        assert!(quoted(&"x".repeat(500)).chars().count() < 80);
    }
}

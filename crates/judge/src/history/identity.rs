//! Whether a part is still the one it was: serial numbers, compared by what both know.

use std::collections::BTreeMap;

/// `nic MT01; module C7` by its keys.
fn words(identity: &str) -> BTreeMap<&str, &str> {
    let known = identity.split(';').filter_map(|fact| fact.trim().split_once(' '));
    known.map(|(key, value)| (key, value.trim())).collect()
}

/// Whether anything that both say is said differently.
pub(super) fn is_another(before: &str, after: &str) -> bool {
    let before = words(before);
    let differs = |(key, value): (&str, &str)| before.get(key).is_some_and(|known| *known != value);
    words(after).into_iter().any(differs)
}

/// Everything that is known of a part that is still the same.
pub(super) fn joined(before: &str, after: &str) -> String {
    let mut known = words(before);
    known.extend(words(after));
    let facts: Vec<String> = known
        .into_iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    facts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_that_could_not_be_read_is_no_other_part() {
        assert!(!is_another("nic MT01; module C7", "module C7"));
        assert!(!is_another("nic MT01", "guid 77:88"));
        assert!(is_another("nic MT01; module C7", "nic MT01; module C8"));
        assert!(!is_another("", "nic MT01"));
        // What was known once is not forgotten in a run that could not read it.
        let known = joined("nic MT01; module C7", "nic MT01");
        assert!(is_another(&known, "module C8"));
    }
}

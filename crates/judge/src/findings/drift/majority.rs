//! Who deviates from the others, where nobody said what is right: the most common value, when it is more than half.

use std::collections::BTreeMap;

/// What a group of like parts says about one fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion<'a> {
    /// All say the same.
    Agreed,
    /// More than half say this, and the others do not.
    Most {
        /// What they say.
        value: &'a str,
        /// How many.
        agree: usize,
    },
    /// No value has more than half: which is right cannot be told.
    Split,
}

/// The opinion of `values`, those that are known.
pub fn opinion<'a>(values: &[&'a str]) -> Opinion<'a> {
    let mut count: BTreeMap<&'a str, usize> = BTreeMap::new();
    for value in values {
        *count.entry(value).or_default() += 1;
    }
    if count.len() < 2 {
        return Opinion::Agreed;
    }
    match count.iter().find(|(_, agree)| 2 * **agree > values.len()) {
        Some((value, agree)) => Opinion::Most { value, agree: *agree },
        None => Opinion::Split,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_is_not_blamed_and_one_of_three_is() {
        assert_eq!(opinion(&[]), Opinion::Agreed);
        assert_eq!(opinion(&["a", "a"]), Opinion::Agreed);
        assert_eq!(opinion(&["a", "b"]), Opinion::Split);
        assert_eq!(opinion(&["a", "b", "a"]), Opinion::Most { value: "a", agree: 2 });
        assert_eq!(opinion(&["a", "a", "b", "b", "c"]), Opinion::Split);
    }
}

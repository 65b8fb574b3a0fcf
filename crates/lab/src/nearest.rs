//! The nearest valid name to one that is not: a typing slip costs one glance, not a manual.

/// Names listed when none is near.
const MOST_LISTED: usize = 12;

/// How an error about an unknown name ends.
pub(super) fn hint(given: &str, known: &[String]) -> String {
    let given: String = given.chars().take(64).collect();
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&given, name), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance);
    match near {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "it has none".to_string(),
        None => {
            let more = if known.len() > MOST_LISTED { ", ..." } else { "" };
            let listed: Vec<&str> = known.iter().take(MOST_LISTED).map(String::as_str).collect();
            format!("it has {}{more}", listed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_and_anything_else_lists_the_names() {
        let known = ["h1-rail0-leaf0", "h2-rail0-leaf1"].map(str::to_string);
        assert_eq!(hint("h1-rail0-leav0", &known), "did you mean `h1-rail0-leaf0`?");
        assert_eq!(hint("x", &known), "it has h1-rail0-leaf0, h2-rail0-leaf1");
        assert_eq!(hint("x", &[]), "it has none");
    }
}

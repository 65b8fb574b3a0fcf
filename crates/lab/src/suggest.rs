//! Suggestions for misspelled names.

use topology::suite::nearest;

/// Names listed when none is near.
const MOST_LISTED: usize = 12;

/// How an error about an unknown name ends.
pub(super) fn suggestion(given: &str, known: &[String]) -> String {
    let near = nearest(given, known.iter().map(String::as_str));
    match near {
        Some(name) => format!("did you mean `{name}`?"),
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
        assert_eq!(
            suggestion("h1-rail0-leav0", &known),
            "did you mean `h1-rail0-leaf0`?"
        );
        assert_eq!(suggestion("x", &known), "it has h1-rail0-leaf0, h2-rail0-leaf1");
        assert_eq!(suggestion("x", &[]), "it has none");
    }
}

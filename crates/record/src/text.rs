//! Text as people read it: numbers, counts and lists in words, sorting of names, width and wrapping of lines.
//!
//! Every crate writes percentages, plurals and lists through these functions, so that the same fact reads the same everywhere.

use unicode_width::UnicodeWidthStr;

/// Sorts by letters, and by value where there are digits.
pub fn natural(name: &str) -> Vec<(String, u128)> {
    let mut parts: Vec<(String, u128)> = vec![(String::new(), 0)];
    let mut in_digits = false;
    for c in name.chars() {
        let last = parts.len() - 1;
        match c.to_digit(10) {
            Some(digit) => {
                parts[last].1 = parts[last].1.saturating_mul(10).saturating_add(u128::from(digit));
                in_digits = true;
            }
            None if in_digits => {
                parts.push((c.to_string(), 0));
                in_digits = false;
            }
            None => parts[last].0.push(c),
        }
    }
    parts
}

/// A share as a percentage, with a decimal only where there is one: `25 %`, `12.5 %`.
pub fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}

/// A share in whole percent: `97 %`.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A change: `-5.0 %`, `+0.3 %`.
pub fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// The ending of a noun: `s` unless there is exactly one.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A count with its noun: `1 cycle`, `3 cycles`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", plural(count))
}

/// The same where the plural is not regular: `1 switch`, `3 switches`.
pub fn counted_as(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// `once`, `twice`, `3 times`.
pub fn times(count: usize) -> String {
    match count {
        1 => "once".to_string(),
        2 => "twice".to_string(),
        count => format!("{count} times"),
    }
}

/// `first`, `second`, `21st`.
pub fn ordinal(number: u32) -> String {
    const FIRST: [&str; 10] = [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    ];
    let known = number.checked_sub(1).and_then(|at| FIRST.get(at as usize));
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    known.map_or_else(|| format!("{number}{suffix}"), |known| known.to_string())
}

/// `9,812`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A p-value: `p = 0.012`, `p = 4.1e-5`, `p < 1e-6`.
pub fn p_value(p: f64) -> String {
    if p < 1e-6 {
        "p < 1e-6".into()
    } else if p < 0.001 {
        format!("p = {p:.1e}")
    } else {
        format!("p = {p:.3}")
    }
}

/// `a`, `a and b`, `a, b and c`; of more than six the rest is counted: `a, b, c, d, e, f and 3 more`.
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    list_up_to(items, 6)
}

/// `a, b and c`; after `most` items the rest is counted: `a, b and 3 more`.
pub fn list_up_to<T: AsRef<str>>(items: &[T], most: usize) -> String {
    let first = |items: &[T]| first_of(items, most, ", ", |item| item.as_ref().to_string());
    match items {
        [head @ .., last] if !head.is_empty() && items.len() <= most => {
            format!("{} and {}", first(head), last.as_ref())
        }
        _ => first(items),
    }
}

/// The first `most` names, and how many more there are: `h0, h1 and 7 more`, `h0 slow; h1 slow; and 7 more`.
pub fn first_of<T>(items: &[T], most: usize, between: &str, name: impl Fn(&T) -> String) -> String {
    let named: Vec<String> = items.iter().take(most).map(name).collect();
    let named = named.join(between);
    match items.len().saturating_sub(most) {
        0 => named,
        more if between == ", " => format!("{named} and {more} more"),
        more => format!("{named}{between}and {more} more"),
    }
}

/// `rank 3`, `ranks 1, 2 and 3`.
pub fn ranks(ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
    format!("rank{} {}", plural(ranks.len()), list(&names))
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text, or its beginning and `…` where it takes more than `most` columns.
pub fn clip(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_string();
    }
    let mut clipped = String::new();
    for c in text.chars() {
        let longer = format!("{clipped}{c}");
        if width(&longer) >= most {
            break;
        }
        clipped = longer;
    }
    if most > 0 {
        clipped.push('…');
    }
    clipped
}

/// The text in lines of at most `columns`, broken between words; a longer word has a line of its own.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_counted_not_spelled_out() {
        let names: Vec<String> = (0..9).map(|i| format!("rail{i}")).collect();
        assert_eq!(list(&names[..2]), "rail0 and rail1");
        assert_eq!(
            list(&names),
            "rail0, rail1, rail2, rail3, rail4, rail5 and 3 more"
        );
        assert_eq!(list_up_to(&names, 2), "rail0, rail1 and 7 more");
        assert_eq!(ranks(&[7]), "rank 7");
        assert_eq!(
            first_of(&names, 2, ", ", String::clone),
            "rail0, rail1 and 7 more"
        );
        assert_eq!(first_of(&names, 1, "; ", String::clone), "rail0; and 8 more");
        assert_eq!(first_of(&names[..1], 1, ", ", String::clone), "rail0");
    }

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!((percent(0.125), percent(0.25)), ("12.5 %".into(), "25 %".into()));
        assert_eq!(
            (counted(1, "cycle"), counted(0, "cycle")),
            ("1 cycle".into(), "0 cycles".into())
        );
        assert_eq!(
            (p_value(1e-9), p_value(0.0123)),
            ("p < 1e-6".into(), "p = 0.012".into())
        );
    }

    #[test]
    fn counts_read_as_people_say_them() {
        assert_eq!(
            [counted(1, "cycle"), counted(3, "cycle")],
            ["1 cycle", "3 cycles"]
        );
        assert_eq!([times(1), times(2), times(7)], ["once", "twice", "7 times"]);
        assert_eq!(
            [ordinal(3), ordinal(21), ordinal(112)],
            ["third", "21st", "112th"]
        );
        assert_eq!(
            [thousands(7), thousands(9812), thousands(1_000_000)],
            ["7", "9,812", "1,000,000"]
        );
    }

    #[test]
    fn no_line_is_wider_than_asked_unless_a_word_is() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable a", 4), ["unbreakable", "a"]);
        assert_eq!(wrap("漢字 漢字", 8), ["漢字", "漢字"], "each takes four columns");
        assert_eq!([clip("short", 5), clip("longer", 5)], ["short", "long…"]);
        assert_eq!(width(&clip("漢字漢字", 4)), 3);
        assert_eq!(clip("any", 0), "");
    }
}

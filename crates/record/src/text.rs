//! Text as people read it: sorting of names, percentages, plurals, lists.

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
pub fn list(items: &[String]) -> String {
    const MOST: usize = 6;
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] if items.len() <= MOST => format!("{} and {last}", head.join(", ")),
        _ => format!("{} and {} more", items[..MOST].join(", "), items.len() - MOST),
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
}

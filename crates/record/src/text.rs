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

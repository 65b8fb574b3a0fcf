//! Numbers as switches write them.

use serde_json::Value;

/// A counter: a number, or a text such as `1,234` or `0x4d2`. What is neither (`N/A`, a negative number, a fraction) is unknown.
pub(super) fn of_value(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => of_text(text),
        _ => None,
    }
}

/// The same of a text.
pub(super) fn of_text(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with('+'));
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == ',')
        && text.len() <= 32;
    let digits: String = text.chars().filter(|c| *c != ',').collect();
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_unknown_and_never_zero() {
        assert_eq!(of_text(" 1,234 "), Some(1234));
        assert_eq!(of_text("0x4d2"), Some(1234));
        assert_eq!(of_text("0"), Some(0));
        assert_eq!(of_text("18446744073709551615"), Some(u64::MAX));
        for text in [
            "",
            "N/A",
            "-1",
            "+1",
            "0x",
            "0x+1",
            "1.5",
            "1e9",
            "18446744073709551616",
            ",",
        ] {
            assert_eq!(of_text(text), None, "{text:?}");
        }
        assert_eq!(of_value(Some(&Value::from(17))), Some(17));
        assert_eq!(of_value(Some(&Value::from(-17))), None);
        assert_eq!(of_value(Some(&Value::Null)), None);
        assert_eq!(of_value(None), None);
    }
}

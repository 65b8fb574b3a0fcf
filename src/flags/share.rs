//! Flags whose value is a share: a percentage or a fraction below 1.

/// A share from 0 to below 1, written as 5% or 0.05.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = number(text).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share from 0% to below 100%; write 5% or 0.05"))
}

/// A share above 0 and below 1, written as 99% or 0.99.
pub fn parse_positive_share(text: &str) -> Result<f64, String> {
    let share = number(text).filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| format!("`{text}` is not a share between 0 and 1; write 0.99 or 99%"))
}

fn number(text: &str) -> Option<f64> {
    match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| percent / 100.0),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_fraction_and_nothing_else() {
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert_eq!(parse_share(" 7.5 % "), Ok(0.075));
        assert_eq!(parse_share("0.05"), Ok(0.05));
        assert_eq!(parse_share("0"), Ok(0.0));
        for wrong in ["", "%", "5", "100%", "-1%", "nan", "5 percent"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_positive_share_is_neither_nothing_nor_everything() {
        assert_eq!(parse_positive_share("0.99"), Ok(0.99));
        assert_eq!(parse_positive_share("90%"), Ok(0.9));
        assert_eq!(parse_positive_share("2.5 %"), Ok(0.025));
        for bad in ["0", "1", "100%", "-0.1", "nan", "inf", "", "%", "half", "99"] {
            let error = parse_positive_share(bad).unwrap_err();
            assert!(error.contains("between 0 and 1"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_typed_is_a_share_or_an_explanation(text in "\\PC*") {
            match parse_positive_share(&text) {
                Ok(share) => prop_assert!(share > 0.0 && share < 1.0),
                Err(why) => prop_assert!(why.contains(&text)),
            }
        }
    }
}

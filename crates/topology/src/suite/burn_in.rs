//! What a burn-in accepts: the `[burn-in]` table.
//!
//! Every limit must have a reason: `{ value = ..., reason = "..." }`. Limits with the same reason may be written as plain values beside a
//! `reason` of the whole table. Limits that are not written have defaults with reasons of their own.

use super::error::SuiteError;
use super::reader::{Item, Section};
use record::{Criteria, Limit};

/// The table as it is written.
pub(super) const TITLE: &str = "[burn-in]";

/// Its keys: one per criterion, and the reason that plain values share.
pub(super) const KEYS: &[&str] = &[
    "reason",
    "least_load",
    "least_cycles",
    "least_share",
    "least_covered",
    "corruption",
    "flaps",
    "losses",
    "drift",
    "slow_cycles",
    "sporadic",
    "error_cycles",
    "throttled",
    "lossy",
    "raw_cycles",
];

/// The most cycles, flaps or losses that can be meant.
const MAX_COUNT: u32 = 1_000_000;

/// Reads the table.
pub(super) fn read(section: &Section<'_>) -> Result<Criteria, SuiteError> {
    let default = Criteria::default();
    let at_least_zero = |item: &Item<'_>| item.whole(0..=MAX_COUNT);
    let at_least_one = |item: &Item<'_>| item.whole(1..=MAX_COUNT);
    Ok(Criteria {
        least_load: limit(section, "least_load", default.least_load, |item| item.duration())?,
        least_cycles: limit(section, "least_cycles", default.least_cycles, at_least_one)?,
        least_share: limit(section, "least_share", default.least_share, share)?,
        least_covered: limit(section, "least_covered", default.least_covered, share)?,
        corruption: limit(section, "corruption", default.corruption, |item| {
            item.whole(0..=u64::MAX)
        })?,
        flaps: limit(section, "flaps", default.flaps, at_least_zero)?,
        losses: limit(section, "losses", default.losses, at_least_zero)?,
        drift: limit(section, "drift", default.drift, |item| item.share(0.0, 1.0))?,
        slow_cycles: limit(section, "slow_cycles", default.slow_cycles, at_least_zero)?,
        sporadic: limit(section, "sporadic", default.sporadic, share)?,
        error_cycles: limit(section, "error_cycles", default.error_cycles, at_least_zero)?,
        throttled: limit(section, "throttled", default.throttled, share)?,
        lossy: limit(section, "lossy", default.lossy, share)?,
        raw_cycles: limit(section, "raw_cycles", default.raw_cycles, at_least_zero)?,
    })
}

/// One criterion: a table of value and reason, or a value whose reason is that of the whole table.
fn limit<T>(
    section: &Section<'_>,
    key: &str,
    default: Limit<T>,
    value: impl Fn(&Item<'_>) -> Result<T, SuiteError>,
) -> Result<Limit<T>, SuiteError> {
    let Some(item) = section.get(key) else {
        return Ok(default);
    };
    let (value_item, why) = match item.section("a criterion") {
        Some(table) => {
            table.refuse_unknown_keys(&["value", "reason"])?;
            (table.require("value")?, table.require("reason")?)
        }
        None => {
            let why = section.get("reason").ok_or_else(|| {
                item.error(format!(
                    "`{key}` has no reason; write {key} = {{ value = ..., reason = \"...\" }}"
                ))
            })?;
            (item, why)
        }
    };
    Ok(Limit {
        value: value(&value_item)?,
        reason: why.filled_text()?.to_string(),
    })
}

/// A fraction from 0 to 1, both included.
fn share(item: &Item<'_>) -> Result<f64, SuiteError> {
    let share = match item.text() {
        Ok(text) => text
            .trim()
            .strip_suffix('%')
            .and_then(|percent| percent.trim().parse::<f64>().ok()),
        Err(_) => item.number().ok().map(|number| number * 100.0),
    };
    share
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| item.expected("a percentage from 0% to 100%, such as \"5%\" or 0.05"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Suite, SuiteFile};
    use proptest::prelude::*;
    use record::units::Nanos;

    fn check(table: &str) -> Result<Suite, String> {
        let text = format!("name = \"s\"\n[burn-in]\n{table}\n[[test]]\nname = \"t\"\nsizes = [\"8\"]\n");
        let file = SuiteFile::parse(&text, "x.toml").map_err(|error| error.to_string())?;
        file.check().map_err(|error| error.to_string())
    }

    #[test]
    fn criteria_arrive_with_their_reasons_and_the_rest_keeps_its_own() {
        let criteria = check(
            "reason = \"agreed with the vendor\"\nleast_load = \"20h\"\nflaps = 2\nleast_covered = \"100%\"\nthrottled = 0\n\
             drift = { value = \"3%\", reason = \"what we saw last time\" }",
        )
        .unwrap()
        .burn_in;
        assert_eq!(criteria.least_load.value, Nanos::from_secs(72_000));
        assert_eq!(criteria.least_load.reason, "agreed with the vendor");
        assert_eq!((criteria.flaps.value, criteria.least_covered.value), (2, 1.0));
        assert_eq!(criteria.throttled.value, 0.0);
        assert_eq!(
            (criteria.drift.value, criteria.drift.reason.as_str()),
            (0.03, "what we saw last time")
        );
        let default = Criteria::default();
        assert_eq!(criteria.losses, default.losses);
        assert_eq!(criteria.raw_cycles, default.raw_cycles);
    }

    #[test]
    fn a_suite_without_the_table_has_criteria_too() {
        let text = "name = \"s\"\n[[test]]\nname = \"t\"\nsizes = [\"8\"]\n";
        let suite = SuiteFile::parse(text, "x.toml").unwrap().check().unwrap();
        assert_eq!(suite.burn_in, Criteria::default());
    }

    #[test]
    fn a_wrong_criterion_is_placed_and_says_what_would_be_right() {
        let cases = [
            (
                "flap = 3",
                "x.toml:3:1: unknown key `flap` in [burn-in]; did you mean `flaps`?",
            ),
            (
                "flaps = 3",
                "x.toml:3:9: `flaps` has no reason; write flaps = { value = ..., reason = \"...\" }",
            ),
            ("flaps = { value = 3 }", "x.toml:3:9: a criterion needs `reason`"),
            (
                "flaps = { valu = 3 }",
                "x.toml:3:11: unknown key `valu` in a criterion; did you mean `value`?",
            ),
            (
                "flaps = { value = 3, reason = \" \" }",
                "x.toml:3:31: `reason` must be a text that is not empty",
            ),
            (
                "flaps = { value = -1, reason = \"x\" }",
                "x.toml:3:19: `value` must be a whole number from 0",
            ),
            (
                "least_cycles = { value = 0, reason = \"x\" }",
                "x.toml:3:26: `value` must be a whole number from 1",
            ),
            (
                "drift = { value = \"0%\", reason = \"x\" }",
                "x.toml:3:19: `value` must be a percentage above 0%",
            ),
            (
                "sporadic = { value = \"101%\", reason = \"x\" }",
                "x.toml:3:22: `value` must be a percentage from 0% to 100%",
            ),
            (
                "least_load = { value = \"0s\", reason = \"x\" }",
                "x.toml:3:24: `value` must be longer than 0",
            ),
        ];
        for (table, wanted) in cases {
            let found = check(table).unwrap_err();
            assert!(
                found.starts_with(wanted),
                "{table}\n  found  {found}\n  wanted {wanted}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_share_is_read_as_it_is_written(percent in 0.0f64..=100.0, key in prop::sample::select(vec!["least_share", "sporadic"])) {
            let suite = check(&format!("{key} = {{ value = \"{percent}%\", reason = \"x\" }}")).unwrap();
            let read = if key == "sporadic" { suite.burn_in.sporadic.value } else { suite.burn_in.least_share.value };
            prop_assert!((read - percent / 100.0).abs() < 1e-12);
        }

        #[test]
        fn whatever_stands_in_the_table_is_read_or_refused_with_a_place(key in "[a-z_]{1,14}", value in "[ -~]{0,20}") {
            if let Err(complaint) = check(&format!("{key} = {value}")) {
                prop_assert!(complaint.starts_with("x.toml:"), "{complaint}");
            }
        }
    }
}

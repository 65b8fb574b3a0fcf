//! The JSON Schemas of `findings.json`, of `readings.json`, of a burn-in's `certificate.json`, of what `railgauge compare --json` and
//! `railgauge trend --json` print, and of what `--notify` sends, published in `docs` as `findings.schema.json` and so on.

use record::{Certificate, Comparison, Judgement, Notice, Readings, Trends};

/// The schema of `findings.json`, pretty-printed.
pub fn findings_schema() -> String {
    printed(schemars::schema_for!(Judgement))
}

/// The schema of `railgauge compare --json`, pretty-printed.
pub fn compare_schema() -> String {
    printed(schemars::schema_for!(Comparison))
}

/// The schema of `certificate.json`, pretty-printed.
pub fn certificate_schema() -> String {
    printed(schemars::schema_for!(Certificate))
}

/// The schema of what `--notify` sends, pretty-printed.
pub fn notify_schema() -> String {
    printed(schemars::schema_for!(Notice))
}

/// The schema of `readings.json`, pretty-printed.
pub fn readings_schema() -> String {
    printed(schemars::schema_for!(Readings))
}

/// The schema of `railgauge trend --json`, pretty-printed.
pub fn trend_schema() -> String {
    printed(schemars::schema_for!(Trends))
}

fn printed(schema: schemars::Schema) -> String {
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::findings::fixture::Fixture;
    use judge::findings::judge;

    #[test]
    fn the_published_schema_is_the_one_the_code_has() {
        for (name, schema) in [
            ("findings", findings_schema()),
            ("compare", compare_schema()),
            ("certificate", certificate_schema()),
            ("notify", notify_schema()),
            ("readings", readings_schema()),
            ("trend", trend_schema()),
        ] {
            let path = format!("{}/../../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("RAILGAUGE_UPDATE").is_some() {
                std::fs::write(&path, &schema).unwrap();
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                published == schema,
                "{path} is out of date: set RAILGAUGE_UPDATE=1 and run this test again"
            );
        }
    }

    #[test]
    fn judgements_are_as_the_schema_says() {
        let schema = serde_json::from_str(&findings_schema()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let slow = |cell: &record::Cell, _| if cell.rails[0] == "rail1" { 6e8 } else { 1e9 };
        let mut cut_off = Fixture::rails(2).recorded();
        cut_off.events.truncate(3);
        for recorded in [
            Fixture::rails(2).recorded(),
            Fixture::rails(3).speed(slow).recorded(),
            cut_off,
        ] {
            let value = serde_json::to_value(judge(&recorded)).unwrap();
            let errors: Vec<String> = validator
                .iter_errors(&value)
                .map(|error| error.to_string())
                .collect();
            assert_eq!(errors, Vec::<String>::new());
        }
        assert!(!validator.is_valid(&serde_json::json!({ "schema": 1 })));
    }
}

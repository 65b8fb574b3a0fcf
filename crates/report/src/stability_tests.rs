//! The promise to whoever reads `findings.json`: within one schema number fields are added, never renamed, removed or given another
//! meaning, and what was written once can still be read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::schema::findings_schema;
use record::{Judgement, SCHEMA};

fn data(name: &str) -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/findings");
    folder.join(name)
}

/// What the schema says, one fact a line: every field of every type with the type it has, whether it is always there, every word of
/// every list of words.
fn facts(schema: &Value) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    facts_of("Judgement", schema, &mut facts);
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        facts_of(name, definition, &mut facts);
    }
    facts
}

fn facts_of(name: &str, schema: &Value, facts: &mut BTreeSet<String>) {
    for (field, type_) in schema["properties"].as_object().into_iter().flatten() {
        facts.insert(format!("{name}.{field}: {}", type_of(type_)));
        if let Some(word) = type_["const"].as_str() {
            facts.insert(format!("{name}.{field} may be {word}"));
        }
    }
    for field in schema["required"].as_array().into_iter().flatten() {
        facts.insert(format!(
            "{name}.{} is always there",
            field.as_str().unwrap_or_default()
        ));
    }
    for word in schema["enum"].as_array().into_iter().flatten() {
        facts.insert(format!("{name} may be {word}"));
    }
    if let Some(word) = schema["const"].as_str() {
        facts.insert(format!("{name} may be {word:?}"));
    }
    for way in ["oneOf", "anyOf"] {
        for variant in schema[way].as_array().into_iter().flatten() {
            let word = variant["properties"]
                .as_object()
                .and_then(|fields| fields.values().find_map(|field| field["const"].as_str()));
            let inner = word.map_or(name.to_string(), |word| format!("{name}({word})"));
            facts_of(&inner, variant, facts);
        }
    }
}

/// A type in a word or two; bounds of numbers are left out.
fn type_of(schema: &Value) -> String {
    let of_reference = |text: &str| text.rsplit('/').next().unwrap_or_default().to_string();
    if let Some(reference) = schema["$ref"].as_str() {
        return of_reference(reference);
    }
    if let Some(either) = schema["anyOf"].as_array() {
        let types: Vec<String> = either.iter().map(type_of).collect();
        return types.join(" or ");
    }
    let of_items = || match schema["items"].is_null() {
        true => String::new(),
        false => format!(" of {}", type_of(&schema["items"])),
    };
    match &schema["type"] {
        Value::String(name) => format!("{name}{}", of_items()),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            format!("{}{}", names.join(" or "), of_items())
        }
        _ => "anything".to_string(),
    }
}

/// The facts of a schema number that were ever published. Facts that are new are added with RAILGAUGE_UPDATE=1; none is ever taken away.
#[test]
fn no_field_of_findings_json_vanishes_or_changes_its_type() {
    let now = facts(&serde_json::from_str(&findings_schema()).unwrap());
    let path = data(&format!("schema-{SCHEMA}.facts"));
    let read = || -> BTreeSet<String> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().map(String::from).collect()
    };
    if std::env::var_os("RAILGAUGE_UPDATE").is_some() {
        let all: Vec<String> = read().union(&now).cloned().collect();
        std::fs::write(&path, all.join("\n") + "\n").unwrap();
    }
    let promised = read();
    let broken: Vec<&String> = promised.difference(&now).collect();
    assert!(
        broken.is_empty(),
        "readers of schema {SCHEMA} rely on this: {broken:#?}"
    );
    let new: Vec<&String> = now.difference(&promised).collect();
    assert!(
        new.is_empty(),
        "not promised yet; set RAILGAUGE_UPDATE=1 and run this test again: {new:#?}"
    );
    assert!(promised.len() > 300, "{} facts", promised.len());
}

#[test]
fn the_first_findings_json_of_this_schema_is_still_read_and_still_valid() {
    let text = std::fs::read_to_string(data("first-of-schema-1.json")).unwrap();
    let judgement: Judgement = serde_json::from_str(&text).unwrap();
    assert_eq!(judgement.exit_code, 12);
    assert_eq!(judgement.findings[0].place.rail.as_deref(), Some("loop1"));
    let schema = serde_json::from_str(&findings_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn a_field_of_a_later_version_is_no_reason_to_refuse_a_file() {
    let text = std::fs::read_to_string(data("first-of-schema-1.json")).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["added_later"] = Value::from(1);
    value["findings"][0]["added_later"] = Value::from("x");
    value["cells"][0]["cell"]["added_later"] = Value::from("x");
    let judgement: Judgement = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(judgement.exit_code, 12);
    let schema = serde_json::from_str(&findings_schema()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value));
}

//! JSON Schemas of what crosses between Python and Rust.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::json;

use crate::{Catalogue, Scenario, Summary};

/// Returns one JSON Schema (draft 2020-12) as JSON. Its properties are documents, those that others are made of
/// first; its `$defs` are the types they are made of. It describes what is written: what may be absent is not among
/// the required. Its `tables` are the columns of every table, behind the number of the run.
pub fn schemas() -> String {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let document = |mut schema: Schema, about: &str| {
        schema.insert("description".into(), about.into());
        schema
    };
    let properties = json!({
        "queue": document(generator.subschema_for::<path::QueueConfig>(), "Queue disciplines in a Scenario."),
        "app": document(generator.subschema_for::<crate::scenario::App>(), "Applications in a Scenario."),
        "scenario": document(generator.subschema_for::<Scenario>(), "A Scenario: one run, fully resolved."),
        "summary": document(generator.subschema_for::<Summary>(), "The summary of a run."),
        "catalogue": document(generator.subschema_for::<Catalogue>(), "Catalogue of what an engine knows."),
    });
    let definitions = generator.take_definitions(true);
    crate::to_json(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": ["queue", "app", "scenario", "summary", "catalogue"],
        "$defs": definitions,
        "tables": crate::tables::TABLES,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn every_type_has_a_name_of_its_own() {
        let schemas: Value = serde_json::from_str(&super::schemas()).expect("schemas are JSON");
        let names = schemas["$defs"].as_object().expect("types").keys();
        // schemars numbers types of one name.
        let numbered: Vec<&String> =
            names.filter(|name| name.ends_with(|c: char| c.is_ascii_digit())).collect();
        assert!(numbered.is_empty(), "{numbered:?}: #[schemars(rename = ...)] tells them apart");
    }
}

//! Schemas of documents that are not of a kind: those of the server itself, embedded in the binary.

use jsonschema::Validator;
use serde_json::Value;

use super::validate::{compile, violation};
use crate::refusal::{MOST_VIOLATIONS, Violation};

/// A schema that is part of the release.
#[derive(Debug)]
pub struct FixedSchema {
    pub schema: Value,
    validator: Validator,
}

impl FixedSchema {
    /// Compiles a schema that is embedded in the binary; a test of its user proves that it can be.
    pub(crate) fn embedded(text: &str) -> FixedSchema {
        let schema = crate::yaml::parse(text).expect("an embedded schema is YAML");
        let validator = compile(&schema).expect("an embedded schema compiles");
        FixedSchema { schema, validator }
    }

    /// Everything that is wrong with a document.
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        let mut errors: Vec<_> = self
            .validator
            .iter_errors(value)
            .take(MOST_VIOLATIONS)
            .flat_map(|error| violation(&error, &self.schema))
            .collect();
        errors.sort();
        errors.dedup();
        errors
    }
}

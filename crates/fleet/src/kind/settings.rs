//! The settings under `x-flux` in the document of a kind.

use std::collections::BTreeMap;

use regex::Regex;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::refusal::{Violation, segment};

/// The settings of a kind besides Firestone's: how clusters refer to it, and what Flux makes of it.
///
/// Unknown settings are ignored here, because a later release may have written them; [`unknown_settings`] refuses them when a kind
/// is put. The known settings are the fields of this struct.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Flux {
    pub plural: Option<String>,
    pub singular: Option<String>,
    /// The CLI's command for this kind.
    pub command: Option<String>,
    /// The last segment of its Flux endpoint.
    pub path: Option<String>,
    /// The cluster's array of references.
    pub references: Option<String>,
    /// Fields of the definition that a reference may override with a value that is not null.
    pub overridable: Vec<String>,
    /// Fields that only the reference has, each with its schema.
    pub carried: BTreeMap<String, Value>,
    /// Whether `patches[id]` of the cluster goes into the input.
    pub patches: bool,
    /// Fields that go into an object of this name in the input.
    pub nest: BTreeMap<String, Vec<String>>,
    /// The field that lists ids of the same kind that must be healthy first.
    pub depends_on: Option<String>,
    /// Flux garbage-collects an input with these values, although it stays in the list.
    pub off: Map<String, Value>,
    /// What Flux makes of an input: the first rule that matches.
    pub renders: Vec<Render>,
    /// Labels of the cluster that its inputs of this kind carry, as `cluster.labels`.
    pub cluster_labels: Vec<String>,
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Render {
    pub object: String,
    /// The source of the object's content. If the source changes, Flux removes what came from the old one.
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default, deserialize_with = "patterns")]
    pub when: BTreeMap<String, Regex>,
    /// The keys of patches that have an effect on such an object; by default, all.
    #[serde(default, deserialize_with = "pattern")]
    pub patch_keys: Option<Regex>,
    /// The values of patches that have an effect on such an object, as text.
    #[serde(default, deserialize_with = "pattern")]
    pub patch_values: Option<Regex>,
    /// Fields without effect on such an object, if they have this value; null stands for any value.
    #[serde(default)]
    pub ignores: BTreeMap<String, Value>,
    /// Fields that say where the object's content goes, each with the field that it defaults to, or null. If one changes, Flux
    /// removes the content and creates it again elsewhere.
    #[serde(default)]
    pub recreated_on: BTreeMap<String, Option<String>>,
}

fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    let pattern = Option::<String>::deserialize(from)?;
    let pattern = pattern.map(|pattern| Regex::new(&pattern).map_err(D::Error::custom));
    pattern.transpose()
}

fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Regex>, D::Error> {
    BTreeMap::<String, String>::deserialize(from)?
        .into_iter()
        .map(|(field, pattern)| Ok((field, Regex::new(&pattern).map_err(D::Error::custom)?)))
        .collect()
}

impl Flux {
    /// Reads the settings of a kind's schema. A problem is added to `errors`.
    pub(super) fn read(schema: &Value, errors: &mut Vec<Violation>) -> Flux {
        let Some(given) = schema.get("x-flux") else {
            return Flux::default();
        };
        Flux::deserialize(given).unwrap_or_else(|error| {
            errors.push(Violation::new("/schema/x-flux", error.to_string()));
            Flux::default()
        })
    }

    /// Reads the settings, without those that this release cannot read.
    pub(super) fn read_leniently(given: &Value) -> Flux {
        let readable = |name: &str, value: &Value| {
            let alone = Map::from_iter([(name.to_owned(), value.clone())]);
            serde_json::from_value::<Flux>(alone.into()).is_ok()
        };
        let settings = given.as_object().into_iter().flatten();
        let settings = settings.filter(|(name, value)| readable(name, value));
        let settings: Map<String, Value> = settings.map(|(name, value)| (name.clone(), value.clone())).collect();
        serde_json::from_value(settings.into()).unwrap_or_default()
    }
}

/// The settings under `x-flux` that this release does not know.
pub(crate) fn unknown_settings(document: &Value) -> Vec<Violation> {
    let known = known();
    let given = document
        .pointer("/schema/x-flux")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let unknown = given.filter(|(name, _)| !known.contains(&name.as_str()));
    let violations = unknown.map(|(name, _)| {
        let pointer = format!("/schema/x-flux{}", segment(name));
        Violation::new(pointer, format!("is unknown; known: {}", known.join(", ")))
    });
    violations.collect()
}

/// The names of the settings: the fields of [`Flux`].
fn known() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    let read = Flux::deserialize(FieldNames(&mut names));
    debug_assert!(read.is_ok(), "every setting has a default");
    names
}

/// Deserializes an empty struct, and keeps the field names that serde passes.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        visitor.visit_map(MapDeserializer::new(std::iter::empty::<(&str, &str)>()))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a struct is expected"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_names_of_settings_are_the_fields_of_the_struct() {
        let expected = "plural singular command path references overridable carried patches nest depends_on off renders cluster_labels";
        assert_eq!(known().join(" "), expected);
    }

    #[test]
    fn settings_that_cannot_be_read_are_left_out() {
        let flux = Flux::read_leniently(&json!({"command": "np", "path": 1, "later": {}, "overridable": ["a"]}));
        assert_eq!((flux.command.as_deref(), flux.path), (Some("np"), None));
        assert_eq!(flux.overridable, ["a"]);
        assert!(Flux::read_leniently(&json!("no object")).command.is_none());
    }
}

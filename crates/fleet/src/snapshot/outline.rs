//! The parts of a cluster's document that a snapshot indexes, read from its text without parsing the whole document: parsing would take most of the
//! time of loading a large store.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::{Name, unquoted};
use crate::kind::Kinds;

/// The parts of a cluster's document that it is looked up by.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClusterOutline<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) dns: Cow<'a, str>,
    pub(crate) environment: Cow<'a, str>,
    pub(super) protected: bool,
    pub(super) has_patches: bool,
    pub(super) labels: Vec<Label<'a>>,
    /// Per kind, in the order of [`Kinds::definitions`], the ids of the references.
    pub(super) references: Vec<Vec<Cow<'a, str>>>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Label<'a> {
    pub(super) key: Cow<'a, str>,
    /// As selectors see it.
    pub(crate) value: Cow<'a, str>,
    /// Whether it is a text. The schema of clusters may allow other values.
    pub(super) is_text: bool,
}

impl<'a> ClusterOutline<'a> {
    pub(super) fn of(text: &'a str, kinds: &Kinds) -> Self {
        let mut outline = ClusterOutline::default();
        outline.references.resize_with(kinds.definitions().count(), Vec::new);
        let arrays = kinds.definitions().map(|kind| kind.references.as_deref());
        let reader = Reader {
            arrays: arrays.collect(),
            outline: &mut outline,
        };
        // Every stored document is an object; of anything else there is nothing to read.
        let _ = reader.deserialize(&mut serde_json::Deserializer::from_str(text));
        outline
    }

    pub(crate) fn label(&self, key: &str) -> Option<&Label<'a>> {
        self.labels.iter().find(|label| label.key == key)
    }
}

struct Reader<'r, 'a> {
    /// The array of references of each kind.
    arrays: Vec<Option<&'r str>>,
    outline: &'r mut ClusterOutline<'a>,
}

impl<'a> DeserializeSeed<'a> for Reader<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Reader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cluster")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<(), A::Error> {
        let Reader { arrays, outline } = self;
        while let Some(Name(name)) = fields.next_key()? {
            match &*name {
                "cluster_name" => outline.name = fields.next_value::<Text<'a>>()?.0,
                "cluster_dns" => outline.dns = fields.next_value::<Text<'a>>()?.0,
                "environment" => outline.environment = fields.next_value::<Text<'a>>()?.0,
                "protected" => outline.protected = fields.next_value::<&RawValue>()?.get() == "true",
                "patches" => {
                    let patches = fields.next_value::<&RawValue>()?.get();
                    outline.has_patches = !["{}", "null"].contains(&patches);
                }
                "labels" => outline.labels = fields.next_value::<Labels<'a>>()?.0,
                name => match arrays.iter().position(|array| *array == Some(name)) {
                    Some(position) => outline.references[position] = fields.next_value::<References<'a>>()?.0,
                    None => {
                        fields.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        Ok(())
    }
}

/// A text, borrowed unless it has an escape. Anything else is read as an empty one.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        Ok(Text(unquoted(raw).unwrap_or_default()))
    }
}

#[derive(Default)]
struct Labels<'a>(Vec<Label<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        // Not an object: there are none.
        Ok(Labels(
            serde_json::from_str(raw).map(|LabelMap(all)| all).unwrap_or_default(),
        ))
    }
}

struct LabelMap<'a>(Vec<Label<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for LabelMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LabelVisitor).map(LabelMap)
    }
}

struct LabelVisitor;

impl<'a> Visitor<'a> for LabelVisitor {
    type Value = Vec<Label<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut labels: Vec<Label<'a>> = Vec::new();
        while let Some((Name(key), value)) = fields.next_entry::<Name<'a>, &'a RawValue>()? {
            // As elsewhere, the last one counts of those with the same name.
            labels.retain(|label| label.key != key);
            let (value, is_text) = match unquoted(value.get()) {
                Some(text) => (text, true),
                None if value.get() == "null" => continue,
                None => (value.get().into(), false),
            };
            labels.push(Label { key, value, is_text });
        }
        Ok(labels)
    }
}

#[derive(Default)]
struct References<'a>(Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for References<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReferencesVisitor).map(References)
    }
}

/// Anything but a list of objects has no references.
macro_rules! nothing_in_scalars {
    () => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
}

struct ReferencesVisitor;

impl<'a> Visitor<'a> for ReferencesVisitor {
    type Value = Vec<Cow<'a, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("references")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut ids = Vec::new();
        while let Some(ReferenceId(id)) = items.next_element()? {
            ids.push(id);
        }
        Ok(ids)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Vec::new())
    }

    nothing_in_scalars!();
}

/// The id of one reference.
struct ReferenceId<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for ReferenceId<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReferenceVisitor).map(ReferenceId)
    }
}

struct ReferenceVisitor;

impl<'a> Visitor<'a> for ReferenceVisitor {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reference")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut id = Cow::default();
        while let Some(Name(name)) = fields.next_key()? {
            match &*name {
                "id" => id = fields.next_value::<Text<'a>>()?.0,
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(id)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Cow::default())
    }

    nothing_in_scalars!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::kind::built_in_kinds;
    use serde_json::json;

    #[test]
    fn an_outline_is_what_the_document_has() {
        let kinds = built_in_kinds();
        let text = json!({
            "id": "a", "cluster_name": "n \"quoted\"", "cluster_dns": "A.example.com", "environment": "dev", "protected": true,
            "labels": {"ring": "canary", "é": "\u{1F600}", "size": 3, "none": null, "deep": {"b": [1]}},
            "patches": {"podinfo": {"a": "b"}},
            "platform_components": [{"id": "x", "enabled": true, "oci_tag": null}, {"enabled": false, "id": "y\n"}],
            "namespaces": [{"id": "z"}],
        })
        .to_string();
        let outline = ClusterOutline::of(&text, &kinds);
        assert_eq!(
            (&*outline.name, &*outline.dns, &*outline.environment),
            ("n \"quoted\"", "A.example.com", "dev")
        );
        assert!(outline.protected && outline.has_patches);
        assert!(!ClusterOutline::of(r#"{"id":"a","patches":{}}"#, &kinds).has_patches);
        let labels: Vec<_> = outline
            .labels
            .iter()
            .map(|label| (&*label.key, &*label.value, label.is_text))
            .collect();
        assert_eq!(labels.len(), 4, "a null is no label");
        for label in [
            ("ring", "canary", true),
            ("é", "\u{1F600}", true),
            ("size", "3", false),
            ("deep", r#"{"b":[1]}"#, false),
        ] {
            assert!(labels.contains(&label), "{label:?}");
        }
        let references: Vec<_> = kinds
            .definitions()
            .map(|kind| &*kind.name)
            .zip(&outline.references)
            .collect();
        for (kind, ids) in references {
            let expected: &[&str] = match kind {
                "platform_components" => &["x", "y\n"],
                "namespaces" => &["z"],
                _ => &[],
            };
            assert_eq!(ids, expected, "{kind}");
        }
    }

    /// A store that somebody edited may hold anything. What can be read is read.
    #[test]
    fn values_of_other_types_are_read_as_nothing_and_the_rest_stays() {
        let kinds = built_in_kinds();
        for odd in [
            json!(null),
            json!(1),
            json!(-1.5),
            json!(true),
            json!("x"),
            json!([1, [2]]),
            json!({"a": {"b": 1}}),
        ] {
            let text = json!({
                "a": odd, "cluster_dns": "d", "cluster_name": odd, "labels": odd, "namespaces": [odd, {"id": odd}, {"id": "n"}],
                "platform_components": odd, "protected": odd, "rolebindings": [{"id": "r"}],
            });
            let text = Json::new(&text);
            let outline = ClusterOutline::of(text.as_str(), &kinds);
            assert_eq!(outline.dns, "d", "{text:?}");
            let position = |name: &str| kinds.definitions().position(|kind| &*kind.name == name).unwrap();
            assert_eq!(outline.references[position("rolebindings")], ["r"], "{text:?}");
            let namespaces = &outline.references[position("namespaces")];
            let id = odd.as_str().unwrap_or_default();
            assert_eq!(namespaces, &["", id, "n"], "{text:?}");
        }
        assert_eq!(ClusterOutline::of("[]", &kinds).dns, "");
    }
}

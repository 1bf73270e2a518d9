//! The text of an input that is the same for every cluster but for the cluster block: of a definition that a cluster refers to, and says
//! nothing else about. Most inputs are such, so that most of a reply is copied and not merged.

use serde_json::Value;

use super::mark::{DESIRED, Mark};
use super::merge::{Effective, Part};
use super::patches;
use crate::document::Etag;
use crate::json;
use crate::kind::Kind;

/// The field of an input that tells which cluster it is for.
const CLUSTER: &str = "cluster";

/// An input without its cluster block, in canonical JSON.
#[derive(Debug)]
pub(crate) struct Common {
    /// The version of the kind that says what an input looks like.
    kind: Etag,
    /// Everything before the cluster block, between it and the mark, and after the mark.
    before: Box<str>,
    between: Box<str>,
    after: Box<str>,
    /// Whether it is turned on.
    pub(super) is_active: bool,
}

impl Common {
    /// None if the definition has a field of its own where the cluster block or the mark goes.
    pub(crate) fn new(kind: &Kind, definition: &Value) -> Option<Common> {
        let input = Effective::new(kind, definition, &Value::Null, &Value::Null).input(None);
        let is_active = !input.is_off("enabled");
        let Part::Object(fields) = input else {
            return None;
        };
        let (mut before, mut between, mut after) = (String::from("{"), String::new(), String::new());
        for (name, part) in fields {
            let text = match name {
                CLUSTER | DESIRED => return None,
                _ if name < CLUSTER => &mut before,
                _ if name < DESIRED => &mut between,
                _ => &mut after,
            };
            if name > CLUSTER {
                text.push(',');
            }
            json::write_str(name, text);
            text.push(':');
            part.write(text);
            if name < CLUSTER {
                text.push(',');
            }
        }
        json::write_str(CLUSTER, &mut before);
        before.push(':');
        after.push('}');
        Some(Common {
            kind: kind.etag,
            before: before.into(),
            between: between.into(),
            after: after.into(),
            is_active,
        })
    }

    /// Whether a cluster says nothing about the definition but that it refers to it. `cluster` is its document.
    pub(super) fn is_all(&self, kind: &Kind, reference: &Value, cluster: &Value) -> bool {
        let given = |name: &str| reference.get(name).filter(|value| !value.is_null());
        let is_default =
            |(name, schema): (&String, &Value)| given(name).is_none_or(|value| schema.get("default") == Some(value));
        self.kind == kind.etag
            && kind.flux.overridable.iter().all(|name| given(name).is_none())
            && kind.flux.carried.iter().all(is_default)
            && patches(kind, reference, cluster).is_none()
    }

    /// Appends the input in the plain form. `block` is the cluster block.
    pub(super) fn write(&self, block: &str, out: &mut String) {
        for text in [&self.before, block, &self.between, &self.after] {
            out.push_str(text);
        }
    }

    /// The same with its mark.
    pub(super) fn write_marked(&self, block: &str, mark: Mark, out: &mut String) {
        for text in [&self.before, block, &self.between] {
            out.push_str(text);
        }
        out.push_str(&format!(r#","{DESIRED}":{{"input":"{mark}"}}"#));
        out.push_str(&self.after);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inputs::mark::write_marked;
    use crate::kind::built_in_kinds;

    /// Whatever is copied must be what the merge would give, to the byte.
    #[test]
    fn what_is_copied_is_what_the_merge_gives() {
        let kinds = built_in_kinds();
        let block = Part::Object(vec![("dns", Part::Text("a.example.com")), ("name", Part::Text("a"))]);
        let definitions = [
            json!({"id": "podinfo", "component_path": "p\"q", "oci_url": "oci://x", "oci_tag": "6.7.1", "depends_on": ["a", "b"]}),
            json!({"id": "a", "labels": {"z": "1", "a": "ü"}, "annotations": {}}),
            json!({"id": "b", "aa": 1, "clusters": [], "cm": null, "desir": 2, "desirf": 3, "zz": {"cluster": 1}}),
        ];
        let mut copied = 0;
        for kind in kinds.definitions() {
            let carried: Vec<_> = kind.flux.carried.keys().collect();
            let mut references = vec![json!({"id": "x"}), json!({"id": "x", "oci_tag": null, "enabled": null})];
            references.extend(
                carried
                    .iter()
                    .flat_map(|field| [json!({"id": "x", *field: true}), json!({"id": "x", *field: false})]),
            );
            references.extend(kind.flux.overridable.iter().map(|field| json!({"id": "x", field: "o"})));
            for (definition, reference) in definitions
                .iter()
                .flat_map(|one| references.iter().map(move |other| (one, other)))
            {
                let common = Common::new(kind, definition).unwrap();
                for cluster in [
                    json!({}),
                    json!({"patches": {"y": {"a": "b"}}}),
                    json!({"patches": {"x": {"a": "b"}}}),
                ] {
                    let effective = Effective::new(kind, definition, reference, &cluster);
                    let Part::Object(mut fields) = effective.input(None) else {
                        panic!()
                    };
                    let place = fields.binary_search_by_key(&CLUSTER, |(name, _)| name).unwrap_err();
                    let text = block.to_text();
                    let value: Value = serde_json::from_str(&text).unwrap();
                    fields.insert(place, (CLUSTER, Part::Value(&value)));
                    let merged = Part::Object(fields);
                    let expected = merged.to_text();
                    let mut plain = String::new();
                    common.write(&text, &mut plain);
                    if !common.is_all(kind, reference, &cluster) {
                        assert_ne!(plain, expected, "{reference} {cluster}: could have been copied");
                        continue;
                    }
                    copied += 1;
                    assert_eq!(plain, expected);
                    assert_eq!(common.is_active, !merged.is_off("enabled"));
                    let (mut marked, mut expected) = (String::new(), String::new());
                    common.write_marked(&text, Mark(7), &mut marked);
                    write_marked(merged, Mark(7), &mut expected);
                    assert_eq!(marked, expected);
                }
            }
        }
        assert!(copied > 20, "{copied}");
    }

    #[test]
    fn nothing_is_copied_over_a_field_of_the_same_name_or_with_another_kind() {
        let kinds = built_in_kinds();
        let kind = kinds.get("namespaces").unwrap();
        for field in [CLUSTER, DESIRED] {
            assert!(Common::new(kind, &json!({"id": "a", field: 1})).is_none(), "{field}");
        }
        let common = Common::new(kind, &json!({"id": "a"})).unwrap();
        let other = kinds.get("rolebindings").unwrap();
        let reference = json!({"id": "a"});
        assert!(common.is_all(kind, &reference, &Value::Null) && !common.is_all(other, &reference, &Value::Null));
    }
}

//! Whether a write touches what a patch changes. Both are lists of pointers to the smallest parts that merging replaces as a whole.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::inputs::reference_id;
use crate::refusal::segment;

/// Names the parts of documents as [`crate::patch::apply`] merges them: objects by field, arrays of references by id. Everything else
/// is one part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    /// The fields of the document that are arrays of references.
    pub(super) references: &'a [&'a str],
}

impl Parts<'_> {
    /// What a patch changes.
    pub(super) fn patched(&self, patch: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for (name, field) in patch.as_object().into_iter().flatten() {
            let mut at = segment(name);
            match field {
                Value::Array(items) if self.references.contains(&name.as_str()) => {
                    items.iter().for_each(|item| in_reference(item, &at, &mut found));
                }
                field => leaves(field, &mut at, &mut found),
            }
        }
        found
    }

    /// What differs between two documents.
    pub(super) fn changed(&self, before: &Value, after: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for name in names(before.as_object(), after.as_object()) {
            let (old, new, mut at) = (before.get(name), after.get(name), segment(name));
            match (references(old), references(new)) {
                (Some(old), Some(new)) if self.references.contains(&name) => {
                    changed_references(old, new, &mut at, &mut found);
                }
                _ => differences(old, new, &mut at, &mut found),
            }
        }
        found
    }
}

/// The first of some pointers that is one of the others, contains one, or lies in one.
pub(super) fn overlap(mut pointers: Vec<String>, mut others: Vec<String>) -> Option<String> {
    pointers.sort_by(|one, other| by_segments(one, other));
    others.sort_by(|one, other| by_segments(one, other));
    let found = first_overlap(pointers.iter().map(String::as_str), others.iter().map(String::as_str));
    found.map(str::to_owned)
}

/// Walks both lists once, which are sorted by segments: what lies in a pointer directly follows it.
fn first_overlap<'a>(
    mut pointers: impl Iterator<Item = &'a str>,
    mut others: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let (mut pointer, mut other) = (pointers.next()?, others.next()?);
    loop {
        if contains(pointer, other) || contains(other, pointer) {
            return Some(pointer);
        }
        match by_segments(pointer, other) {
            Ordering::Less => pointer = pointers.next()?,
            _ => other = others.next()?,
        }
    }
}

fn by_segments(one: &str, other: &str) -> Ordering {
    one.split('/').cmp(other.split('/'))
}

/// Whether a pointer is another one, or leads to it.
fn contains(pointer: &str, other: &str) -> bool {
    let rest = other.strip_prefix(pointer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn leaves(value: &Value, at: &mut String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                below(at, name, |at| leaves(field, at, found));
            }
        }
        _ => found.push(at.clone()),
    }
}

/// What a patch changes of a reference. One that is removed, or added as it is, is one part.
fn in_reference(item: &Value, array: &str, found: &mut Vec<String>) {
    let mut at = format!("{array}{}", segment(reference_id(item)));
    let fields = || item.as_object().into_iter().flatten().filter(|(name, _)| *name != "id");
    if item.get("$patch").is_some() || fields().next().is_none() {
        found.push(at);
        return;
    }
    for (name, field) in fields() {
        below(&mut at, name, |at| leaves(field, at, found));
    }
}

fn differences(before: Option<&Value>, after: Option<&Value>, at: &mut String, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    let is_map = |value: Option<&Value>| value.is_some_and(Value::is_object);
    let is_absent = |value: Option<&Value>| value.is_none_or(Value::is_null);
    // An object that is absent has no fields: writing one field of it does not touch the others.
    let are_maps = match (is_map(before), is_map(after)) {
        (true, true) => true,
        (true, false) => is_absent(after),
        (false, true) => is_absent(before),
        (false, false) => false,
    };
    if !are_maps {
        found.push(at.clone());
        return;
    }
    let (old, new) = (before.and_then(Value::as_object), after.and_then(Value::as_object));
    for name in names(old, new) {
        let (old, new) = (old.and_then(|all| all.get(name)), new.and_then(|all| all.get(name)));
        below(at, name, |at| differences(old, new, at, found));
    }
}

/// What differs between two arrays of references. Merging keeps their order, so that it is no part. A reference that comes or goes is one.
fn changed_references(before: &[Value], after: &[Value], at: &mut String, found: &mut Vec<String>) {
    let [old, new] = [before, after]
        .map(|items| -> BTreeMap<&str, &Value> { items.iter().map(|item| (reference_id(item), item)).collect() });
    let ids: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for id in ids {
        below(at, id, |at| match (old.get(id), new.get(id)) {
            (Some(old), Some(new)) => differences(Some(old), Some(new), at, found),
            _ => found.push(at.clone()),
        });
    }
}

/// The items of an array. One that is absent has none.
fn references(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None | Some(Value::Null) => Some(&[]),
        Some(Value::Array(items)) => Some(items),
        Some(_) => None,
    }
}

fn names<'a>(one: Option<&'a Map<String, Value>>, other: Option<&'a Map<String, Value>>) -> BTreeSet<&'a str> {
    let all = [one, other].into_iter().flatten();
    all.flat_map(|fields| fields.keys().map(String::as_str)).collect()
}

/// Does something at the place of a field.
fn below(at: &mut String, name: &str, work: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push_str(&segment(name));
    work(at);
    at.truncate(length);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    const PROFILE: Parts<'_> = Parts {
        references: &["platform_components"],
    };

    #[test]
    fn only_arrays_of_references_have_parts_by_id() {
        let patch = json!({
            "values": {"users": [{"id": "alice"}], "on": true}, "labels": {}, "a/b": 1,
            "platform_components": [{"id": "x"}, {"id": "y", "$patch": "delete"}, {"id": "z", "input": {"list": [{"id": 1}]}, "tag": null}],
        });
        let expected = [
            "/a~1b",
            "/labels",
            "/platform_components/x",
            "/platform_components/y",
            "/platform_components/z/input/list",
            "/platform_components/z/tag",
            "/values/on",
            "/values/users",
        ];
        let mut found = PROFILE.patched(&patch);
        found.sort();
        assert_eq!(found, expected);
        let found = Parts { references: &[] }.patched(&patch);
        assert!(found.contains(&"/platform_components".to_owned()), "{found:?}");
    }

    #[test]
    fn an_absent_object_has_no_fields() {
        for (before, after, expected) in [
            (json!({}), json!({"m": {"a": 1}}), vec!["/m/a"]),
            (
                json!({"m": {"a": 1, "b": {"c": 1}}}),
                json!({"m": null}),
                vec!["/m/a", "/m/b/c"],
            ),
            (json!({"m": {}}), json!({}), vec![]),
            (json!({"m": 1}), json!({"m": {"a": 1}}), vec!["/m"]),
            (json!({"m": 1}), json!({}), vec!["/m"]),
            (json!({"m": [{"id": "a"}]}), json!({"m": [{"id": "b"}]}), vec!["/m"]),
            (
                json!({}),
                json!({"platform_components": [{"id": "a"}]}),
                vec!["/platform_components/a"],
            ),
            (
                json!({"platform_components": [{"id": "a", "tag": 1}, {"id": "b"}]}),
                json!({"platform_components": [{"id": "b"}, {"id": "a", "tag": 2}]}),
                vec!["/platform_components/a/tag"],
            ),
            (
                json!({"platform_components": [{"id": "a", "tag": 1}]}),
                json!({"platform_components": []}),
                vec!["/platform_components/a"],
            ),
        ] {
            assert_eq!(PROFILE.changed(&before, &after), expected, "{before} {after}");
        }
    }

    #[test]
    fn pointers_overlap_if_one_leads_to_the_other() {
        for (pointers, others, expected) in [
            (vec!["/a"], vec!["/a"], Some("/a")),
            (vec!["/a"], vec!["/a/b"], Some("/a")),
            (vec!["/a/b"], vec!["/a"], Some("/a/b")),
            (vec!["/a"], vec!["/ab"], None),
            (vec!["/a/c", "/a-b"], vec!["/a/b"], None),
            // A character before the slash must not come between a pointer and what lies in it.
            (vec!["/a/b"], vec!["/a-b", "/a"], Some("/a/b")),
            (vec!["/x", "/m/z"], vec!["/m/a", "/m/z/y", "/n"], Some("/m/z")),
            (vec![], vec!["/a"], None),
        ] {
            let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
            let found = overlap(owned(&pointers), owned(&others));
            assert_eq!(found.as_deref(), expected, "{pointers:?} {others:?}");
        }
    }

    /// The one writer waits for this.
    #[test]
    fn many_pointers_are_each_looked_at_once() {
        let all: Vec<String> = (0..50_000).map(|n| format!("/values/{n:05}")).collect();
        let looks = Cell::new(0);
        let every = |odd: usize| {
            let chosen = all.iter().skip(odd).step_by(2).map(String::as_str);
            chosen.inspect(|_| looks.set(looks.get() + 1))
        };
        assert_eq!(first_overlap(every(0), every(1)), None);
        assert!(looks.get() <= all.len(), "{}", looks.get());
    }
}

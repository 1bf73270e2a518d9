//! Overrides of fields that are maps.

use fleet::diff::differences;
use serde_json::Value;

/// `base` with the keys of `over` merged into it, recursively; null removes a key.
pub(super) fn merged(base: &Value, over: &Value) -> Value {
    let Value::Object(changes) = over else {
        return over.clone();
    };
    let mut result = base.as_object().cloned().unwrap_or_default();
    for (key, value) in changes {
        match value {
            Value::Null => {
                result.remove(key);
            }
            value => {
                let inner = merged(result.get(key).unwrap_or(&Value::Null), value);
                result.insert(key.clone(), inner);
            }
        }
    }
    result.into()
}

/// The keys that are in `before` and not in `after`, as pointers.
pub(super) fn lost_keys(before: &Value, after: &Value) -> Vec<String> {
    let all = differences(Some(before), Some(after)).into_iter();
    let lost = all.filter(|difference| difference.after.as_ref().is_none_or(Value::is_null));
    lost.map(|difference| difference.pointer).collect()
}

/// The value which, merged into `present`, gives `wanted`: the API merges the fields of a reference.
pub(super) fn patch(present: &Value, wanted: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (present, wanted) else {
        return wanted.clone();
    };
    let mut result = new.clone();
    for (key, value) in &mut result {
        if let Some(before) = old.get(key) {
            *value = patch(before, value);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        result.insert(key.clone(), Value::Null);
    }
    result.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_gives_exactly_what_is_wanted() {
        let cases = [
            (json!(null), json!({"a": 1})),
            (json!({"a": 1, "b": {"c": 1, "d": 2}}), json!({"b": {"c": 3}})),
            (json!({"a": {"b": 1}}), json!({"a": [1]})),
            (json!({"a": 1}), json!({})),
            (json!({"a": 1}), json!("text")),
        ];
        for (present, wanted) in cases {
            assert_eq!(merged(&present, &patch(&present, &wanted)), wanted, "{present}");
        }
    }

    #[test]
    fn maps_are_merged_key_by_key() {
        let base = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2]});
        let over = json!({"b": {"c": 3, "d": null}, "e": [3], "f": {"g": 1}});
        let expected = json!({"a": 1, "b": {"c": 3}, "e": [3], "f": {"g": 1}});
        assert_eq!(merged(&base, &over), expected);
    }

    #[test]
    fn lost_keys_are_named() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}});
        assert_eq!(lost_keys(&before, &json!({"b": {"d": 3}, "z": 1})), ["/a", "/b/c"]);
        assert!(lost_keys(&before, &before).is_empty());
    }
}

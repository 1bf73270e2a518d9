//! Dropping nested values without recursion: a template can nest lists deeper than the stack allows.

use super::Value;

/// Drops the values, and the values in them, one after the other.
pub(super) fn unravel(mut values: Vec<Value>) {
    while let Some(value) = values.pop() {
        let inner = match value {
            Value::List(list) => list.into_unshared(),
            Value::Map(map) => map.into_unshared(),
            _ => None,
        };
        values.extend(inner.into_iter().flatten());
    }
}

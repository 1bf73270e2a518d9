//! Values during evaluation.

use crate::{
    fmt,
    value::{Elem, List, Map, Value},
};

/// A value as Go holds it in a `reflect.Value`.
///
/// An element of a `[]interface {}` or `map[string]interface {}` is in an interface when it is read, and is unwrapped at the end
/// of a pipeline. That decides what a template may do with nil, and how errors name the type.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    value: Value,
    /// Whether the value is in an `interface {}`.
    boxed: bool,
}

impl Slot {
    /// No value at all, unlike a nil in an interface.
    pub(super) const fn none() -> Self {
        Self {
            value: Value::Nil,
            boxed: false,
        }
    }

    pub(super) const fn bare(value: Value) -> Self {
        Self { value, boxed: false }
    }

    pub(super) const fn boxed(value: Value) -> Self {
        Self { value, boxed: true }
    }

    fn element(value: Value, elem: Elem) -> Self {
        Self {
            value,
            boxed: elem == Elem::Any,
        }
    }

    /// The entry of a map.
    pub(super) fn entry(map: &Map, key: &[u8]) -> Option<Self> {
        map.get(key).map(|value| Self::element(value, map.elem()))
    }

    /// The zero value of a map's element type.
    pub(super) fn zero(map: &Map) -> Self {
        Self::element(map.elem().zero(), map.elem())
    }

    /// The item of a list.
    pub(super) fn item(list: &List, index: usize) -> Option<Self> {
        list.get(index).map(|value| Self::element(value, list.elem()))
    }

    /// Key and value of each entry of a map, in order.
    pub(super) fn entries(map: &Map) -> impl Iterator<Item = (Self, Self)> + use<> {
        let elem = map.elem();
        map.to_vec()
            .into_iter()
            .map(move |(key, value)| (Self::bare(Value::Str(key)), Self::element(value, elem)))
    }

    pub(super) const fn is_none(&self) -> bool {
        matches!(self.value, Value::Nil) && !self.boxed
    }

    /// Whether it is nil in an interface.
    pub(super) const fn is_boxed_nil(&self) -> bool {
        matches!(self.value, Value::Nil) && self.boxed
    }

    pub(super) const fn is_boxed(&self) -> bool {
        self.boxed
    }

    /// The value, unwrapped from its interface.
    pub(super) fn unboxed(self) -> Self {
        Self { boxed: false, ..self }
    }

    pub(super) const fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn into_value(self) -> Value {
        self.value
    }

    pub(super) fn type_name(&self) -> &'static str {
        if self.boxed {
            "interface {}"
        } else {
            fmt::type_name(&self.value)
        }
    }

    /// Whether `if` takes the value as true.
    pub(super) fn is_true(&self) -> bool {
        match &self.value {
            Value::Nil => false,
            Value::Bool(value) => *value,
            Value::Int(_, number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Time(_) | Value::Location(_) => true,
        }
    }
}

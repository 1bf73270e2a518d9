//! A value on its way through the engine.

use crate::{
    format,
    value::{Elem, List, Map, Value},
};

/// What Go holds as a `reflect.Value`.
///
/// An element of a `[]interface {}` or `map[string]interface {}` is still in its interface when it is read, and comes out
/// at the end of a pipeline. What a template prints is the same, what it may do with nil and how errors name the type is
/// not.
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

    /// Whether it is a nil in an interface.
    pub(super) const fn is_boxed_nil(&self) -> bool {
        matches!(self.value, Value::Nil) && self.boxed
    }

    pub(super) const fn is_boxed(&self) -> bool {
        self.boxed
    }

    /// The same, out of its interface.
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
            format::type_name(&self.value)
        }
    }

    /// What `if` goes by.
    pub(super) fn is_true(&self) -> bool {
        match &self.value {
            Value::Nil => false,
            Value::Bool(value) => *value,
            Value::Int(_, number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) => list.len() > 0,
            Value::Map(map) => map.len() > 0,
            Value::Time(_) | Value::Location(_) => true,
        }
    }
}

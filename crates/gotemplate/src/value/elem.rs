//! Element types of lists and maps.

use super::{IntType, List, Value};

/// The element type of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Elem {
    /// `interface {}`.
    Any,
    /// `string`.
    Str,
    /// `int`.
    Int,
    /// `[]interface {}`, as in the `[][]interface {}` that `chunk` returns.
    Anys,
    /// `uint8`, as in `[]byte`.
    Byte,
}

impl Elem {
    /// The zero value of the type.
    pub(crate) fn zero(self) -> Value {
        match self {
            Self::Any => Value::Nil,
            Self::Str => Value::str(""),
            Self::Int => Value::int(0),
            Self::Anys => Value::List(List::nil(Self::Any)),
            Self::Byte => Value::Int(IntType::Uint8, 0),
        }
    }
}

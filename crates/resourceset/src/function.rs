//! What a template may call, and how Go declares it.
//!
//! The engine checks and converts arguments by the declared types before it calls, as `reflect` does in Go, so the bodies
//! see what they declared and only that.

use crate::value::Value;

/// The longest string that a function makes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// The longest list that a function makes.
pub(crate) const MAX_ITEMS: usize = 1 << 20;
/// How deep values may nest where a function walks them.
pub(crate) const MAX_DEPTH: usize = 250;

/// The declared type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Param {
    /// `interface {}`: anything, nil too.
    Any,
    /// `reflect.Value`, in the built-ins: anything, and what is missing arrives as [`Value::Nil`].
    Reflect,
    Bool,
    Int,
    Float64,
    Str,
    /// `map[string]interface {}`. A nil arrives as the nil map.
    Dict,
    /// `[]uint8`. A nil arrives as the nil slice.
    Bytes,
    /// `time.Time`.
    Time,
    /// `time.Duration`; an integer constant in the template becomes one, an `int` value does not.
    Duration,
    /// `*time.Location`. A nil arrives as [`Value::Nil`].
    Location,
}

impl Param {
    /// The name of the type, as errors print it.
    pub(crate) const fn type_name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float64 => "float64",
            Self::Str => "string",
            Self::Dict => "map[string]interface {}",
            Self::Bytes => "[]uint8",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Location => "*time.Location",
        }
    }
}

/// Gets the arguments; a method its receiver before them.
pub(crate) type Body = fn(&[Value]) -> Result<Value, Failure>;

/// Why a function failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It returned an error: the text of it.
    Error(String),
    /// It panicked in Go, which text/template turns into an error too: the text of the panic.
    Panic(String),
    /// It would go beyond the bounds that we set on time and memory. Go has none.
    Bound(String),
}

impl Failure {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Error(text) | Self::Panic(text) | Self::Bound(text) => text,
        }
    }

    /// A result would be too large.
    pub(crate) fn size() -> Self {
        Self::Bound("result too large".to_owned())
    }

    /// A value nests too deeply, perhaps in itself.
    pub(crate) fn depth() -> Self {
        Self::Bound("value nested too deeply".to_owned())
    }
}

/// A function or method, with the types of its parameters (for a method without the receiver).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) params: &'static [Param],
    /// The type of further arguments, if it takes any number of them.
    pub(crate) rest: Option<Param>,
    pub(crate) body: Body,
    /// Why a template may not call it at all, for the methods with more than one result. The number of arguments is
    /// checked before.
    pub(crate) unfit: Option<&'static str>,
}

impl Function {
    pub(crate) const fn new(params: &'static [Param], body: Body) -> Self {
        Self {
            params,
            rest: None,
            body,
            unfit: None,
        }
    }

    pub(crate) const fn variadic(params: &'static [Param], rest: Param, body: Body) -> Self {
        Self {
            params,
            rest: Some(rest),
            body,
            unfit: None,
        }
    }
}

//! Parameter types.

/// The declared type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Param {
    /// `interface {}`: any value, including nil.
    Any,
    /// `reflect.Value`, as the built-in functions declare it: any value; a missing one arrives as
    /// [`Value::Nil`](crate::Value::Nil).
    Reflect,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `float64`.
    Float64,
    /// `string`.
    Str,
    /// `map[string]interface {}`. A nil arrives as the nil map.
    Dict,
    /// `[]uint8`. A nil arrives as the nil slice.
    Bytes,
    /// `time.Time`.
    Time,
    /// `time.Duration`. An integer constant in the template becomes one, an `int` value does not.
    Duration,
    /// `*time.Location`. A nil arrives as [`Value::Nil`](crate::Value::Nil).
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

//! Go types, as far as decoding depends on them.

/// A Go type, as far as decoding depends on it.
///
/// ```
/// use gotemplate::{
///     json::{Field, Shape, Struct},
///     yaml,
/// };
///
/// // type Service struct { Name string `json:"name"`; Port int `json:"port"` }
/// static SERVICE: Shape = Shape::Struct(&Struct {
///     package: "main",
///     name: "Service",
///     fields: &[
///         Field::new("name", &Shape::Text("string")),
///         Field::new("port", &Shape::Int("int")),
///     ],
/// });
///
/// let mut service = serde_json::Value::Null;
/// yaml::unmarshal(b"name: 123\nPORT: 80", &SERVICE, &mut service).unwrap();
/// assert_eq!(service, serde_json::json!({"name": "123", "port": 80}));
///
/// let error = yaml::unmarshal(b"port: http", &SERVICE, &mut service).unwrap_err();
/// assert!(error.ends_with("json: cannot unmarshal string into Go struct field Service.port of type int"));
/// ```
#[derive(Debug)]
pub enum Shape {
    /// A string type, by name.
    Text(&'static str),
    /// `bool`.
    Bool,
    /// An integer type, by name.
    Int(&'static str),
    /// A pointer, which null sets to nil.
    Pointer(&'static Shape),
    /// A slice.
    List {
        /// The name of the type.
        go: &'static str,
        /// The element type.
        element: &'static Shape,
    },
    /// A map with string keys.
    Map {
        /// The name of the type.
        go: &'static str,
        /// The type of the values.
        value: &'static Shape,
    },
    /// A struct.
    Struct(&'static Struct),
    /// Any JSON, kept as it is.
    Raw,
    /// A type that parses a string itself (`UnmarshalJSON`), such as a duration.
    Parsed {
        /// The name of the type.
        go: &'static str,
        /// Checks the string; `None` is null. The error is reported as it is.
        check: fn(Option<&str>) -> Result<(), String>,
    },
}

/// A Go struct.
#[derive(Debug)]
pub struct Struct {
    /// The package that declares it.
    pub package: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its fields, and those of embedded structs.
    pub fields: &'static [Field],
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    pub(super) name: &'static str,
    pub(super) shape: &'static Shape,
    /// The embedded struct that declares the field.
    pub(super) embedded: Option<&'static str>,
}

impl Field {
    /// A field by its JSON name.
    #[must_use]
    pub const fn new(name: &'static str, shape: &'static Shape) -> Self {
        Self {
            name,
            shape,
            embedded: None,
        }
    }

    /// A field of an embedded struct.
    #[must_use]
    pub const fn embedded(name: &'static str, shape: &'static Shape, within: &'static str) -> Self {
        Self {
            name,
            shape,
            embedded: Some(within),
        }
    }
}

impl Struct {
    /// The field of exactly that name, or else the first whose name differs only in case.
    pub(super) fn field(&self, key: &str) -> Option<&'static Field> {
        let exact = self.fields.iter().find(|field| field.name == key);
        exact.or_else(|| self.fields.iter().find(|field| folds(field.name, key)))
    }
}

/// Whether two names differ only in case. Unicode folds two characters beyond ASCII to ASCII letters.
fn folds(name: &str, key: &str) -> bool {
    let fold = |char: char| match char {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => char.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(key.chars().map(fold))
}

/// What sigs.k8s.io/yaml asks about a type, to convert numbers to strings where the type has a string.
impl Shape {
    /// The type behind pointers, unless it decodes itself.
    pub(crate) fn target(&'static self) -> Option<&'static Self> {
        match self {
            Self::Pointer(inner) => inner.target(),
            Self::Raw | Self::Parsed { .. } => None,
            _ => Some(self),
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    pub(crate) fn element(&self) -> Option<&'static Self> {
        match self {
            Self::List { element, .. } => Some(element),
            _ => None,
        }
    }

    /// The type of the value of a key. For a field of an embedded struct there is none, because the library looks at the
    /// struct instead of the field.
    pub(crate) fn member(&self, key: &str) -> Option<&'static Self> {
        match self {
            Self::Map { value, .. } => Some(value),
            Self::Struct(structure) => structure
                .field(key)
                .filter(|field| field.embedded.is_none())
                .map(|field| field.shape),
            _ => None,
        }
    }
}

impl Shape {
    /// The name of the Go type.
    pub(super) fn go(&self) -> String {
        match self {
            Self::Text(go) | Self::Int(go) | Self::List { go, .. } | Self::Map { go, .. } | Self::Parsed { go, .. } => {
                (*go).to_owned()
            }
            Self::Bool => "bool".to_owned(),
            Self::Pointer(inner) => inner.go(),
            Self::Struct(structure) => format!("{}.{}", structure.package, structure.name),
            Self::Raw => "json.RawMessage".to_owned(),
        }
    }
}

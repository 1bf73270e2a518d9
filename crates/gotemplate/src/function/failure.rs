//! Why a function failed.

/// Why a function failed. The execution of the template stops with this error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub enum Failure {
    /// The function returned an error.
    Error(String),
    /// The function panicked in Go. `text/template` reports the panic as an error.
    Panic(String),
    /// The call exceeds a limit of this crate on time or memory. Go has no such limit.
    Limit(String),
}

impl Failure {
    /// The text of the error or panic.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Error(text) | Self::Panic(text) | Self::Limit(text) => text,
        }
    }

    /// A result would be too large.
    pub(crate) fn size() -> Self {
        Self::Limit("result too large".to_owned())
    }

    /// A value nests too deeply, perhaps because it contains itself.
    pub(crate) fn depth() -> Self {
        Self::Limit("value nested too deeply".to_owned())
    }

    /// What Go does when it asks a nil interface for its type.
    pub(crate) fn nil_dereference() -> Self {
        Self::Panic("runtime error: invalid memory address or nil pointer dereference".to_owned())
    }

    /// An argument has a type that the signature does not declare. Not reached from templates, which check arguments first.
    pub(crate) fn mismatch(index: usize) -> Self {
        Self::Panic(format!("reflect: argument {index} has the wrong type"))
    }
}

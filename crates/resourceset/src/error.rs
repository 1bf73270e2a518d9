//! Why nothing was rendered.

use crate::template;

/// Why a document could not be read or rendered. Displays as Flux Operator words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    kind: ErrorKind,
    text: String,
    reason: String,
    line: Option<usize>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file is not the document that it should be.
    Document,
    /// The spec contradicts itself.
    Spec,
    /// The inputs cannot be combined.
    Inputs,
    /// A template does not parse.
    Parse,
    /// A template fails on an input.
    Execute,
    /// What a template renders to is no object.
    Object,
    /// No object came out. Only the offline command minds.
    NoObjects,
    /// The operator does not fail but crashes.
    Crash,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            kind,
            reason: text.clone(),
            text,
            line: None,
        }
    }

    pub(crate) fn template(kind: ErrorKind, error: &template::Error) -> Self {
        Self {
            kind,
            text: error.to_string(),
            reason: error.reason().to_owned(),
            line: Some(error.line()),
        }
    }

    /// The operator follows a pointer that is nil, where a null stands.
    pub(crate) fn nil_pointer() -> Self {
        Self::new(
            ErrorKind::Crash,
            "panic: runtime error: invalid memory address or nil pointer dereference",
        )
    }

    /// Says what was being done. A crash does not care.
    #[must_use]
    pub(crate) fn while_doing(self, what: impl std::fmt::Display) -> Self {
        match self.kind {
            ErrorKind::Crash => self,
            _ => Self {
                text: format!("{what}: {}", self.text),
                ..self
            },
        }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The line of the template that failed, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The innermost reason, without what was being done.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

//! Why a document could not be read or rendered.

use gotemplate::Error as TemplateError;

/// Why a document could not be read or rendered. Displays as the error of Flux Operator does.
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
    /// A file is not a valid document of its kind.
    Document,
    /// The spec contradicts itself.
    Spec,
    /// The inputs cannot be combined.
    Inputs,
    /// A template does not parse.
    Parse,
    /// A template fails on an input.
    Execute,
    /// The output of a template is not a Kubernetes object.
    Object,
    /// No object was rendered. Only the offline command reports this.
    NoObjects,
    /// Flux Operator crashes on this input.
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

    pub(crate) fn template(kind: ErrorKind, error: &TemplateError) -> Self {
        Self {
            kind,
            text: error.to_string(),
            reason: error.reason().to_owned(),
            line: Some(error.line()),
        }
    }

    /// The operator dereferences a nil pointer because of a null.
    pub(crate) fn nil_pointer() -> Self {
        Self::new(
            ErrorKind::Crash,
            "panic: runtime error: invalid memory address or nil pointer dereference",
        )
    }

    /// Adds what was being done when the error occurred. A crash stays as it is.
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

    /// The reason alone, without what was being done.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

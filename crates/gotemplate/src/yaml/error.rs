//! Errors, in the words of go-yaml.

/// An error of the scanner or parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The line as go-yaml prints it: one too low for errors of the parser, and absent on the first line.
    pub(super) line: Option<usize>,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn nowhere(text: impl Into<String>) -> Self {
        Self {
            line: None,
            text: text.into(),
        }
    }

    /// Found by the scanner on the given line, counted from 0.
    pub(super) fn scanning(line: usize, text: impl Into<String>) -> Self {
        Self {
            line: (line != 0).then_some(line + 1),
            text: text.into(),
        }
    }

    /// Found by the parser at a token on the given line, counted from 0.
    pub(super) fn parsing(line: usize, text: impl Into<String>) -> Self {
        Self {
            line: (line != 0).then_some(line),
            text: text.into(),
        }
    }
}

/// Why a text could not be read, or a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not YAML, according to go-yaml.
    #[error("yaml: {}{text}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Yaml {
        /// The line that go-yaml reports, if any.
        line: Option<usize>,
        /// What is wrong.
        text: String,
    },
    /// The text is YAML that JSON cannot represent.
    #[error("{0}")]
    NotJson(String),
    /// The text exceeds a limit of this crate. Go has none, or a higher one.
    #[error("yaml: {0}")]
    Limit(&'static str),
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Yaml {
            line: problem.line,
            text: problem.text,
        }
    }
}

impl Error {
    pub(super) fn yaml(text: impl Into<String>) -> Self {
        Self::Yaml {
            line: None,
            text: text.into(),
        }
    }
}

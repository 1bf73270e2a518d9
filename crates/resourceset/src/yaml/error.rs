//! Why a text is no YAML, in go-yaml's words.

/// A problem of the scanner or parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// As go-yaml prints it: one too few for the parser's problems, and absent on the first line.
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

/// Why a text could not be read, or a value not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The text is not what the library takes for YAML.
    #[error("yaml: {}{text}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Yaml {
        /// The line that the library names, if it names one.
        line: Option<usize>,
        /// What is wrong.
        text: String,
    },
    /// The text is YAML that has no equal in JSON.
    #[error("{0}")]
    NotJson(String),
    /// The text goes beyond a bound of ours; Go has none, or a higher one.
    #[error("yaml: {0}")]
    Bound(&'static str),
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

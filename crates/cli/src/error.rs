//! What can go wrong, how it is told, and with which exit code.

use std::io;

use serde_json::Value;

/// What a script can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The server, or this program on its behalf, refuses.
    Refused = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The server cannot be reached.
    Unreachable = 3,
    /// What was asked for is not there.
    NotFound = 4,
}

/// A command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Place and problem, one line each.
    pub(crate) details: Vec<(String, String)>,
    pub(crate) hint: Option<String>,
    /// Whether the command's help says how it is done right.
    pub(crate) in_help: bool,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
            details: Vec::new(),
            hint: None,
            in_help: false,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure {
            in_help: true,
            ..Failure::new(Code::Usage, message)
        }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Failure::new(Code::Refused, message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Gives a hint where there is none yet: whoever is nearest to the user knows best, the table of problems knows something.
    #[must_use]
    pub(crate) fn or_hint(mut self, hint: impl FnOnce() -> String) -> Self {
        self.hint.get_or_insert_with(hint);
        self
    }

    /// A file that cannot be used.
    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Self {
        Failure::new(Code::Usage, format!("{}: {}", path.display(), plain(error)))
    }
}

/// An I/O error without the number of the operating system.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let (first, rest) = text[..end].split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_lowercase() + rest
}

/// What the API answered instead of what was asked for.
#[derive(Debug)]
pub(crate) enum ApiError {
    Problem(Problem),
    Unreachable {
        url: String,
        detail: String,
        untrusted: bool,
    },
    /// The request could not be made: no address, no token.
    Unconfigured(Failure),
    /// Something answers there, but not this API.
    Foreign {
        url: String,
        detail: String,
    },
}

/// A problem document (RFC 9457), as far as it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// The last segment of `type`.
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) errors: Vec<(String, String)>,
    /// Where the token came from that was sent.
    pub(crate) token: String,
}

impl Problem {
    /// Reads the body of an error; proxies answer with something else, and that is shown as it is.
    pub(crate) fn read(status: u16, body: &[u8]) -> Problem {
        let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(body) else {
            let text = String::from_utf8_lossy(body);
            let line = text.lines().next().unwrap_or_default().trim();
            let short: String = line.chars().take(200).collect();
            return Problem {
                status,
                detail: format!("the server answered {status} {short}").trim_end().to_owned(),
                ..Problem::default()
            };
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let errors = fields.get("errors").and_then(Value::as_array).into_iter().flatten();
        let part = |error: &Value, name: &str| error[name].as_str().unwrap_or_default().to_owned();
        let kind = text("type");
        Problem {
            status,
            name: kind.rsplit('/').next().unwrap_or_default().to_owned(),
            detail: text("detail"),
            errors: errors
                .map(|error| (part(error, "pointer"), part(error, "detail")))
                .collect(),
            token: String::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match (self.status, self.name.as_str()) {
            (401, _) => return Some(format!("{} must be a token that the server knows", self.token)),
            (403, _) => "writing takes the write token: FLUX_API_WRITE_TOKEN, or the write token of the context",
            (_, "stale") => "someone changed it meanwhile; run the command again",
            (_, "protected") => "lift the protection first: cluster update ID --protected=false",
            (502..=504, _) => "the server, or its database, is away; try again",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl ApiError {
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, ApiError::Problem(problem) if problem.name == name)
    }

    /// The same, and where the token came from that was sent.
    #[must_use]
    pub(crate) fn with_token(mut self, source: &str) -> Self {
        if let ApiError::Problem(problem) = &mut self {
            source.clone_into(&mut problem.token);
        }
        self
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            ApiError::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Problem(problem) => {
                let code = match problem.status {
                    404 => Code::NotFound,
                    502..=504 => Code::Unreachable,
                    _ => Code::Refused,
                };
                let hint = problem.hint();
                let mut failure = Failure::new(code, problem.detail);
                failure.details = problem.errors;
                failure.hint = hint;
                failure
            }
            ApiError::Unreachable { url, detail, untrusted } => {
                Failure::new(Code::Unreachable, format!("cannot reach {url}: {detail}")).hint(match untrusted {
                    true => {
                        "the system does not trust this certificate; SSL_CERT_FILE can name a file with its authority"
                    }
                    false => {
                        "check FLUX_API_URL, or `flux-resourceset-cli config current-context`, and that the server runs"
                    }
                })
            }
            ApiError::Unconfigured(failure) => failure,
            ApiError::Foreign { url, detail } => {
                Failure::refused(format!("{url} does not answer as this API does: {detail}")).hint("check FLUX_API_URL")
            }
        }
    }
}

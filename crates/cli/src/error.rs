//! Errors, with their messages and exit codes.

use std::io;

use serde_json::Value;

use crate::config::LOGIN;
use crate::plan::guards;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The server, or this program, refused.
    Refused = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The server cannot be reached.
    Unreachable = 3,
    /// The resource does not exist.
    NotFound = 4,
    /// The rollout that was waited for has halted, or was reverted or aborted.
    Stopped = 5,
    /// What was waited for did not happen in time.
    TimedOut = 6,
}

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Place and problem, shown one per line.
    pub(crate) details: Vec<(String, String)>,
    pub(crate) hint: Option<String>,
    /// Whether the help of the command explains the right usage.
    pub(crate) in_help: bool,
    /// The name that was not found, to look for what was probably meant.
    pub(crate) subject: Option<Box<Subject>>,
}

/// A name that a command failed about.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// There is no such resource.
    Resource { kind: String, id: String },
    /// It matches no cluster.
    Selector(String),
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
            details: Vec::new(),
            hint: None,
            in_help: false,
            subject: None,
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

    /// Adds a hint if there is none yet.
    #[must_use]
    pub(crate) fn or_hint(mut self, hint: impl FnOnce() -> String) -> Self {
        self.hint.get_or_insert_with(hint);
        self
    }

    /// Adds the name that was not found.
    #[must_use]
    pub(crate) fn about(mut self, kind: &str, id: &str) -> Self {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        self.subject = Some(Box::new(Subject::Resource { kind, id }));
        self
    }

    /// A file that cannot be read or written.
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

/// An error of the API.
#[derive(Debug)]
pub(crate) enum ApiError {
    Problem(Box<Problem>),
    Unreachable {
        url: String,
        detail: String,
        /// What to do about it, where that is known.
        hint: Option<&'static str>,
        /// The address with the right scheme, if this one has the wrong one.
        instead: Option<String>,
    },
    /// The request was not sent: there is no address, or no token.
    Unconfigured(Failure),
    /// The request was not sent: the user did not confirm it.
    Declined(Failure),
    /// Something answered, but not this API.
    Foreign {
        url: String,
        detail: String,
    },
}

/// The parts of a problem document (RFC 9457) that are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// The last segment of `type`.
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) errors: Vec<(String, String)>,
    /// The clusters that caused the problem.
    clusters: Vec<String>,
    /// The resources that caused it.
    resources: Vec<String>,
    /// From how many clusters something is removed: the number to confirm.
    removals: Option<u64>,
    /// The limits of guards that refuse a write.
    guards: Vec<Value>,
    /// Where the token that was sent came from.
    pub(crate) token: String,
}

/// How the API says that a deletion can remove references too.
const CASCADE: &str = "cascade=true";

/// The first names, and how many more there are.
fn first_of(all: &[String]) -> String {
    const MOST: usize = 50;
    let shown = all.get(..MOST).unwrap_or(all).join(", ");
    match all.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl Problem {
    /// Reads the body of an error. A proxy may answer with something else, of which the first line is shown.
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
        let names = |name: &str| {
            let all = fields.get(name).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Problem {
            status,
            name: kind.rsplit('/').next().unwrap_or_default().to_owned(),
            detail: text("detail"),
            errors: errors
                .map(|error| (part(error, "pointer"), part(error, "detail")))
                .collect(),
            clusters: names("clusters"),
            resources: names("resources"),
            removals: fields.get("removals").and_then(|removals| removals["count"].as_u64()),
            guards: fields
                .get("guards")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            token: String::new(),
        }
    }

    /// The message and its details. Headers of the API are flags here, so the hint names the flag instead.
    fn into_parts(self) -> (String, Vec<(String, String)>) {
        let mut details = self.errors;
        let mut name_all = |what: &str, all: &[String]| {
            let names = first_of(all);
            // A short list is part of the message already.
            if !self.detail.contains(&names) {
                details.push((what.to_owned(), names));
            }
        };
        match self.name.as_str() {
            "removal-budget" => {
                name_all("clusters", &self.clusters);
                let parts = self.detail.split("; ");
                let parts: Vec<&str> = parts.filter(|part| !part.contains("X-Confirm-Removals")).collect();
                (parts.join("; "), details)
            }
            "demotion" => {
                name_all("clusters", &self.clusters);
                let parts = self.detail.split("; ");
                let parts: Vec<&str> = parts.filter(|part| !part.contains("X-Confirm-Demotions")).collect();
                (parts.join("; "), details)
            }
            // That is a parameter of the API; the commands that have it name their flag.
            "in-use" => {
                let plain = |text: &str| {
                    let parts: Vec<&str> = text.split("; ").filter(|part| !part.contains(CASCADE)).collect();
                    parts.join("; ")
                };
                let details = details.into_iter().map(|(place, detail)| (place, plain(&detail)));
                (plain(&self.detail), details.collect())
            }
            "conflict" => {
                name_all("changed since", &self.resources);
                (self.detail, details)
            }
            _ => (self.detail, details),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match (self.status, self.name.as_str()) {
            (401, _) if self.token.starts_with(LOGIN) => "log in again: `flux-resourceset-cli login`",
            (401, _) => return Some(format!("check {}: the server does not accept it", self.token)),
            (403, "out-of-scope") => "`flux-resourceset-cli whoami` shows your scope",
            (403, _) if self.token.starts_with(LOGIN) => {
                "an admin can give your groups a role: `identity create --claim`"
            }
            (403, _) if self.token.to_lowercase().contains("write") || self.token.contains("certificate") => {
                "`flux-resourceset-cli whoami` shows your role"
            }
            (403, _) => "writes need the write token: set FLUX_API_WRITE_TOKEN, or the write token of the context",
            (_, "stale") => "someone else has changed it; run the command again",
            (_, "protected") => {
                let id = self.clusters.first()?;
                return Some(format!(
                    "remove the protection first: `cluster update {id} --protected=false`"
                ));
            }
            (_, "removal-budget") => {
                let count = self.removals?;
                return Some(format!(
                    "--dry-run shows what is removed; use --confirm-removals {count} to go ahead"
                ));
            }
            (_, "demotion") => {
                return Some(format!(
                    "--dry-run shows the clusters; use --confirm-demotions {} to go ahead",
                    self.clusters.len()
                ));
            }
            (_, "rollout-active") => {
                let id = self.rollout()?;
                return Some(format!(
                    "`rollout status {id}` shows how far it is; `rollout complete {id}` or `rollout abort {id}` ends it"
                ));
            }
            (_, "wrong-state") => {
                let id = self.rollout()?;
                return Some(format!("`rollout status {id}` shows its state"));
            }
            (_, "plan-changed") => "check the new plan before you apply it",
            (410, _) => "the log has been compacted; `changes` lists the revisions that are left",
            (502..=504, _) => "the server or its database is unavailable; try again",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl Problem {
    /// The rollout that a write met: named as a resource, or in the message.
    fn rollout(&self) -> Option<&str> {
        let named = self.resources.iter().find_map(|name| name.strip_prefix("rollouts/"));
        named.or_else(|| self.detail.split_once("the rollout \"")?.1.split('"').next())
    }
}

impl ApiError {
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, ApiError::Problem(problem) if problem.name == name)
    }

    /// Adds where the token that was sent came from.
    #[must_use]
    pub(crate) fn with_token(mut self, source: &str) -> Self {
        if let ApiError::Problem(problem) = &mut self {
            source.clone_into(&mut problem.token);
        }
        self
    }

    /// Whether a deletion is refused only because of references, which a cascade removes. It does not remove dependencies.
    pub(crate) fn can_cascade(&self) -> bool {
        matches!(self, ApiError::Problem(problem) if problem.name == "in-use" && problem.detail.contains(CASCADE))
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
            ApiError::Problem(problem) if !problem.guards.is_empty() => {
                guards::failure(&problem.guards.iter().collect::<Vec<_>>())
            }
            ApiError::Problem(problem) => {
                let code = match problem.status {
                    404 => Code::NotFound,
                    502..=504 => Code::Unreachable,
                    _ => Code::Refused,
                };
                let hint = problem.hint();
                let (message, details) = problem.into_parts();
                let mut failure = Failure::new(code, message);
                failure.details = details;
                failure.hint = hint;
                failure
            }
            ApiError::Unreachable {
                url,
                detail,
                hint,
                instead,
            } => Failure::new(Code::Unreachable, format!("cannot reach {url}: {detail}")).hint(
                match (instead, hint) {
                    (Some(address), _) => format!("use {address}"),
                    (None, Some(hint)) => hint.to_owned(),
                    (None, None) => {
                        "check FLUX_API_URL or `flux-resourceset-cli config current-context`, and that the server is running"
                            .to_owned()
                    }
                },
            ),
            ApiError::Unconfigured(failure) | ApiError::Declined(failure) => failure,
            ApiError::Foreign { url, detail } => {
                Failure::refused(format!("{url} is not the API of flux-resourceset: {detail}")).hint("check FLUX_API_URL")
            }
        }
    }
}

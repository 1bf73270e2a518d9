//! The settings, checked. Every problem is reported, not only the first.

mod options;

use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use jiff::fmt::friendly::SpanParser;
use jiff::{SignedDuration, SpanRelativeTo};
use tracing_subscriber::EnvFilter;

pub use self::options::Options;

/// Everything that the reporter needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The API's address, without a slash at its end.
    pub url: String,
    /// The cluster's DNS name.
    pub dns: String,
    pub access: Access,
    /// Empty: the namespace that the reporter runs in.
    pub namespaces: Vec<String>,
    pub nudge: bool,
    pub full_every: Duration,
    pub log_format: LogFormat,
    pub log_filter: String,
}

/// How the API is reached: with which token and certificates. Files are read again when they change.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub token: Token,
    /// Trusted in addition to the system's.
    pub authority: Option<File>,
    pub certificate: Option<File>,
    pub key: Option<File>,
}

#[derive(Clone, Default)]
pub enum Token {
    Given(String),
    In(File),
    #[default]
    None,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Given(_) => f.write_str("Given"),
            Token::In(file) => f.debug_tuple("In").field(file).finish(),
            Token::None => f.write_str("None"),
        }
    }
}

/// A file. The ones at the default places need not be there, as the Secrets that they come from are optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub path: PathBuf,
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Failures of calls to Kubernetes are in our own lines, with what is done about them.
const LOG_FILTER: &str = "info,kube_client::client::builder=off,kube_runtime::watcher=off";

/// Where the Deployment mounts the Secrets `internal-api-token` and `internal-api-tls`.
const TOKEN_FILE: &str = "/etc/flux-resourceset/token/token";
const AUTHORITY_FILE: &str = "/etc/flux-resourceset/tls/ca.crt";
const CERTIFICATE_FILE: &str = "/etc/flux-resourceset/tls/tls.crt";
const KEY_FILE: &str = "/etc/flux-resourceset/tls/tls.key";

impl Options {
    /// The configuration, or all that is wrong with it.
    pub fn read(self) -> Result<Config, Vec<String>> {
        let mut problems = Vec::new();
        let url = keep(&mut problems, "FLUX_API_URL", url(self.url.as_deref()));
        let dns = keep(&mut problems, "CLUSTER_DNS", dns(self.dns.as_deref()));
        let token = keep(&mut problems, "FLUX_API_TOKEN", token(self.token, self.token_file));
        let (certificate, key) = match (self.client_certificate, self.client_key) {
            (Some(_), None) => {
                problems.push("FLUX_API_CLIENT_CERTIFICATE: needs FLUX_API_CLIENT_KEY".to_owned());
                (None, None)
            }
            (None, Some(_)) => {
                problems.push("FLUX_API_CLIENT_KEY: needs FLUX_API_CLIENT_CERTIFICATE".to_owned());
                (None, None)
            }
            (certificate, key) => (certificate, key),
        };
        let namespaces = self.namespaces.iter().map(|name| name.trim().to_owned());
        let namespaces = namespaces.filter(|name| !name.is_empty()).collect();
        let full_every = keep(&mut problems, "FULL_EVERY", full_every(&self.full_every));
        let log_format = keep(&mut problems, "LOG_FORMAT", log_format(&self.log_format));
        let log_filter = keep(&mut problems, "RUST_LOG", log_filter(self.rust_log));
        match (url, dns, token, full_every, log_format, log_filter) {
            (Some(url), Some(dns), Some(token), Some(full_every), Some(log_format), Some(log_filter))
                if problems.is_empty() =>
            {
                Ok(Config {
                    url,
                    dns,
                    access: Access {
                        token,
                        authority: Some(file(self.certificate_authority, AUTHORITY_FILE)),
                        certificate: Some(file(certificate, CERTIFICATE_FILE)),
                        key: Some(file(key, KEY_FILE)),
                    },
                    namespaces,
                    nudge: self.nudge,
                    full_every,
                    log_format,
                    log_filter,
                })
            }
            _ => Err(problems),
        }
    }
}

fn keep<T>(problems: &mut Vec<String>, variable: &str, checked: Result<T, String>) -> Option<T> {
    checked
        .map_err(|problem| problems.push(format!("{variable}: {problem}")))
        .ok()
}

fn file(named: Option<PathBuf>, default: &str) -> File {
    File {
        required: named.is_some(),
        path: named.unwrap_or_else(|| default.into()),
    }
}

fn url(given: Option<&str>) -> Result<String, String> {
    let given = given.map(str::trim).filter(|url| !url.is_empty());
    let given = given.ok_or("is required: the address of the API, as in https://fleet.example.com")?;
    let url = given.parse::<Uri>().ok().filter(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    });
    // The messages do not repeat the address: it may hold a password.
    let url = url.ok_or("is not an address that begins with http:// or https://")?;
    if url
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err("must not hold a name or password: use a token".to_owned());
    }
    if url.query().is_some() || given.contains('#') {
        return Err("must be the address of the API alone, as in https://fleet.example.com".to_owned());
    }
    Ok(given.trim_end_matches('/').to_owned())
}

/// The characters of a DNS name, which need no escapes in a path.
fn dns(given: Option<&str>) -> Result<String, String> {
    let given = given.map(str::trim).filter(|dns| !dns.is_empty());
    let given = given.ok_or("is required: the DNS name of this cluster in the fleet")?;
    match given.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._".contains(&c)) {
        true => Ok(given.to_owned()),
        false => Err(format!("\"{given}\" is not a DNS name")),
    }
}

fn token(given: Option<String>, named: Option<PathBuf>) -> Result<Token, String> {
    match (given, named) {
        (Some(_), Some(_)) => Err("is set, and so is FLUX_API_TOKEN_FILE: remove one of them".to_owned()),
        (Some(given), None) => usable_token(&given).map(Token::Given),
        (None, named) => Ok(Token::In(file(named, TOKEN_FILE))),
    }
}

/// A token without the blanks around it.
pub(crate) fn usable_token(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        token if token.chars().any(|c| !c.is_ascii_graphic()) => {
            Err("contains characters that an HTTP header cannot carry".to_owned())
        }
        token => Ok(token.to_owned()),
    }
}

fn full_every(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let span = SpanParser::new().parse_span(text).ok();
    let time: Option<SignedDuration> = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let time = time.and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| *time >= Duration::from_secs(1) && *time <= DAY)
        .ok_or_else(|| format!("\"{text}\" is not a time from 1s to 24h, as in 10m"))
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("\"{text}\" is not one of text, json")),
    }
}

fn log_filter(given: Option<String>) -> Result<String, String> {
    let filter = given.unwrap_or_else(|| LOG_FILTER.to_owned());
    match EnvFilter::try_new(&filter) {
        Ok(_) => Ok(filter),
        Err(error) => Err(format!("\"{filter}\" is not a filter: {error}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// Variables of whoever runs the tests do not count.
    fn read(arguments: &[&str]) -> Result<Config, Vec<String>> {
        let command = Line::command().mut_args(|arg| arg.env(None::<&str>));
        let matches = command.get_matches_from(["reporter"].iter().chain(arguments));
        Line::from_arg_matches(&matches).unwrap().options.read()
    }

    #[test]
    fn defaults_fit_what_bootstrap_writes() {
        let config = read(&["--url", "https://fleet.example.com/", "--dns", "a.example.com"]).unwrap();
        assert_eq!(config.url, "https://fleet.example.com");
        assert!(config.namespaces.is_empty() && !config.nudge);
        assert_eq!(config.full_every, Duration::from_secs(600));
        let Token::In(file) = config.access.token else {
            panic!("no file")
        };
        assert_eq!((file.path.to_str().unwrap(), file.required), (TOKEN_FILE, false));
        let authority = config.access.authority.unwrap();
        assert_eq!(
            (authority.path.to_str().unwrap(), authority.required),
            (AUTHORITY_FILE, false)
        );
    }

    #[test]
    fn settings() {
        let line = "--url http://127.0.0.1:8080 --dns a --token-file t --certificate-authority ca --namespace a,b \
                    --namespace c --nudge --full-every 1m30s --log-format json --rust-log debug";
        let config = read(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!(config.namespaces, ["a", "b", "c"]);
        assert!(config.nudge);
        assert_eq!(config.full_every, Duration::from_secs(90));
        assert_eq!(
            (config.log_format, config.log_filter.as_str()),
            (LogFormat::Json, "debug")
        );
        assert!(matches!(config.access.token, Token::In(File { required: true, .. })));
        assert!(config.access.authority.unwrap().required);
    }

    #[test]
    fn every_problem_is_reported() {
        let line = "--url fleet.example.com --dns a/b --token a --token-file b --client-key k --full-every soon \
                    --log-format xml";
        let problems = read(&line.split_whitespace().collect::<Vec<_>>()).unwrap_err();
        let variables: Vec<&str> = problems
            .iter()
            .map(|problem| problem.split(':').next().unwrap())
            .collect();
        let expected = [
            "FLUX_API_URL",
            "CLUSTER_DNS",
            "FLUX_API_TOKEN",
            "FLUX_API_CLIENT_KEY",
            "FULL_EVERY",
            "LOG_FORMAT",
        ];
        assert_eq!(variables, expected, "{problems:?}");
        for (arguments, expected) in [
            (vec!["--dns", "a"], "FLUX_API_URL: is required"),
            (
                vec!["--url", "https://u:p@h", "--dns", "a"],
                "must not hold a name or password",
            ),
            (
                vec!["--url", "https://h/?a=b", "--dns", "a"],
                "must be the address of the API alone",
            ),
            (
                vec!["--url", "https://h", "--dns", "a", "--token", "a b"],
                "an HTTP header cannot carry",
            ),
            (
                vec!["--url", "https://h", "--dns", "a", "--full-every", "1ms"],
                "from 1s to 24h",
            ),
        ] {
            let problems = read(&arguments).unwrap_err();
            assert!(problems[0].contains(expected), "{arguments:?}: {problems:?}");
        }
    }

    #[test]
    fn tokens_are_not_printed() {
        assert_eq!(format!("{:?}", Token::Given("secret".to_owned())), "Given");
    }
}

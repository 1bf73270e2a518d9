//! From the text of a setting to its value.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use ipnet::IpNet;
use jiff::fmt::friendly::SpanParser;
use jiff::{SignedDuration, SpanRelativeTo};

use super::ConfigError;

const YEAR: Duration = Duration::from_secs(366 * 86_400);

pub(super) fn text<'a>(variable: &'static str, value: &'a OsStr) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| ConfigError::new(variable, "is not UTF-8"))
}

pub(super) fn path(variable: &'static str, value: Option<&OsStr>) -> Result<Option<PathBuf>, ConfigError> {
    match value {
        Some(path) if path.is_empty() => Err(ConfigError::new(variable, "is empty")),
        path => Ok(path.map(PathBuf::from)),
    }
}

/// The address of the dashboard, without a slash at the end.
pub(super) fn page_address(value: &OsStr) -> Result<String, ConfigError> {
    const VARIABLE: &str = "UI_URL";
    let text = text(VARIABLE, value)?.trim();
    let unusable = || {
        let problem = format!("\"{text}\" is not the address of the dashboard, as in https://fleet.example.com/ui");
        ConfigError::new(VARIABLE, problem)
    };
    let url: Uri = text.parse().map_err(|_| unusable())?;
    let is_web = matches!(url.scheme_str(), Some("https" | "http"));
    let is_plain = url.query().is_none() && !text.contains(['#', '@']);
    match is_web && is_plain && matches!(url.path(), "/ui" | "/ui/") {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(unusable()),
    }
}

pub(super) fn choose<T: Copy>(variable: &'static str, value: &OsStr, options: &[(&str, T)]) -> Result<T, ConfigError> {
    let text = text(variable, value)?;
    let found = options.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<_> = options.iter().map(|(name, _)| *name).collect();
        ConfigError::new(variable, format!("\"{text}\" is not one of {}", names.join(", ")))
    })
}

pub(super) fn boolean(variable: &'static str, value: &OsStr) -> Result<bool, ConfigError> {
    choose(variable, value, &[("true", true), ("false", false)])
}

pub(super) fn number(variable: &'static str, value: &OsStr) -> Result<u64, ConfigError> {
    let text = text(variable, value)?;
    text.parse()
        .map_err(|_| ConfigError::new(variable, format!("\"{text}\" is not a whole number")))
}

pub(super) fn address(variable: &'static str, value: &OsStr) -> Result<SocketAddr, ConfigError> {
    let text = text(variable, value)?;
    let unusable = || {
        ConfigError::new(
            variable,
            format!("\"{text}\" is not an address with a port, as in 0.0.0.0:8080"),
        )
    };
    let mut found = text.to_socket_addrs().map_err(|_| unusable())?;
    found.next().ok_or_else(unusable)
}

/// Networks, or single addresses, separated by commas.
pub(super) fn networks(value: &OsStr) -> Result<Vec<IpNet>, ConfigError> {
    const VARIABLE: &str = "TRUSTED_PROXIES";
    let parts = text(VARIABLE, value)?
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let network = |part: &str| {
        part.parse()
            .ok()
            .or_else(|| part.parse().ok().map(|address: IpAddr| IpNet::from(address)))
    };
    let parsed = parts.map(|part| {
        let unusable = || {
            ConfigError::new(
                VARIABLE,
                format!("\"{part}\" is not an address or a network, as in 10.0.0.0/8"),
            )
        };
        network(part).ok_or_else(unusable)
    });
    parsed.collect()
}

pub(super) fn token(variable: &'static str, value: Option<&OsStr>) -> Result<Option<String>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    match text(variable, value)?.trim() {
        "" => Err(ConfigError::new(variable, "is empty")),
        token if token.chars().any(|c| c.is_whitespace() || c.is_control()) => Err(ConfigError::new(
            variable,
            "contains blanks or control characters, which an HTTP header cannot carry",
        )),
        token => Ok(Some(token.to_owned())),
    }
}

/// A time of at most a year.
pub(super) fn span(variable: &'static str, value: &OsStr) -> Result<Duration, ConfigError> {
    let text = text(variable, value)?;
    let span = duration(text).filter(|span| *span <= YEAR);
    span.ok_or_else(|| {
        ConfigError::new(
            variable,
            format!("\"{text}\" is not a time of at most a year, as in 90s, 10m or 2h"),
        )
    })
}

/// At least 10 seconds: the store is asked every few seconds, so a healthy replica would exceed less.
pub(super) fn staleness(value: &OsStr) -> Result<Duration, ConfigError> {
    const LEAST: Duration = Duration::from_secs(10);
    let staleness = span("MAX_STALENESS", value)?;
    match staleness < LEAST {
        true => Err(ConfigError::new("MAX_STALENESS", "must be at least 10s")),
        false => Ok(staleness),
    }
}

/// At least a second: the time between two polls is longer.
pub(super) fn silence(value: &OsStr) -> Result<Duration, ConfigError> {
    const LEAST: Duration = Duration::from_secs(1);
    let silence = span("SILENT_AFTER", value)?;
    match silence < LEAST {
        true => Err(ConfigError::new("SILENT_AFTER", "must be at least 1s")),
        false => Ok(silence),
    }
}

/// An age with its unit, for `--older-than`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let age = duration(text).filter(|_| has_unit);
    age.ok_or_else(|| "expected a number with its unit, as in 400d or 36h".to_owned())
}

/// A timeout of at most an hour, for `--timeout`.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let time = duration(text).filter(|time| !time.is_zero() && time.as_secs() <= 3600);
    time.ok_or_else(|| "expected a time of at most an hour, as in 3s or 500ms".to_owned())
}

/// Seconds, or numbers with their units: `90`, `90s`, `1h30m`, `400d`. At most 1000 years, so that a date that long ago exists.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds)).filter(|time| *time <= 1000 * YEAR);
    }
    let span = SpanParser::new().parse_span(text).ok()?;
    let time: SignedDuration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(time).ok().filter(|time| *time <= 1000 * YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_dashboard_is_a_whole_one() {
        let read = |text: &str| page_address(OsStr::new(text)).ok();
        for good in ["https://fleet.example.com/ui", "http://localhost:8080/ui/"] {
            assert_eq!(read(good).as_deref(), Some(good.trim_end_matches('/')));
        }
        for wrong in [
            "",
            "https://fleet.example.com",
            "https://fleet.example.com/ui/login",
            "https://fleet.example.com/ui?x=1",
            "https://ann@fleet.example.com/ui",
            "fleet.example.com/ui",
            "/ui",
            "ftp://fleet.example.com/ui",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        let seconds = |text| duration(text).map(|time| time.as_secs());
        for (text, expected) in [
            ("0", 0),
            ("90", 90),
            ("90s", 90),
            ("10m", 600),
            ("1h30m", 5400),
            ("400d", 400 * 86_400),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        for wrong in [
            "",
            "soon",
            "-5m",
            "1.5",
            "s",
            "10 months",
            "99999999999999999999d",
            "400000d",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}

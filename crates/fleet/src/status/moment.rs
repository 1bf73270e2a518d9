//! A point in time, to the millisecond.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970. On the wire of the API RFC 3339 in UTC, in stored evidence a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// Parses RFC 3339. None for times before 1970, too.
    pub fn parse(text: &str) -> Option<Moment> {
        let time: Timestamp = text.parse().ok()?;
        u64::try_from(time.as_millisecond()).ok().map(Moment)
    }

    pub fn plus(self, span: Duration) -> Moment {
        Moment(
            self.0
                .saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// The time from `earlier` until this moment. Zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0)
            .ok()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        match time {
            Some(time) => write!(f, "{time:.3}"),
            None => f.write_str("9999-12-30T22:00:00.000Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_as_they_are_read() {
        for (given, shown) in [
            ("2026-11-16T04:31:00Z", "2026-11-16T04:31:00.000Z"),
            ("2026-11-16T06:31:00.25+02:00", "2026-11-16T04:31:00.250Z"),
        ] {
            assert_eq!(Moment::parse(given).unwrap().to_string(), shown);
        }
        for bad in ["", "2026-11-16", "now", "1969-12-31T23:59:59Z"] {
            assert_eq!(Moment::parse(bad), None, "{bad}");
        }
    }
}

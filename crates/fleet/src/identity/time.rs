//! A point in time, to the second. Four bytes: a fleet has a million tokens.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds since 1970, up to the year 2106. On the wire RFC 3339 in UTC, such as `2026-11-16T04:31:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u32);

impl Time {
    /// Parses RFC 3339. Fractions of a second are cut off.
    pub fn parse(text: &str) -> Option<Time> {
        let time: Timestamp = text.parse().ok()?;
        u32::try_from(time.as_second()).ok().map(Time)
    }

    /// The time that is `span` later. None if it is after the year 2106.
    pub fn after(self, span: Duration) -> Option<Time> {
        self.0.checked_add(u32::try_from(span.as_secs()).ok()?).map(Time)
    }

    pub fn seconds(self) -> u32 {
        self.0
    }

    pub const fn from_seconds(seconds: u32) -> Time {
        Time(seconds)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_second(self.0.into()) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Time::parse(&text).ok_or_else(|| serde::de::Error::custom("must be a time such as 2026-11-16T04:31:00Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_they_are_read() {
        for (given, shown) in [
            ("2026-11-16T04:31:00Z", "2026-11-16T04:31:00Z"),
            ("2026-11-16T06:31:00.25+02:00", "2026-11-16T04:31:00Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("2106-02-07T06:28:15Z", "2106-02-07T06:28:15Z"),
        ] {
            assert_eq!(Time::parse(given).unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "2026-11-16",
            "tomorrow",
            "1969-12-31T23:59:59Z",
            "2106-02-07T06:28:16Z",
        ] {
            assert_eq!(Time::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_span_ends_before_the_last_second_that_can_be_stored() {
        let time = Time::parse("2026-11-16T04:31:00Z").unwrap();
        let hour = time.after(Duration::from_secs(3600)).unwrap();
        assert_eq!(hour.to_string(), "2026-11-16T05:31:00Z");
        assert_eq!(time.after(Duration::from_secs(u64::MAX)), None);
    }
}

//! Go's `time`: parsing, formatting, and the methods that a template can call.
//!
//! There is no clock and no database of zones. The local zone is UTC.

mod duration;
mod layout;
mod methods;
mod parse;

use std::{fmt, rc::Rc};

pub(crate) use self::methods::method;
pub use self::{
    duration::{Duration, parse_duration},
    parse::parse,
};

use crate::value::IntType;

const SECONDS_PER_DAY: i64 = 86_400;
/// The seconds from the first of January of year 1 to the first of January 1970.
const UNIX_EPOCH: i64 = 62_135_596_800;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A `time.Time` without a monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds since the first of January of year 1.
    seconds: i64,
    nanos: u32,
    location: Location,
}

/// A `*time.Location`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// UTC.
    Utc,
    /// The zone of the process: UTC, with another name.
    Local,
    /// A zone with a fixed offset, which parsing creates for an offset or an abbreviation.
    Fixed(Rc<Zone>),
}

/// A zone with a fixed offset.
#[derive(Debug, PartialEq, Eq)]
pub struct Zone {
    name: Vec<u8>,
    /// Seconds east of UTC.
    offset: i64,
}

/// A date and a time of day, in the zone of a time.
struct Civil {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
    /// From 1.
    year_day: i64,
    /// From 0, a Sunday.
    weekday: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Location {
    pub(crate) fn fixed(name: &[u8], offset: i64) -> Self {
        Self::Fixed(Rc::new(Zone {
            name: name.to_vec(),
            offset,
        }))
    }

    /// The abbreviation of the zone, which may be empty.
    fn abbreviation(&self) -> &[u8] {
        match self {
            Self::Utc | Self::Local => b"UTC",
            Self::Fixed(zone) => &zone.name,
        }
    }

    fn offset(&self) -> i64 {
        match self {
            Self::Utc | Self::Local => 0,
            Self::Fixed(zone) => zone.offset,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => f.write_str("UTC"),
            Self::Local => f.write_str("Local"),
            Self::Fixed(zone) => f.write_str(&String::from_utf8_lossy(&zone.name)),
        }
    }
}

impl Time {
    /// The zero time: the first of January of year 1, UTC.
    pub(crate) const ZERO: Self = Self {
        seconds: 0,
        nanos: 0,
        location: Location::Utc,
    };

    /// `Unix`: seconds since 1970.
    #[must_use]
    pub const fn unix(&self) -> i64 {
        self.seconds.wrapping_sub(UNIX_EPOCH)
    }

    /// `time.Date`, for months within the year.
    fn from_civil(date: [i64; 3], clock: [i64; 3], nanos: u32, location: Location) -> Self {
        let [year, month, day] = date;
        let [hour, minute, second] = clock;
        let days = days_before(year, month) + i128::from(day) - 1;
        let seconds = days * i128::from(SECONDS_PER_DAY) + i128::from(hour * 3600 + minute * 60 + second);
        let seconds = seconds - i128::from(location.offset());
        // Go wraps around for years that are far out of range.
        Self {
            seconds: seconds as i64,
            nanos,
            location,
        }
    }

    fn civil(&self) -> Civil {
        let local = i128::from(self.seconds) + i128::from(self.location.offset());
        let day_length = i128::from(SECONDS_PER_DAY);
        let days = local.div_euclid(day_length);
        let rest = (local.rem_euclid(day_length)) as i64;
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            year_day: (days - days_before(year, 1)) as i64 + 1,
            // The first day of year 1 was a Monday.
            weekday: (days + 1).rem_euclid(7) as i64,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    pub(crate) fn add(&self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration % 1_000_000_000;
        let carry = nanos.div_euclid(1_000_000_000);
        Self {
            // Go saturates.
            seconds: self.seconds.saturating_add(duration / 1_000_000_000 + carry),
            nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default(),
            location: self.location.clone(),
        }
    }

    /// `Sub`, saturating.
    pub(crate) fn sub(&self, other: &Self) -> Duration {
        let nanos = self.since_start() - other.since_start();
        nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// `Round`, half up, counted from the zero time.
    fn round(&self, to: Duration) -> Self {
        match self.remainder(to) {
            Some(rest) if 2 * i128::from(rest) < i128::from(to) => self.add(-rest),
            Some(rest) => self.add(to - rest),
            None => self.clone(),
        }
    }

    fn truncate(&self, to: Duration) -> Self {
        self.remainder(to).map_or_else(|| self.clone(), |rest| self.add(-rest))
    }

    /// The time since the start modulo a duration, if the duration is positive.
    fn remainder(&self, of: Duration) -> Option<Duration> {
        (of > 0).then(|| self.since_start().rem_euclid(i128::from(of)) as i64)
    }

    fn since_start(&self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// `AddDate`. Days beyond the end of a month count into the next month.
    fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        let civil = self.civil();
        let month = civil.month.wrapping_add(months) - 1;
        let year = civil.year.wrapping_add(years).wrapping_add(month.div_euclid(12));
        let date = [year, month.rem_euclid(12) + 1, civil.day.wrapping_add(days)];
        let clock = [civil.hour, civil.minute, civil.second];
        Self::from_civil(date, clock, self.nanos, self.location.clone())
    }

    fn with_location(&self, location: Location) -> Self {
        Self {
            location,
            ..self.clone()
        }
    }

    /// Whether the zone is UTC, which Go stores as a nil pointer.
    pub(crate) const fn is_utc(&self) -> bool {
        matches!(self.location, Location::Utc)
    }

    /// The fields `wall` and `ext` of Go's struct.
    pub(crate) const fn fields(&self) -> (u64, i64) {
        (self.nanos as u64, self.seconds)
    }

    /// The time as `%#v` prints it.
    pub(crate) fn go_string(&self) -> String {
        let civil = self.civil();
        let month = usize::try_from(civil.month - 1)
            .ok()
            .and_then(|month| MONTHS.get(month))
            .copied()
            .unwrap_or_default();
        let location = match &self.location {
            Location::Utc => "time.UTC".to_owned(),
            Location::Local => "time.Local".to_owned(),
            Location::Fixed(zone) => format!("time.Location({})", quote(&zone.name)),
        };
        format!(
            "time.Date({}, time.{month}, {}, {}, {}, {}, {}, {location})",
            civil.year, civil.day, civil.hour, civil.minute, civil.second, self.nanos
        )
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(
            &self.format(b"2006-01-02 15:04:05.999999999 -0700 MST"),
        ))
    }
}

/// The `String` method of the named integer types of the package. `None` for other types.
pub(crate) fn named(kind: IntType, number: i64) -> Option<String> {
    let index = |from: i64| usize::try_from(number.checked_sub(from)?).ok();
    match kind {
        IntType::Duration => Some(duration::display(number)),
        IntType::Month => {
            let name = index(1).and_then(|index| MONTHS.get(index)).copied();
            Some(name.map_or_else(|| format!("%!Month({})", number as u64), str::to_owned))
        }
        IntType::Weekday => {
            let name = index(0).and_then(|index| DAYS.get(index)).copied();
            Some(name.map_or_else(|| format!("%!Weekday({})", number as u64), str::to_owned))
        }
        IntType::Int | IntType::Int64 | IntType::Uint8 => None,
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the first of January of year 1 to the first of a month.
fn days_before(year: i64, month: i64) -> i128 {
    // In years that start in March the leap day is the last day.
    let shifted = i128::from(year) - i128::from(month < 3);
    let month = i128::from(if month < 3 { month + 9 } else { month - 3 });
    let days_of_years = 365 * shifted + shifted.div_euclid(4) - shifted.div_euclid(100) + shifted.div_euclid(400);
    // March of year 0 started 306 days before year 1.
    days_of_years + (153 * month + 2) / 5 - 306
}

/// The date that is that many days after the first of January of year 1.
fn date_of(days: i128) -> (i64, i64, i64) {
    const CYCLE: i128 = 146_097;
    let since_march = days + 306;
    let cycle = since_march.div_euclid(CYCLE);
    let day = since_march.rem_euclid(CYCLE);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 {
        (month + 3, year)
    } else {
        (month - 9, year + 1)
    };
    ((cycle * 400 + year) as i64, month as i64, day_of_month as i64)
}

/// Quotes as the errors of the package do: bytes that are not printable ASCII in hexadecimal.
fn quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn time(layout: &str, value: &str) -> Time {
        parse(layout.as_bytes(), value.as_bytes()).expect(value)
    }

    fn called(time: &Time, name: &str, args: &[Value]) -> String {
        let receiver = Value::Time(Rc::new(time.clone()));
        let function = method(&receiver, name).expect(name);
        let value = function.call(&[&[receiver], args].concat()).expect(name);
        String::from_utf8_lossy(&crate::fmt::display(&value).expect(name)).into_owned()
    }

    #[test]
    fn layouts_are_read() {
        for (layout, value, expected) in [
            ("2006-01-02", "2024-02-29", "2024-02-29 00:00:00 +0000 UTC"),
            (
                "2006-01-02T15:04:05Z07:00",
                "2024-02-29T12:30:45.5+02:00",
                "2024-02-29 12:30:45.5 +0200 +0200",
            ),
            (
                "Mon, 02 Jan 2006 15:04:05 MST",
                "thu, 29 FEB 2024 01:02:03 CEST",
                "2024-02-29 01:02:03 +0000 CEST",
            ),
            ("3:04PM", "12:05AM", "0000-01-01 00:05:00 +0000 UTC"),
            ("2006-002", "2024-366", "2024-12-31 00:00:00 +0000 UTC"),
            ("06 _2", "69  7", "1969-01-07 00:00:00 +0000 UTC"),
            ("15 MST", "15 GMT+3", "0000-01-01 18:00:00 +0300 GMT+3"),
        ] {
            assert_eq!(time(layout, value).to_string(), expected, "{layout}");
        }
    }

    #[test]
    fn problems_read_as_in_go() {
        for (layout, value, problem) in [
            (
                "2006-01-02",
                "x",
                "parsing time \"x\" as \"2006-01-02\": cannot parse \"x\" as \"2006\"",
            ),
            (
                "2006-01-02",
                "2024-13-01",
                "parsing time \"2024-13-01\": month out of range",
            ),
            (
                "2006-01-02",
                "2023-02-29",
                "parsing time \"2023-02-29\": day out of range",
            ),
            (
                "2006-01-02",
                "2024-02-29é",
                "parsing time \"2024-02-29\\xc3\\xa9\": extra text: \"\\xc3\\xa9\"",
            ),
            (
                "Z07:00",
                "+25:00",
                "parsing time \"+25:00\": time zone offset hour out of range",
            ),
        ] {
            assert_eq!(parse(layout.as_bytes(), value.as_bytes()), Err(problem.to_owned()));
        }
    }

    #[test]
    fn layouts_are_written() {
        let time = time("2006-01-02T15:04:05Z07:00", "2024-02-09T13:04:05.120Z");
        let written = |layout: &str| String::from_utf8_lossy(&time.format(layout.as_bytes())).into_owned();
        assert_eq!(
            written("Monday Jan _2 2006 3:04:05.000 PM"),
            "Friday Feb  9 2024 1:04:05.120 PM"
        );
        assert_eq!(
            written("02/01/06 002 __2 -07:00 Z0700 MST"),
            "09/02/24 040  40 +00:00 Z UTC"
        );
        assert_eq!(written(".999 ,000000 Month Janu"), ".12 ,120000 Month Janu");
    }

    #[test]
    fn methods_count() {
        let time = time("2006-01-02", "2024-02-29");
        assert_eq!(
            called(&time, "AddDate", &[Value::int(1), Value::int(0), Value::int(0)]),
            "2025-03-01 00:00:00 +0000 UTC"
        );
        assert_eq!(called(&time, "Weekday", &[]), "Thursday");
        assert_eq!(called(&time, "YearDay", &[]), "60");
        assert_eq!(
            called(&time, "Sub", &[Value::Time(Rc::new(Time::ZERO))]),
            "2562047h47m16.854775807s"
        );
        assert_eq!(called(&Time::ZERO, "IsZero", &[]), "true");
        let receiver = Value::Time(Rc::new(time));
        assert!(method(&receiver, "Nope").is_none());
        assert!(method(&receiver, "Clock").is_some_and(|clock| clock.uncallable.is_some()));
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, expected) in [
            ("1h30m45.5s", "1h30m45.5s"),
            ("-.5h", "-30m0s"),
            ("1500us", "1.5ms"),
            ("1µs", "1µs"),
            ("0", "0s"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
        ] {
            let duration = parse_duration(text.as_bytes()).expect(text);
            assert_eq!(named(IntType::Duration, duration).as_deref(), Some(expected));
        }
        assert_eq!(
            parse_duration(b"1d"),
            Err("time: unknown unit \"d\" in duration \"1d\"".to_owned())
        );
        assert_eq!(
            parse_duration(b"1"),
            Err("time: missing unit in duration \"1\"".to_owned())
        );
    }
}

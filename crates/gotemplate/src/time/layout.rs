//! Layouts: the reference time, in the form in which times are written or read.

use super::{Civil, DAYS, MONTHS, Time};

/// The meaning of an element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    /// `MST`.
    Abbreviation,
    /// A numeric offset.
    Offset(Offset),
    /// A fraction of a second.
    Fraction {
        digits: usize,
        comma: bool,
        /// Written without trailing zeros.
        trimmed: bool,
    },
}

/// The form of a numeric offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// `Z` for UTC.
    pub(super) z: bool,
    pub(super) colons: bool,
    pub(super) minutes: bool,
    pub(super) seconds: bool,
}

const fn offset(z: bool, colons: bool, minutes: bool, seconds: bool) -> Element {
    Element::Offset(Offset {
        z,
        colons,
        minutes,
        seconds,
    })
}

/// Elements that their text identifies. Longer ones come before those that they start with.
const FIXED: [(&[u8], Element); 32] = [
    (b"January", Element::LongMonth),
    (b"Monday", Element::LongWeekday),
    (b"MST", Element::Abbreviation),
    (b"01", Element::ZeroMonth),
    (b"02", Element::ZeroDay),
    (b"03", Element::ZeroHour12),
    (b"04", Element::ZeroMinute),
    (b"05", Element::ZeroSecond),
    (b"06", Element::Year),
    (b"002", Element::ZeroYearDay),
    (b"15", Element::Hour),
    (b"1", Element::NumMonth),
    (b"2006", Element::LongYear),
    (b"2", Element::Day),
    (b"_2", Element::UnderDay),
    (b"__2", Element::UnderYearDay),
    (b"3", Element::Hour12),
    (b"4", Element::Minute),
    (b"5", Element::Second),
    (b"PM", Element::UpperPm),
    (b"pm", Element::LowerPm),
    (b"-070000", offset(false, false, true, true)),
    (b"-07:00:00", offset(false, true, true, true)),
    (b"-0700", offset(false, false, true, false)),
    (b"-07:00", offset(false, true, true, false)),
    (b"-07", offset(false, false, false, false)),
    (b"Z070000", offset(true, false, true, true)),
    (b"Z07:00:00", offset(true, true, true, true)),
    (b"Z0700", offset(true, false, true, false)),
    (b"Z07:00", offset(true, true, true, false)),
    (b"Z07", offset(true, false, false, false)),
    // Must not be followed by a lower-case letter, see `element_at`.
    (b"Jan", Element::Month),
];

/// A piece of a layout: plain text, and the element after it with its text. The last piece may have no element.
pub(super) struct Piece<'a> {
    pub(super) text: &'a [u8],
    pub(super) element: Option<(Element, &'a [u8])>,
    pub(super) rest: &'a [u8],
}

/// The first piece of a layout.
pub(super) fn next(layout: &[u8]) -> Piece<'_> {
    for at in 0..layout.len() {
        if let Some((element, skipped, length)) = element_at(&layout[at..]) {
            let at = at + skipped;
            let (own, rest) = layout[at..].split_at(length);
            return Piece {
                text: &layout[..at],
                element: Some((element, own)),
                rest,
            };
        }
    }
    Piece {
        text: layout,
        element: None,
        rest: b"",
    }
}

/// The element at the start of the text, how many bytes precede it, and its length.
fn element_at(text: &[u8]) -> Option<(Element, usize, usize)> {
    if text.starts_with(b"_2006") {
        return Some((Element::LongYear, 1, 4));
    }
    let runs_on = text.get(3).is_some_and(u8::is_ascii_lowercase);
    if text.starts_with(b"Mon") && !text.starts_with(b"Monday") {
        return (!runs_on).then_some((Element::Weekday, 0, 3));
    }
    if let [point @ (b'.' | b','), digit @ (b'0' | b'9'), ..] = text {
        let digits = text[1..].iter().take_while(|byte| *byte == digit).count();
        let ends = !text.get(1 + digits).is_some_and(u8::is_ascii_digit);
        // Go stores the count in twelve bits.
        let element = Element::Fraction {
            digits: digits & 0xfff,
            comma: *point == b',',
            trimmed: *digit == b'9',
        };
        return ends.then_some((element, 0, 1 + digits));
    }
    let (name, element) = FIXED.iter().find(|(name, _)| text.starts_with(name))?;
    (*element != Element::Month || !runs_on).then_some((*element, 0, name.len()))
}

impl Time {
    /// `Format`: writes the time in a layout.
    ///
    /// ```
    /// use gotemplate::time;
    ///
    /// let time = time::parse(b"2006-01-02", b"2024-02-29").unwrap();
    /// assert_eq!(time.format(b"Mon, 2 Jan 2006 15:04 MST"), b"Thu, 29 Feb 2024 00:00 UTC");
    /// ```
    #[must_use]
    pub fn format(&self, layout: &[u8]) -> Vec<u8> {
        let civil = self.civil();
        let mut out = Vec::new();
        let mut rest = layout;
        while !rest.is_empty() {
            let piece = next(rest);
            out.extend_from_slice(piece.text);
            rest = piece.rest;
            match piece.element {
                None => break,
                Some((Element::Abbreviation, _)) if !self.location.abbreviation().is_empty() => {
                    out.extend_from_slice(self.location.abbreviation());
                }
                Some((element, _)) => out.extend_from_slice(self.element(element, &civil).as_bytes()),
            }
        }
        out
    }

    fn element(&self, element: Element, civil: &Civil) -> String {
        let hour12 = if civil.hour % 12 == 0 { 12 } else { civil.hour % 12 };
        let month = name(&MONTHS, civil.month - 1);
        let weekday = name(&DAYS, civil.weekday);
        match element {
            Element::LongMonth => month.to_owned(),
            Element::Month => month[..3.min(month.len())].to_owned(),
            Element::NumMonth => civil.month.to_string(),
            Element::ZeroMonth => padded(civil.month, 2),
            Element::LongWeekday => weekday.to_owned(),
            Element::Weekday => weekday[..3.min(weekday.len())].to_owned(),
            Element::Day => civil.day.to_string(),
            Element::UnderDay => format!("{:2}", civil.day),
            Element::ZeroDay => padded(civil.day, 2),
            Element::UnderYearDay => format!("{:3}", civil.year_day),
            Element::ZeroYearDay => padded(civil.year_day, 3),
            Element::Hour => padded(civil.hour, 2),
            Element::Hour12 => hour12.to_string(),
            Element::ZeroHour12 => padded(hour12, 2),
            Element::Minute => civil.minute.to_string(),
            Element::ZeroMinute => padded(civil.minute, 2),
            Element::Second => civil.second.to_string(),
            Element::ZeroSecond => padded(civil.second, 2),
            Element::LongYear => padded(civil.year, 4),
            Element::Year => padded(civil.year.abs() % 100, 2),
            Element::UpperPm => if civil.hour >= 12 { "PM" } else { "AM" }.to_owned(),
            Element::LowerPm => if civil.hour >= 12 { "pm" } else { "am" }.to_owned(),
            // A zone without an abbreviation prints its offset.
            Element::Abbreviation => {
                let form = Offset {
                    z: false,
                    colons: false,
                    minutes: true,
                    seconds: false,
                };
                offset_text(self.location.offset(), form)
            }
            Element::Offset(form) => offset_text(self.location.offset(), form),
            Element::Fraction { digits, comma, trimmed } => fraction_text(self.nanos, digits, comma, trimmed),
        }
    }

    /// RFC 3339, as the encoders write it. An error if the format cannot represent the time.
    pub(crate) fn rfc3339(&self) -> Result<Vec<u8>, &'static str> {
        let text = self.format(b"2006-01-02T15:04:05.999999999Z07:00");
        if text.get(4) != Some(&b'-') {
            return Err("year outside of range [0,9999]");
        }
        if (self.location.offset() / 60).abs() >= 24 * 60 {
            return Err("timezone hour outside of range [0,23]");
        }
        Ok(text)
    }
}

fn name(names: &[&'static str], index: i64) -> &'static str {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    names.get(index).copied().unwrap_or_default()
}

/// The number with leading zeros up to the width. A sign does not count.
fn padded(number: i64, width: usize) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{:0width$}", number.unsigned_abs())
}

fn offset_text(offset: i64, form: Offset) -> String {
    if form.z && offset == 0 {
        return "Z".to_owned();
    }
    let minutes = offset / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let absolute = if minutes < 0 { -offset } else { offset };
    let minutes = minutes.abs();
    let colon = if form.colons { ":" } else { "" };
    let mut text = format!("{sign}{:02}", minutes / 60);
    if form.minutes {
        text.push_str(&format!("{colon}{:02}", minutes % 60));
    }
    if form.seconds {
        text.push_str(&format!("{colon}{}", padded(absolute % 60, 2)));
    }
    text
}

fn fraction_text(nanos: u32, digits: usize, comma: bool, trimmed: bool) -> String {
    if trimmed && (digits == 0 || nanos == 0) {
        return String::new();
    }
    let all = format!("{nanos:09}");
    let shown = &all[..digits.min(9)];
    let shown = if trimmed { shown.trim_end_matches('0') } else { shown };
    match shown {
        "" if trimmed => String::new(),
        shown => format!("{}{shown}", if comma { ',' } else { '.' }),
    }
}

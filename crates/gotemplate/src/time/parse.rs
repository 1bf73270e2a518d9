//! Parsing of times.

use super::{
    DAYS, Location, MONTHS, Time, days_before, days_in,
    duration::{leading_digits, leading_int},
    is_leap,
    layout::{self, Element, Offset},
    quote,
};

/// The elements that were read so far.
#[derive(Default)]
struct Found {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    pm: Option<bool>,
    utc: bool,
    offset: Option<i64>,
    abbreviation: Vec<u8>,
}

/// Why an element does not match.
enum Misfit {
    /// The text has another form.
    Bad,
    /// The number is out of range.
    Range(&'static str),
}

/// `time.Parse`: reads a time by a layout. The error is the text of Go's error.
///
/// ```
/// use gotemplate::time;
///
/// let time = time::parse(b"2006-01-02T15:04:05Z07:00", b"2024-02-29T12:00:00+01:00").unwrap();
/// assert_eq!(time.unix(), 1_709_204_400);
/// assert_eq!(
///     time::parse(b"2006-01-02", b"2023-02-29").unwrap_err(),
///     r#"parsing time "2023-02-29": day out of range"#
/// );
/// ```
pub fn parse(layout: &[u8], value: &[u8]) -> Result<Time, String> {
    let misfit = |element: &[u8], at: &[u8]| {
        let (value, layout) = (quote(value), quote(layout));
        format!(
            "parsing time {value} as {layout}: cannot parse {} as {}",
            quote(at),
            quote(element)
        )
    };
    let wrong = |problem: &str| format!("parsing time {}: {problem}", quote(value));
    let mut found = Found::default();
    let mut rest = value;
    let mut layout_rest = layout;
    loop {
        let piece = layout::next(layout_rest);
        let (left, fits) = skip(rest, piece.text);
        rest = left;
        if !fits {
            return Err(misfit(piece.text, rest));
        }
        let Some((element, text)) = piece.element else {
            if !rest.is_empty() {
                return Err(wrong(&format!("extra text: {}", quote(rest))));
            }
            break;
        };
        layout_rest = piece.rest;
        let start = rest;
        match found.take(element, text.starts_with(b"0"), &mut rest, piece.rest) {
            Ok(()) => {}
            Err(Misfit::Bad) => return Err(misfit(text, start)),
            Err(Misfit::Range(what)) => return Err(wrong(&format!("{what} out of range"))),
        }
    }
    found.time().map_err(wrong)
}

/// Skips the literal text of a layout in the value. Runs of blanks match each other.
fn skip<'a>(mut value: &'a [u8], mut prefix: &[u8]) -> (&'a [u8], bool) {
    while let Some((&first, after)) = prefix.split_first() {
        if first == b' ' {
            if value.first().is_some_and(|&byte| byte != b' ') {
                return (value, false);
            }
            prefix = cut_blanks(prefix);
            value = cut_blanks(value);
            continue;
        }
        if value.first() != Some(&first) {
            return (value, false);
        }
        prefix = after;
        value = &value[1..];
    }
    (value, true)
}

fn cut_blanks(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| byte == b' ').count()..]
}

impl Found {
    /// Reads one element of the value. `fixed`: numbers must have their leading zeros.
    fn take(&mut self, element: Element, fixed: bool, value: &mut &[u8], layout: &[u8]) -> Result<(), Misfit> {
        match element {
            Element::Year => {
                let year = signed_number(take(value, 2)?)?;
                self.year = year + if year >= 69 { 1900 } else { 2000 };
            }
            Element::LongYear => {
                if !value.first().is_some_and(u8::is_ascii_digit) {
                    return Err(Misfit::Bad);
                }
                self.year = signed_number(take(value, 4)?)?;
            }
            Element::Month => self.month = Some(lookup(MONTHS.map(|name| &name[..3]), value)? + 1),
            Element::LongMonth => self.month = Some(lookup(MONTHS, value)? + 1),
            Element::NumMonth | Element::ZeroMonth => {
                let month = number(value, fixed)?;
                self.month = Some(month);
                within("month", (1..=12).contains(&month))?;
            }
            Element::Weekday => drop(lookup(DAYS.map(|name| &name[..3]), value)?),
            Element::LongWeekday => drop(lookup(DAYS, value)?),
            Element::Day | Element::UnderDay | Element::ZeroDay => {
                if element == Element::UnderDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.day = Some(number(value, fixed)?);
            }
            Element::UnderYearDay | Element::ZeroYearDay => self.year_day = Some(day_of_year(value, element)?),
            Element::Hour => {
                self.hour = number(value, false)?;
                within("hour", self.hour < 24)?;
            }
            Element::Hour12 | Element::ZeroHour12 => {
                self.hour = number(value, fixed)?;
                within("hour", self.hour <= 12)?;
            }
            Element::Minute | Element::ZeroMinute => {
                self.minute = number(value, fixed)?;
                within("minute", self.minute < 60)?;
            }
            Element::Second | Element::ZeroSecond => {
                self.second = number(value, fixed)?;
                within("second", self.second < 60)?;
                self.unasked_fraction(value, layout)?;
            }
            Element::UpperPm => self.pm = Some(half_of_day(take(value, 2)?, [b"AM", b"PM"])?),
            Element::LowerPm => self.pm = Some(half_of_day(take(value, 2)?, [b"am", b"pm"])?),
            Element::Abbreviation => self.abbreviation(value)?,
            Element::Offset(form) => self.offset(form, value)?,
            Element::Fraction { trimmed: true, .. } => {
                if let [b'.' | b',', b'0'..=b'9', ..] = value {
                    self.nanos = fraction(value, 1 + leading_digits(&value[1..]))?;
                }
            }
            Element::Fraction { digits, .. } => self.nanos = fraction(value, 1 + digits)?,
        }
        Ok(())
    }

    /// A fraction after the seconds is read even if the layout has none.
    fn unasked_fraction(&mut self, value: &mut &[u8], layout: &[u8]) -> Result<(), Misfit> {
        if let [b'.' | b',', b'0'..=b'9', ..] = value
            && !matches!(layout::next(layout).element, Some((Element::Fraction { .. }, _)))
        {
            self.nanos = fraction(value, 1 + leading_digits(&value[1..]))?;
        }
        Ok(())
    }

    fn abbreviation(&mut self, value: &mut &[u8]) -> Result<(), Misfit> {
        if let Some(rest) = value.strip_prefix(b"UTC") {
            self.utc = true;
            *value = rest;
            return Ok(());
        }
        let length = abbreviation_length(value).ok_or(Misfit::Bad)?;
        self.abbreviation = take(value, length)?.to_vec();
        Ok(())
    }

    fn offset(&mut self, form: Offset, value: &mut &[u8]) -> Result<(), Misfit> {
        if form.z
            && let Some(rest) = value.strip_prefix(b"Z")
        {
            self.utc = true;
            *value = rest;
            return Ok(());
        }
        // A sign, then two digits for each part, with or without colons between them.
        let parts = 1 + usize::from(form.minutes) + usize::from(form.seconds);
        let step = if form.colons { 3 } else { 2 };
        let text = take(value, 1 + step * (parts - 1) + 2)?;
        if form.colons && (1..parts).any(|part| text[part * step] != b':') {
            return Err(Misfit::Bad);
        }
        let mut sizes = [0; 3];
        let mut result = Ok(());
        for (part, size) in sizes.iter_mut().enumerate().take(parts) {
            let at = 1 + part * step;
            match number(&mut &text[at..at + 2], true) {
                Ok(number) => *size = number,
                Err(misfit) => {
                    result = Err(misfit);
                    break;
                }
            }
        }
        let [hours, minutes, seconds] = sizes;
        // Go checks the range before the form.
        within("time zone offset second", seconds <= 60)?;
        within("time zone offset minute", minutes <= 60)?;
        within("time zone offset hour", hours <= 24)?;
        result?;
        let offset = (hours * 60 + minutes) * 60 + seconds;
        self.offset = Some(match text[0] {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(Misfit::Bad),
        });
        Ok(())
    }

    /// Builds the time from its elements. The error is the end of Go's error.
    fn time(self) -> Result<Time, &'static str> {
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let (month, day) = match self.year_day {
            Some(year_day) => self.date_of_year_day(year_day)?,
            None => (self.month.unwrap_or(1), self.day.unwrap_or(1)),
        };
        if day < 1 || day > days_in(month, self.year) {
            return Err("day out of range");
        }
        let date = [self.year, month, day];
        let clock = [hour, self.minute, self.second];
        let at = |location| Time::from_civil(date, clock, self.nanos, location);
        Ok(match self.offset {
            _ if self.utc => at(Location::Utc),
            // Go represents a missing offset as -1, so an offset of one second west counts as missing.
            Some(0) if self.abbreviation.is_empty() || self.abbreviation == b"UTC" => at(Location::Local),
            Some(offset) if offset != -1 => at(Location::fixed(&self.abbreviation, offset)),
            _ if self.abbreviation.is_empty() => at(Location::Local),
            _ => {
                let hours = self
                    .abbreviation
                    .strip_prefix(b"GMT")
                    .and_then(|hours| signed_number(hours).ok());
                let offset = hours.unwrap_or_default() * 3600;
                // The offset is recorded, but the instant is computed as if it were zero.
                at(Location::Utc).with_location(Location::fixed(&self.abbreviation, offset))
            }
        })
    }

    fn date_of_year_day(&self, year_day: i64) -> Result<(i64, i64), &'static str> {
        let length = if is_leap(self.year) { 366 } else { 365 };
        if !(1..=length).contains(&year_day) {
            return Err("day-of-year out of range");
        }
        let start = days_before(self.year, 1);
        let before = |month: i64| (days_before(self.year, month) - start) as i64;
        let month = (1..=12).rev().find(|&month| before(month) < year_day).unwrap_or(1);
        let day = year_day - before(month);
        if self.month.is_some_and(|seen| seen != month) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|seen| seen != day) {
            return Err("day-of-year does not match day");
        }
        Ok((month, day))
    }
}

fn within(what: &'static str, fits: bool) -> Result<(), Misfit> {
    if fits { Ok(()) } else { Err(Misfit::Range(what)) }
}

fn take<'a>(value: &mut &'a [u8], length: usize) -> Result<&'a [u8], Misfit> {
    let (taken, rest) = value.split_at_checked(length).ok_or(Misfit::Bad)?;
    *value = rest;
    Ok(taken)
}

/// One or two digits; exactly two if `fixed`.
fn number(value: &mut &[u8], fixed: bool) -> Result<i64, Misfit> {
    let digits = leading_digits(value).min(2);
    if digits == 0 || fixed && digits < 2 {
        return Err(Misfit::Bad);
    }
    signed_number(take(value, digits)?)
}

fn day_of_year(value: &mut &[u8], element: Element) -> Result<i64, Misfit> {
    if element == Element::UnderYearDay {
        for _ in 0..2 {
            *value = value.strip_prefix(b" ").unwrap_or(value);
        }
    }
    let digits = leading_digits(value).min(3);
    if digits == 0 || element == Element::ZeroYearDay && digits < 3 {
        return Err(Misfit::Bad);
    }
    signed_number(take(value, digits)?)
}

/// A whole number with an optional sign.
fn signed_number(text: &[u8]) -> Result<i64, Misfit> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if leading_digits(digits) < digits.len() {
        return Err(Misfit::Bad);
    }
    let number = leading_int(digits).ok_or(Misfit::Bad)? as i64;
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// The index of the name at the start of the value, in any case.
fn lookup<const N: usize>(names: [&str; N], value: &mut &[u8]) -> Result<i64, Misfit> {
    let begins = |name: &&str| {
        value
            .get(..name.len())
            .is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()))
    };
    let index = names.iter().position(begins).ok_or(Misfit::Bad)?;
    take(value, names[index].len())?;
    i64::try_from(index).map_err(|_| Misfit::Bad)
}

fn half_of_day(text: &[u8], halves: [&[u8]; 2]) -> Result<bool, Misfit> {
    halves
        .iter()
        .position(|half| *half == text)
        .map(|index| index == 1)
        .ok_or(Misfit::Bad)
}

/// A point or comma and digits, `length` bytes in total, as nanoseconds. Digits after the ninth are ignored.
fn fraction(value: &mut &[u8], length: usize) -> Result<u32, Misfit> {
    let text = take(value, length)?;
    if !matches!(text.first(), Some(b'.' | b',')) {
        return Err(Misfit::Bad);
    }
    let digits = &text[1..text.len().min(10)];
    let number = signed_number(digits)?;
    if number < 0 {
        return Err(Misfit::Range("fractional second"));
    }
    let missing = u32::try_from(9 - digits.len()).unwrap_or_default();
    Ok(u32::try_from(number)
        .unwrap_or_default()
        .saturating_mul(10_u32.saturating_pow(missing)))
}

/// The length of the zone abbreviation at the start of the value.
fn abbreviation_length(value: &[u8]) -> Option<usize> {
    if value.len() < 3 {
        return None;
    }
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(offset) = value.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_length(offset).unwrap_or_default());
    }
    if value.starts_with(b"+") || value.starts_with(b"-") {
        return signed_offset_length(value);
    }
    let capitals = value
        .iter()
        .take(6)
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    match capitals {
        3 => Some(3),
        4 if value[3] == b'T' || value.starts_with(b"WITA") => Some(4),
        5 if value[4] == b'T' => Some(5),
        _ => None,
    }
}

/// The length of a signed number of hours up to 23, such as `+03`.
fn signed_offset_length(value: &[u8]) -> Option<usize> {
    let (b'+' | b'-', digits) = value.split_first()? else {
        return None;
    };
    let length = leading_digits(digits);
    let hours = leading_int(&digits[..length])?;
    (length > 0 && hours <= 23).then_some(1 + length)
}

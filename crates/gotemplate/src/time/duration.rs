//! `time.Duration`.

use super::quote;

/// A `time.Duration`: nanoseconds.
pub type Duration = i64;

pub(super) const SECOND: Duration = 1_000_000_000;
pub(super) const MINUTE: Duration = 60 * SECOND;
pub(super) const HOUR: Duration = 60 * MINUTE;

/// The `String` method: `72h3m0.5s`, with smaller units below a second.
pub(super) fn display(duration: Duration) -> String {
    let size = duration.unsigned_abs();
    let sign = if duration < 0 { "-" } else { "" };
    let body = match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{size}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(size, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(size, 6)),
        _ => {
            let seconds = size / SECOND as u64;
            let rest = fraction(seconds % 60 * SECOND as u64 + size % SECOND as u64, 9);
            match (seconds / 3600, seconds / 60 % 60) {
                (0, 0) => format!("{rest}s"),
                (0, minutes) => format!("{minutes}m{rest}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
            }
        }
    };
    format!("{sign}{body}")
}

/// A number with that many digits after the point, without trailing zeros.
fn fraction(number: u64, digits: usize) -> String {
    let text = format!("{number:0width$}", width = digits + 1);
    let (whole, fraction) = text.split_at(text.len() - digits);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

/// `time.ParseDuration`. The error is the text of Go's error.
pub fn parse_duration(text: &[u8]) -> Result<Duration, String> {
    const LIMIT: u64 = 1 << 63;
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole_digits = leading_digits(rest);
        let mut value = leading_int(&rest[..whole_digits]).ok_or_else(invalid)?;
        rest = &rest[whole_digits..];
        let (mut part, mut scale, mut part_digits) = (0, 1.0, 0);
        if let [b'.', after @ ..] = rest {
            part_digits = leading_digits(after);
            (part, scale) = leading_fraction(&after[..part_digits]);
            rest = &after[part_digits..];
        }
        if whole_digits == 0 && part_digits == 0 {
            return Err(invalid());
        }
        let end = rest
            .iter()
            .position(|&b| b == b'.' || b.is_ascii_digit())
            .unwrap_or(rest.len());
        let (unit, after) = rest.split_at(end);
        rest = after;
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let unit =
            unit_of(unit).ok_or_else(|| format!("time: unknown unit {} in duration {}", quote(unit), quote(text)))?;
        if value > LIMIT / unit {
            return Err(invalid());
        }
        value *= unit;
        if part > 0 {
            value = value.saturating_add((part as f64 * (unit as f64 / scale)) as u64);
        }
        total = total
            .checked_add(value)
            .filter(|&total| value <= LIMIT && total <= LIMIT)
            .ok_or_else(invalid)?;
    }
    if negative {
        return Ok(total.wrapping_neg() as i64);
    }
    i64::try_from(total).map_err(|_| invalid())
}

fn unit_of(name: &[u8]) -> Option<u64> {
    Some(match str::from_utf8(name).ok()? {
        "ns" => 1,
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND as u64,
        "m" => MINUTE as u64,
        "h" => HOUR as u64,
        _ => return None,
    })
}

pub(super) fn leading_digits(text: &[u8]) -> usize {
    text.iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len())
}

/// A number of digits only, up to 2^63.
pub(super) fn leading_int(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        number
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))
            .filter(|&number| number <= 1 << 63)
    })
}

/// The digits after a point: a number and its divisor. Digits that do not fit are ignored.
fn leading_fraction(digits: &[u8]) -> (u64, f64) {
    let mut number: u64 = 0;
    let mut scale = 1.0;
    for digit in digits {
        if number > i64::MAX as u64 / 10 {
            break;
        }
        let next = number * 10 + u64::from(digit - b'0');
        if next > 1 << 63 {
            break;
        }
        number = next;
        scale *= 10.0;
    }
    (number, scale)
}

/// `Round`: halves away from zero, saturating.
pub(super) fn round(duration: Duration, to: Duration) -> Duration {
    if to <= 0 {
        return duration;
    }
    let (duration, to) = (i128::from(duration), i128::from(to));
    let rest = (duration % to).abs();
    let size = duration.abs() - rest + if rest * 2 < to { 0 } else { to };
    let rounded = if duration < 0 { -size } else { size };
    rounded.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

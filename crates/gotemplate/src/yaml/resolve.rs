//! The meaning of plain scalars: YAML 1.1 as go-yaml implements it.

use super::error::Error;
use crate::{strconv, time};

pub(super) const STR: &str = "tag:yaml.org,2002:str";
pub(super) const BINARY: &str = "tag:yaml.org,2002:binary";
pub(super) const MERGE: &str = "tag:yaml.org,2002:merge";
pub(super) const NULL: &str = "tag:yaml.org,2002:null";
const BOOL: &str = "tag:yaml.org,2002:bool";
const INT: &str = "tag:yaml.org,2002:int";
const FLOAT: &str = "tag:yaml.org,2002:float";
const TIMESTAMP: &str = "tag:yaml.org,2002:timestamp";

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above the range of an `int64`.
    Uint(u64),
    Float(f64),
    /// A string.
    Timestamp,
    Text,
}

impl Meaning {
    fn tag(&self) -> &'static str {
        match self {
            Self::Null => NULL,
            Self::Bool(_) => BOOL,
            Self::Int(_) | Self::Uint(_) => INT,
            Self::Float(_) => FLOAT,
            Self::Timestamp => TIMESTAMP,
            Self::Text => STR,
        }
    }
}

/// The meaning of a text with a tag, or without one.
pub(super) fn resolve(tag: Option<&str>, text: &str) -> Result<Meaning, Error> {
    let Some(tag) = tag else {
        return Ok(meaning(text, true));
    };
    if !matches!(tag, STR | BOOL | INT | FLOAT | NULL | TIMESTAMP) {
        return Ok(Meaning::Text);
    }
    if tag == STR {
        return Ok(Meaning::Text);
    }
    match meaning(text, tag == TIMESTAMP) {
        found if found.tag() == tag => Ok(found),
        #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
        Meaning::Int(number) if tag == FLOAT => Ok(Meaning::Float(number as f64)),
        found => Err(Error::yaml(format!(
            "cannot decode {} `{text}` as a {}",
            short(found.tag()),
            short(tag)
        ))),
    }
}

/// Whether a text that is written plain is read as a string.
pub(super) fn reads_back(text: &str) -> bool {
    meaning(text, true) == Meaning::Text
}

fn short(tag: &str) -> String {
    tag.strip_prefix("tag:yaml.org,2002:")
        .map_or_else(|| tag.to_owned(), |name| format!("!!{name}"))
}

fn meaning(text: &str, timestamps: bool) -> Meaning {
    let word = match text {
        "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Meaning::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Meaning::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Meaning::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Meaning::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Meaning::Float(f64::NEG_INFINITY),
        _ => Meaning::Text,
    };
    if word != Meaning::Text {
        return word;
    }
    match text.as_bytes() {
        [b'.', ..] => strconv::parse_float(text).map_or(Meaning::Text, Meaning::Float),
        [b'0'..=b'9' | b'+' | b'-', ..] => {
            if timestamps && is_timestamp(text) {
                return Meaning::Timestamp;
            }
            number(&text.replace('_', "")).unwrap_or(Meaning::Text)
        }
        _ => Meaning::Text,
    }
}

fn number(text: &str) -> Option<Meaning> {
    integer(text)
        .or_else(|| decimal(text).map(Meaning::Float))
        // go-yaml accepts a sign after the prefix of a binary number.
        .or_else(|| i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(Meaning::Int))
}

/// `strconv.ParseInt` and then `ParseUint`, both with base 0.
fn integer(text: &str) -> Option<Meaning> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (Some("-"), &text[1..]),
        b'+' => (Some(""), &text[1..]),
        _ => (None, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let signed = format!("{}{digits}", sign.unwrap_or_default());
    match i64::from_str_radix(&signed, radix) {
        Ok(number) => Some(Meaning::Int(number)),
        Err(_) if sign.is_none() => u64::from_str_radix(digits, radix).ok().map(Meaning::Uint),
        Err(_) => None,
    }
}

/// A decimal float: digits, a point, an exponent. Not hexadecimal, not out of range.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) || !exponent_fits {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether the text has one of the layouts that go-yaml tries: a date, or a date and a time.
fn is_timestamp(text: &str) -> bool {
    const LAYOUTS: [&str; 4] = [
        "2006-1-2T15:4:5.999999999Z07:00",
        "2006-1-2t15:4:5.999999999Z07:00",
        "2006-1-2 15:4:5.999999999",
        "2006-1-2",
    ];
    let year = text.bytes().take_while(u8::is_ascii_digit).count();
    year == 4
        && text.as_bytes().get(4) == Some(&b'-')
        && LAYOUTS
            .iter()
            .any(|layout| time::parse(layout.as_bytes(), text.as_bytes()).is_ok())
}

//! Base64, base32, JSON and YAML.

use data_encoding::{BASE32, BASE64};

use super::{Args, string};
use crate::{
    function::{Failure, Function, Param},
    json::{self, Style},
    value::Value,
    yaml,
};

pub(super) fn lookup(name: &str) -> Option<Function> {
    use Param::{Any, Str};
    Some(match name {
        "b64enc" => Function::new(&[Str], |args| string(BASE64.encode(args.text(0)?).into_bytes())),
        "b32enc" => Function::new(&[Str], |args| string(BASE32.encode(args.text(0)?).into_bytes())),
        "b64dec" => Function::new(&[Str], |args| Ok(decoded(base64(args.text(0)?), "base64"))),
        "b32dec" => Function::new(&[Str], |args| Ok(decoded(base32(args.text(0)?), "base32"))),
        "fromJson" => Function::new(&[Str], |args| match json::decode(args.text(0)?) {
            Ok(value) | Err((value, Failure::Error(_))) => Ok(value),
            Err((_, failure)) => Err(failure),
        }),
        "mustFromJson" => Function::new(&[Str], |args| {
            json::decode(args.text(0)?).map_err(|(_, failure)| failure)
        }),
        "toJson" => Function::new(&[Any], |args| or_nothing(json::encode(args.any(0), Style::Compact))),
        "mustToJson" => Function::new(&[Any], |args| json::encode(args.any(0), Style::Compact).map(Value::str)),
        "toPrettyJson" => Function::new(&[Any], |args| or_nothing(json::encode(args.any(0), Style::Pretty))),
        "mustToPrettyJson" => Function::new(&[Any], |args| json::encode(args.any(0), Style::Pretty).map(Value::str)),
        "toRawJson" | "mustToRawJson" => {
            Function::new(&[Any], |args| json::encode(args.any(0), Style::Raw).map(Value::str))
        }
        "toYaml" => Function::new(&[Any], |args| or_nothing(to_yaml(args.any(0)))),
        "mustToYaml" => Function::new(&[Any], |args| to_yaml(args.any(0)).map(Value::str)),
        _ => return None,
    })
}

/// The empty string where Go drops its error. Our own bounds are reported all the same.
fn or_nothing(result: Result<Vec<u8>, Failure>) -> Result<Value, Failure> {
    match result {
        Ok(text) => Ok(Value::str(text)),
        Err(Failure::Error(_)) => Ok(Value::str("")),
        Err(failure) => Err(failure),
    }
}

/// By way of JSON, which Go reads as YAML.
fn to_yaml(value: &Value) -> Result<Vec<u8>, Failure> {
    // Written first for its errors and bounds.
    json::encode(value, Style::Compact).map_err(|failure| match failure {
        Failure::Error(problem) => Failure::Error(format!("error marshaling into JSON: {problem}")),
        failure => failure,
    })?;
    let document = json::document(value);
    yaml::write(&document)
        .map(String::into_bytes)
        .map_err(|problem| Failure::Error(problem.to_string()))
}

/// The bytes, or the error as text.
fn decoded(result: Result<Vec<u8>, usize>, name: &str) -> Value {
    match result {
        Ok(bytes) => Value::str(bytes),
        Err(at) => Value::str(format!("illegal {name} data at input byte {at}")),
    }
}

/// Go's base64, which skips line breaks and overlooks stray bits at the end. The error is the place.
fn base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let mut bytes = text
        .iter()
        .copied()
        .enumerate()
        .filter(|&(_, byte)| !is_break(byte))
        .peekable();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    loop {
        let mut group: u32 = 0;
        let mut digits = 0;
        let mut padding = None;
        while digits < 4 {
            let Some((at, byte)) = bytes.next() else {
                // Where the group began, if no line break came in between.
                return if digits == 0 { Ok(out) } else { Err(text.len() - digits) };
            };
            if byte == b'=' {
                padding = Some(at);
                break;
            }
            group = group << 6 | base64_digit(byte).ok_or(at)?;
            digits += 1;
        }
        let Some(at) = padding else {
            out.extend_from_slice(&group.to_be_bytes()[1..]);
            continue;
        };
        match digits {
            0 | 1 => return Err(at),
            2 => match bytes.next() {
                None => return Err(text.len()),
                Some((_, b'=')) => {}
                Some((next, _)) => return Err(next - 1),
            },
            _ => {}
        }
        if let Some((at, _)) = bytes.next() {
            return Err(at);
        }
        let group = group << (6 * (4 - digits));
        out.extend_from_slice(&group.to_be_bytes()[1..digits]);
        return Ok(out);
    }
}

fn base64_digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// Go's base32. Places count without line breaks, which are taken out first.
fn base32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    while at < text.len() {
        let mut group: u64 = 0;
        for digits in 0..8 {
            let Some(&byte) = text.get(at) else {
                return Err(at - digits);
            };
            at += 1;
            let left = text.len() - at;
            if byte == b'=' && digits >= 2 && left < 8 {
                if left + digits < 7 {
                    return Err(text.len());
                }
                if let Some(wrong) = text[at..].iter().take(7 - digits).position(|&byte| byte != b'=') {
                    return Err(at + wrong - 1);
                }
                if matches!(digits, 3 | 6) {
                    return Err(at - 1);
                }
                let group = group << (5 * (8 - digits));
                out.extend_from_slice(&group.to_be_bytes()[3..3 + digits * 5 / 8]);
                return Ok(out);
            }
            group = group << 5 | base32_digit(byte).ok_or(at - 1)?;
        }
        out.extend_from_slice(&group.to_be_bytes()[3..]);
    }
    Ok(out)
}

fn base32_digit(byte: u8) -> Option<u64> {
    Some(u64::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'2'..=b'7' => byte - b'2' + 26,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_lenient_as_in_go() {
        for (text, expected) in [
            ("YWJj", Ok(&b"abc"[..])),
            ("YQ==", Ok(b"a")),
            ("Y\nQ=\r=\n", Ok(b"a")),
            ("YR==", Ok(b"a")),
            ("YQ", Err(0)),
            ("YWJjZA", Err(4)),
            ("YQ=", Err(3)),
            ("YQ==x", Err(4)),
            ("YW=j", Err(2)),
            ("a$", Err(1)),
            ("=", Err(0)),
        ] {
            assert_eq!(
                base64(text.as_bytes()).as_deref(),
                expected.as_ref().map(|bytes| *bytes),
                "{text}"
            );
        }
    }

    #[test]
    fn base32_is_that_of_go() {
        for (text, expected) in [
            ("NBSWY3DP", Ok(&b"hello"[..])),
            ("ME======", Ok(b"a")),
            ("ME\n======", Ok(b"a")),
            ("ME=====", Err(7)),
            ("MFR=====", Err(3)),
            ("mfrgg===", Err(0)),
            ("MF", Err(0)),
        ] {
            assert_eq!(
                base32(text.as_bytes()).as_deref(),
                expected.as_ref().map(|bytes| *bytes),
                "{text}"
            );
        }
    }
}

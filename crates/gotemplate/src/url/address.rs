//! Go's `netip.ParseAddr`, for addresses in brackets.

use crate::strconv::quote;

/// Checks that the text is an IPv6 address, with or without a zone. The error is the text of Go's error.
pub(super) fn check_v6(address: &[u8]) -> Result<(), String> {
    let failed = |problem: Problem<'_>| {
        let place = if problem.at.is_empty() {
            String::new()
        } else {
            format!(" (at {})", quote(problem.at))
        };
        format!("invalid host: ParseAddr({}): {}{place}", quote(address), problem.text)
    };
    match address.iter().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => match v4(address) {
            Ok(()) => Err("invalid IP-literal".to_owned()),
            Err(problem) => Err(failed(problem)),
        },
        Some(b':') => v6(address).map_err(failed),
        Some(_) => Err(failed(Problem::new("missing IPv6 address"))),
        None => Err(failed(Problem::new("unable to parse IP"))),
    }
}

struct Problem<'a> {
    text: &'static str,
    at: &'a [u8],
}

impl<'a> Problem<'a> {
    const fn new(text: &'static str) -> Self {
        Self { text, at: b"" }
    }

    const fn at(text: &'static str, at: &'a [u8]) -> Self {
        Self { text, at }
    }
}

fn v4(text: &[u8]) -> Result<(), Problem<'_>> {
    let mut fields = 0;
    let (mut value, mut digits) = (0, 0);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(Problem::new("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(Problem::new("IPv4 field has value >255"));
                }
            }
            b'.' if at == 0 || at == text.len() - 1 || text[at - 1] == b'.' => {
                return Err(Problem::at("IPv4 field must have at least one digit", &text[at..]));
            }
            b'.' if fields == 3 => return Err(Problem::new("IPv4 address too long")),
            b'.' => {
                fields += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(Problem::at("unexpected character", &text[at..])),
        }
    }
    if fields < 3 {
        Err(Problem::new("IPv4 address too short"))
    } else {
        Ok(())
    }
}

/// Checks an IPv4 address at the end of an IPv6 address, after that many bytes.
fn embedded_v4(text: &[u8], bytes: usize, ellipsis: bool) -> Result<(), Problem<'_>> {
    if !ellipsis && bytes != 12 {
        let problem = "embedded IPv4 address must replace the final 2 fields of the address";
        return Err(Problem::at(problem, text));
    }
    if bytes > 12 {
        let problem = "too many hex fields to fit an embedded IPv4 at the end of the address";
        return Err(Problem::at(problem, text));
    }
    v4(text)
}

fn v6(text: &[u8]) -> Result<(), Problem<'_>> {
    let zone = text.iter().position(|&byte| byte == b'%');
    if zone.is_some_and(|zone| zone + 1 == text.len()) {
        return Err(Problem::new("zone must be a non-empty string"));
    }
    let mut rest = &text[..zone.unwrap_or(text.len())];
    let mut ellipsis = false;
    if let Some(after) = rest.strip_prefix(b"::") {
        ellipsis = true;
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
    let mut bytes = 0;
    while bytes < 16 {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits > 4 {
            return Err(Problem::at("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            let problem = "each colon-separated field must have at least one digit";
            return Err(Problem::at(problem, rest));
        }
        if rest.get(digits) == Some(&b'.') {
            embedded_v4(rest, bytes, ellipsis)?;
            rest = b"";
            bytes += 4;
            break;
        }
        bytes += 2;
        rest = &rest[digits..];
        match rest {
            [] => break,
            [b':'] => return Err(Problem::at("colon must be followed by more characters", rest)),
            [b':', b':', after @ ..] => {
                if ellipsis {
                    return Err(Problem::at("multiple :: in address", &rest[1..]));
                }
                ellipsis = true;
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            [b':', after @ ..] => rest = after,
            _ => return Err(Problem::at("unexpected character, want colon", rest)),
        }
    }
    match () {
        () if !rest.is_empty() => Err(Problem::at("trailing garbage after address", rest)),
        () if bytes < 16 && !ellipsis => Err(Problem::new("address string too short")),
        () if bytes == 16 && ellipsis => Err(Problem::new("the :: must expand to at least one field of zeros")),
        () => Ok(()),
    }
}

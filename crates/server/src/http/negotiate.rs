//! What a client accepts and what it has: `Accept`, `Accept-Encoding`, `If-None-Match`.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use fleet::document::Etag;

/// Whether a media type, or a part of its name, is in `Accept`.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(media_type)))
}

/// Whether a client asks for lines of JSON, by any of their names.
pub fn wants_lines(headers: &HeaderMap) -> bool {
    ["application/x-ndjson", "application/ndjson", "application/jsonl"]
        .iter()
        .any(|name| accepts(headers, name))
}

pub fn wants_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().any(allows_gzip)
}

/// Whether an `Accept-Encoding` header allows gzip: by name, or by `*` if gzip is not named.
fn allows_gzip(value: &HeaderValue) -> bool {
    // What Flux sends.
    if value == "gzip" {
        return true;
    }
    let Ok(text) = value.to_str() else { return false };
    let weight_of = |wanted: &str| {
        let mut codings = text.split(',').map(|part| part.split(';').map(str::trim));
        let mut parameters = codings.find_map(|mut parts| {
            let coding = parts.next()?;
            coding.eq_ignore_ascii_case(wanted).then_some(parts)
        })?;
        let weight = parameters.find_map(|parameter| parameter.strip_prefix("q=")?.trim().parse::<f32>().ok());
        Some(weight.unwrap_or(1.0))
    };
    let weight = weight_of("gzip").or_else(|| weight_of("*"));
    weight.is_some_and(|weight| weight > 0.0)
}

/// The `ETag` of a reply: each encoding has its own.
pub fn tag(etag: Etag, gzip: bool) -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = *b"\"00000000000000000000000000000000-gzip\"";
    for (digits, byte) in text[1..33].chunks_exact_mut(2).zip(etag.0.to_be_bytes()) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    let text = match gzip {
        true => &text[..],
        false => {
            text[33] = b'"';
            &text[..34]
        }
    };
    HeaderValue::from_bytes(text).expect("hexadecimal digits")
}

/// Whether an `If-None-Match` header names this tag.
pub fn names_tag(value: &HeaderValue, tag: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    text.split(',')
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_when_it_is_offered_and_not_refused() {
        for (header, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, deflate", false),
            ("*", true),
            ("gzip;q=0, *", false),
            ("*;q=0, gzip", true),
            ("deflate", false),
            ("", false),
        ] {
            assert_eq!(allows_gzip(&HeaderValue::from_static(header)), expected, "{header}");
        }
    }

    #[test]
    fn each_encoding_has_a_tag_in_hexadecimal_digits() {
        for etag in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978] {
            assert_eq!(tag(Etag(etag), false), format!("\"{etag:032x}\""));
            assert_eq!(tag(Etag(etag), true), format!("\"{etag:032x}-gzip\""));
        }
    }

    #[test]
    fn a_tag_is_found_in_a_list() {
        let tag = HeaderValue::from_static("\"a\"");
        for (header, expected) in [
            ("\"a\"", true),
            ("\"b\", W/\"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
        ] {
            assert_eq!(names_tag(&HeaderValue::from_static(header), &tag), expected, "{header}");
        }
    }
}

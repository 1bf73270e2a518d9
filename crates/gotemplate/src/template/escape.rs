//! The escapes of `html`, `js` and `urlquery`.

use std::fmt::Write as _;

use crate::unicode;

pub(super) fn html(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            0 => escaped.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => escaped.extend_from_slice(b"&#34;"),
            b'\'' => escaped.extend_from_slice(b"&#39;"),
            b'&' => escaped.extend_from_slice(b"&amp;"),
            b'<' => escaped.extend_from_slice(b"&lt;"),
            b'>' => escaped.extend_from_slice(b"&gt;"),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// Bytes that are not UTF-8 are unchanged.
pub(super) fn js(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        let mut valid = String::new();
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' | '"' => valid.extend(['\\', c]),
                '<' | '>' | '&' | '=' | '\0'..' ' => push_code_point(&mut valid, c),
                _ if c.is_ascii() || unicode::is_print(c) => valid.push(c),
                _ => push_code_point(&mut valid, c),
            }
        }
        escaped.extend_from_slice(valid.as_bytes());
        escaped.extend_from_slice(chunk.invalid());
    }
    escaped
}

fn push_code_point(text: &mut String, c: char) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\\u{:04X}", u32::from(c));
}

pub(super) fn query(text: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b' ' => escaped.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => escaped.push(byte),
            _ if byte.is_ascii_alphanumeric() => escaped.push(byte),
            _ => escaped.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_escapes_what_go_escapes() {
        let text = "<a b='1' c=\"2\">&\\\0\t\x7fé\u{ad}~-_.+/";
        assert_eq!(
            html(text.as_bytes()),
            "&lt;a b=&#39;1&#39; c=&#34;2&#34;&gt;&amp;\\\u{fffd}\t\x7fé\u{ad}~-_.+/".as_bytes()
        );
        assert_eq!(
            String::from_utf8_lossy(&js(text.as_bytes())),
            "\\u003Ca b\\u003D\\'1\\' c\\u003D\\\"2\\\"\\u003E\\u0026\\\\\\u0000\\u0009\x7fé\\u00AD~-_.+/"
        );
        assert_eq!(
            String::from_utf8_lossy(&query(text.as_bytes())),
            "%3Ca+b%3D%271%27+c%3D%222%22%3E%26%5C%00%09%7F%C3%A9%C2%AD~-_.%2B%2F"
        );
        assert_eq!(js(b"a\xffb"), b"a\xffb");
    }
}

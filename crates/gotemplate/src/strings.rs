//! Go's `strings` and `unicode/utf8`, on bytes that need not be UTF-8.

use std::collections::HashSet;

use crate::unicode;

/// The character for a byte that is not UTF-8.
pub const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// `utf8.DecodeRune`: the first character and its length in bytes; U+FFFD and 1 for a byte that is not UTF-8. `None` if the text
/// is empty.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if first.is_ascii() {
        return Some((char::from(first), 1));
    }
    let valid = match str::from_utf8(&bytes[..bytes.len().min(4)]) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    Some(valid.chars().next().map_or((REPLACEMENT, 1), |c| (c, c.len_utf8())))
}

/// The last character and its length in bytes.
fn decode_last(bytes: &[u8]) -> Option<(char, usize)> {
    let from = bytes.len().saturating_sub(4);
    let whole = (from..bytes.len()).find_map(|start| {
        let mut chars = str::from_utf8(&bytes[start..]).ok()?.chars();
        chars.next_back()
    });
    match whole {
        Some(c) => Some((c, c.len_utf8())),
        None => bytes.last().map(|_| (REPLACEMENT, 1)),
    }
}

/// The characters with their byte offsets, as `range` over a Go string yields them.
pub fn runes(mut bytes: &[u8]) -> impl Iterator<Item = (usize, char)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (c, width) = decode(bytes)?;
        bytes = &bytes[width..];
        at += width;
        Some((at - width, c))
    })
}

/// The number of characters. Every invalid byte counts as one.
pub(crate) fn rune_count(bytes: &[u8]) -> usize {
    runes(bytes).count()
}

pub(crate) fn push_char(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// `strings.Map`, which writes U+FFFD for a byte that is not UTF-8.
fn map(bytes: &[u8], mut change: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (_, c) in runes(bytes) {
        push_char(&mut out, change(c));
    }
    out
}

/// `strings.ToUpper`.
pub fn upper(bytes: &[u8]) -> Vec<u8> {
    map(bytes, unicode::to_upper)
}

/// `strings.ToLower`.
pub fn lower(bytes: &[u8]) -> Vec<u8> {
    map(bytes, unicode::to_lower)
}

/// `strings.Title`.
pub fn title(bytes: &[u8]) -> Vec<u8> {
    let mut previous = ' ';
    map(bytes, |c| {
        if separates(std::mem::replace(&mut previous, c)) {
            unicode::to_title(c)
        } else {
            c
        }
    })
}

fn separates(c: char) -> bool {
    if c.is_ascii() {
        !c.is_ascii_alphanumeric() && c != '_'
    } else {
        unicode::is_space(c)
    }
}

/// `strings.TrimFunc`.
fn trim_by(mut bytes: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    while let Some((c, width)) = decode(bytes)
        && cut(c)
    {
        bytes = &bytes[width..];
    }
    while let Some((c, width)) = decode_last(bytes)
        && cut(c)
    {
        bytes = &bytes[..bytes.len() - width];
    }
    bytes
}

/// `strings.TrimSpace`.
pub fn trim_space(bytes: &[u8]) -> &[u8] {
    trim_by(bytes, unicode::is_space)
}

/// `strings.Trim`.
pub fn trim<'a>(bytes: &'a [u8], cutset: &[u8]) -> &'a [u8] {
    let cutset: HashSet<char> = runes(cutset).map(|(_, c)| c).collect();
    trim_by(bytes, |c| cutset.contains(&c))
}

/// `strings.Index`: the offset of the first occurrence. An empty needle is found at the start.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        Some(0)
    } else {
        memchr::memmem::find(bytes, needle)
    }
}

/// `strings.SplitN`: up to `limit` parts; all if it is negative. An empty separator splits into characters.
pub fn split<'a>(mut bytes: &'a [u8], separator: &[u8], limit: i64) -> Vec<&'a [u8]> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    if limit == 0 || separator.is_empty() && bytes.is_empty() {
        return parts;
    }
    while parts.len() + 1 < limit {
        let (end, width) = if separator.is_empty() {
            match decode(bytes) {
                Some((_, width)) if width < bytes.len() => (width, 0),
                _ => break,
            }
        } else {
            match find(bytes, separator) {
                Some(at) => (at, separator.len()),
                None => break,
            }
        };
        parts.push(&bytes[..end]);
        bytes = &bytes[end + width..];
    }
    parts.push(bytes);
    parts
}

/// The length of the result of `strings.ReplaceAll`.
pub(crate) fn replaced_len(bytes: &[u8], old: &[u8], new: &[u8]) -> usize {
    let count = if old.is_empty() {
        rune_count(bytes) + 1
    } else {
        memchr::memmem::find_iter(bytes, old).count()
    };
    (bytes.len() - count * old.len()).saturating_add(count.saturating_mul(new.len()))
}

/// `strings.ReplaceAll`. An empty `old` matches before every character and at the end.
pub fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(replaced_len(bytes, old, new));
    if old.is_empty() {
        let mut starts = runes(bytes).map(|(at, _)| at).chain([bytes.len()]).peekable();
        while let Some(start) = starts.next() {
            out.extend_from_slice(new);
            out.extend_from_slice(&bytes[start..starts.peek().copied().unwrap_or(bytes.len())]);
        }
        return out;
    }
    let mut from = 0;
    for at in memchr::memmem::find_iter(bytes, old) {
        out.extend_from_slice(&bytes[from..at]);
        out.extend_from_slice(new);
        from = at + old.len();
    }
    out.extend_from_slice(&bytes[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_mapped_one_by_one() {
        assert_eq!(upper("straße ﬁ ŉ".as_bytes()), "STRAßE ﬁ ŉ".as_bytes());
        assert_eq!(
            lower("İSTANBUL ΑΣ".as_bytes()),
            "istanbul ας".replace('ς', "σ").as_bytes()
        );
        assert_eq!(title("it's a ǆungla_x".as_bytes()), "It'S A ǅungla_x".as_bytes());
        assert_eq!(upper(b"a\xffb"), "A\u{fffd}B".as_bytes());
    }

    #[test]
    fn trimming_removes_whole_characters() {
        assert_eq!(trim_space("\u{a0}\t x \u{3000}".as_bytes()), b"x");
        assert_eq!(trim("éaé".as_bytes(), "é".as_bytes()), b"a");
        assert_eq!(trim(b"\xffa\xff", "\u{fffd}".as_bytes()), b"a");
    }

    #[test]
    fn splitting_and_replacing() {
        assert_eq!(split(b"a,b,,c", b",", -1), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(split(b"a,b,c", b",", 2), [&b"a"[..], b"b,c"]);
        assert_eq!(split("hé".as_bytes(), b"", -1), ["h".as_bytes(), "é".as_bytes()]);
        assert!(split(b"", b"", -1).is_empty());
        assert_eq!(split(b"", b",", -1), [b""]);
        assert_eq!(replace("hé".as_bytes(), b"", b"-"), "-h-é-".as_bytes());
        assert_eq!(replace(b"banana", b"an", b"x"), b"bxxa");
    }
}

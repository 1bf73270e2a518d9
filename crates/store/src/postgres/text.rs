//! Text for PostgreSQL, which cannot store NUL characters; the other engines can. They are escaped. Our JSON has neither NULs nor
//! the escape character, so its rows are stored as they are.

use std::borrow::Cow;

const NUL: char = '\u{0}';
/// The escape character. The next character says what was escaped.
const MARK: char = '\u{1}';

pub(super) fn put(text: &str) -> Cow<'_, str> {
    // A search for bytes is vectorised, unlike one for characters, and bodies are long.
    let has = |char: char| text.as_bytes().contains(&(char as u8));
    if !has(NUL) && !has(MARK) {
        return Cow::Borrowed(text);
    }
    let mut put = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            NUL => put.extend([MARK, '0']),
            MARK => put.extend([MARK, '1']),
            char => put.push(char),
        }
    }
    Cow::Owned(put)
}

pub(super) fn get(put: &str) -> Cow<'_, str> {
    if !put.contains(MARK) {
        return Cow::Borrowed(put);
    }
    let mut text = String::with_capacity(put.len());
    let mut chars = put.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            MARK if chars.next() == Some('0') => NUL,
            char => char,
        });
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::{get, put};

    #[test]
    fn what_was_put_is_got() {
        for text in ["", "plain", "\0", "\u{1}", "a\0b\u{1}c\u{1}\u{1}0\0", "\u{1}0", "ü\0🚀"] {
            let put = put(text);
            assert!(!put.contains('\0'));
            assert_eq!(get(&put), text);
        }
    }
}

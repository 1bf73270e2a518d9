//! Go's `unicode`: properties and case of characters.
//!
//! The tables of `regex-syntax` are of a newer Unicode version than Go's, so characters that are newer are left out.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// Go's `unicode.Version`, in the form of the property `Age`.
const VERSION: &str = "15.0";

static ASSIGNED: LazyLock<ClassUnicode> = LazyLock::new(|| {
    let mut assigned = property(&format!("Age={VERSION}")).unwrap_or_else(nothing);
    // Code points that never are characters have an age too.
    assigned.difference(&property("gc=Cn").unwrap_or_else(nothing));
    assigned
});
static LETTER: LazyLock<ClassUnicode> = LazyLock::new(|| of_version("L").unwrap_or_else(nothing));
static DIGIT: LazyLock<ClassUnicode> = LazyLock::new(|| of_version("Nd").unwrap_or_else(nothing));
static PUNCT: LazyLock<ClassUnicode> = LazyLock::new(|| of_version("P").unwrap_or_else(nothing));
static PRINT: LazyLock<ClassUnicode> = LazyLock::new(|| {
    let mut print = ClassUnicode::new([ClassUnicodeRange::new(' ', ' ')]);
    for category in ["L", "M", "N", "P", "S"] {
        print.union(&of_version(category).unwrap_or_else(nothing));
    }
    print
});

/// `unicode.IsLetter`.
#[must_use]
pub fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphabetic()
    } else {
        contains(&LETTER, c)
    }
}

/// `unicode.IsDigit`.
#[must_use]
pub fn is_digit(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_digit()
    } else {
        contains(&DIGIT, c)
    }
}

/// `unicode.IsPunct`.
#[must_use]
pub fn is_punct(c: char) -> bool {
    contains(&PUNCT, c)
}

/// `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
#[must_use]
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        matches!(c, ' '..='~')
    } else {
        contains(&PRINT, c)
    }
}

/// `unicode.IsSpace`.
#[must_use]
pub const fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t'..='\r' | ' ' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}'
            | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// `unicode.ToUpper`: maps one character to one, so `ß` stays.
#[must_use]
pub fn to_upper(c: char) -> char {
    match c {
        // Small Greek letters with iota subscript: the simple mapping is the title case letter.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            char::from_u32(c as u32 + 8).unwrap_or(c)
        }
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
        _ => simple(c, c.to_uppercase()),
    }
}

/// `unicode.ToLower`.
#[must_use]
pub fn to_lower(c: char) -> char {
    match c {
        'İ' => 'i',
        _ => simple(c, c.to_lowercase()),
    }
}

/// `unicode.ToTitle`: upper case, except for digraphs such as `ǆ`, which have a title case of their own, and Georgian letters,
/// which have none.
#[must_use]
pub fn to_title(c: char) -> char {
    match c {
        'Ǆ'..='ǆ' => 'ǅ',
        'Ǉ'..='ǉ' => 'ǈ',
        'Ǌ'..='ǌ' => 'ǋ',
        'Ǳ'..='ǳ' => 'ǲ',
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => c,
        _ => to_upper(c),
    }
}

/// The characters with a property, such as a general category or a script, in Go's version of Unicode.
pub(crate) fn of_version(name: &str) -> Option<ClassUnicode> {
    let mut class = property(name)?;
    class.intersect(&ASSIGNED);
    Some(class)
}

/// All characters that Go's version of Unicode assigns.
pub(crate) fn assigned() -> ClassUnicode {
    ASSIGNED.clone()
}

/// The characters with a property, in the version of `regex-syntax`.
fn property(name: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(&format!(r"\p{{{name}}}")).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        // A class of one character becomes a literal.
        HirKind::Literal(literal) => {
            let text = str::from_utf8(&literal.0).ok()?;
            Some(ClassUnicode::new(text.chars().map(|c| ClassUnicodeRange::new(c, c))))
        }
        _ => None,
    }
}

fn nothing() -> ClassUnicode {
    ClassUnicode::empty()
}

fn contains(class: &ClassUnicode, c: char) -> bool {
    let ranges = class.ranges();
    let after = ranges.partition_point(|range| range.start() <= c);
    after
        .checked_sub(1)
        .and_then(|at| ranges.get(at))
        .is_some_and(|range| c <= range.end())
}

/// The mapped character, if the mapping is one to one and the Unicode version has it.
fn simple(c: char, mut mapped: impl ExactSizeIterator<Item = char>) -> char {
    match (mapped.len(), mapped.next()) {
        (1, Some(to)) if to == c || c.is_ascii() || contains(&ASSIGNED, to) && contains(&ASSIGNED, c) => to,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_of_unicode_are_unknown() {
        // Assigned in Unicode 16, as the other case of an older letter.
        assert_eq!(to_upper('ƛ'), 'ƛ');
        assert!(!is_print('\u{a7dc}') && !is_letter('\u{a7dc}'));
        assert!(is_letter('é') && is_digit('٣') && is_print('€') && !is_print('\u{a0}'));
    }

    #[test]
    fn case_is_simple() {
        assert_eq!(['ß', 'ŉ', 'ᾳ', 'ǆ', 'ა'].map(to_upper), ['ß', 'ŉ', 'ᾼ', 'Ǆ', 'Ა']);
        assert_eq!(['ǆ', 'ა', 'ᾳ'].map(to_title), ['ǅ', 'ა', 'ᾼ']);
        assert_eq!(['İ', 'Ω', 'Σ'].map(to_lower), ['i', 'ω', 'σ']);
    }
}

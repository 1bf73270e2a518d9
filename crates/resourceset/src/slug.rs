//! `slugify`: gosimple/slug for English.

use gotemplate::strings;

/// The longest slug, as for a DNS label.
const MAX_LENGTH: usize = 63;

/// Makes a slug of a text: words of lower-case ASCII letters and digits joined by dashes. A long slug is cut between words.
pub(crate) fn slug(input: &[u8]) -> String {
    let mut slug = String::new();
    for (_, c) in strings::runes(strings::trim_space(input)) {
        for c in transliterated(c).chars() {
            match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '_') => slug.push(c),
                // A run of other characters becomes one dash.
                _ if slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
    }
    let slug = slug.trim_matches(['-', '_']);
    if slug.len() <= MAX_LENGTH {
        return slug.to_owned();
    }
    let word_end = slug.as_bytes()[..=MAX_LENGTH].iter().rposition(|&byte| byte == b'-');
    slug[..word_end.unwrap_or(MAX_LENGTH)].to_owned()
}

/// The character in ASCII. Characters that are neither letters nor digits may stand for a dash.
fn transliterated(c: char) -> &'static str {
    match c {
        '&' => "and",
        '@' => "at",
        '"' | '\'' | '’' => "",
        '‒' | '–' | '—' | '―' => "-",
        _ => difference(c).unwrap_or_else(|| unidecode::unidecode_char(c)),
    }
}

/// Where gosimple/unidecode differs from the table of the `unidecode` crate. The last text of a row also holds for the code
/// points after it.
fn difference(c: char) -> Option<&'static str> {
    let code = c as u32;
    let after = DIFFERENCES.partition_point(|(first, ..)| *first <= code);
    let (first, last, texts) = DIFFERENCES.get(after.checked_sub(1)?)?;
    if code > *last {
        return None;
    }
    let mut texts = texts.split('|');
    let mut text = texts.next();
    for next in texts.take((code - first) as usize) {
        text = Some(next);
    }
    text
}

/// First code point, last code point, texts. Found by comparing all of Unicode.
const DIFFERENCES: &[(u32, u32, &str)] = &[
    (0x0080, 0x009f, ""),
    (0x02b0, 0x02b0, "k"),
    (0x02e5, 0x02eb, ""),
    (0x02ef, 0x02ff, "-|-|-|-|-|-|-|-|-|-|-|-|-|-|-|-|"),
    (0x03f4, 0x03ff, "-|-|-|-|-|-|-|-|-|-|-|"),
    (0x0404, 0x0404, "ie"),
    (0x042a, 0x042a, "-"),
    (0x044a, 0x044a, "-"),
    (0x04ff, 0x04ff, ""),
    (0x05c0, 0x05c0, ""),
    (0x05ff, 0x05ff, ""),
    (0x06ff, 0x06ff, ""),
    (0x07ff, 0x08ff, ""),
    (0x09ff, 0x09ff, ""),
    (0x0af1, 0x0af9, "-"),
    (0x0aff, 0x0aff, ""),
    (0x0bff, 0x0bff, ""),
    (0x0cff, 0x0cff, ""),
    (0x0dff, 0x0dff, ""),
    (0x0eff, 0x0eff, ""),
    (0x0fff, 0x0fff, ""),
    (0x10ff, 0x10ff, ""),
    (0x11ff, 0x11ff, ""),
    (0x13f5, 0x13fd, "-"),
    (0x13ff, 0x13ff, ""),
    (0x16ff, 0x16ff, ""),
    (0x17ff, 0x17ff, ""),
    (0x18ff, 0x1d6b, ""),
    (
        0x1d6c,
        0x1d8e,
        "b|d|f|m|n|p|r|r|s|t|z|g||||||p|||b|d|f|g|k|l|m|n|p|r|s||v|x|z",
    ),
    (0x1d8f, 0x1dff, ""),
    (0x1e9c, 0x1e9d, "-"),
    (0x1e9f, 0x1e9f, "-"),
    (0x1efa, 0x1eff, "-|-|-|-|-|"),
    (0x1fff, 0x1fff, ""),
    (0x20ac, 0x20ac, "eu"),
    (0x20ff, 0x2122, ""),
    (0x212a, 0x212b, "k|a"),
    (0x2132, 0x2132, "f"),
    (0x213b, 0x213f, "-"),
    (0x214e, 0x214e, "f"),
    (0x21ff, 0x21ff, ""),
    (0x22ff, 0x22ff, ""),
    (0x23ff, 0x23ff, ""),
    (0x24d0, 0x24ea, "a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t|u|v|w|x|y|z|0"),
    (0x24ff, 0x24ff, ""),
    (0x25f4, 0x25f7, "-"),
    (0x25ff, 0x25ff, ""),
    (0x26ff, 0x26ff, ""),
    (0x27ff, 0x27ff, ""),
    (0x2900, 0x2c5f, ""),
    (0x2c60, 0x2c6f, "l|l|l|p|r|a|t|h|h|k|k|z|z||m|a"),
    (0x2c70, 0x2dff, ""),
    (0x2eff, 0x2eff, ""),
    (0x2fff, 0x2fff, ""),
    (0x3057, 0x3057, "shi"),
    (0x3061, 0x3061, "chi"),
    (0x3063, 0x3064, "tsu"),
    (0x30b7, 0x30b7, "shi"),
    (0x30c1, 0x30c1, "chi"),
    (0x30c3, 0x30c4, "tsu"),
    (0x30ff, 0x30ff, ""),
    (0x31ff, 0x31ff, ""),
    (0x32ff, 0x32ff, ""),
    (0x33ff, 0x4cff, ""),
    (0x4dff, 0x4e00, "|-"),
    (0x9fff, 0x9fff, ""),
    (0xa4ff, 0xabff, ""),
    (0xd7ff, 0xf8ff, ""),
    (0xfaff, 0xfaff, ""),
    (0xfdf0, 0xfdfd, "||||||||||||-"),
    (0xfdff, 0xfdff, ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_words_of_ascii() {
        for (input, expected) in [
            ("Hello, Wörld!", "hello-world"),
            ("a & b @ it's “x”", "a-and-b-at-its-x"),
            ("日本語 Привет", "ri-ben-yu-privet"),
            ("__a—b__", "a-b"),
            ("しちつ ⓐ €", "shichitsu-a-eu"),
            ("😀", ""),
        ] {
            assert_eq!(slug(input.as_bytes()), expected);
        }
    }

    #[test]
    fn long_slugs_are_cut_between_words() {
        assert_eq!(
            slug("word ".repeat(20).as_bytes()),
            ["word"; 12].join("-") + "-wor".strip_suffix("-wor").unwrap_or("")
        );
        assert_eq!(slug("x".repeat(80).as_bytes()), "x".repeat(63));
        let exact = "x".repeat(63);
        assert_eq!(slug(format!("{exact} y").as_bytes()), exact);
    }

    #[test]
    fn the_differences_are_in_order() {
        assert!(DIFFERENCES.iter().all(|(first, last, _)| first <= last));
        assert!(DIFFERENCES.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}

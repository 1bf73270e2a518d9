//! Named character classes.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use crate::unicode;

/// Scripts with one-word names. Go does not find the others, because it looks them up without the underscore.
const SCRIPTS: &str = " Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille \
    Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari \
    Dogra Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo \
    Hatran Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin \
    Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian \
    Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic \
    Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri Tamil \
    Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi ";

/// General categories: the short name, and the long name without underscores.
const CATEGORIES: [(&str, &[&str]); 38] = [
    ("C", &["Other"]),
    ("Cc", &["Control", "Cntrl"]),
    ("Cf", &["Format"]),
    ("Cn", &["Unassigned"]),
    ("Co", &["Privateuse"]),
    ("Cs", &["Surrogate"]),
    ("L", &["Letter"]),
    ("LC", &["Lc", "Casedletter"]),
    ("Ll", &["Lowercaseletter"]),
    ("Lm", &["Modifierletter"]),
    ("Lo", &["Otherletter"]),
    ("Lt", &["Titlecaseletter"]),
    ("Lu", &["Uppercaseletter"]),
    ("M", &["Mark", "Combiningmark"]),
    ("Mc", &["Spacingmark"]),
    ("Me", &["Enclosingmark"]),
    ("Mn", &["Nonspacingmark"]),
    ("N", &["Number"]),
    ("Nd", &["Decimalnumber", "Digit"]),
    ("Nl", &["Letternumber"]),
    ("No", &["Othernumber"]),
    ("P", &["Punctuation", "Punct"]),
    ("Pc", &["Connectorpunctuation"]),
    ("Pd", &["Dashpunctuation"]),
    ("Pe", &["Closepunctuation"]),
    ("Pf", &["Finalpunctuation"]),
    ("Pi", &["Initialpunctuation"]),
    ("Po", &["Otherpunctuation"]),
    ("Ps", &["Openpunctuation"]),
    ("S", &["Symbol"]),
    ("Sc", &["Currencysymbol"]),
    ("Sk", &["Modifiersymbol"]),
    ("Sm", &["Mathsymbol"]),
    ("So", &["Othersymbol"]),
    ("Z", &["Separator"]),
    ("Zl", &["Lineseparator"]),
    ("Zp", &["Paragraphseparator"]),
    ("Zs", &["Spaceseparator"]),
];

/// A class by its name in `\p{…}`.
pub(super) fn by_property(name: &str) -> Option<ClassUnicode> {
    let name = canonical(name);
    match name.as_str() {
        "Any" => return Some(of_ranges(&[('\0', char::MAX)])),
        "Ascii" => return Some(of_ranges(&[('\0', '\x7f')])),
        "Assigned" => return Some(unicode::assigned()),
        _ => {}
    }
    if SCRIPTS.contains(&format!(" {name} ")) {
        return unicode::of_version(&format!("Script={name}"));
    }
    let (short, _) = CATEGORIES
        .iter()
        .find(|(short, long)| *short == name || long.contains(&name.as_str()))?;
    match *short {
        "Cn" => Some(unassigned()),
        "C" => {
            let mut class = unicode::of_version("gc=C")?;
            class.union(&unassigned());
            Some(class)
        }
        // No text has surrogates.
        "Cs" => Some(ClassUnicode::empty()),
        short => unicode::of_version(&format!("gc={short}")),
    }
}

fn unassigned() -> ClassUnicode {
    let mut class = unicode::assigned();
    class.negate();
    class
}

/// The name with an upper-case first letter and lower-case others, without blanks, hyphens and underscores.
fn canonical(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    letters
        .enumerate()
        .map(|(at, c)| {
            if at == 0 {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

/// A Perl class such as `\d`, which is ASCII only, and whether it is not negated.
pub(super) fn by_letter(letter: u8) -> Option<(ClassUnicode, bool)> {
    let ranges: &[_] = match letter.to_ascii_lowercase() {
        b'd' => &[('0', '9')],
        b's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        b'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        _ => return None,
    };
    Some((of_ranges(ranges), letter.is_ascii_lowercase()))
}

/// A POSIX class by its name in `[:…:]`.
pub(super) fn by_posix_name(name: &[u8]) -> Option<(ClassUnicode, bool)> {
    let (name, positive) = name.strip_prefix(b"^").map_or((name, true), |name| (name, false));
    let ranges: &[_] = match name {
        b"alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        b"alpha" => &[('A', 'Z'), ('a', 'z')],
        b"ascii" => &[('\0', '\x7f')],
        b"blank" => &[('\t', '\t'), (' ', ' ')],
        b"cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        b"digit" => &[('0', '9')],
        b"graph" => &[('!', '~')],
        b"lower" => &[('a', 'z')],
        b"print" => &[(' ', '~')],
        b"punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        b"space" => &[('\t', '\r'), (' ', ' ')],
        b"upper" => &[('A', 'Z')],
        b"word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        b"xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some((of_ranges(ranges), positive))
}

pub(super) fn of_ranges(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|&(start, end)| ClassUnicodeRange::new(start, end)))
}

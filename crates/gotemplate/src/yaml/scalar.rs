//! The styles in which a scalar can be written.

use super::resolve::reads_back;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

pub(super) fn is_break(char: char) -> bool {
    matches!(char, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether go-yaml writes a character without escaping. It escapes everything beyond 16 bits, such as emoji.
pub(super) fn is_printable(char: char) -> bool {
    matches!(char,
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

/// A scalar, and what its characters allow.
#[derive(Debug)]
pub(super) struct Scalar<'a> {
    value: &'a str,
    wanted: Style,
    multiline: bool,
    plain_allowed: bool,
    single_quoted_allowed: bool,
    literal_allowed: bool,
}

impl<'a> Scalar<'a> {
    /// A number or a constant.
    pub(super) fn word(value: &'a str) -> Self {
        Self {
            wanted: Style::Plain,
            ..Self::analyze(value)
        }
    }

    /// A string, which must be read as a string again.
    pub(super) fn text(value: &'a str) -> Self {
        let wanted = if value.contains('\n') {
            Style::Literal
        } else if reads_back(value) && !is_base60(value) {
            Style::Plain
        } else {
            Style::DoubleQuoted
        };
        Self {
            wanted,
            ..Self::analyze(value)
        }
    }

    pub(super) fn value(&self) -> &'a str {
        self.value
    }

    pub(super) fn is_multiline(&self) -> bool {
        self.multiline
    }

    pub(super) fn style(&self, as_key: bool) -> Style {
        match self.wanted {
            _ if as_key && self.multiline => Style::DoubleQuoted,
            Style::Plain if self.plain_allowed => Style::Plain,
            Style::Plain | Style::SingleQuoted if self.single_quoted_allowed => Style::SingleQuoted,
            Style::Literal if self.literal_allowed && !as_key => Style::Literal,
            _ => Style::DoubleQuoted,
        }
    }

    /// The indicators after `|`: the indentation if the text starts with a blank or line break, and how the text ends.
    pub(super) fn literal_hints(&self, indent: usize) -> String {
        let mut hints = String::new();
        if self.value.starts_with(|char| char == ' ' || is_break(char)) {
            hints.push_str(&indent.to_string());
        }
        let mut ends = self.value.chars().rev().map(is_break);
        match (ends.next(), ends.next()) {
            (Some(true), Some(false)) => {}
            (Some(true), _) => hints.push('+'),
            _ => hints.push('-'),
        }
        hints
    }

    fn analyze(value: &'a str) -> Self {
        let mut scalar = Self {
            value,
            wanted: Style::Plain,
            multiline: false,
            plain_allowed: true,
            single_quoted_allowed: true,
            literal_allowed: !value.is_empty(),
        };
        let mut indicators = value.starts_with("---") || value.starts_with("...");
        let (mut special, mut break_space, mut space_break) = (false, false, false);
        let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
        let mut chars = value.chars().peekable();
        let mut first = true;
        while let Some(char) = chars.next() {
            let before_blank = chars.peek().is_none_or(|next| is_blank(*next));
            indicators |= match char {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => first,
                '?' | '-' => first && before_blank,
                ':' => before_blank,
                '#' => after_blank,
                _ => false,
            };
            special |= !is_printable(char);
            break_space |= char == ' ' && after_break;
            space_break |= is_break(char) && after_space;
            scalar.multiline |= is_break(char);
            (after_space, after_break) = (char == ' ', is_break(char));
            after_blank = is_blank(char) || is_break(char) || char == '\0';
            first = false;
        }
        let edge = |char: char| char == ' ' || is_break(char);
        let edges = value.starts_with(edge) || value.ends_with(edge);
        scalar.plain_allowed = !(edges || break_space || space_break || special || scalar.multiline || indicators);
        scalar.single_quoted_allowed = !(break_space || space_break || special);
        scalar.literal_allowed &= !(value.ends_with(' ') || space_break || special);
        scalar
    }
}

/// Whether a text such as `12:30:45` is a base 60 number in YAML 1.1. go-yaml reads it as a string, but quotes it for other
/// readers.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let whole = parts.next().unwrap_or_default();
    let mut rest: Vec<&str> = parts.collect();
    let Some(last) = rest.pop() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let sixty = |part: &str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    whole.starts_with(|char: char| char.is_ascii_digit())
        && digits(whole)
        && rest.iter().all(|part| sixty(part))
        && sixty(last)
        && digits(fraction)
}

//! Prints numbers under verbs and flags.

use super::printer::Printer;
use crate::{
    function::Failure,
    strconv::{self, Style, format_float},
    strings, unicode,
    value::Value,
};

impl Printer {
    pub(super) fn integer(&mut self, number: Integer, verb: char, value: Option<&Value>) -> Result<(), Failure> {
        match verb {
            'v' if self.flags.sharp_v && !number.signed => {
                let sharp = std::mem::replace(&mut self.flags.sharp, true);
                self.digits(number, 16, verb)?;
                self.flags.sharp = sharp;
                Ok(())
            }
            'v' | 'd' => self.digits(number, 10, verb),
            'b' => self.digits(number, 2, verb),
            'o' | 'O' => self.digits(number, 8, verb),
            'x' | 'X' => self.digits(number, 16, verb),
            'c' => {
                let mut encoded = Vec::new();
                strings::push_char(&mut encoded, number.rune());
                self.pad(&encoded)
            }
            'q' => {
                let quoted = strconv::quote_rune(number.rune(), self.flags.plus);
                self.pad(quoted.as_bytes())
            }
            'U' => self.code_point(number),
            _ => self.bad_verb(value, verb),
        }
    }

    fn digits(&mut self, number: Integer, base: u32, verb: char) -> Result<(), Failure> {
        let flags = self.flags;
        let signed = number.negative || flags.plus || flags.space;
        let least = match flags.precision {
            Some(0) if number.size == 0 => return self.fill(flags.width.unwrap_or_default(), b' '),
            Some(precision) => precision,
            None if flags.zero && !flags.minus => flags.width.unwrap_or_default().saturating_sub(usize::from(signed)),
            None => 0,
        };
        let digits = match base {
            2 => format!("{:b}", number.size),
            8 => format!("{:o}", number.size),
            16 if verb == 'X' => format!("{:X}", number.size),
            16 => format!("{:x}", number.size),
            _ => number.size.to_string(),
        };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let prefix = match base {
            _ if !flags.sharp => "",
            2 => "0b",
            8 if zeros.is_empty() && !digits.starts_with('0') => "0",
            16 if verb == 'X' => "0X",
            16 => "0x",
            _ => "",
        };
        let prefix = if verb == 'O' {
            format!("0o{prefix}")
        } else {
            prefix.to_owned()
        };
        let sign = match () {
            () if number.negative => "-",
            () if flags.plus => "+",
            () if flags.space => " ",
            () => "",
        };
        self.pad_blank(format!("{sign}{prefix}{zeros}{digits}").as_bytes())
    }

    /// `%U`.
    fn code_point(&mut self, number: Integer) -> Result<(), Failure> {
        let bits = number.bits();
        let least = self.flags.precision.unwrap_or_default().max(4);
        let shown = u32::try_from(bits)
            .ok()
            .and_then(char::from_u32)
            .filter(|&c| self.flags.sharp && unicode::is_print(c));
        let quoted = shown.map_or_else(String::new, |c| format!(" '{c}'"));
        self.pad_blank(format!("U+{bits:0least$X}{quoted}").as_bytes())
    }

    pub(super) fn float(&mut self, number: f64, verb: char, value: &Value) -> Result<(), Failure> {
        let (style, precision) = match verb {
            'v' | 'g' | 'G' => (Style::General, None),
            'b' => (Style::Binary, None),
            'x' | 'X' => (Style::Hexadecimal, None),
            'e' | 'E' => (Style::Exponent, Some(6)),
            'f' | 'F' => (Style::Plain, Some(6)),
            _ => return self.bad_verb(Some(value), verb),
        };
        let precision = self.flags.precision.or(precision);
        let mut text = format_float(number, style, precision);
        if matches!(verb, 'G' | 'E' | 'X') && number.is_finite() {
            text = text.to_ascii_uppercase();
        }
        let (sign, body) = match text.strip_prefix(['-', '+']) {
            Some(body) => (&text[..1], body),
            None => ("+", text.as_str()),
        };
        let sign = if self.flags.space && sign == "+" && !self.flags.plus {
            " "
        } else {
            sign
        };
        if !number.is_finite() {
            // The sign of infinity is always printed.
            let bare = number.is_nan() && !self.flags.space && !self.flags.plus;
            return self.pad_blank(format!("{}{body}", if bare { "" } else { sign }).as_bytes());
        }
        let body = if self.flags.sharp && verb != 'b' {
            with_point(body, verb, precision)
        } else {
            body.to_owned()
        };
        if !self.flags.plus && sign == "+" {
            return self.pad(body.as_bytes());
        }
        let length = body.len() + 1;
        match self.flags.width {
            Some(width) if self.flags.zero && !self.flags.minus && width > length => {
                self.write(sign.as_bytes())?;
                self.fill(width - length, b'0')?;
                self.write(body.as_bytes())
            }
            _ => self.pad(format!("{sign}{body}").as_bytes()),
        }
    }

    pub(super) fn complex(&mut self, re: f64, im: f64, verb: char, value: &Value) -> Result<(), Failure> {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(Some(value), verb);
        }
        self.write(b"(")?;
        self.float(re, verb, value)?;
        let plus = std::mem::replace(&mut self.flags.plus, true);
        self.float(im, verb, value)?;
        self.flags.plus = plus;
        self.write(b"i)")
    }
}

/// The effect of the flag `#` on a number: a decimal point and trailing zeros are always there.
fn with_point(body: &str, verb: char, precision: Option<usize>) -> String {
    let mut wanted = match verb {
        'v' | 'g' | 'G' | 'x' => precision.map_or(6, |precision| i64::try_from(precision).unwrap_or(i64::MAX)),
        _ => 0,
    };
    let hexadecimal = matches!(verb, 'x' | 'X');
    let split = body
        .find(if hexadecimal { &['p', 'P'][..] } else { &['e', 'E'][..] })
        .unwrap_or(body.len());
    let (number, tail) = body.split_at(split);
    let mut significant = false;
    for c in number.chars().filter(|&c| c != '.') {
        significant |= c != '0';
        wanted -= i64::from(significant);
    }
    let mut text = number.to_owned();
    if !number.contains('.') {
        if number == "0" {
            wanted -= 1;
        }
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', usize::try_from(wanted).unwrap_or_default()));
    text + tail
}

/// An integer of up to 64 bits, signed or unsigned.
#[derive(Clone, Copy)]
pub(super) struct Integer {
    pub(super) negative: bool,
    pub(super) size: u64,
    pub(super) signed: bool,
}

impl Integer {
    pub(super) const fn new(number: i64, signed: bool) -> Self {
        Self {
            negative: number < 0,
            size: number.unsigned_abs(),
            signed,
        }
    }

    /// The two's complement.
    const fn bits(self) -> u64 {
        if self.negative {
            self.size.wrapping_neg()
        } else {
            self.size
        }
    }

    fn rune(self) -> char {
        u32::try_from(self.bits())
            .ok()
            .and_then(char::from_u32)
            .unwrap_or(strings::REPLACEMENT)
    }
}

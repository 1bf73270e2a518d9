//! Prints values under verbs and flags.

use super::{number::Integer, stringer, type_name};
use crate::{
    function::{Failure, MAX_BYTES, MAX_DEPTH},
    strconv, strings,
    time::Time,
    value::{Elem, IntType, List, Map, Value},
};

/// The flags of a directive, with its width and precision.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%+v`.
    pub(super) plus_v: bool,
    /// `%#v`.
    pub(super) sharp_v: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

/// Prints values under the flags of a directive.
#[derive(Default)]
pub(super) struct Printer {
    pub(super) out: Vec<u8>,
    pub(super) flags: Flags,
    /// Whether a wrong verb is being reported. `String` methods are not called then.
    reporting: bool,
}

impl Printer {
    pub(super) fn finish(self) -> Result<Vec<u8>, Failure> {
        if self.out.len() > MAX_BYTES {
            Err(Failure::size())
        } else {
            Ok(self.out)
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.out.len() + bytes.len() > MAX_BYTES {
            return Err(Failure::size());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Prints an operand.
    pub(super) fn argument(&mut self, value: &Value, verb: char) -> Result<(), Failure> {
        match (value, verb) {
            (Value::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (Value::Nil, _) => self.bad_verb(None, verb),
            (_, 'T') => self.string(type_name(value).as_bytes()),
            (Value::List(_) | Value::Map(_) | Value::Location(_), 'p') => Err(no_address()),
            (_, 'p') => self.bad_verb(Some(value), verb),
            (Value::List(list), _) if list.elem() == Elem::Byte => match verb {
                'v' | 'd' => self.bytes(list, "[]byte"),
                _ => self.value(value, verb, 0),
            },
            _ if self.print_with_method(value, verb)? => Ok(()),
            _ => self.value(value, verb, 0),
        }
    }

    /// Prints a value with a method of its type. Returns false if there is none for the verb.
    fn print_with_method(&mut self, value: &Value, verb: char) -> Result<bool, Failure> {
        let simple = matches!(
            value,
            Value::Nil
                | Value::Bool(_)
                | Value::Int(IntType::Int | IntType::Int64 | IntType::Uint8, _)
                | Value::Float(_)
                | Value::Complex(..)
                | Value::Str(_)
        );
        if self.reporting || simple {
            return Ok(false);
        }
        // `%w` wraps errors in another function, and no value is an error.
        if verb == 'w' {
            self.bad_verb(Some(value), verb)?;
            return Ok(true);
        }
        if self.flags.sharp_v {
            let Value::Time(time) = value else { return Ok(false) };
            self.string(time.go_string().as_bytes())?;
            return Ok(true);
        }
        if !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return Ok(false);
        }
        let Some(text) = stringer(value) else { return Ok(false) };
        self.text(text.as_bytes(), verb, value)?;
        Ok(true)
    }

    /// Prints a value by its kind. Elements of lists and maps are printed with it too, one level deeper.
    pub(super) fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::depth());
        }
        if depth > 0 && self.print_with_method(value, verb)? {
            return Ok(());
        }
        match value {
            Value::Nil if self.flags.sharp_v => self.write(b"interface {}(nil)"),
            Value::Nil => self.write(b"<nil>"),
            Value::Bool(yes) => match verb {
                't' | 'v' => self.pad(if *yes { b"true" } else { b"false" }),
                _ => self.bad_verb(Some(value), verb),
            },
            Value::Int(kind, number) => self.integer(Integer::new(*number, *kind != IntType::Uint8), verb, Some(value)),
            Value::Float(number) => self.float(*number, verb, value),
            Value::Complex(re, im) => self.complex(*re, *im, verb, value),
            Value::Str(text) => self.text(text, verb, value),
            Value::List(list) => self.list(list, verb, depth),
            Value::Map(map) => self.map(map, verb, depth),
            Value::Time(time) => self.time(time, verb),
            Value::Location(_) => Err(no_address()),
        }
    }

    /// Reports a verb that does not fit the value.
    pub(super) fn bad_verb(&mut self, value: Option<&Value>, verb: char) -> Result<(), Failure> {
        self.reporting = true;
        self.write(format!("%!{verb}(").as_bytes())?;
        match value {
            Some(value) => {
                self.write(type_name(value).as_bytes())?;
                self.out.push(b'=');
                match value {
                    Value::List(list) if list.elem() == Elem::Byte => self.bytes(list, "[]byte")?,
                    _ => self.value(value, 'v', 0)?,
                }
            }
            None => self.write(b"<nil>")?,
        }
        self.out.push(b')');
        self.reporting = false;
        Ok(())
    }

    fn list(&mut self, list: &List, verb: char, depth: usize) -> Result<(), Failure> {
        if list.elem() == Elem::Byte && matches!(verb, 's' | 'q' | 'x' | 'X') {
            let bytes = list.to_bytes();
            return match verb {
                's' => self.string(&bytes),
                'q' => self.quoted(&bytes),
                _ => self.hexadecimal(&bytes, verb == 'X'),
            };
        }
        let typed = Value::List(list.clone());
        if self.flags.sharp_v {
            self.write(type_name(&typed).as_bytes())?;
            if list.is_nil() {
                return self.write(b"(nil)");
            }
        }
        self.write(if self.flags.sharp_v { b"{" } else { b"[" })?;
        for (index, item) in list.to_vec().iter().enumerate() {
            self.separate(index)?;
            self.value(item, verb, depth + 1)?;
        }
        self.write(if self.flags.sharp_v { b"}" } else { b"]" })
    }

    fn map(&mut self, map: &Map, verb: char, depth: usize) -> Result<(), Failure> {
        if self.flags.sharp_v {
            self.write(type_name(&Value::Map(map.clone())).as_bytes())?;
            if map.is_nil() {
                return self.write(b"(nil)");
            }
        }
        self.write(if self.flags.sharp_v { b"{" } else { b"map[" })?;
        for (index, (key, item)) in map.to_vec().into_iter().enumerate() {
            self.separate(index)?;
            self.value(&Value::Str(key), verb, depth + 1)?;
            self.write(b":")?;
            self.value(&item, verb, depth + 1)?;
        }
        self.write(if self.flags.sharp_v { b"}" } else { b"]" })
    }

    pub(super) fn separate(&mut self, index: usize) -> Result<(), Failure> {
        match index {
            0 => Ok(()),
            _ if self.flags.sharp_v => self.write(b", "),
            _ => self.write(b" "),
        }
    }

    /// A time as a struct, for the verbs that do not use its `String` method.
    fn time(&mut self, time: &Time, verb: char) -> Result<(), Failure> {
        let (wall, ext) = time.fields();
        let names: [&[u8]; 3] = if self.flags.plus_v || self.flags.sharp_v {
            [b"wall:", b"ext:", b"loc:"]
        } else {
            [b""; 3]
        };
        if self.flags.sharp_v {
            self.write(b"time.Time")?;
        }
        self.write(b"{")?;
        self.write(names[0])?;
        self.field(
            Integer {
                negative: false,
                size: wall,
                signed: false,
            },
            "uint64",
            verb,
        )?;
        self.separate(1)?;
        self.write(names[1])?;
        self.field(Integer::new(ext, true), "int64", verb)?;
        self.separate(2)?;
        self.write(names[2])?;
        if !time.is_utc() {
            return Err(no_address());
        }
        match verb {
            'v' if self.flags.sharp_v => self.write(b"(*time.Location)(nil)")?,
            'v' => self.pad(b"<nil>")?,
            'b' | 'o' | 'd' | 'x' | 'X' => {
                self.integer(
                    Integer {
                        negative: false,
                        size: 0,
                        signed: false,
                    },
                    verb,
                    None,
                )?;
            }
            _ => {
                let reporting = std::mem::replace(&mut self.reporting, true);
                self.write(format!("%!{verb}(*time.Location=").as_bytes())?;
                self.pad(b"<nil>")?;
                self.write(b")")?;
                self.reporting = reporting;
            }
        }
        self.write(b"}")
    }

    /// An integer field of a struct. No value has its type.
    fn field(&mut self, number: Integer, type_name: &str, verb: char) -> Result<(), Failure> {
        if matches!(verb, 'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U') {
            return self.integer(number, verb, None);
        }
        self.write(format!("%!{verb}({type_name}=").as_bytes())?;
        self.integer(number, 'v', None)?;
        self.write(b")")
    }

    /// A `[]byte` under `%v` or `%d`.
    fn bytes(&mut self, list: &List, type_name: &str) -> Result<(), Failure> {
        if self.flags.sharp_v {
            self.write(type_name.as_bytes())?;
            if list.is_nil() {
                return self.write(b"(nil)");
            }
        }
        self.write(if self.flags.sharp_v { b"{" } else { b"[" })?;
        for (index, byte) in list.to_bytes().into_iter().enumerate() {
            self.separate(index)?;
            self.integer(Integer::new(i64::from(byte), false), 'v', None)?;
        }
        self.write(if self.flags.sharp_v { b"}" } else { b"]" })
    }

    /// Text under a verb: a string, or the result of a `String` method.
    fn text(&mut self, text: &[u8], verb: char, value: &Value) -> Result<(), Failure> {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(text),
            'v' | 's' => self.string(text),
            'x' | 'X' => self.hexadecimal(text, verb == 'X'),
            'q' => self.quoted(text),
            _ => self.bad_verb(Some(value), verb),
        }
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Failure> {
        let cut = self.cut(text).to_vec();
        self.pad(&cut)
    }

    /// The text, cut to the precision in characters.
    fn cut<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let end = self
            .flags
            .precision
            .and_then(|precision| strings::runes(text).nth(precision));
        end.map_or(text, |(at, _)| &text[..at])
    }

    fn quoted(&mut self, text: &[u8]) -> Result<(), Failure> {
        let text = self.cut(text);
        let quoted = if self.flags.sharp && strconv::can_backquote(text) {
            [b"`", text, b"`"].concat()
        } else if self.flags.plus {
            strconv::quote_to_ascii(text).into_bytes()
        } else {
            strconv::quote(text).into_bytes()
        };
        self.pad(&quoted)
    }

    fn hexadecimal(&mut self, text: &[u8], upper: bool) -> Result<(), Failure> {
        let flags = self.flags;
        let text = &text[..flags
            .precision
            .map_or(text.len(), |precision| precision.min(text.len()))];
        let prefix = match (flags.sharp, upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        let between = if flags.space {
            format!(" {prefix}")
        } else {
            String::new()
        };
        let byte = |byte: &u8| {
            if upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            }
        };
        if text.len().saturating_mul(3) > MAX_BYTES {
            return Err(Failure::size());
        }
        let digits = text.iter().map(byte).collect::<Vec<_>>().join(&between);
        let prefix = if text.is_empty() { "" } else { prefix };
        self.pad(format!("{prefix}{digits}").as_bytes())
    }

    /// Writes with padding up to the width. Zeros are used on the left only, and only with the flag `0`.
    pub(super) fn pad(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let filler = if self.flags.zero && !self.flags.minus {
            b'0'
        } else {
            b' '
        };
        self.pad_with(bytes, filler)
    }

    pub(super) fn pad_blank(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.pad_with(bytes, b' ')
    }

    fn pad_with(&mut self, bytes: &[u8], filler: u8) -> Result<(), Failure> {
        let Some(width) = self.flags.width else {
            return self.write(bytes);
        };
        let missing = width.saturating_sub(strings::rune_count(bytes));
        if !self.flags.minus {
            self.fill(missing, filler)?;
        }
        self.write(bytes)?;
        if self.flags.minus {
            self.fill(missing, filler)?;
        }
        Ok(())
    }

    pub(super) fn fill(&mut self, count: usize, filler: u8) -> Result<(), Failure> {
        if self.out.len() + count > MAX_BYTES {
            return Err(Failure::size());
        }
        self.out.resize(self.out.len() + count, filler);
        Ok(())
    }
}

/// An address differs from run to run, so it is not printed.
fn no_address() -> Failure {
    Failure::Error("memory addresses are not rendered".to_owned())
}

//! Go's `fmt`: how every value prints, under every verb and flag, right or wrong.
//!
//! Wrong uses print as text too (`%!d(string=hi)`), so the flags stay in force while a printer reports one, as in Go.

use crate::{
    function::{Failure, MAX_BYTES, MAX_DEPTH},
    number::{Style, format_float},
    text,
    time::Time,
    unicode,
    value::{Elem, IntType, List, Map, Value},
};

/// Widths and precisions beyond this are taken for mistakes.
const MAX_WIDTH: i64 = 1_000_000;

/// `fmt.Sprint`: blanks between operands when neither is a string.
pub(crate) fn sprint(values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut printer = Printer::default();
    let mut after_string = true;
    for value in values {
        let string = matches!(value, Value::Str(_));
        if !string && !after_string {
            printer.out.push(b' ');
        }
        printer.argument(value, 'v')?;
        after_string = string;
    }
    printer.finish()
}

/// `fmt.Sprintln`: blanks between operands, and a newline.
pub(crate) fn sprintln(values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut printer = Printer::default();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.out.push(b' ');
        }
        printer.argument(value, 'v')?;
    }
    printer.out.push(b'\n');
    printer.finish()
}

/// `fmt.Sprintf`.
pub(crate) fn sprintf(format: &[u8], values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut printer = Printer::default();
    Directives {
        format,
        values,
        at: 0,
        next: 0,
        reordered: false,
        good_index: true,
    }
    .run(&mut printer)?;
    printer.finish()
}

/// `%v`.
pub(crate) fn display(value: &Value) -> Result<Vec<u8>, Failure> {
    sprint(std::slice::from_ref(value))
}

/// `%T`: the name of the type.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(kind, _) => match kind {
            IntType::Int => "int",
            IntType::Int64 => "int64",
            IntType::Uint8 => "uint8",
            IntType::Duration => "time.Duration",
            IntType::Month => "time.Month",
            IntType::Weekday => "time.Weekday",
        },
        Value::Float(_) => "float64",
        Value::Complex(..) => "complex128",
        Value::Str(_) => "string",
        Value::List(list) => match list.elem() {
            Elem::Any => "[]interface {}",
            Elem::Str => "[]string",
            Elem::Int => "[]int",
            Elem::Anys => "[][]interface {}",
            Elem::Byte => "[]uint8",
        },
        Value::Map(map) => match map.elem() {
            Elem::Str => "map[string]string",
            _ => "map[string]interface {}",
        },
        Value::Time(_) => "time.Time",
        Value::Location(_) => "*time.Location",
    }
}

/// The name of the value's `reflect.Kind`.
pub(crate) const fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(IntType::Int | IntType::Month | IntType::Weekday, _) => "int",
        Value::Int(IntType::Int64 | IntType::Duration, _) => "int64",
        Value::Int(IntType::Uint8, _) => "uint8",
        Value::Float(_) => "float64",
        Value::Complex(..) => "complex128",
        Value::Str(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Time(_) => "struct",
        Value::Location(_) => "ptr",
    }
}

/// What a type says of itself by a `String` method, if it has one.
pub(crate) fn stringer(value: &Value) -> Option<String> {
    match value {
        Value::Int(kind, number) => crate::time::named(*kind, *number),
        Value::Time(time) => Some(time.to_string()),
        Value::Location(location) => Some(location.to_string()),
        _ => None,
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`.
    plus_v: bool,
    /// `%#v`.
    sharp_v: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Goes through a format, directive by directive.
struct Directives<'a> {
    format: &'a [u8],
    values: &'a [Value],
    at: usize,
    /// The operand to print next.
    next: usize,
    /// An index such as `[1]` was used, after which left-over operands are no longer reported.
    reordered: bool,
    /// The indexes of the directive at hand are fine.
    good_index: bool,
}

impl Directives<'_> {
    fn run(mut self, printer: &mut Printer) -> Result<(), Failure> {
        while self.at < self.format.len() {
            let rest = &self.format[self.at..];
            let plain = rest.iter().position(|&byte| byte == b'%').unwrap_or(rest.len());
            printer.write(&rest[..plain])?;
            self.at += plain;
            if self.at < self.format.len() {
                self.at += 1;
                self.directive(printer)?;
            }
        }
        self.left_over(printer)
    }

    fn directive(&mut self, printer: &mut Printer) -> Result<(), Failure> {
        self.good_index = true;
        printer.flags = self.flags();
        let mut indexed = self.index();
        if self.take(b'*') {
            self.width_operand(printer);
            indexed = false;
        } else {
            printer.flags.width = self.number();
            if indexed && printer.flags.width.is_some() {
                self.good_index = false;
            }
        }
        if self.at + 1 < self.format.len() && self.take(b'.') {
            if indexed {
                self.good_index = false;
            }
            indexed = self.index();
            if self.take(b'*') {
                printer.flags.precision = self.operand_number().and_then(|number| usize::try_from(number).ok());
                if printer.flags.precision.is_none() {
                    printer.out.extend_from_slice(b"%!(BADPREC)");
                }
                indexed = false;
            } else {
                printer.flags.precision = Some(self.number().unwrap_or_default());
            }
        }
        if !indexed {
            self.index();
        }
        let Some((verb, width)) = text::decode(&self.format[self.at..]) else {
            printer.out.extend_from_slice(b"%!(NOVERB)");
            return Ok(());
        };
        self.at += width;
        self.verb(printer, verb)
    }

    fn verb(&mut self, printer: &mut Printer, verb: char) -> Result<(), Failure> {
        if verb == '%' {
            printer.out.push(b'%');
        } else if !self.good_index {
            printer.out.extend_from_slice(format!("%!{verb}(BADINDEX)").as_bytes());
        } else if let Some(value) = self.values.get(self.next) {
            if matches!(verb, 'v' | 'w') {
                let flags = &mut printer.flags;
                flags.sharp_v = std::mem::take(&mut flags.sharp);
                flags.plus_v = std::mem::take(&mut flags.plus);
            }
            printer.argument(value, verb)?;
            self.next += 1;
        } else {
            printer.out.extend_from_slice(format!("%!{verb}(MISSING)").as_bytes());
        }
        Ok(())
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        while let Some(flag) = self.format.get(self.at) {
            match flag {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            self.at += 1;
        }
        flags
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.format.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// A `*` takes an operand for the width; a negative one pads on the right.
    fn width_operand(&mut self, printer: &mut Printer) {
        let Some(width) = self.operand_number() else {
            printer.out.extend_from_slice(b"%!(BADWIDTH)");
            return;
        };
        if width < 0 {
            printer.flags.minus = true;
            printer.flags.zero = false;
        }
        printer.flags.width = usize::try_from(width.unsigned_abs()).ok();
    }

    fn operand_number(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        match value {
            Value::Int(_, number) if (-MAX_WIDTH..=MAX_WIDTH).contains(number) => Some(*number),
            _ => None,
        }
    }

    /// The number at hand. One that is far too long takes the rest of the format with it, as in Go.
    fn number(&mut self) -> Option<usize> {
        let (number, end) = number_in(self.format, self.at, self.format.len());
        self.at = end;
        number
    }

    /// An operand's index, such as `[3]`. Says whether one stood there in good form.
    fn index(&mut self) -> bool {
        if self.format.get(self.at) != Some(&b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.at..];
        let close = rest.iter().position(|&byte| byte == b']').filter(|_| rest.len() >= 3);
        let Some(close) = close else {
            self.at += 1;
            self.good_index = false;
            return false;
        };
        self.at += close + 1;
        let number = match number_in(rest, 1, close) {
            (Some(number), end) if end == close => Some(number),
            _ => None,
        };
        match number
            .and_then(|number| number.checked_sub(1))
            .filter(|&index| index < self.values.len())
        {
            Some(index) => self.next = index,
            None => self.good_index = false,
        }
        number.is_some()
    }

    fn left_over(&self, printer: &mut Printer) -> Result<(), Failure> {
        let left = self.values.get(self.next..).unwrap_or_default();
        if self.reordered || left.is_empty() {
            return Ok(());
        }
        printer.flags = Flags::default();
        printer.out.extend_from_slice(b"%!(EXTRA ");
        for (index, value) in left.iter().enumerate() {
            if index > 0 {
                printer.out.extend_from_slice(b", ");
            }
            printer.out.extend_from_slice(type_name(value).as_bytes());
            if !matches!(value, Value::Nil) {
                printer.out.push(b'=');
                printer.argument(value, 'v')?;
            }
        }
        printer.out.push(b')');
        Ok(())
    }
}

fn number_in(format: &[u8], start: usize, end: usize) -> (Option<usize>, usize) {
    if start >= end {
        return (None, end);
    }
    let mut number = None;
    for (at, byte) in format.iter().enumerate().take(end).skip(start) {
        if !byte.is_ascii_digit() {
            return (number, at);
        }
        let so_far = number.unwrap_or_default();
        if so_far > MAX_WIDTH as usize {
            return (None, end);
        }
        number = Some(so_far * 10 + usize::from(byte - b'0'));
    }
    (number, end)
}

#[derive(Default)]
struct Printer {
    out: Vec<u8>,
    flags: Flags,
    /// Within the report of a wrong verb, where types do not speak for themselves.
    reporting: bool,
}

impl Printer {
    fn finish(self) -> Result<Vec<u8>, Failure> {
        if self.out.len() > MAX_BYTES {
            Err(Failure::size())
        } else {
            Ok(self.out)
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.out.len() + bytes.len() > MAX_BYTES {
            return Err(Failure::size());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Prints an operand.
    fn argument(&mut self, value: &Value, verb: char) -> Result<(), Failure> {
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
            _ if self.speaks(value, verb)? => Ok(()),
            _ => self.value(value, verb, 0),
        }
    }

    /// Prints a value by what its type says of itself. False if it has nothing to say.
    fn speaks(&mut self, value: &Value, verb: char) -> Result<bool, Failure> {
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
        // For wrapping errors, which is for another function, and no value is an error.
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
        let Some(said) = stringer(value) else { return Ok(false) };
        self.text(said.as_bytes(), verb, value)?;
        Ok(true)
    }

    /// Prints a value by its kind. Elements of lists and maps come here too, one level deeper.
    fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::depth());
        }
        if depth > 0 && self.speaks(value, verb)? {
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

    /// Reports a verb that does not go with the value.
    fn bad_verb(&mut self, value: Option<&Value>, verb: char) -> Result<(), Failure> {
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

    fn separate(&mut self, index: usize) -> Result<(), Failure> {
        match index {
            0 => Ok(()),
            _ if self.flags.sharp_v => self.write(b", "),
            _ => self.write(b" "),
        }
    }

    /// A time as the struct it is, for the verbs that its `String` method does not serve.
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

    /// An integer field of a struct, whose type no value has.
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

    fn integer(&mut self, number: Integer, verb: char, value: Option<&Value>) -> Result<(), Failure> {
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
                text::push_char(&mut encoded, number.rune());
                self.pad(&encoded)
            }
            'q' => {
                let quoted = text::quote_rune(number.rune(), self.flags.plus);
                self.pad(&quoted)
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

    fn float(&mut self, number: f64, verb: char, value: &Value) -> Result<(), Failure> {
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
            // The sign of infinity always shows.
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

    fn complex(&mut self, re: f64, im: f64, verb: char, value: &Value) -> Result<(), Failure> {
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

    /// Text under a verb: a string, or what a value says of itself.
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

    /// As much of the text as the precision allows, in characters.
    fn cut<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let end = self
            .flags
            .precision
            .and_then(|precision| text::runes(text).nth(precision));
        end.map_or(text, |(at, _)| &text[..at])
    }

    fn quoted(&mut self, text: &[u8]) -> Result<(), Failure> {
        let text = self.cut(text);
        let quoted = if self.flags.sharp && text::can_backquote(text) {
            [b"`", text, b"`"].concat()
        } else {
            text::quote(text, self.flags.plus)
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

    /// Writes with padding up to the width: zeros only on the left, and only if asked for.
    fn pad(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let filler = if self.flags.zero && !self.flags.minus {
            b'0'
        } else {
            b' '
        };
        self.pad_with(bytes, filler)
    }

    fn pad_blank(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.pad_with(bytes, b' ')
    }

    fn pad_with(&mut self, bytes: &[u8], filler: u8) -> Result<(), Failure> {
        let Some(width) = self.flags.width else {
            return self.write(bytes);
        };
        let missing = width.saturating_sub(text::rune_count(bytes));
        if !self.flags.minus {
            self.fill(missing, filler)?;
        }
        self.write(bytes)?;
        if self.flags.minus {
            self.fill(missing, filler)?;
        }
        Ok(())
    }

    fn fill(&mut self, count: usize, filler: u8) -> Result<(), Failure> {
        if self.out.len() + count > MAX_BYTES {
            return Err(Failure::size());
        }
        self.out.resize(self.out.len() + count, filler);
        Ok(())
    }
}

/// What `#` does to a number: always a point, and the zeros that would be left out.
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

/// An integer of up to 64 bits with or without a sign.
#[derive(Clone, Copy)]
struct Integer {
    negative: bool,
    size: u64,
    signed: bool,
}

impl Integer {
    const fn new(number: i64, signed: bool) -> Self {
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
            .unwrap_or(text::REPLACEMENT)
    }
}

/// An address differs from run to run, so nothing could be equal to it.
fn no_address() -> Failure {
    Failure::Error("memory addresses are not rendered".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::value::Str;

    fn check(format: &str, values: &[Value], expected: &str) {
        let text = sprintf(format.as_bytes(), values).expect("printable");
        assert_eq!(String::from_utf8_lossy(&text), expected, "{format}");
    }

    fn dict(entries: &[(&str, Value)]) -> Value {
        let entries: BTreeMap<Str, Value> = entries
            .iter()
            .map(|(key, value)| (Str::from(key.as_bytes()), value.clone()))
            .collect();
        Value::map(entries)
    }

    #[test]
    fn verbs_and_flags() {
        let n = Value::int(42);
        check(
            "%d|%5d|%-5d|%05d|%+d|% d",
            &vec![n.clone(); 6],
            "42|   42|42   |00042|+42| 42",
        );
        check(
            "%x|%X|%#x|%o|%O|%b|%c|%q|%U|%#U",
            &vec![n.clone(); 10],
            "2a|2A|0x2a|52|0o52|101010|*|'*'|U+002A|U+002A '*'",
        );
        check("%.4d|%8.4d|%08.4d", &vec![n.clone(); 3], "0042|    0042|    0042");
        check(
            "%s|%6s|%-6s|%.2s|%q|%x|% X",
            &vec![Value::str("héy"); 7],
            "héy|   héy|héy   |hé|\"héy\"|68c3a979|68 C3 A9 79",
        );
        check(
            "%f|%.1f|%8.2f|%e|%g|%G",
            &vec![Value::Float(1234.5678); 6],
            "1234.567800|1234.6| 1234.57|1.234568e+03|1234.5678|1234.5678",
        );
        check(
            "%t %v %5t",
            &[Value::Bool(true), Value::Bool(false), Value::Bool(true)],
            "true false  true",
        );
        check("%[2]d %[1]d %d", &[Value::int(1), Value::int(2)], "2 1 2");
        check(
            "%*d|%-*d|%.*f",
            &[
                Value::int(4),
                n.clone(),
                Value::int(4),
                n,
                Value::int(1),
                Value::Float(2.25),
            ],
            "  42|42  |2.2",
        );
    }

    #[test]
    fn values_in_go_syntax() {
        let list = Value::list(vec![Value::Nil, Value::int(1), Value::str("a")]);
        check(
            "%v %#v",
            &[list.clone(), list],
            "[<nil> 1 a] []interface {}{interface {}(nil), 1, \"a\"}",
        );
        let map = dict(&[("b", Value::Float(1.0)), ("a", Value::Nil)]);
        check(
            "%v %#v",
            &[map.clone(), map],
            "map[a:<nil> b:1] map[string]interface {}{\"a\":interface {}(nil), \"b\":1}",
        );
        check("%v %+v %#v %T", &vec![Value::Nil; 4], "<nil> <nil> <nil> <nil>");
        check("%v", &[Value::Complex(1.0, -2.5)], "(1-2.5i)");
        check(
            "%v %d",
            &[Value::Int(IntType::Month, 2), Value::Int(IntType::Month, 2)],
            "February 2",
        );
    }

    #[test]
    fn floats_go_by_the_exponent() {
        for (number, expected) in [
            (1e6, "1e+06"),
            (999_999.0, "999999"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
            (-0.0, "-0"),
        ] {
            check("%v", &[Value::Float(number)], expected);
        }
    }

    #[test]
    fn mistakes_are_printed() {
        check("%d", &[Value::str("x")], "%!d(string=x)");
        check("%s", &[Value::Nil], "%!s(<nil>)");
        check("%d %d", &[Value::int(1)], "1 %!d(MISSING)");
        check("x", &[Value::int(1), Value::Nil], "x%!(EXTRA int=1, <nil>)");
        check(
            "%[3]d %[x]d %",
            &[Value::int(1)],
            "%!d(BADINDEX) %!d(BADINDEX) %!(NOVERB)",
        );
        check(
            "%*d %.*d",
            &[Value::str("a"), Value::int(1), Value::int(-1), Value::int(2)],
            "%!(BADWIDTH)1 %!(BADPREC)2",
        );
        check("%z", &[Value::list(vec![Value::int(1)])], "[%!z(int=1)]");
    }

    #[test]
    fn blanks_come_between_operands_that_are_no_strings() {
        let values = [Value::int(1), Value::int(2), Value::str("a"), Value::int(3), Value::Nil];
        assert_eq!(sprint(&values).expect("short"), b"1 2a3 <nil>");
        assert_eq!(sprintln(&values).expect("short"), b"1 2 a 3 <nil>\n");
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let map = Map::new(Elem::Any, BTreeMap::new());
        assert!(map.insert(Str::from(*b"self"), Value::Map(map.clone())));
        assert_eq!(display(&Value::Map(map)), Err(Failure::depth()));
        // Forty doublings share one list.
        let twice = (0..40).fold(Value::str("x"), |value, _| Value::list(vec![value.clone(), value]));
        assert_eq!(display(&twice), Err(Failure::size()));
    }
}

//! Formats: directives with their flags, widths, precisions and operands.

use super::{
    printer::{Flags, Printer},
    type_name,
};
use crate::{function::Failure, strings, value::Value};

/// Larger widths and precisions are mistakes.
const MAX_WIDTH: i64 = 1_000_000;

/// Processes a format, directive by directive.
pub(super) struct Directives<'a> {
    format: &'a [u8],
    values: &'a [Value],
    at: usize,
    /// The operand to print next.
    next: usize,
    /// Whether an index such as `[1]` was used. Unused operands are then not reported.
    reordered: bool,
    /// Whether the indexes of the current directive are valid.
    good_index: bool,
}

impl<'a> Directives<'a> {
    pub(super) const fn new(format: &'a [u8], values: &'a [Value]) -> Self {
        Self {
            format,
            values,
            at: 0,
            next: 0,
            reordered: false,
            good_index: true,
        }
    }

    pub(super) fn run(mut self, printer: &mut Printer) -> Result<(), Failure> {
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
        let Some((verb, width)) = strings::decode(&self.format[self.at..]) else {
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

    /// Takes the width of a `*` from an operand. A negative width pads on the right.
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

    /// The number at the current position. As in Go, a number that is far too large consumes the rest of the format.
    fn number(&mut self) -> Option<usize> {
        let (number, end) = number_in(self.format, self.at, self.format.len());
        self.at = end;
        number
    }

    /// Reads the index of an operand, such as `[3]`. Returns whether there is a well-formed one.
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

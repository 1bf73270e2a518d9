//! Go's `strconv`: numbers and quoted strings in the syntax of Go.

mod float;
mod parse;
mod quote;

pub use self::quote::quote;
pub(crate) use self::{
    float::{Style, format_float, format_general, format_general32},
    parse::{Fault, parse_float, parse_int, parse_uint},
    quote::{Unit, can_backquote, quote_rune, quote_to_ascii, unquote, unquote_char},
};

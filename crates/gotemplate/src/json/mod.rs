//! Go's `encoding/json`.
//!
//! - [`encode`] and [`decode`]: template values to text and back, as `json.Marshal` and `json.Unmarshal` into an
//!   `interface {}`.
//! - [`marshal`], [`scan`]: JSON trees to text and back, with integers as Kubernetes has them.
//! - [`unmarshal`]: JSON trees into the Go types that a [`Shape`] describes.

mod decode;
mod document;
mod encode;
mod marshal;
mod number;
mod scan;
mod shape;
#[cfg(test)]
mod tests;
mod unmarshal;

pub use self::{
    decode::decode,
    encode::{Style, encode},
    marshal::marshal,
    scan::{Scanned, SyntaxError, scan},
    shape::{Field, Shape, Struct},
    unmarshal::unmarshal,
};
pub(crate) use self::{
    document::document,
    number::{float_text, normalized, number_from_text},
};
use crate::strconv;

/// Go's error about an unexpected byte, which it takes for a code point.
fn invalid_character(byte: u8, context: &str) -> String {
    let quoted = strconv::quote_rune(char::from(byte), false);
    format!("invalid character {quoted} {context}")
}

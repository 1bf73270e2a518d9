//! Strings.

use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::{
    Table,
    convert::{strings_of, text_of, texts_of},
    string,
};
use crate::{
    fmt,
    function::{Args, Failure, Function, MAX_BYTES, Param, item_limit, size_limit},
    strconv, strings,
    value::{Elem, Map, Value},
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Int, Str};
    &[
        (&["hello"], Function::new(&[], |_| Ok(Value::str("Hello!")))),
        (
            &["trim"],
            Function::new(&[Str], |args| Ok(Value::str(strings::trim_space(args.text(0)?)))),
        ),
        (
            &["upper"],
            Function::new(&[Str], |args| string(strings::upper(args.text(0)?))),
        ),
        (
            &["lower"],
            Function::new(&[Str], |args| string(strings::lower(args.text(0)?))),
        ),
        (
            &["title"],
            Function::new(&[Str], |args| string(strings::title(args.text(0)?))),
        ),
        (&["trunc"], Function::new(&[Int, Str], trunc)),
        (&["substr"], Function::new(&[Int, Int, Str], substr)),
        (
            &["repeat"],
            Function::new(&[Int, Str], |args| repeat(args.text(1)?, args.int(0)?).map(Value::str)),
        ),
        (
            &["trimAll", "trimall"],
            Function::new(&[Str, Str], |args| {
                Ok(Value::str(strings::trim(args.text(1)?, args.text(0)?)))
            }),
        ),
        (
            &["trimPrefix"],
            Function::new(&[Str, Str], |args| {
                let whole = args.text(1)?;
                Ok(Value::str(whole.strip_prefix(args.text(0)?).unwrap_or(whole)))
            }),
        ),
        (
            &["trimSuffix"],
            Function::new(&[Str, Str], |args| {
                let whole = args.text(1)?;
                Ok(Value::str(whole.strip_suffix(args.text(0)?).unwrap_or(whole)))
            }),
        ),
        (
            &["contains"],
            Function::new(&[Str, Str], |args| {
                Ok(Value::Bool(strings::find(args.text(1)?, args.text(0)?).is_some()))
            }),
        ),
        (
            &["hasPrefix"],
            Function::new(&[Str, Str], |args| {
                Ok(Value::Bool(args.text(1)?.starts_with(args.text(0)?)))
            }),
        ),
        (
            &["hasSuffix"],
            Function::new(&[Str, Str], |args| {
                Ok(Value::Bool(args.text(1)?.ends_with(args.text(0)?)))
            }),
        ),
        (
            &["quote"],
            Function::variadic(&[], Any, |args| {
                joined(args, |value| Ok(strconv::quote(&text_of(value)?).into_bytes()))
            }),
        ),
        (
            &["squote"],
            Function::variadic(&[], Any, |args| {
                joined(args, |value| Ok([b"'", fmt::display(value)?.as_slice(), b"'"].concat()))
            }),
        ),
        (
            &["cat"],
            Function::variadic(&[], Any, |args| joined(args, fmt::display)),
        ),
        (&["indent"], Function::new(&[Int, Str], |args| string(indent(args)?))),
        (
            &["nindent"],
            Function::new(&[Int, Str], |args| string([b"\n", indent(args)?.as_slice()].concat())),
        ),
        (
            &["replace"],
            Function::new(&[Str, Str, Str], |args| {
                let (old, new, whole) = (args.text(0)?, args.text(1)?, args.text(2)?);
                size_limit(strings::replaced_len(whole, old, new))?;
                string(strings::replace(whole, old, new))
            }),
        ),
        (
            &["plural"],
            Function::new(&[Str, Str, Int], |args| {
                Ok(args.any(usize::from(args.int(2)? != 1)).clone())
            }),
        ),
        (
            &["sha1sum"],
            Function::new(&[Str], |args| Ok(hexadecimal(&Sha1::digest(args.text(0)?)))),
        ),
        (
            &["sha256sum"],
            Function::new(&[Str], |args| Ok(hexadecimal(&Sha256::digest(args.text(0)?)))),
        ),
        (
            &["adler32sum"],
            Function::new(&[Str], |args| Ok(Value::str(adler32(args.text(0)?).to_string()))),
        ),
        (
            &["toString"],
            Function::new(&[Any], |args| string(text_of(args.any(0))?)),
        ),
        (
            &["toStrings"],
            Function::new(&[Any], |args| Ok(Value::List(strings_of(args.any(0))?))),
        ),
        (
            &["split"],
            Function::new(&[Str, Str], |args| split(args.text(0)?, -1, args.text(1)?)),
        ),
        (
            &["splitn"],
            Function::new(&[Str, Int, Str], |args| {
                split(args.text(0)?, args.int(1)?, args.text(2)?)
            }),
        ),
        (
            &["splitList"],
            Function::new(&[Str, Str], |args| {
                let parts = strings::split(args.text(1)?, args.text(0)?, -1);
                item_limit(parts.len())?;
                Ok(Value::strings(parts))
            }),
        ),
        (&["join"], Function::new(&[Str, Any], join)),
    ]
};

/// The first bytes, or the last ones if the count is negative.
fn trunc(args: &[Value]) -> Result<Value, Failure> {
    let whole = args.text(1)?;
    let count = args.int(0)?;
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let cut = match size {
        _ if size >= whole.len() => whole,
        _ if count < 0 => &whole[whole.len() - size..],
        _ => &whole[..size],
    };
    Ok(Value::str(cut))
}

fn substr(args: &[Value]) -> Result<Value, Failure> {
    let (start, end, whole) = (args.int(0)?, args.int(1)?, args.text(2)?);
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let (from, to) = match () {
        () if start < 0 => (0, end),
        () if end < 0 || end > length => (start, length),
        () => (start, end),
    };
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    range
        .and_then(|(from, to)| whole.get(from..to))
        .map(Value::str)
        .ok_or_else(|| {
            let problem = match () {
                () if start < 0 && end < 0 => format!("[:{end}]"),
                () if start < 0 => format!("[:{end}] with length {length}"),
                () if end < 0 || end > length => format!("[{start}:{length}]"),
                () => format!("[{start}:{end}]"),
            };
            Failure::Panic(format!("runtime error: slice bounds out of range {problem}"))
        })
}

/// `strings.Repeat`.
fn repeat(text: &[u8], count: i64) -> Result<Vec<u8>, Failure> {
    let Ok(count) = usize::try_from(count) else {
        return Err(Failure::Panic("strings: negative Repeat count".to_owned()));
    };
    if i64::try_from(text.len() as u128 * count as u128).is_err() {
        return Err(Failure::Panic("strings: Repeat output length overflow".to_owned()));
    }
    size_limit(text.len() * count)?;
    Ok(text.repeat(count))
}

fn indent(args: &[Value]) -> Result<Vec<u8>, Failure> {
    let pad = repeat(b" ", args.int(0)?)?;
    let whole = args.text(1)?;
    let line = [b"\n", pad.as_slice()].concat();
    size_limit(strings::replaced_len(whole, b"\n", &line).saturating_add(pad.len()))?;
    Ok([pad, strings::replace(whole, b"\n", &line)].concat())
}

/// Values as text, separated by blanks, without nils.
fn joined(values: &[Value], text: impl Fn(&Value) -> Result<Vec<u8>, Failure>) -> Result<Value, Failure> {
    let mut out = Vec::new();
    for (index, value) in values.iter().filter(|value| !matches!(value, Value::Nil)).enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend(text(value)?);
        size_limit(out.len())?;
    }
    string(out)
}

fn join(args: &[Value]) -> Result<Value, Failure> {
    let separator = args.text(0)?;
    let texts = texts_of(args.any(1))?;
    let length = texts
        .iter()
        .fold(0_usize, |sum, text| sum.saturating_add(text.len() + separator.len()));
    if length > MAX_BYTES {
        return Err(Failure::size());
    }
    string(texts.join(separator))
}

/// A map of the parts, with the keys `_0`, `_1` and so on.
fn split(separator: &[u8], limit: i64, whole: &[u8]) -> Result<Value, Failure> {
    let parts = strings::split(whole, separator, limit);
    item_limit(parts.len())?;
    let entries = parts.into_iter().enumerate();
    let entries = entries
        .map(|(index, part)| (format!("_{index}").into_bytes().into(), Value::str(part)))
        .collect();
    Ok(Value::Map(Map::new(Elem::Str, entries)))
}

fn hexadecimal(digest: &[u8]) -> Value {
    Value::str(data_encoding::HEXLOWER.encode(digest))
}

/// The Adler-32 checksum.
fn adler32(text: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = text.iter().fold((1, 0), |(low, high), &byte| {
        let low = (low + u32::from(byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}

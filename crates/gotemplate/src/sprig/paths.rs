//! Paths. On Linux `path` and `path/filepath` are equal, and so are the functions with `os` in their name.

use super::Table;
use crate::{
    function::{Args, Function, Param},
    value::Value,
};

pub(super) const FUNCTIONS: Table = {
    use Param::Str;
    &[
        (
            &["base", "osBase"],
            Function::new(&[Str], |args| Ok(Value::str(base(args.text(0)?)))),
        ),
        (
            &["dir", "osDir"],
            Function::new(&[Str], |args| Ok(Value::str(dir(args.text(0)?)))),
        ),
        (
            &["clean", "osClean"],
            Function::new(&[Str], |args| Ok(Value::str(clean(args.text(0)?)))),
        ),
        (
            &["ext", "osExt"],
            Function::new(&[Str], |args| Ok(Value::str(ext(args.text(0)?)))),
        ),
        (
            &["isAbs", "osIsAbs"],
            Function::new(&[Str], |args| Ok(Value::Bool(args.text(0)?.starts_with(b"/")))),
        ),
    ]
};

/// The last element, without trailing slashes.
fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    match path[..end].rsplit(|&byte| byte == b'/').next() {
        Some(b"") | None => b"/",
        Some(last) => last,
    }
}

/// All elements except the last, cleaned.
fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    clean(&path[..end])
}

/// The extension: the last element from its last point on.
fn ext(path: &[u8]) -> &[u8] {
    let element = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let point = path[element..].iter().rposition(|&byte| byte == b'.');
    point.map_or(b"", |point| &path[element + point..])
}

/// The shortest equivalent path.
fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut elements: Vec<&[u8]> = Vec::new();
    for element in path.split(|&byte| byte == b'/') {
        match element {
            b"" | b"." => {}
            b".." => match elements.last() {
                Some(&last) if last != b".." => drop(elements.pop()),
                _ if rooted => {}
                _ => elements.push(element),
            },
            _ => elements.push(element),
        }
    }
    let joined = elements.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

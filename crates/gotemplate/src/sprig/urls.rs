//! URLs.

use super::{Table, string};
use crate::{
    fmt::kind_name,
    function::{Args, Failure, Function, Param},
    url::{self, Url},
    value::{Map, Value},
};

pub(super) const FUNCTIONS: Table = &[
    (&["urlParse"], Function::new(&[Param::Str], |args| parse(args.text(0)?))),
    (&["urlJoin"], Function::new(&[Param::Dict], |args| join(args.dict(0)?))),
];

fn parse(text: &[u8]) -> Result<Value, Failure> {
    let url = url::parse(text).map_err(|problem| Failure::Panic(format!("unable to parse url: {problem}")))?;
    let hostname = Value::str(url.hostname());
    let user = url.user.map_or_else(Vec::new, |user| user.to_bytes());
    Ok(Value::map([
        ("scheme", Value::str(url.scheme)),
        ("host", Value::str(url.host)),
        ("hostname", hostname),
        ("path", Value::str(url.path)),
        ("query", Value::str(url.query)),
        ("opaque", Value::str(url.opaque)),
        ("fragment", Value::str(url.fragment)),
        ("userinfo", Value::str(user)),
    ]))
}

fn join(dict: &Map) -> Result<Value, Failure> {
    let part = |key: &str| match dict.get(key.as_bytes()) {
        None => Ok(Vec::new()),
        Some(Value::Str(text)) => Ok(text.to_vec()),
        Some(Value::Nil) => Err(Failure::nil_dereference()),
        Some(other) => {
            let kind = kind_name(&other);
            Err(Failure::Panic(format!(
                "unable to parse {key} key, must be of type string, but {kind} found"
            )))
        }
    };
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        user: None,
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        let parsed = url::parse(&[b"proto://", user.as_slice(), b"@host"].concat());
        let problem = |problem| Failure::Panic(format!("unable to parse userinfo in dict: {problem}"));
        url.user = parsed.map_err(problem)?.user;
    }
    string(url.to_bytes())
}

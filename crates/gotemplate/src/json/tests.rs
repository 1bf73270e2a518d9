//! JSON as Go writes and reads it.

use std::collections::BTreeMap;

use super::*;
use crate::{
    fmt,
    function::Failure,
    value::{Elem, List, Map, Str, Value},
};

fn compact(value: &Value) -> Result<String, Failure> {
    encode(value, Style::Compact).map(|text| String::from_utf8_lossy(&text).into_owned())
}

fn problem(text: &str) -> String {
    decode(text.as_bytes())
        .map(|_| ())
        .map_err(|(_, failure)| failure.text().to_owned())
        .expect_err(text)
}

#[test]
fn writes_as_go_does() {
    let value = Value::list(vec![
        Value::Nil,
        Value::Float(1.0),
        Value::Float(1e21),
        Value::Float(1e-7),
        Value::str("<&>\u{2028}\x08"),
        Value::str(b"\xff"),
        Value::List(List::nil(Elem::Any)),
    ]);
    let text = r#"[null,1,1e+21,1e-7,"\u003c\u0026\u003e\u2028\b","\ufffd",null]"#;
    assert_eq!(compact(&value).as_deref(), Ok(text));
    let map = Value::map([("b", Value::list(vec![Value::int(1)])), ("a", Value::map::<&str>([]))]);
    assert_eq!(
        encode(&map, Style::Pretty).expect("fine"),
        b"{\n  \"a\": {},\n  \"b\": [\n    1\n  ]\n}"
    );
    assert_eq!(encode(&Value::str("<"), Style::Raw).expect("fine"), b"\"<\"");
    assert_eq!(
        compact(&Value::Float(f64::NAN)),
        Err(Failure::Error("json: unsupported value: NaN".to_owned()))
    );
}

#[test]
fn cycles_are_named() {
    let map = Map::new(Elem::Any, BTreeMap::new());
    let list = Value::list(vec![Value::Map(map.clone())]);
    assert!(map.insert(Str::from(*b"l"), list.clone()));
    let cycle = |name: &str| {
        Err(Failure::Error(format!(
            "json: unsupported value: encountered a cycle via {name}"
        )))
    };
    assert_eq!(compact(&Value::Map(map)), cycle("map[string]interface {}"));
    assert_eq!(compact(&list), cycle("[]interface {}"));
}

#[test]
fn reads_as_go_does() {
    let value = decode(br#" {"a": [1, -0.5e1, true, null], "b": "\ud83d\ude00\ud800\u00e9", "a": []} "#).expect("JSON");
    assert_eq!(
        fmt::display(&value).expect("fine"),
        "map[a:[] b:😀\u{fffd}é]".as_bytes()
    );
    let (kept, failure) = decode(b"[1e400, 2]").expect_err("out of range");
    assert_eq!(fmt::display(&kept).expect("fine"), b"[<nil> 2]");
    assert_eq!(
        failure.text(),
        "json: cannot unmarshal number 1e400 into Go value of type float64"
    );
}

#[test]
fn problems_read_as_in_go() {
    for (text, expected) in [
        ("", "unexpected end of JSON input"),
        ("[1", "unexpected end of JSON input"),
        (
            "{a:1}",
            "invalid character 'a' looking for beginning of object key string",
        ),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("1 2", "invalid character '2' after top-level value"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("-", "invalid character ' ' in numeric literal"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("'", "invalid character '\\'' looking for beginning of value"),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn nesting_is_read_without_recursion() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(decode(nested(10_000).as_bytes()).is_ok());
    assert_eq!(problem(&nested(10_001)), "invalid character '[' exceeded max depth");
}

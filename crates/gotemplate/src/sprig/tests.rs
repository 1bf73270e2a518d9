//! The complete set, and what all functions have in common.

use super::functions;
use crate::{
    fmt,
    function::Failure,
    value::{Map, Value},
};

/// The names of slim-sprig v3.0.0's hermetic set.
const NAMES: &str = "hello ago duration durationRound must_date_modify mustDateModify mustToDate toDate unixEpoch trunc \
    trim upper lower title substr repeat trimall trimAll trimSuffix trimPrefix contains hasPrefix hasSuffix quote squote cat \
    indent nindent replace plural sha1sum sha256sum adler32sum toString atoi int64 int float64 seq toDecimal split \
    splitList splitn toStrings until untilStep add1 add sub div mod mul randInt biggest max min maxf minf ceil floor \
    round join sortAlpha default empty coalesce all any compact mustCompact fromJson toJson toPrettyJson toRawJson \
    mustFromJson mustToJson mustToPrettyJson mustToRawJson ternary typeOf typeIs typeIsLike kindOf kindIs deepEqual base \
    dir clean ext isAbs osBase osClean osDir osExt osIsAbs b64enc b64dec b32enc b32dec tuple list dict get set unset \
    hasKey pluck keys pick omit values append push mustAppend mustPush prepend mustPrepend first mustFirst rest mustRest \
    last mustLast initial mustInitial reverse mustReverse uniq mustUniq without mustWithout has mustHas slice mustSlice \
    concat dig chunk mustChunk fail regexMatch mustRegexMatch regexFindAll mustRegexFindAll regexFind mustRegexFind \
    regexReplaceAll mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral regexSplit mustRegexSplit \
    regexQuoteMeta urlParse urlJoin";

fn call(name: &str, args: &[Value]) -> Result<String, Failure> {
    let value = functions().get(name).expect(name).call(args)?;
    Ok(String::from_utf8_lossy(&fmt::display(&value)?).into_owned())
}

fn text(text: &str) -> Value {
    Value::str(text)
}

#[test]
fn the_set_is_complete_and_has_nothing_else() {
    let functions = functions();
    let mut names: Vec<&str> = NAMES.split_whitespace().collect();
    names.sort_unstable();
    assert_eq!(functions.names().collect::<Vec<_>>(), names);
}

#[test]
fn no_function_panics_on_wrong_arguments() {
    let odd = [
        Value::Nil,
        Value::int(-1),
        text("\u{fffd}"),
        Value::list(vec![Value::Nil]),
        Value::Float(f64::NAN),
    ];
    let functions = functions();
    for name in functions.names() {
        let function = functions.get(name).expect(name);
        for first in &odd {
            for second in &odd {
                let _ = function.call(&[first.clone(), second.clone(), first.clone(), second.clone()]);
            }
            let _ = function.call(std::slice::from_ref(first));
        }
        let _ = function.call(&[]);
    }
}

#[test]
fn results_are_limited() {
    let long = text(&"x".repeat(1 << 20));
    for (name, args) in [
        ("repeat", vec![Value::int(1 << 30), text("x")]),
        ("indent", vec![Value::int(1 << 40), text("x")]),
        ("replace", vec![text(""), long.clone(), long.clone()]),
        ("until", vec![Value::int(1 << 40)]),
        ("seq", vec![Value::int(1 << 40)]),
        ("splitList", vec![text(""), text(&"x".repeat((1 << 20) + 1))]),
        ("join", vec![long.clone(), Value::list(vec![text("x"); 100])]),
        ("regexReplaceAll", vec![text(""), long.clone(), long]),
    ] {
        assert!(matches!(call(name, &args), Err(Failure::Limit(_))), "{name}");
    }
}

#[test]
fn panics_of_go_keep_their_text() {
    for (name, args, problem) in [
        (
            "div",
            vec![Value::int(1), Value::int(0)],
            "runtime error: integer divide by zero",
        ),
        (
            "repeat",
            vec![Value::int(-1), text("x")],
            "strings: negative Repeat count",
        ),
        (
            "substr",
            vec![Value::int(4), Value::int(2), text("abcdef")],
            "runtime error: slice bounds out of range [4:2]",
        ),
        (
            "first",
            vec![Value::Nil],
            "runtime error: invalid memory address or nil pointer dereference",
        ),
        (
            "chunk",
            vec![Value::int(0), Value::list(vec![])],
            "runtime error: makeslice: len out of range",
        ),
        (
            "dig",
            vec![text("a"), text("d"), text("x")],
            "interface conversion: interface {} is string, not map[string]interface {}",
        ),
    ] {
        assert_eq!(call(name, &args), Err(Failure::Panic(problem.to_owned())), "{name}");
    }
}

#[test]
fn a_list_of_strings_is_sorted_in_place() {
    let list = Value::strings(["c", "a", "b"]);
    assert_eq!(call("sortAlpha", std::slice::from_ref(&list)).as_deref(), Ok("[a b c]"));
    assert_eq!(fmt::display(&list).expect("short"), b"[a b c]");
}

#[test]
fn numbers_convert_as_in_go() {
    for (name, args, expected) in [
        ("int64", vec![text("4.9")], "0"),
        ("int64", vec![Value::Float(1e30)], "-9223372036854775808"),
        ("atoi", vec![text("9223372036854775808")], "9223372036854775807"),
        ("float64", vec![text("0x1p-2")], "0.25"),
        ("toDecimal", vec![Value::int(755)], "493"),
        ("round", vec![Value::Float(2.675), Value::int(2)], "2.68"),
        ("add", vec![Value::int(i64::MAX), Value::int(1)], "-9223372036854775808"),
        (
            "div",
            vec![Value::int(i64::MIN), Value::int(-1)],
            "-9223372036854775808",
        ),
        (
            "untilStep",
            vec![Value::int(9), Value::int(0), Value::int(-4)],
            "[9 5 1]",
        ),
        ("seq", vec![Value::int(5), Value::int(2)], "5 4 3 2"),
    ] {
        assert_eq!(call(name, &args).as_deref(), Ok(expected), "{name}");
    }
}

#[test]
fn equality_ends_on_cycles_and_shared_parts() {
    let knot = || {
        let map = Map::new(crate::value::Elem::Any, std::collections::BTreeMap::new());
        assert!(map.insert(b"self".as_slice().into(), Value::Map(map.clone())));
        Value::Map(map)
    };
    assert_eq!(call("deepEqual", &[knot(), knot()]).as_deref(), Ok("true"));
    let twice = || (0..60).fold(text("x"), |value, _| Value::list(vec![value.clone(), value]));
    assert_eq!(call("deepEqual", &[twice(), twice()]).as_deref(), Ok("true"));
}

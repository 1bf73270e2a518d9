//! The functions of slim-sprig's hermetic set, `slugify`, `toYaml` and `mustToYaml`.
//!
//! Three of them are not as hermetic as the set's name: `ago` and `durationRound` of a time look at the clock, `randInt`
//! draws a number. Here the clock stands still at the time asked about, and the number is the smallest one allowed.
//! `keys` and `values` come in Go's order of chance; here in the order of the keys.

mod convert;
mod dates;
mod defaults;
mod dicts;
mod encoding;
mod equal;
mod lists;
mod numbers;
mod paths;
mod regexes;
mod slug;
mod strings;
mod types;
mod urls;

use crate::{
    function::{Failure, Function, MAX_BYTES, MAX_ITEMS},
    value::{Map, Value},
};

/// The function of that name, if there is one. The built-ins of text/template and `inputs` are the engine's.
pub(crate) fn lookup(name: &str) -> Option<Function> {
    let tables = [
        dates::lookup,
        defaults::lookup,
        dicts::lookup,
        encoding::lookup,
        lists::lookup,
        numbers::lookup,
        paths::lookup,
        regexes::lookup,
        slug::lookup,
        strings::lookup,
        types::lookup,
        urls::lookup,
    ];
    tables.iter().find_map(|table| table(name))
}

/// Arguments by place. The engine has checked their types against the declaration.
trait Args {
    fn any(&self, at: usize) -> &Value;
    fn text(&self, at: usize) -> Result<&[u8], Failure>;
    fn int(&self, at: usize) -> Result<i64, Failure>;
    fn bool(&self, at: usize) -> Result<bool, Failure>;
    fn dict(&self, at: usize) -> Result<&Map, Failure>;
    /// The arguments from there on.
    fn rest(&self, from: usize) -> &[Value];
}

impl Args for [Value] {
    fn any(&self, at: usize) -> &Value {
        self.get(at).unwrap_or(&Value::Nil)
    }

    fn text(&self, at: usize) -> Result<&[u8], Failure> {
        if let Value::Str(text) = self.any(at) {
            Ok(text)
        } else {
            Err(mismatch(at))
        }
    }

    fn int(&self, at: usize) -> Result<i64, Failure> {
        if let Value::Int(_, number) = self.any(at) {
            Ok(*number)
        } else {
            Err(mismatch(at))
        }
    }

    fn bool(&self, at: usize) -> Result<bool, Failure> {
        if let Value::Bool(yes) = self.any(at) {
            Ok(*yes)
        } else {
            Err(mismatch(at))
        }
    }

    fn dict(&self, at: usize) -> Result<&Map, Failure> {
        if let Value::Map(map) = self.any(at) {
            Ok(map)
        } else {
            Err(mismatch(at))
        }
    }

    fn rest(&self, from: usize) -> &[Value] {
        self.get(from..).unwrap_or_default()
    }
}

/// Never seen behind the engine's checks.
fn mismatch(at: usize) -> Failure {
    Failure::Panic(format!("reflect: argument {at} has the wrong type"))
}

/// What Go does with a nil where it asks for the type.
fn nil_dereference() -> Failure {
    Failure::Panic("runtime error: invalid memory address or nil pointer dereference".to_owned())
}

/// A string result, if it is not too long.
fn string(text: Vec<u8>) -> Result<Value, Failure> {
    bytes(text.len())?;
    Ok(Value::str(text))
}

/// Whether a string may become so long.
fn bytes(length: usize) -> Result<(), Failure> {
    if length > MAX_BYTES {
        Err(Failure::size())
    } else {
        Ok(())
    }
}

/// Whether a list may become so long.
fn items(length: usize) -> Result<(), Failure> {
    if length > MAX_ITEMS {
        Err(Failure::size())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    /// Everything that slim-sprig v3.0.0 calls hermetic, and Flux Operator's own.
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
        regexQuoteMeta urlParse urlJoin slugify toYaml mustToYaml";

    pub(super) fn call(name: &str, args: &[Value]) -> Result<String, Failure> {
        let value = (lookup(name).expect(name).body)(args)?;
        Ok(String::from_utf8_lossy(&format::display(&value)?).into_owned())
    }

    fn text(text: &str) -> Value {
        Value::str(text)
    }

    #[test]
    fn the_whole_hermetic_set_is_there_and_no_more() {
        let missing: Vec<&str> = NAMES.split_whitespace().filter(|name| lookup(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(
            ["now", "date", "env", "randAlpha", "uuidv4", "getHostByName"]
                .iter()
                .all(|name| lookup(name).is_none())
        );
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
        for name in NAMES.split_whitespace() {
            let function = lookup(name).expect(name);
            for first in &odd {
                for second in &odd {
                    let _ = (function.body)(&[first.clone(), second.clone(), first.clone(), second.clone()]);
                }
                let _ = (function.body)(std::slice::from_ref(first));
            }
            let _ = (function.body)(&[]);
        }
    }

    #[test]
    fn results_have_bounds() {
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
            assert!(matches!(call(name, &args), Err(Failure::Bound(_))), "{name}");
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
    fn a_list_of_strings_is_sorted_where_it_lies() {
        let list = Value::strings(["c", "a", "b"]);
        assert_eq!(call("sortAlpha", std::slice::from_ref(&list)).as_deref(), Ok("[a b c]"));
        assert_eq!(format::display(&list).expect("short"), b"[a b c]");
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
}

//! Verbs, flags and mistakes.

use std::collections::BTreeMap;

use super::*;
use crate::value::{Map, Str};

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
fn floats_use_an_exponent_from_a_million() {
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
fn blanks_separate_operands_that_are_not_strings() {
    let values = [Value::int(1), Value::int(2), Value::str("a"), Value::int(3), Value::Nil];
    assert_eq!(sprint(&values).expect("short"), b"1 2a3 <nil>");
    assert_eq!(sprintln(&values).expect("short"), b"1 2 a 3 <nil>\n");
}

#[test]
fn cyclic_and_huge_values_are_errors() {
    let map = Map::new(Elem::Any, BTreeMap::new());
    assert!(map.insert(Str::from(*b"self"), Value::Map(map.clone())));
    assert_eq!(display(&Value::Map(map)), Err(Failure::depth()));
    // A list that is shared by forty doublings.
    let twice = (0..40).fold(Value::str("x"), |value, _| Value::list(vec![value.clone(), value]));
    assert_eq!(display(&twice), Err(Failure::size()));
}

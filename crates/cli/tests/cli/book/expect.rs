//! What a block prints, held against what the book says.

use regex::{Captures, Regex};
use serde_json::Value;

const ANYTHING: &str = "…";

/// Whether `actual` is what is expected, by the language of the block.
pub(super) fn agrees(language: &str, expected: &str, actual: &str) -> bool {
    if language == "json" {
        let parse = |text: &str| serde_json::from_str::<Value>(text);
        return match (parse(expected), parse(actual)) {
            (Ok(expected), Ok(actual)) => same(&expected, &actual),
            _ => false,
        };
    }
    let mut pattern = String::from(r"\A");
    for line in expected.trim_end().lines() {
        if line.trim() == ANYTHING {
            pattern.push_str(r"(?:[^\n]*\n)*");
        } else {
            let indent = line.len() - line.trim_start().len();
            pattern.push_str(&line[..indent]);
            let parts: Vec<String> = line.trim().split(ANYTHING).map(regex::escape).collect();
            let line = parts.join(r"[^\n]*");
            // The columns of a table are as wide as what stands in them.
            let columns = if parts.len() > 1 {
                line.split("  ").filter(|part| !part.is_empty()).collect()
            } else {
                vec![&*line]
            };
            pattern.push_str(&columns.join(" +"));
            pattern.push_str(r"[ \t]*\n");
        }
    }
    pattern.push_str(r"\z");
    let actual = format!("{}\n", actual.trim_end());
    Regex::new(&pattern).unwrap().is_match(&actual)
}

fn same(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::String(text), _) if text == ANYTHING => true,
        (Value::String(text), Value::String(actual)) if text.contains(ANYTHING) => agrees("text", text, actual),
        (Value::Object(expected), Value::Object(actual)) => {
            let open = expected.contains_key(ANYTHING);
            let named = || expected.iter().filter(|(name, _)| *name != ANYTHING);
            (open || named().count() == actual.len())
                && named().all(|(name, value)| actual.get(name).is_some_and(|actual| same(value, actual)))
        }
        (Value::Array(expected), Value::Array(actual)) => {
            let (open, expected) = match expected.split_last() {
                Some((last, rest)) if last == ANYTHING => (true, rest),
                _ => (false, expected.as_slice()),
            };
            (open && actual.len() >= expected.len() || actual.len() == expected.len())
                && expected
                    .iter()
                    .zip(actual)
                    .all(|(expected, actual)| same(expected, actual))
        }
        _ => expected == actual,
    }
}

/// What came out, as the book would say it: without what differs from run to run.
pub(super) fn written(language: &str, actual: &str) -> String {
    let mut text = match serde_json::from_str::<Value>(actual) {
        Ok(value) if language == "json" => serde_json::to_string_pretty(&value).unwrap(),
        _ => actual.trim_end().to_owned(),
    };
    // In a table, as wide as it was.
    let stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z";
    let in_table = Regex::new(&format!("({stamp})   ")).unwrap();
    let as_wide = |found: &Captures<'_>| format!("{ANYTHING:0$}   ", found[1].len());
    text = in_table.replace_all(&text, as_wide).into_owned();
    for (pattern, with) in [
        (stamp.to_owned(), ANYTHING),
        (r"\b[0-9a-f]{16,}\b".to_owned(), ANYTHING),
    ] {
        text = Regex::new(&pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

#[test]
fn output_that_differs_is_noticed() {
    let agree = |expected, actual| agrees("text", expected, actual);
    assert!(agree("a\n…\nd", "a\nb\nc\nd\n"));
    assert!(agree("a\n…\nd", "a\nd\n"));
    assert!(agree("took …ms", "took 12ms"));
    assert!(!agree("took …ms", "took 12s"));
    assert!(agree("1   …       write   -", "1   2026-01-01   write   -"));
    assert!(!agree("  a: 1\n…", "a: 1\n"));
    assert!(agree("  at …: a", "  at 12: a"));
    assert!(!agree("  at …: a", "at 12: a"));
    assert!(!agree("a", "a\nb"));
    assert!(!agree("a\n…\nd", "a\nb\n"));
    let agree = |expected, actual| agrees("json", expected, actual);
    assert!(agree(r#"{"a": [1, "…"], "…": "…"}"#, r#"{"b": 2, "a": [1, 2, 3]}"#));
    assert!(agree(r#"{"at": "2026-…Z"}"#, r#"{"at": "2026-01-01Z"}"#));
    assert!(!agree(r#"{"a": [1, "…"]}"#, r#"{"a": [1, 2], "b": 2}"#));
    assert!(!agree(r#"{"a": [1, "…"]}"#, r#"{"a": []}"#));
    assert!(!agree(r#"{"a": "b…"}"#, r#"{"a": "c"}"#));
    assert!(!agree("{}", ""));
}

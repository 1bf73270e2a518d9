use proptest::prelude::*;
use serde_json::{Value, json};

use super::{read, write};

fn json_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        prop::sample::select(vec![
            "",
            "y",
            "null",
            "1",
            "1.5",
            "a: b",
            "- a",
            "#",
            " a",
            "a\n",
            "\na",
            "a\n\nb",
            "<<",
            "2001-01-01"
        ])
        .prop_map(str::to_owned),
        "[ -~\n\té中\u{a0}😀]{0,120}",
    ];
    // go-yaml writes a key `<<` plain and then reads it as a merge, by mistake.
    let key = text.clone().prop_filter("a merge", |key| key != "<<");
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(|number| Value::from(number + 0.5)),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(value in json_value()) {
        let text = write(&value).expect("a text");
        // Whole floats become integers.
        let expected = read(crate::json::marshal(&value).as_bytes()).expect("JSON is YAML");
        prop_assert_eq!(read(text.as_bytes()).expect("YAML"), expected, "{}", text);
    }
}

#[test]
fn problems_are_told_in_the_words_of_go() {
    for (text, problem) in [
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a:\n\tb", "yaml: line 2: found character that cannot start any token"),
        ("a:\n  \"x", "yaml: line 2: found unexpected end of stream"),
        ("*a", "yaml: unknown anchor 'a' referenced"),
        ("\u{1}", "yaml: control characters are not allowed"),
        ("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        (
            "{{a}}: 1",
            "yaml: invalid map key: map[interface {}]interface {}{\"a\":interface {}(nil)}",
        ),
        (".nan", "json: unsupported value: NaN"),
    ] {
        let error = read(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(error, Err(problem.to_owned()), "{text:?}");
    }
}

#[test]
fn nothing_is_null() {
    for text in ["", "\n", "# comment", "---", "~", "\u{feff}"] {
        assert_eq!(read(text.as_bytes()).ok(), Some(Value::Null), "{text:?}");
    }
}

#[test]
fn control_characters_do_not_survive() {
    assert_eq!(
        write(&json!("a\u{7f}")).map_err(|error| error.to_string()),
        Err("yaml: control characters are not allowed".to_owned())
    );
    assert_eq!(
        write(&json!("a \u{85} b")).ok().as_deref(),
        Some("a b\n"),
        "a line break, which is folded"
    );
}

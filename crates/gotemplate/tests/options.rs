//! Options and built-in functions. The expected results are those of Go 1.26.

use gotemplate::{Function, Functions, MissingKey, Options, Template, Value};

fn data() -> Value {
    Value::map([
        ("text", Value::str("abcdef")),
        ("list", Value::list((1..=4).map(Value::int).collect())),
        ("n", Value::int(2)),
        ("nil", Value::Nil),
    ])
}

fn run(text: &str, options: &Options) -> String {
    let result = Template::parse_with("t", text, options).and_then(|template| template.execute(&data()));
    match result {
        Ok(output) => String::from_utf8(output).expect("UTF-8"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_missing_key_depends_on_the_option() {
    for (missing_key, text, expected) in [
        (MissingKey::Default, "{{ .nope }}", "<no value>"),
        (MissingKey::Default, "{{ .nope.more }}", "<no value>"),
        (MissingKey::Zero, "{{ .nope }}", "<no value>"),
        (
            MissingKey::Zero,
            "{{ .nope.more }}",
            r#"template: t:1:8: executing "t" at <.nope.more>: nil pointer evaluating interface {}.more"#,
        ),
        (
            MissingKey::Error,
            "{{ .nope }}",
            r#"template: t:1:3: executing "t" at <.nope>: map has no entry for key "nope""#,
        ),
    ] {
        let options = Options::new().missing_key(missing_key);
        assert_eq!(run(text, &options), expected, "{missing_key:?} {text}");
    }
}

#[test]
fn delimiters_can_be_any_text() {
    for (left, right, text) in [
        ("", "", "{{ .n }}"),
        ("<<", ">>", "<<- .n ->>"),
        ("[[[", "]", "[[[ .n ]"),
        ("«", "»", "«/* comment */»«.n»"),
        ("$", "$", "$.n$"),
    ] {
        assert_eq!(run(text, &Options::new().delimiters(left, right)), "2", "{text}");
    }
}

#[test]
fn slice_is_that_of_go() {
    for (text, expected) in [
        ("{{ slice .text 1 3 }}", "bc"),
        ("{{ slice .text }}", "abcdef"),
        ("{{ slice .list 1 }}", "[2 3 4]"),
        ("{{ slice .list 1 2 3 }}", "[2]"),
        (
            "{{ slice .text 1 2 3 }}",
            r#"template: t:1:3: executing "t" at <slice .text 1 2 3>: error calling slice: cannot 3-index slice a string"#,
        ),
        (
            "{{ slice .list 3 1 }}",
            r#"template: t:1:3: executing "t" at <slice .list 3 1>: error calling slice: invalid slice index: 3 > 1"#,
        ),
        (
            "{{ slice .list 9 }}",
            r#"template: t:1:3: executing "t" at <slice .list 9>: error calling slice: index out of range: 9"#,
        ),
        (
            "{{ slice .n 1 }}",
            r#"template: t:1:3: executing "t" at <slice .n 1>: error calling slice: can't slice item of type int"#,
        ),
    ] {
        assert_eq!(run(text, &Options::new()), expected, "{text}");
    }
}

#[test]
fn functions_replace_built_in_ones() {
    let print = Function::new(&[], |_| Ok(Value::str("mine")));
    let options = Options::new().functions(Functions::new().with("print", print));
    assert_eq!(run("{{ print }}", &options), "mine");
    assert_eq!(
        run("{{ print 1 }}", &options),
        r#"template: t:1:3: executing "t" at <print>: wrong number of args for print: want 0 got 1"#
    );
}

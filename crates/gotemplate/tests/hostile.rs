//! Hostile input: nothing panics, overflows the stack or takes too much memory.

use gotemplate::{Options, Scope, Template, Value, json, regexp::Regexp, sprig, time, url, yaml};
use proptest::prelude::*;

/// Gives the bytes to every reader.
fn read(bytes: &[u8]) {
    let _ = yaml::read(bytes);
    let _ = json::scan(bytes);
    let _ = json::decode(bytes);
    let _ = Regexp::compile(bytes).and_then(|regexp| regexp.replace_all(bytes, bytes));
    let _ = time::parse(bytes, bytes);
    let _ = time::parse_duration(bytes);
    let _ = url::parse(bytes).map(|url| url.to_bytes());
}

/// Pieces that YAML, JSON, regular expressions and layouts consist of, and pieces that break them.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "a",
            ": ",
            "- ",
            "? ",
            "\n",
            "\n  ",
            "\t",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&x ",
            "*x",
            "!!int ",
            "!<a> ",
            "|\n",
            ">-\n",
            "'",
            "\"",
            "\\",
            "#",
            "%YAML 1.1\n",
            "---\n",
            "...\n",
            "<<: *x\n",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "1e400",
            ".inf",
            "0x",
            "\r\n",
            "(?i)",
            "(",
            ")",
            "{2,5}",
            "\\pL",
            "[^",
            "2006-01-02",
            "15:04:05.000",
            "MST",
            "%zz",
            "://",
            "@",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_accept_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes);
    }

    #[test]
    fn readers_accept_any_text(text in pieces()) {
        read(text.as_bytes());
    }

    #[test]
    fn yaml_that_is_written_is_read_as_it_was(text in "[ -~\u{a0}-\u{ff}\n😀]{0,200}") {
        let value = serde_json::json!({"key": text, "list": [text]});
        let written = yaml::write(&value).expect("YAML");
        prop_assert_eq!(yaml::read(written.as_bytes()).expect("YAML"), value);
    }
}

#[test]
fn nesting_is_limited_and_needs_no_stack() {
    for depth in [400, 5_000, 9_999, 100_000] {
        for (open, close) in [
            ("[", "]"),
            ("{a: ", "}"),
            ("- ", ""),
            ("{\"kind\":", "}"),
            ("? ", ""),
            ("(", ")"),
        ] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let _ = yaml::read(text.as_bytes());
            let _ = json::scan(text.as_bytes());
            let _ = json::decode(text.as_bytes());
            let _ = Regexp::compile(text.as_bytes());
        }
    }
    let error = yaml::read("[".repeat(10_001).as_bytes()).expect_err("too deep for Go");
    assert_eq!(error.to_string(), "yaml: exceeded max depth of 10000");
}

#[test]
fn aliases_are_limited() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let error = yaml::read(text.as_bytes()).expect_err("exponential growth");
    assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
    // Few aliases of a large text. Go shares the text, but writes it in full later.
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(99));
    let error = yaml::read(text.as_bytes()).expect_err("too large");
    assert_eq!(error.to_string(), "yaml: too large");
}

#[test]
fn a_map_that_contains_itself_is_an_error_where_it_has_no_text() {
    let options = Options::new().functions(sprig::functions());
    for (action, problem) in [
        ("{{ . }}", "value nested too deeply"),
        ("{{ mustToJson . }}", "encountered a cycle via map[string]interface {}"),
    ] {
        let text = format!(r#"{{{{ $_ := set . "self" . }}}}{action}"#);
        let template = Template::parse_with("cycle", &text, &options).expect("a template");
        let _scope = Scope::enter();
        let error = template.execute(&Value::map::<&str>([])).expect_err("a cycle");
        assert!(error.reason().ends_with(problem), "{error}");
    }
}

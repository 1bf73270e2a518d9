//! What the corpus cannot hold: bounds of our own, which Go does not have, and promises to the rest of the crate.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    Error, Template,
    exec::{Exec, Limits},
};
use crate::value::Value;

fn inputs() -> Value {
    let entry = |key: &str, value| (key.as_bytes().into(), value);
    Value::map(BTreeMap::from([
        entry("name", Value::str("web")),
        entry("replicas", Value::int64(3)),
        entry("nothing", Value::Nil),
        entry("ports", Value::list(vec![Value::int64(80), Value::int64(443)])),
        entry(
            "labels",
            Value::map(BTreeMap::from([
                entry("a", Value::str("1")),
                entry("b", Value::str("2")),
            ])),
        ),
    ]))
}

fn render(text: &str) -> Result<String, Error> {
    let output = Template::parse(text)?.render(&inputs())?;
    Ok(String::from_utf8(output).expect("UTF-8"))
}

/// A bound holds if the template fails, with these words in the end.
fn check_bound(text: &str, words: &str) {
    let limits = Limits {
        steps: 10_000,
        bytes: 100_000,
    };
    let template = Template::parse(text).expect("a template");
    let error = Exec::run(&template, &inputs(), limits).expect_err("a bound");
    assert!(error.reason().ends_with(words), "{error}");
}

#[test]
fn a_template_renders_any_number_of_times() {
    let template = Template::parse("<< inputs.name >>=<< range inputs.ports >><< . >>,<< end >>").expect("a template");
    for _ in 0..2 {
        assert_eq!(template.render(&inputs()), Ok(b"web=80,443,".to_vec()));
    }
}

#[test]
fn a_change_of_the_inputs_lasts() {
    let inputs = inputs();
    let template =
        Template::parse("<< $_ := set inputs \"n\" (add1 (get inputs \"n\")) >><< inputs.n >>").expect("a template");
    assert_eq!(template.render(&inputs), Ok(b"1".to_vec()));
    assert_eq!(template.render(&inputs), Ok(b"2".to_vec()));
}

#[test]
fn templates_and_errors_go_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Template>();
    check::<Error>();
}

#[test]
fn errors_know_their_line_and_reason() {
    let error = render("a\nb: << inputs.nope >>\n").expect_err("no such key");
    assert_eq!(error.line(), 2);
    assert_eq!(
        error.reason(),
        r#"executing "resourceset" at <inputs>: map has no entry for key "nope""#
    );
    assert_eq!(
        error.to_string(),
        format!("template: resourceset:2:6: {}", error.reason())
    );

    let error = render("a\n\n<< if true >>").expect_err("no end");
    assert_eq!((error.line(), error.reason()), (3, "unexpected EOF"));
    assert_eq!(error.to_string(), "template: resourceset:3: unexpected EOF");
}

#[test]
fn parentheses_nest_only_so_deep() {
    let nested = |depth| format!("<< {}1{} >>", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(render(&nested(100)).as_deref(), Ok("1"));
    assert_eq!(
        render(&nested(101)).map_err(|error| error.to_string()),
        Err("template: resourceset:1: max expression depth exceeded".to_owned())
    );
    assert!(render(&"<< (".repeat(100_000)).is_err());
}

/// Renders on a stack that is small, for a thread.
fn render_on_small_stack(text: String) -> Result<String, Error> {
    let thread = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || render(&text));
    thread.expect("a thread").join().expect("no overflow")
}

#[test]
fn the_deepest_parentheses_fit_a_small_stack() {
    let nested = |end| format!("<< {}1{} | {end} >>", "(print 1 | print ".repeat(100), ")".repeat(100));
    assert!(render_on_small_stack(nested("nofunc")).is_err_and(|error| error.reason().contains("not defined")));
    assert!(render_on_small_stack(nested("fail")).is_err_and(|error| error.reason().contains("error calling fail: ")));
    assert!(render_on_small_stack(nested("len")).is_ok());
}

#[test]
fn control_structures_nest_as_deep_as_they_like() {
    let nested = |open: &str, depth| format!("{}x{}", open.repeat(depth), "<< end >>".repeat(depth));
    assert_eq!(
        render_on_small_stack(nested("<< if true >>", 50_000)).as_deref(),
        Ok("x")
    );
    assert_eq!(
        render_on_small_stack(nested("<< range 1 >>", 50_000)).as_deref(),
        Ok("x")
    );
    assert!(render_on_small_stack(nested("<< block \"a\" . >>", 50_000)).is_err());
}

#[test]
fn alternatives_do_not_nest() {
    let text = format!(
        "<< if false >>{}<< else >>last<< end >>",
        "<< else if false >>x".repeat(10_000)
    );
    assert_eq!(render(&text).as_deref(), Ok("last"));
}

#[test]
fn invocations_nest_as_deep_as_in_go_on_a_small_stack() {
    let text = "<< define \"t\" >><< if . >><< template \"t\" (sub . 1) >><< else >>bottom<< end >><< end >><< template \"t\" 99998 >>";
    assert_eq!(render_on_small_stack(text.to_owned()).as_deref(), Ok("bottom"));
}

#[test]
fn loops_without_end_are_stopped() {
    const WORDS: &str = ": exceeded maximum work (10000 steps)";
    check_bound("<< range 9223372036854775807 >><< end >>", WORDS);
    check_bound(
        "<< range 300 >><< range 300 >><< if . >><< end >><< end >><< end >>",
        WORDS,
    );
    let doubling = (1..40).fold("<< define \"0\" >>x<< end >>".to_owned(), |text, n| {
        let call = format!("<< template \"{}\" >>", n - 1);
        format!("{text}<< define \"{n}\" >>{call}{call}<< end >>")
    });
    check_bound(&format!("{doubling}<< template \"39\" >>"), WORDS);
    let variables = format!("{}{}", "<< $x := 1 >>".repeat(1_000), "<< $ >>".repeat(1_000));
    check_bound(&variables, WORDS);
    check_bound(
        "<< $l := until 2000 >><< range 1000 >><< $_ := has 1 $l >><< end >>",
        WORDS,
    );
}

#[test]
fn output_and_results_have_a_bound() {
    const WORDS: &str = ": exceeded maximum memory (100000 bytes)";
    check_bound("<< $x := repeat 1000 \"x\" >><< range 1000 >><< $x >><< end >>", WORDS);
    check_bound("<< range 1000 >><< $_ := repeat 1000 \"x\" >><< end >>", WORDS);
    check_bound(
        "<< $x := list 1 >><< range 40 >><< $x = concat $x $x >><< end >>",
        WORDS,
    );
}

/// Pieces that a template is made of, and that break one.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<<",
        ">>",
        "<<- ",
        " ->>",
        "<< end >>",
        "<< else >>",
        "<< if ",
        "<< range ",
        "<< with ",
        "<< define \"a\" >>",
        "<< template \"a\" . >>",
        "<< block \"a\" ",
        "<< break >>",
        "<< continue >>",
        "<</*",
        "*/>>",
        "$x",
        "$x := ",
        "$",
        ".",
        ".a",
        "inputs",
        "inputs.ports",
        "inputs.labels.a",
        "inputs.nothing",
        "(",
        ")",
        "|",
        ",",
        "=",
        "1",
        "-1",
        "1.5",
        "'a'",
        "2i",
        "\"a\"",
        "\"\\xff\"",
        "`b`",
        "nil",
        "true",
        " ",
        "\n",
        "print ",
        "printf \"%v %d\" ",
        "len ",
        "index ",
        "eq ",
        "lt ",
        "and ",
        "or ",
        "not ",
        "call ",
        "list ",
        "dict \"a\" ",
        "html ",
        "js ",
        "urlquery ",
        "text",
        "é",
        "\u{a0}",
        "\"",
        "'",
        "`",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*|(<<|>>|[ -~\n])*") {
        let _ = render_bytes(&text);
    }

    #[test]
    fn no_pieces_make_it_panic(text in pieces()) {
        let _ = render_bytes(&text);
    }
}

fn render_bytes(text: &str) -> Result<Vec<u8>, Error> {
    Template::parse(text)?.render(&inputs())
}

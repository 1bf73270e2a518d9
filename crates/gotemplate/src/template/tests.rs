//! What a comparison with Go cannot show: limits that Go does not have, and guarantees to callers.

use proptest::prelude::*;

use super::{Error, Limits, MissingKey, Options, Template};
use crate::{function::Functions, sprig, value::Value};

fn inputs() -> Value {
    Value::map([
        ("name", Value::str("web")),
        ("replicas", Value::int64(3)),
        ("nothing", Value::Nil),
        ("ports", Value::list(vec![Value::int64(80), Value::int64(443)])),
        ("labels", Value::map([("a", Value::str("1")), ("b", Value::str("2"))])),
    ])
}

fn options() -> Options {
    Options::new()
        .delimiters("<<", ">>")
        .missing_key(MissingKey::Error)
        .functions(sprig::functions().with_supplied("inputs"))
}

fn parse(text: &str) -> Result<Template, Error> {
    Template::parse_with("resources", text, &options())
}

fn execute(template: &Template, inputs: &Value) -> Result<Vec<u8>, Error> {
    template.execute_with(&Value::Nil, &[("inputs", inputs)])
}

fn render(text: &str) -> Result<String, Error> {
    Ok(String::from_utf8(render_bytes(text)?).expect("UTF-8"))
}

fn render_bytes(text: &str) -> Result<Vec<u8>, Error> {
    execute(&parse(text)?, &inputs())
}

/// Checks that a template exceeds a limit: its error ends with these words.
fn check_limit(text: &str, words: &str) {
    let limits = Limits {
        steps: 10_000,
        bytes: 100_000,
    };
    let template = Template::parse_with("resources", text, &options().limits(limits)).expect("a template");
    let error = execute(&template, &inputs()).expect_err("a limit");
    assert!(error.reason().ends_with(words), "{error}");
}

#[test]
fn a_supplied_function_needs_a_result() {
    let options = Options::new().functions(Functions::new().with_supplied("release"));
    let template = Template::parse_with("t", "{{ release }}", &options).expect("a template");
    let error = template.execute(&Value::Nil).expect_err("no result");
    assert_eq!(
        error.to_string(),
        r#"template: t:1:3: executing "t" at <release>: error calling release: no result was supplied"#
    );
}

#[test]
fn a_template_renders_any_number_of_times() {
    let template = parse("<< inputs.name >>=<< range inputs.ports >><< . >>,<< end >>").expect("a template");
    for _ in 0..2 {
        assert_eq!(execute(&template, &inputs()), Ok(b"web=80,443,".to_vec()));
    }
}

#[test]
fn a_change_of_a_supplied_value_lasts() {
    let inputs = inputs();
    let template = parse("<< $_ := set inputs \"n\" (add1 (get inputs \"n\")) >><< inputs.n >>").expect("a template");
    assert_eq!(execute(&template, &inputs), Ok(b"1".to_vec()));
    assert_eq!(execute(&template, &inputs), Ok(b"2".to_vec()));
}

#[test]
fn templates_and_errors_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Template>();
    check::<Error>();
    check::<Options>();
}

#[test]
fn errors_know_their_line_and_reason() {
    let error = render("a\nb: << inputs.nope >>\n").expect_err("no such key");
    assert_eq!(error.line(), 2);
    assert_eq!(
        error.reason(),
        r#"executing "resources" at <inputs>: map has no entry for key "nope""#
    );
    assert_eq!(
        error.to_string(),
        format!("template: resources:2:6: {}", error.reason())
    );

    let error = render("a\n\n<< if true >>").expect_err("no end");
    assert_eq!((error.line(), error.reason()), (3, "unexpected EOF"));
    assert_eq!(error.to_string(), "template: resources:3: unexpected EOF");
}

#[test]
fn parentheses_nest_up_to_a_limit() {
    let nested = |depth| format!("<< {}1{} >>", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(render(&nested(100)).as_deref(), Ok("1"));
    assert_eq!(
        render(&nested(101)).map_err(|error| error.to_string()),
        Err("template: resources:1: max expression depth exceeded".to_owned())
    );
    assert!(render(&"<< (".repeat(100_000)).is_err());
}

/// Renders on a small stack.
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
fn control_structures_nest_without_a_limit() {
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
fn endless_loops_are_stopped() {
    const WORDS: &str = ": exceeded maximum work (10000 steps)";
    check_limit("<< range 9223372036854775807 >><< end >>", WORDS);
    check_limit(
        "<< range 300 >><< range 300 >><< if . >><< end >><< end >><< end >>",
        WORDS,
    );
    let doubling = (1..40).fold("<< define \"0\" >>x<< end >>".to_owned(), |text, n| {
        let call = format!("<< template \"{}\" >>", n - 1);
        format!("{text}<< define \"{n}\" >>{call}{call}<< end >>")
    });
    check_limit(&format!("{doubling}<< template \"39\" >>"), WORDS);
    let variables = format!("{}{}", "<< $x := 1 >>".repeat(1_000), "<< $ >>".repeat(1_000));
    check_limit(&variables, WORDS);
    check_limit(
        "<< $l := until 2000 >><< range 1000 >><< $_ := has 1 $l >><< end >>",
        WORDS,
    );
}

#[test]
fn output_and_results_are_limited() {
    const WORDS: &str = ": exceeded maximum memory (100000 bytes)";
    check_limit("<< $x := repeat 1000 \"x\" >><< range 1000 >><< $x >><< end >>", WORDS);
    check_limit("<< range 1000 >><< $_ := repeat 1000 \"x\" >><< end >>", WORDS);
    check_limit(
        "<< $x := list 1 >><< range 40 >><< $x = concat $x $x >><< end >>",
        WORDS,
    );
}

/// Pieces that templates consist of, and pieces that break them.
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
    fn no_text_causes_a_panic(text in "\\PC*|(<<|>>|[ -~\n])*") {
        let _ = render_bytes(&text);
    }

    #[test]
    fn no_combination_of_pieces_causes_a_panic(text in pieces()) {
        let _ = render_bytes(&text);
    }
}

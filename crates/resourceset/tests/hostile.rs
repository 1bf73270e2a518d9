//! Hostile documents: every file gives a text or an error, without a panic and within limits.

use proptest::prelude::*;
use resourceset::offline::{self, Offline};
use resourceset::{ErrorKind, ResourceSet};
use serde_json::json;

fn build(resource_set: &[u8], inputs: Option<&[u8]>, providers: Option<&[u8]>) -> Result<String, String> {
    let offline = Offline {
        resource_set,
        inputs,
        providers,
        namespace: "default",
    };
    offline::build(&offline).map_err(|error| error.to_string())
}

fn set(spec: &str) -> String {
    format!("metadata: {{name: a}}\nspec:\n{spec}")
}

/// Renders a text as the template of a ResourceSet.
fn rendering(text: &str) -> Result<String, String> {
    build(
        set(&format!("  resourcesTemplate: {}", json!(text))).as_bytes(),
        None,
        None,
    )
}

/// Pieces that YAML, templates and JSON consist of, and pieces that break them.
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
            "<<",
            ">>",
            "<<: *x\n",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "1e400",
            ".inf",
            "0x",
            "\r\n",
            "kind: A\n",
            "apiVersion: v1\n",
            "metadata: {name: a}\n",
            "<< inputs >>",
            "<< range until 9 >>x<< end >>",
            "items: []\n",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_result_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = build(&bytes, Some(&bytes), Some(&bytes));
        let _ = build(set("  inputs: [{a: 1}]").as_bytes(), Some(&bytes), Some(&bytes));
    }

    #[test]
    fn any_text_gives_a_result_or_an_error(text in pieces()) {
        let _ = build(text.as_bytes(), Some(text.as_bytes()), Some(text.as_bytes()));
        let _ = rendering(&text);
    }

    #[test]
    fn what_is_rendered_is_read_back_as_it_was(value in "[ -~\u{a0}-\u{ff}\n😀]{0,200}") {
        let set = json!({"metadata": {"name": "a"}, "spec": {"inputs": [{"value": value}], "resourcesTemplate":
            "apiVersion: v1\nkind: A\nmetadata: {name: a}\nvalue: << inputs.value | toJson >>\n"}});
        let set = ResourceSet::from_json(&set).expect("a ResourceSet");
        let steps = set.render(&set.combine(Vec::new()).expect("inputs")).expect("objects");
        prop_assert_eq!(&steps[0].objects[0]["value"], &json!(value));
        let printed = build(json!({"metadata": {"name": "b"}, "spec": {"resourcesTemplate":
            offline::build(&Offline { resource_set: set_text(&value).as_bytes(), inputs: None, providers: None, namespace: "n" })
                .expect("a text")}}).to_string().as_bytes(), None, None);
        // Printed text that contains an action is a template again.
        if !value.contains("<<") {
            prop_assert!(printed.is_ok(), "{printed:?}");
        }
    }
}

fn set_text(value: &str) -> String {
    json!({"metadata": {"name": "a"}, "spec": {"inputs": [{"value": value}], "resourcesTemplate":
        "apiVersion: v1\nkind: A\nmetadata: {name: a}\nvalue: << inputs.value | toJson >>\n"}})
    .to_string()
}

#[test]
fn nesting_is_limited_and_needs_no_stack() {
    for depth in [400, 5_000, 9_999, 100_000] {
        for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("{\"kind\":", "}"), ("? ", "")] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let _ = build(text.as_bytes(), Some(text.as_bytes()), Some(text.as_bytes()));
            let _ = rendering(&text);
        }
    }
    let text = "[".repeat(10_001);
    let error = build(text.as_bytes(), None, None).expect_err("too deep for Go");
    assert!(error.ends_with("yaml: exceeded max depth of 10000"), "{error}");
}

#[test]
fn an_error_of_a_template_has_its_line_and_reason() {
    let set = set("  resourcesTemplate: \"a: b\\n\\nc: << .nope.x >>\"\n");
    let set = ResourceSet::parse(set.as_bytes()).expect("a ResourceSet");
    let error = set
        .render(&set.combine(Vec::new()).expect("inputs"))
        .expect_err("no such field");
    assert_eq!((error.kind(), error.line()), (ErrorKind::Execute, Some(3)));
    assert!(
        error
            .to_string()
            .starts_with("failed to build resource: failed to execute multi-doc YAML template: template: ")
    );
    assert!(
        error.to_string().ends_with(error.reason()),
        "{} in {error}",
        error.reason()
    );
}

#[test]
fn the_library_follows_the_controller() {
    let set = set(
        "  inputsFrom: [{name: p}]\n  resources: [{apiVersion: v1, kind: A, metadata: {name: \"<< inputs.id >>\"}}]\n",
    );
    let set = ResourceSet::parse(set.as_bytes())
        .expect("a ResourceSet")
        .or_namespace("n");
    assert_eq!(set.provider_name(), Some("p"));
    assert_eq!(
        set.render_inputs(Vec::new()),
        Ok(Vec::new()),
        "no inputs, no objects, no error"
    );

    let input = |id: &str| json!({"id": id}).as_object().cloned().unwrap_or_default();
    let objects = set.render_inputs(vec![input("a"), input("b")]).expect("objects");
    let names: Vec<_> = objects.iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b"]);

    let disabled = set_disabled();
    assert_eq!(disabled.render_inputs(vec![input("a")]), Ok(Vec::new()));
}

fn set_disabled() -> ResourceSet {
    let resource =
        "{apiVersion: v1, kind: A, metadata: {name: a, annotations: {fluxcd.controlplane.io/reconcile: disabled}}}";
    let text = set(&format!("  inputsFrom: [{{name: p}}]\n  resources: [{resource}]\n"));
    ResourceSet::parse(text.as_bytes()).expect("a ResourceSet")
}

#[test]
fn a_resource_set_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<ResourceSet>();
    shared::<resourceset::Inputs>();
    shared::<resourceset::Error>();
}

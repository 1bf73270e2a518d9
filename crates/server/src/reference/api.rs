//! The reference of the API, from its OpenAPI document.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{cell, warning};

const INTRODUCTION: &str = "
What a server in `crud` mode serves, with the built-in kinds; in `read-only` mode it is what stands under [flux](#flux) and
[service](#service). A kind that is added has the same routes as `namespaces`, at once. The server describes itself at
`GET /openapi.yaml`, with the kinds that it has; `flux-resourceset openapi` prints the same for the built-in ones.

- **Tokens** go as `Authorization: Bearer …`. Where the tables say *read*, a token that writes will do, too.
- **Bodies** are JSON, or YAML with `Content-Type: application/yaml` where it is listed. What is unknown in a document is refused.
- **Lists** are plain arrays, sorted by id. `X-Total-Count` says how many there are, whatever `limit` says.
- **Versions** are in `ETag`. `If-None-Match` gives 304, `If-Match` on a write 412 when it is stale.
- **Errors** are [problems](#problems) (`application/problem+json`, RFC 9457).
- **Who and which:** replies other than polls have `X-Request-Id`, which is in the log, too, and `X-Actor`, the name of the token.
";

const PROBLEMS: [(&str, &str, &str); 20] = [
    (
        "bad-request",
        "400",
        "The request cannot be read: syntax, parameters, a selector.",
    ),
    ("unauthorized", "401", "No token, or one that is not known."),
    ("forbidden", "403", "A good token without the right."),
    ("not-found", "404", "No such resource, route, revision or DNS name."),
    ("method-not-allowed", "405", "`Allow` has what means something here."),
    ("timeout", "408", "The body did not arrive in time."),
    ("exists", "409", "The id is taken, or a cluster's DNS name."),
    (
        "in-use",
        "409",
        "Clusters or other definitions refer to it; `clusters` and `resources` name them.",
    ),
    (
        "conflict",
        "409",
        "An undo of what has changed since; `resources` names it.",
    ),
    (
        "protected",
        "409",
        "A protected cluster would be deleted, give up its DNS name, or a list of its inputs become empty.",
    ),
    (
        "removal-budget",
        "409",
        "More clusters would lose something than may without a word; `removals` has the numbers.",
    ),
    ("compacted", "410", "Some of these revisions are no longer kept."),
    (
        "stale",
        "412",
        "`If-Match` names a version that is not the current one.",
    ),
    (
        "plan-changed",
        "412",
        "`If-Plan-Match` names a plan, and the write would do something else.",
    ),
    ("too-large", "413", "The body is too large."),
    (
        "unsupported-media-type",
        "415",
        "A content type that is not known here.",
    ),
    (
        "invalid",
        "422",
        "The document is read, and wrong; `errors` has each place and reason.",
    ),
    (
        "contract",
        "422",
        "Some cluster's reply would be one that Flux refuses or cuts off. (500 where such a reply is already stored.)",
    ),
    ("internal", "500", "A mistake of ours; the log has more."),
    (
        "unavailable",
        "503",
        "The store cannot be reached, or the fleet is still being read. `Retry-After` says when to try again.",
    ),
];

/// One route with one method.
struct Route<'a> {
    method: &'a str,
    path: &'a str,
    operation: &'a Value,
}

impl Route<'_> {
    fn tag(&self) -> &str {
        self.operation["tags"][0].as_str().unwrap_or_default()
    }

    fn summary(&self) -> &str {
        self.operation["summary"].as_str().unwrap_or_default()
    }

    /// Which token it takes: read, write or none.
    fn token(&self) -> &str {
        let schemes = self.operation["security"][0].as_object();
        schemes
            .and_then(|schemes| schemes.keys().next())
            .map_or("none", String::as_str)
    }

    fn heading(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    fn parameters(&self) -> &[Value] {
        self.operation["parameters"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The problems: status and description.
    fn problems(&self) -> Vec<(&str, &str)> {
        let responses = self.operation["responses"].as_object().into_iter().flatten();
        let problems = responses.filter(|(_, response)| response["content"].get("application/problem+json").is_some());
        problems
            .map(|(status, response)| (status.as_str(), description(response)))
            .collect()
    }

    /// Whether it changes something, and so takes what every write takes.
    fn writes(&self) -> bool {
        self.method != "get"
    }
}

fn description(value: &Value) -> &str {
    value["description"].as_str().unwrap_or_default()
}

/// The page, from the document of the `crud` mode.
pub fn page(document: &Value) -> String {
    let mut routes: Vec<Route<'_>> = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for method in ["get", "post", "put", "patch", "delete"] {
            if let Some(operation) = methods.get(method) {
                routes.push(Route {
                    method,
                    path,
                    operation,
                });
            }
        }
    }
    let mut out = format!(
        "# API reference\n\n{}{INTRODUCTION}",
        warning("crates/server/src/http/openapi.rs and resources/")
    );
    overview(document, &routes, &mut out);
    let every = Every::of(&routes);
    every.write(&mut out);
    for tag in tags(document) {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = write!(out, "\n## {name}\n\n{}\n", description(&tag));
        for route in routes.iter().filter(|route| route.tag() == name) {
            section(route, &every, document, &mut out);
        }
    }
    schemas(document, &mut out);
    out.push_str("\n## Problems\n\nThe last part of `type`, which is `/problems/NAME`:\n\n| name | status | when |\n|---|---|---|\n");
    for (name, status, when) in PROBLEMS {
        let _ = writeln!(out, "| `{name}` | {status} | {when} |");
    }
    if let Some(example) = document["components"]["schemas"]["problem"].get("example") {
        out.push('\n');
        fenced(example, &mut out);
    }
    out
}

fn tags(document: &Value) -> Vec<Value> {
    document["tags"].as_array().cloned().unwrap_or_default()
}

/// Every route in one table.
fn overview(document: &Value, routes: &[Route<'_>], out: &mut String) {
    out.push_str("\n## Routes\n\n| route | token | |\n|---|---|---|\n");
    for tag in tags(document) {
        for route in routes.iter().filter(|route| tag["name"] == route.tag()) {
            let heading = route.heading();
            let _ = writeln!(
                out,
                "| [`{heading}`](#{}) | {} | {} |",
                anchor(&heading),
                route.token(),
                cell(route.summary())
            );
        }
    }
}

/// The anchor that mdBook and GitHub give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().replace(' ', "-")
}

/// What all reads, and all writes, have in common: said once.
struct Every {
    parameters: Vec<Value>,
    writes: Vec<(String, String)>,
}

impl Every {
    fn of(routes: &[Route<'_>]) -> Every {
        let writes: Vec<&Route<'_>> = routes.iter().filter(|route| route.writes()).collect();
        let parameters = writes.first().map_or(&[][..], |route| route.parameters());
        let shared = |parameter: &&Value| writes.iter().all(|route| route.parameters().contains(parameter));
        let problems = writes.first().map(|route| route.problems()).unwrap_or_default();
        let common = |problem: &(&str, &str)| writes.iter().all(|route| route.problems().contains(problem));
        Every {
            parameters: parameters.iter().filter(shared).cloned().collect(),
            writes: problems
                .into_iter()
                .filter(common)
                .map(|(status, why)| (status.to_owned(), why.to_owned()))
                .collect(),
        }
    }

    fn write(&self, out: &mut String) {
        out.push_str("\n## Every write\n\nPOST, PUT, PATCH and DELETE take these beside their own parameters:\n\n");
        parameters(self.parameters.iter(), out);
        out.push_str("\nand may answer, beside their own problems:\n\n| status | |\n|---|---|\n");
        for (status, why) in &self.writes {
            let _ = writeln!(out, "| {status} | {} |", cell(why));
        }
    }

    fn has_problem(&self, route: &Route<'_>, problem: (&str, &str)) -> bool {
        let known = |(status, why): &(String, String)| (status.as_str(), why.as_str()) == problem;
        route.writes() && self.writes.iter().any(known) || problem.0 == "401"
    }
}

fn parameters<'a>(list: impl Iterator<Item = &'a Value>, out: &mut String) {
    out.push_str("| parameter | in | type | |\n|---|---|---|---|\n");
    for parameter in list {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            parameter["name"].as_str().unwrap_or_default(),
            parameter["in"].as_str().unwrap_or_default(),
            cell(&type_of(&parameter["schema"])),
            cell(description(parameter))
        );
    }
}

fn section(route: &Route<'_>, every: &Every, document: &Value, out: &mut String) {
    let token = match route.token() {
        "none" => "No token.".to_owned(),
        token => format!("Token: {token}."),
    };
    let _ = write!(out, "\n### `{}`\n\n{} {token}\n", route.heading(), route.summary());
    let own: Vec<&Value> = route
        .parameters()
        .iter()
        .filter(|parameter| !route.writes() || !every.parameters.contains(parameter))
        .collect();
    if !own.is_empty() {
        out.push('\n');
        parameters(own.into_iter(), out);
    }
    if let Some(content) = route.operation["requestBody"]["content"].as_object() {
        body(content, document, out);
    }
    out.push_str("\n| status | reply |\n|---|---|\n");
    let mut shown = None;
    for (status, response) in route.operation["responses"].as_object().into_iter().flatten() {
        if every.has_problem(route, (status, description(response))) {
            continue;
        }
        let schema = &response["content"]["application/json"]["schema"];
        let mut reply = description(response).to_owned();
        if !schema.is_null() {
            let name = type_of(schema);
            if name.contains("](#") {
                let _ = write!(reply, " {}", capital(&name));
            }
            shown = shown.or(Some(schema));
        }
        let forms: Vec<&str> = response["content"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(form, _)| form.as_str())
            .collect();
        if forms
            .iter()
            .any(|form| !matches!(*form, "application/json" | "application/problem+json"))
        {
            let _ = write!(reply, " (`{}`)", forms.join("`, `"));
        }
        let _ = writeln!(out, "| {status} | {} |", cell(&reply));
    }
    // Polls are the heart of it: they are shown as they look.
    if let (Some(schema), true) = (shown, route.path.starts_with("/api/v2/flux/")) {
        out.push('\n');
        fenced(&example(schema, document), out);
    }
}

fn capital(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_lowercase());
    match text.split_at_checked(1) {
        Some((first, rest)) if plain => format!("{}{rest}.", first.to_uppercase()),
        _ => format!("{text}."),
    }
}

fn fenced(value: &Value, out: &mut String) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let _ = write!(out, "```json\n{text}\n```\n");
}

fn body(content: &Map<String, Value>, document: &Value, out: &mut String) {
    let schemas: BTreeSet<String> = content.values().map(|form| form["schema"].to_string()).collect();
    out.push('\n');
    if schemas.len() == 1 {
        let forms: Vec<String> = content.keys().map(|form| format!("`{form}`")).collect();
        let schema = content.values().next().map_or(&Value::Null, |form| &form["schema"]);
        let name = if schema.get("$ref").is_some() {
            format!(", {}", type_of(schema))
        } else {
            String::new()
        };
        let _ = write!(out, "Body ({}){name}:\n\n", forms.join(", "));
        if schema.get("$ref").is_none() && schema["properties"].is_object() {
            fields(schema, out);
            if let Some(example) = schema.get("example") {
                out.push('\n');
                fenced(example, out);
            }
            return;
        }
        fenced(&example(schema, document), out);
        return;
    }
    out.push_str("Body, by its content type:\n\n| content type | |\n|---|---|\n");
    for (form, schema) in content {
        let _ = writeln!(out, "| `{form}` | {} |", cell(description(&schema["schema"])));
    }
}

fn schemas(document: &Value, out: &mut String) {
    out.push_str("\n## Schemas\n");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(out, "\n### {name}\n\n");
        if !description(schema).is_empty() {
            let _ = write!(out, "{}\n\n", description(schema));
        }
        fields(schema, out);
    }
}

/// The fields of an object, and of the objects within.
fn fields(schema: &Value, out: &mut String) {
    out.push_str("| field | type | |\n|---|---|---|\n");
    rows(schema, "", 0, out);
}

fn rows(schema: &Value, prefix: &str, depth: usize, out: &mut String) {
    let required = schema["required"].as_array();
    let must = |name: &String| required.is_some_and(|required| required.contains(&json!(name)));
    let mut fields: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
    fields.sort_by_key(|(name, _)| (*name != "id", !must(name)));
    for (name, field) in fields {
        let path = format!("{prefix}{name}");
        let must = must(name);
        let mark = if must && depth == 0 { " (required)" } else { "" };
        let text = [description(field).to_owned(), limits(field)];
        let text: Vec<&str> = text
            .iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        let _ = writeln!(
            out,
            "| `{path}`{mark} | {} | {} |",
            cell(&type_of(field)),
            cell(&text.join(" "))
        );
        if depth < 3 {
            rows(field, &format!("{path}."), depth + 1, out);
            rows(&field["items"], &format!("{path}[]."), depth + 1, out);
            rows(&field["additionalProperties"], &format!("{path}.*."), depth + 1, out);
        }
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{name})");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", plain(value))).collect();
        return values.join(", ");
    }
    match schema["type"].as_str() {
        Some("array") => format!("array of {}", type_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&schema["additionalProperties"]))
        }
        Some(name) => name.to_owned(),
        None => {
            let options = [("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")];
            let found = options
                .iter()
                .find_map(|(key, word)| Some((schema[*key].as_array()?, word)));
            let Some((options, word)) = found else {
                return "anything".to_owned();
            };
            let mut names: Vec<String> = options.iter().map(type_of).collect();
            names.dedup();
            names.join(word)
        }
    }
}

fn plain(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => value.to_string(),
    }
}

/// What else is said about a value. Patterns are in the OpenAPI document.
fn limits(schema: &Value) -> String {
    let mut said = Vec::new();
    if let Some(value) = schema.get("default") {
        said.push(format!("Default `{value}`."));
    }
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => said.push(format!("{least} to {most}.")),
        (Some(least), None) => said.push(format!("At least {least}.")),
        (None, Some(most)) => said.push(format!("At most {most}.")),
        (None, None) => {}
    }
    for (key, what) in [
        ("maxLength", "characters"),
        ("maxItems", "items"),
        ("maxProperties", "members"),
    ] {
        if let Some(most) = schema.get(key) {
            said.push(format!("At most {most} {what}."));
        }
    }
    if schema["nullable"] == true {
        said.push("May be null.".to_owned());
    }
    said.join(" ")
}

/// A value that the schema takes, of the examples and defaults that it has.
fn example(schema: &Value, document: &Value) -> Value {
    if let Some(target) = schema["$ref"].as_str() {
        let schema = document.pointer(target.trim_start_matches('#'));
        return schema.map_or(Value::Null, |schema| example(schema, document));
    }
    if let Some(value) = schema.get("example").or_else(|| schema.get("default")) {
        return value.clone();
    }
    if let Some(value) = schema["enum"].get(0) {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("array") => json!([example(&schema["items"], document)]),
        Some("object") => {
            let required = schema["required"].as_array();
            let fields = schema["properties"].as_object().into_iter().flatten();
            let told = fields.filter(|(name, field)| {
                let must = required.is_some_and(|required| required.contains(&json!(name)));
                let known = field.get("example").or_else(|| field.get("default")).is_some();
                must || known || field.get("items").is_some() || field["properties"].is_object()
            });
            told.map(|(name, field)| (name.clone(), example(field, document)))
                .collect::<Map<_, _>>()
                .into()
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some(_) => json!("…"),
        None => {
            let first = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema[*key].get(0));
            first.map_or(json!("…"), |first| example(first, document))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_listed() {
        let source = include_str!("../http/problem.rs");
        let listed: BTreeSet<&str> = PROBLEMS.iter().map(|(name, ..)| *name).collect();
        for name in &listed {
            assert!(source.contains(&format!("\"{name}\"")), "{name} is never answered");
        }
        // The names: what stands behind a reason, and behind a status.
        let mut found = 0;
        let mut words = source.split('"');
        while let (Some(before), Some(word)) = (words.next(), words.next()) {
            let before = before.trim_end();
            let reason = before.ends_with("=>") && before.contains("Reason::");
            let name = before.rsplit_once("StatusCode::").map(|(_, name)| name);
            let status = name.is_some_and(|name| name.ends_with(',') && name.len() < 40);
            if (reason || status) && !word.contains(' ') {
                assert!(listed.contains(word), "{word} is missing");
                found += 1;
            }
        }
        assert!(found >= listed.len(), "{found} names found in problem.rs");
    }
}

//! The reference of the API, from its OpenAPI document.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{cell, warning};
use crate::http::problem_type::ProblemType;

const INTRODUCTION: &str = "
The routes of a server in `crud` mode with the built-in kinds. A server in `read-only` mode has those under [flux](#flux) and
[service](#service). A kind that you add gets the same routes as `namespaces` at once. `GET /openapi.yaml` describes the kinds
that the server has; `flux-resourceset openapi` prints the same document for the built-in kinds.

- **Tokens** are sent as `Authorization: Bearer …`. Where the tables say *read*, a token that can write is accepted, too.
- **Bodies** are JSON, or YAML with `Content-Type: application/yaml` where it is listed. Unknown fields of a document are refused.
- **Lists** are arrays, sorted by id. `X-Total-Count` says how many items there are on all pages.
- **Versions** are in `ETag`. A read with a current `If-None-Match` gets 304, a write with a stale `If-Match` gets 412.
- **Errors** are [problems](#problems) (`application/problem+json`, RFC 9457).
- **Requests** other than polls get `X-Request-Id`, which is in the log, too, and `X-Actor`, the name of the token.
";

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

    /// The right that its token needs: read, write or none.
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

    /// The problems that it can return: status and description.
    fn problems(&self) -> Vec<(&str, &str)> {
        let responses = self.operation["responses"].as_object().into_iter().flatten();
        let problems = responses.filter(|(_, response)| response["content"].get("application/problem+json").is_some());
        problems
            .map(|(status, response)| (status.as_str(), description(response)))
            .collect()
    }

    /// Whether it is a write, with the parameters that all writes have.
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
        warning("crates/server/src/http/openapi/ and resources/")
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
    for problem in ProblemType::ALL {
        let (name, status, when) = (problem.name(), problem.status().as_u16(), problem.description());
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

/// What all writes have in common. It is written once.
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
        out.push_str("\n## Every write\n\nPOST, PUT, PATCH and DELETE have these parameters besides their own:\n\n");
        parameters(self.parameters.iter(), out);
        for parameter in &self.parameters {
            let more = parameter["x-more-parameters"].as_array().map_or(&[][..], Vec::as_slice);
            if !more.is_empty() {
                let name = parameter["name"].as_str().unwrap_or_default();
                let _ = write!(out, "\nWith `{name}`:\n\n");
                parameters(more.iter(), out);
            }
        }
        out.push_str("\nThey can return these problems besides their own:\n\n| status | |\n|---|---|\n");
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
            parameter["in"].as_str().unwrap_or("query"),
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
    let shown = responses(route, every, out);
    // Polls are what clusters depend on: show an example.
    if let (Some(schema), true) = (shown, route.path.starts_with("/api/v2/flux/")) {
        out.push('\n');
        fenced(&example(schema, document), out);
    }
}

/// Writes the table of responses, and returns the schema of the first that has one.
fn responses<'a>(route: &'a Route<'_>, every: &Every, out: &mut String) -> Option<&'a Value> {
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
        let forms = response["content"].as_object().into_iter().flatten();
        let forms: Vec<&str> = forms.map(|(form, _)| form.as_str()).collect();
        let usual = |form: &&str| matches!(*form, "application/json" | "application/problem+json");
        if !forms.iter().all(usual) {
            let _ = write!(reply, " (`{}`)", forms.join("`, `"));
        }
        let _ = writeln!(out, "| {status} | {} |", cell(&reply));
    }
    shown
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
        if let Some(options) = schema["oneOf"].as_array() {
            for option in options {
                let _ = write!(out, "{}\n\n", description(option));
                fields(option, out);
                out.push('\n');
            }
            fenced(&example(schema, document), out);
            return;
        }
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
        match schema["oneOf"].as_array() {
            Some(_) => {
                let _ = writeln!(out, "{}.", type_of(schema));
            }
            None => fields(schema, out),
        }
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
    if let Some(types) = schema["x-types"].as_array() {
        let names: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
        return names.join(" or ");
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

/// The bounds of a value. Patterns are in the OpenAPI document only.
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

/// A value that matches the schema, made of its examples and defaults.
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

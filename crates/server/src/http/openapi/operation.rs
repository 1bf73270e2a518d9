//! Builds the description of one operation.

use serde_json::{Map, Value, json};

use super::convert::to_openapi;
use super::schemas::{flag, number, reference};
use crate::auth::Right;
use crate::http::observe::MOST_REASON;

/// The parameter `changes` of plans and differences.
const CHANGES: &str =
    "The most changed documents to show, and the most ids in every other list of clusters. Totals count all.";

/// The description of one operation.
#[derive(Debug)]
pub struct Operation {
    tag: String,
    id: String,
    summary: String,
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: Map<String, Value>,
}

impl Operation {
    pub fn new(tag: &str, id: impl Into<String>, summary: impl Into<String>) -> Self {
        Operation {
            tag: tag.to_owned(),
            id: id.into(),
            summary: summary.into(),
            parameters: Vec::new(),
            body: None,
            responses: Map::new(),
        }
    }

    /// Adds what all writes have in common.
    pub fn writes(self) -> Self {
        let plan = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
        self.dry_run_parameter()
            .reason()
            .header(
                "If-Plan-Match",
                "Write only if the effect is still the one of this plan.",
                plan,
            )
            .header(
                "X-Confirm-Removals",
                "The number of clusters that may lose something. The removal budget asks for it.",
                number(0),
            )
            .header(
                "X-Confirm-Demotions",
                "The number of clusters that may leave a wave that a rollout promoted.",
                number(0),
            )
            .header(
                "X-Override-Guard",
                "The guards to override, with commas. Only for an admin, and only with a reason.",
                json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(,[a-z0-9]([-a-z0-9.]*[a-z0-9])?)*$"}),
            )
            .problem(400, "The request cannot be parsed.")
            .problem(
                409,
                "A guard allows less, more clusters would lose something than was confirmed, or one is protected.",
            )
            .problem(412, "The plan is out of date: the effect has changed.")
            .problem(422, "A guard to override does not exist.")
            .problem(503, "The store is unavailable.")
    }

    /// The header with the reason of a write.
    pub fn reason(self) -> Self {
        let reason = json!({"type": "string", "maxLength": MOST_REASON, "pattern": "^[ -~]*$"});
        self.header("X-Change-Reason", "Why; kept in the log.", reason)
    }

    /// `limit`, `offset`, `changes` and `manifests` are known only with `dry_run`. OpenAPI has no parameters that depend on another one,
    /// so they are listed in an extension.
    fn dry_run_parameter(mut self) -> Self {
        let description = "Return the plan of the write, and change nothing. With `dry_run`, four more parameters are known: \
            `limit` and `offset` select the clusters that the plan shows, `changes` limits how many documents it shows, and \
            `manifests` adds the Kubernetes objects that would change, of at most 100 clusters.";
        let mut parameter = query("dry_run", description, flag());
        parameter["x-more-parameters"] = json!([
            {"name": "limit", "description": "The most clusters to show.", "schema": number(1)},
            {"name": "offset", "description": "How many clusters to skip.", "schema": number(0)},
            {"name": "changes", "description": CHANGES, "schema": number(0)},
            {"name": "manifests", "description": "Also show Kubernetes objects.", "schema": flag()},
        ]);
        self.parameters.push(parameter);
        self
    }

    pub fn path(mut self, name: &str, description: &str) -> Self {
        self.parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"},
        }));
        self
    }

    pub fn query(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters.push(query(name, description, schema));
        self
    }

    pub fn required_query(mut self, name: &str, description: &str, schema: Value) -> Self {
        let mut parameter = query(name, description, schema);
        parameter["required"] = true.into();
        self.parameters.push(parameter);
        self
    }

    pub fn header(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters
            .push(json!({"name": name, "in": "header", "description": description, "schema": schema}));
        self
    }

    pub fn paged(self) -> Self {
        self.query("limit", "The most items to return.", number(1))
            .query("offset", "How many items to skip.", number(0))
            .bad_parameters()
    }

    /// How many of the documents of a difference are listed.
    pub fn listed_changes(self) -> Self {
        self.query("changes", CHANGES, number(0))
    }

    pub fn at_revision(self) -> Self {
        self.query("revision", "As it was at this revision.", number(0))
            .bad_parameters()
            .compacted()
    }

    pub fn if_match(self) -> Self {
        self.header(
            "If-Match",
            "Write only if the resource still has this version (its ETag).",
            json!({"type": "string"}),
        )
        .problem(412, "The version in If-Match is stale, or the plan is out of date.")
    }

    /// The body in one form for each media type.
    pub fn body(mut self, content: &[(&str, Value)]) -> Self {
        self.body = Some(json!({"required": true, "content": media_types(content)}));
        self.problem(413, "The body is too large.")
            .problem(415, "The content type is not supported here.")
            .problem(422, "The document is not valid; each error has its pointer.")
    }

    /// A body as JSON or YAML.
    pub fn document_body(self, schema: Value) -> Self {
        self.body(&[("application/json", schema.clone()), ("application/yaml", schema)])
    }

    pub fn answer(self, status: u16, description: &str, schema: Value) -> Self {
        self.answers(status, description, &[("application/json", schema)])
    }

    /// A reply in one form for each media type.
    pub fn answers(self, status: u16, description: &str, content: &[(&str, Value)]) -> Self {
        self.response(
            status,
            json!({"description": description, "content": media_types(content)}),
        )
    }

    pub fn answer_plain(self, status: u16, description: &str) -> Self {
        self.response(status, json!({"description": description}))
    }

    /// The reply to a dry run, for writes that otherwise reply with another status.
    pub fn dry_run(self) -> Self {
        self.answer(200, "The plan of a dry run.", reference("dry_run"))
    }

    /// The reply to a create, and to its dry run. Generated clients read both as the type of 200, so that one has both.
    pub fn created(self, schema: Value) -> Self {
        self.answer(201, "Created.", schema.clone())
            .answer(200, "The plan of a dry run.", or_dry_run(schema))
    }

    pub fn not_modified(self) -> Self {
        self.answer_plain(304, "If-None-Match names the current version.")
    }

    pub fn problem(self, status: u16, description: &str) -> Self {
        let content = [("application/problem+json", reference("problem"))];
        self.answers(status, description, &content)
    }

    pub fn bad_parameters(self) -> Self {
        self.problem(400, "A parameter is unknown, or has a value that is not allowed.")
    }

    pub fn bad_selector(self) -> Self {
        self.problem(
            422,
            "The selector has a key that is neither a field of clusters nor a label of one.",
        )
    }

    pub fn compacted(self) -> Self {
        self.problem(410, "Some of these revisions were compacted and are no longer kept.")
    }

    pub fn late(self) -> Self {
        self.problem(
            503,
            "The read took longer than 30 s, or waited as long for others: try again, or ask for less.",
        )
    }

    pub fn unreadable(self) -> Self {
        self.problem(503, "The store is unavailable.")
    }

    fn response(mut self, status: u16, response: Value) -> Self {
        self.responses.insert(status.to_string(), response);
        self
    }

    /// The operation of a route that needs this right.
    pub fn build(self, right: Option<Right>) -> Value {
        let operation = match right {
            None => self,
            Some(_) => self.problem(401, "The token is missing or not valid."),
        };
        let (operation, security) = match right {
            None => (operation, json!([])),
            Some(right) => {
                let scheme = match right {
                    Right::Write | Right::Administer | Right::Copy | Right::Tell => "write",
                    Right::Known | Right::Poll | Right::Read | Right::Follow | Right::Register => "read",
                };
                let roles: Vec<&str> = right.roles().iter().map(|role| role.name()).collect();
                let detail = format!("The token is not one of a role that may do this: {}.", roles.join(", "));
                (operation.problem(403, &detail), json!([{scheme: []}]))
            }
        };
        let mut out = json!({
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "security": security,
            "responses": operation.responses,
        });
        if !operation.parameters.is_empty() {
            out["parameters"] = operation.parameters.into();
        }
        if let Some(body) = operation.body {
            out["requestBody"] = body;
        }
        out
    }
}

/// The reply to a write that otherwise has the same status as a dry run.
pub fn or_dry_run(schema: Value) -> Value {
    json!({"oneOf": [schema, reference("dry_run")]})
}

fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": to_openapi(&schema)})
}

fn media_types(content: &[(&str, Value)]) -> Map<String, Value> {
    let named = content
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), json!({"schema": schema})));
    named.collect()
}

//! A kind of resource, as its one YAML document describes it. Validation, routes, the Flux endpoint, filters and OpenAPI all
//! come from here; adding a kind adds no Rust.

mod cost;
mod names;
mod outline;
mod registry;
pub mod schema;
mod settings;

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use regex::Regex;
use serde_json::{Map, Value, json};

use self::cost::{Cost, Scales};
use self::names::Names;
pub use self::names::{plural, singular};
pub use self::outline::Outline;
pub use self::registry::Kinds;
pub(crate) use self::registry::{Failures, Trust};
pub(crate) use self::settings::unknown_settings;
pub use self::settings::{Flux, Render};
use crate::document::Etag;
use crate::json::Json;
use crate::refusal::{MOST_VIOLATIONS, Violation, segment, shorten};
use crate::yaml;

/// The kind that everything else hangs on.
pub const CLUSTERS: &str = "clusters";
/// Kinds are stored beside the resources, under this name.
pub const KINDS: &str = "kinds";
/// The DNS names of deleted clusters, whose replies are empty from then on.
pub const DECOMMISSIONS: &str = "decommissions";
/// The DNS names that clusters gave up, each with what it was told last.
pub const RELEASED_NAMES: &str = "released_names";

/// The singular of a kind that is about DNS names which no cluster has. Writes to clusters make and end these documents; a
/// request can only delete one.
pub fn name_record(kind: &str) -> Option<&'static str> {
    match kind {
        DECOMMISSIONS => Some("decommission"),
        RELEASED_NAMES => Some("released name"),
        _ => None,
    }
}

/// Names that a kind may not take: they are, or will be, routes of ours.
const RESERVED: [&str; 25] = [
    "api",
    "audit",
    "backup",
    "batch",
    "changes",
    DECOMMISSIONS,
    "diff",
    "docs",
    "events",
    "export",
    "flux",
    "health",
    "import",
    KINDS,
    "metrics",
    "openapi",
    "plan",
    "plans",
    "problems",
    "ready",
    RELEASED_NAMES,
    "restore",
    "revisions",
    "rollback",
    "undo",
];

/// Where the rules for the ids of all kinds stand in the schema that a document is held against.
const COMMON_RULES: &str = "/allOf/1";

/// Properties that an input carries by other means, or that mean something in a file of documents.
const RESERVED_PROPERTIES: [&str; 5] = ["kind", "schema", "cluster", "provider", "_id"];

/// What our code needs of a cluster: taken from the built-in file when a user's file leaves it out.
const CLUSTER_NEEDS: [(&str, &str); 7] = [
    ("id", "string"),
    ("cluster_name", "string"),
    ("cluster_dns", "string"),
    ("environment", "string"),
    ("labels", "object"),
    ("protected", "boolean"),
    ("patches", "object"),
];

/// The files of the four built-in kinds.
pub const BUILT_IN: [&str; 4] = [
    include_str!("../../../../resources/cluster.yaml"),
    include_str!("../../../../resources/platform_component.yaml"),
    include_str!("../../../../resources/namespace.yaml"),
    include_str!("../../../../resources/rolebinding.yaml"),
];

/// The built-in kinds as documents.
pub fn built_in() -> &'static [Value; 4] {
    static PARSED: LazyLock<[Value; 4]> =
        LazyLock::new(|| BUILT_IN.map(|text| yaml::parse(text).expect("built-in kinds parse")));
    &PARSED
}

/// Whether it is one of those, as this release has it.
pub(crate) fn is_built_in(document: &Value) -> bool {
    built_in().contains(document)
}

/// The origin of the built-in kinds of this release.
pub fn built_in_origin() -> Arc<str> {
    static ORIGIN: LazyLock<Arc<str>> = LazyLock::new(|| concat!("built-in:", env!("CARGO_PKG_VERSION")).into());
    ORIGIN.clone()
}

/// A list filter: an equality on one field.
#[derive(Clone, Debug)]
pub struct Filter {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

/// A kind, read and checked.
pub struct Kind {
    /// Its one name: the route, the records, batches, the cluster's array.
    pub name: Arc<str>,
    pub singular: String,
    pub command: String,
    /// The last segment of its Flux endpoint; clusters have none.
    pub path: Option<String>,
    /// The cluster's array of references; clusters have none.
    pub references: Option<String>,
    pub description: String,
    pub descriptions: Value,
    pub filters: Vec<Filter>,
    pub flux: Flux,
    /// The document as it was given.
    pub document: Json,
    pub etag: Etag,
    pub origin: Option<Arc<str>>,
    /// The JSON Schema of its documents.
    pub schema: Value,
    validator: Validator,
    /// The schema of a reference to one of its documents; clusters have none.
    reference: Option<Arc<Value>>,
    /// Whether its schema has parts of other kinds.
    depends: bool,
    cost: OnceLock<Cost>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a kind's document says of its names, before anything else of it is looked at.
pub fn name_of(document: &Value) -> Result<String, Violation> {
    let Some(kind) = document.get("kind").and_then(Value::as_str) else {
        return Err(Violation::new("/kind", "a kind's document names its kind, as a string"));
    };
    let plural = document.pointer("/schema/x-flux/plural").and_then(Value::as_str);
    let name = plural.map_or_else(|| names::plural(kind), str::to_owned);
    if !names::well_formed(kind) || !names::well_formed(&name) {
        return Err(Violation::new(
            "/kind",
            "a kind's name is lower-case letters, digits and underscores, begins with a letter and has at most 63 characters",
        ));
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(Violation::new("/kind", format!("\"{name}\" is a route of this API")));
    }
    Ok(name)
}

/// The schema of one document of a kind, and its pointer: the kind's schema, or that of its items.
fn items_of(schema: &Value) -> (&Value, &'static str) {
    match schema["type"].as_str() {
        Some("array") => (&schema["items"], "/schema/items"),
        _ => (schema, "/schema"),
    }
}

/// A kind's document taken apart, on its own: what can be known without the other kinds.
pub(crate) struct Draft {
    name: String,
    names: Names,
    flux: Flux,
    filters: Vec<Filter>,
    /// The item's schema as given, and where it stands in the document.
    items: Map<String, Value>,
    at: &'static str,
}

impl Draft {
    pub(crate) fn read(document: &Value, trust: Trust) -> Result<Draft, Vec<Violation>> {
        let mut errors = Vec::new();
        if trust == Trust::Given && !is_built_in(document) {
            let mut scales = Scales::new(cost::MOST_WEIGHT);
            scales.settings(document);
            let too_much: Vec<_> = scales.faults.into_iter().chain(scales.too_heavy).collect();
            if !too_much.is_empty() {
                return Err(too_much);
            }
        }
        let name = name_of(document).unwrap_or_else(|error| {
            errors.push(error);
            String::new()
        });
        let given = document["kind"].as_str().unwrap_or_default();
        let schema = &document["schema"];
        let (items, at) = items_of(schema);
        let Value::Object(items) = items else {
            errors.push(Violation::new(
                at,
                "a kind has a schema: an object with `properties`, or an array of those",
            ));
            return Err(errors);
        };
        if items.get("type").is_some_and(|kind| kind != "object") {
            errors.push(Violation::new(format!("{at}/type"), "documents are objects"));
        }
        if !items.get("properties").is_some_and(Value::is_object) {
            errors.push(Violation::new(
                format!("{at}/properties"),
                "a kind lists its properties, as an object",
            ));
        }
        let flux = match schema.get("x-flux") {
            None => Flux::default(),
            Some(flux) => serde_json::from_value(flux.clone()).unwrap_or_else(|error| {
                errors.push(Violation::new("/schema/x-flux", error.to_string()));
                Flux::default()
            }),
        };
        let filters = read_filters(schema, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut draft = Draft {
            names: Names::new(given, &name, &flux),
            flux,
            filters,
            items: items.clone(),
            at,
            name,
        };
        draft.supply();
        draft.check(&mut errors);
        if errors.is_empty() { Ok(draft) } else { Err(errors) }
    }

    fn properties(&self) -> &Map<String, Value> {
        self.items["properties"].as_object().expect("read() saw an object")
    }

    fn is_clusters(&self) -> bool {
        self.name == CLUSTERS
    }

    /// Adds what the loader supplies: the id, and what our code needs of a cluster.
    fn supply(&mut self) {
        let clusters = self.is_clusters();
        let properties = self.items["properties"].as_object_mut().expect("read() saw an object");
        if clusters {
            let shipped = &built_in()[0]["schema"]["items"]["properties"];
            for (name, expected) in CLUSTER_NEEDS {
                let mut property = properties.entry(name).or_insert_with(|| shipped[name].clone());
                if property.get("schema").is_some_and(Value::is_object) {
                    property = &mut property["schema"];
                }
                if let Value::Object(property) = property {
                    property.entry("type").or_insert_with(|| expected.into());
                }
            }
        }
        properties.entry("id").or_insert_with(|| schema::base_id().clone());
        let required = self.items.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            let needed: &[&str] = match clusters {
                true => &["id", "cluster_name", "cluster_dns", "environment"],
                false => &["id"],
            };
            for name in needed {
                if !required.iter().any(|given| given == name) {
                    required.push((*name).into());
                }
            }
        }
    }

    fn check(&self, errors: &mut Vec<Violation>) {
        let properties = self.properties();
        let at = format!("{}/properties", self.at);
        for name in RESERVED_PROPERTIES
            .iter()
            .filter(|name| properties.contains_key(**name))
        {
            errors.push(Violation::new(
                format!("{at}/{name}"),
                format!("\"{name}\" cannot be a property: it means something of its own in an input or a file"),
            ));
        }
        if self.is_clusters() {
            for (name, expected) in CLUSTER_NEEDS {
                let property = properties[name].get("schema").unwrap_or(&properties[name]);
                if property.get("type").is_none_or(|given| given != expected) || property.get("$ref").is_some() {
                    errors.push(Violation::new(
                        format!("{at}/{name}/type"),
                        format!("must be \"{expected}\""),
                    ));
                }
            }
        }
        let flux = &self.flux;
        let mut expect = |holds: bool, pointer: String, detail: String| {
            if !holds {
                errors.push(Violation::new(format!("/schema/x-flux/{pointer}"), detail));
            }
        };
        let has = |name: &str| properties.contains_key(name);
        for (n, name) in flux.overridable.iter().enumerate() {
            let known = has(name) && name != "id" && !flux.overridable[..n].contains(name);
            expect(
                known,
                format!("overridable/{n}"),
                format!("\"{name}\" is not a property that can be overridden, or it is here twice"),
            );
        }
        for name in flux.carried.keys() {
            let free = !has(name) && !RESERVED_PROPERTIES.contains(&name.as_str()) && name != "patches";
            expect(
                free,
                format!("carried/{name}"),
                format!("\"{name}\" is a property already"),
            );
        }
        for (target, fields) in &flux.nest {
            let free = !has(target) && !flux.carried.contains_key(target);
            let allowed = free && !RESERVED_PROPERTIES.contains(&target.as_str()) && target != "patches";
            expect(
                allowed,
                format!("nest/{target}"),
                format!("\"{target}\" is a property already"),
            );
            for (n, field) in fields.iter().enumerate() {
                expect(
                    has(field) && field != "id",
                    format!("nest/{target}/{n}"),
                    format!("\"{field}\" is not a property"),
                );
            }
        }
        let patches_free = !flux.patches || !has("patches");
        expect(
            patches_free,
            "patches".into(),
            "the kind has a property \"patches\" of its own".into(),
        );
        if let Some(field) = &flux.depends_on {
            let known = properties
                .get(field)
                .is_some_and(|property| property["type"] == "array");
            expect(
                known,
                "depends_on".into(),
                format!("\"{field}\" is not an array property"),
            );
        }
        for (n, rule) in flux.renders.iter().enumerate() {
            for field in rule.when.keys() {
                expect(
                    has(field),
                    format!("renders/{n}/when/{field}"),
                    format!("\"{field}\" is not a property"),
                );
            }
        }
        for field in flux.off.keys() {
            let known = has(field) || flux.carried.contains_key(field);
            expect(known, format!("off/{field}"), format!("\"{field}\" is not a property"));
        }
        let label = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                && !text.starts_with('-')
        };
        for (what, text) in [("path", &flux.path), ("command", &flux.command)] {
            let fine = text.as_deref().is_none_or(label);
            expect(fine, what.into(), "lower-case letters, digits and dashes".into());
        }
        let fine = flux.singular.as_deref().is_none_or(names::well_formed);
        expect(
            fine,
            "singular".into(),
            "lower-case letters, digits and underscores".into(),
        );
        let free = |array: &str| names::well_formed(array) && !RESERVED_PROPERTIES.contains(&array);
        if let Some(array) = &self.names.references {
            expect(
                free(array),
                "references".into(),
                format!("\"{array}\" cannot be a property of clusters"),
            );
        }
        if self.is_clusters() {
            let plain = flux.path.is_none() && flux.references.is_none();
            expect(
                plain,
                "path".into(),
                "clusters have no Flux endpoint of their own".into(),
            );
        }
        if let Some(Value::Array(required)) = self.items.get("required") {
            for (n, name) in required.iter().enumerate() {
                let known = name.as_str().is_some_and(|name| properties.contains_key(name));
                let open = self.items.contains_key("additionalProperties");
                if !known && !open {
                    let pointer = format!("{}/required/{n}", self.at);
                    errors.push(Violation::new(
                        pointer,
                        format!("{name} is required and not a property"),
                    ));
                }
            }
        }
    }

    /// How clusters refer to definitions of this kind: its singular, the array and the schema of a reference.
    fn reference(&self) -> Option<(String, (String, Arc<Value>))> {
        let array = self.names.references.clone()?;
        Some((self.names.singular.clone(), (array, self.reference_schema().into())))
    }

    fn reference_schema(&self) -> Value {
        let ignored = &mut Vec::new();
        let unresolved = |_: &str| Err(String::new());
        let mut properties = Map::new();
        properties.insert("id".into(), json!({"type": "string", "minLength": 1, "maxLength": 253}));
        for (name, carried) in &self.flux.carried {
            properties.insert(
                name.clone(),
                schema::normalise(carried, "/schema/x-flux/carried", &unresolved, ignored),
            );
        }
        for name in &self.flux.overridable {
            let own = schema::normalise(&self.properties()[name], self.at, &unresolved, ignored);
            properties.insert(name.clone(), schema::nullable(&own));
        }
        json!({"type": "object", "required": ["id"], "properties": properties, "additionalProperties": false})
    }

    /// The JSON Schema of its documents. None: there is a `$ref` in place of the whole.
    fn schema<'a>(
        &self,
        arrays: impl Iterator<Item = (&'a str, &'a Value)>,
        resolve: &dyn Fn(&str) -> Result<Value, String>,
        errors: &mut Vec<Violation>,
    ) -> Option<Value> {
        let mut schema = schema::normalise(&Value::Object(self.items.clone()), self.at, resolve, errors);
        let properties = schema["properties"].as_object_mut()?;
        if self.is_clusters() {
            for (array, items) in arrays {
                let given = properties.get(array).unwrap_or(&Value::Null);
                if given.get("type").is_some_and(|kind| kind != "array")
                    || CLUSTER_NEEDS.iter().any(|(n, _)| *n == array)
                {
                    errors.push(Violation::new(
                        format!("{}/properties/{array}", self.at),
                        format!("\"{array}\" is the array of references of a kind, and must be an array"),
                    ));
                    continue;
                }
                let mut field = given.as_object().cloned().unwrap_or_default();
                field.insert("type".into(), "array".into());
                field.insert("items".into(), items.clone());
                field
                    .entry("description")
                    .or_insert_with(|| format!("References to {array}.").into());
                properties.insert(array.to_owned(), field.into());
            }
        }
        // The id of a user's kind may be as strict as its file says, and never looser than a path segment.
        if let Some(Value::Object(id)) = properties.get_mut("id") {
            id.remove("default");
            for (key, value) in schema::base_id().as_object().expect("an object") {
                id.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        Some(schema)
    }

    fn into_kind(
        self,
        document: &Value,
        origin: Option<Arc<str>>,
        schema: Value,
        mut errors: Vec<Violation>,
    ) -> Result<Kind, Vec<Violation>> {
        let reserved = reserved(&self.name, &self.flux);
        let mut fixed: Map<String, Value> = reserved.iter().map(|name| ((*name).to_owned(), false.into())).collect();
        fixed.insert("id".into(), schema::base_id().clone());
        let validator = compile(&json!({"allOf": [schema, {"properties": fixed}]}))
            .map_err(|detail| errors.push(Violation::new(self.at, detail)));
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(default) = property.get("default")
                && let Ok(own) = compile(property)
                && let Some(error) = own.iter_errors(default).next()
            {
                let pointer = format!("{}/properties{}/default", self.at, segment(name));
                errors.push(Violation::new(pointer, describe(&error)));
            }
        }
        let (Ok(validator), true) = (validator, errors.is_empty()) else {
            return Err(errors);
        };
        let document_json = Json::new(document);
        Ok(Kind {
            reference: self.reference().map(|(_, (_, schema))| schema),
            depends: false,
            cost: OnceLock::new(),
            path: self.names.path,
            references: self.names.references,
            command: self.names.command,
            description: text(document, "/metadata/description"),
            descriptions: document["descriptions"].clone(),
            filters: self.filters,
            etag: Etag::of(&document_json),
            document: document_json,
            origin,
            schema,
            validator,
            name: self.name.into(),
            singular: self.names.singular,
            flux: self.flux,
        })
    }
}

/// What a document may not have at its top, also where its schema is open: an input would have it twice.
fn reserved<'a>(name: &str, flux: &'a Flux) -> Vec<&'a str> {
    if name == CLUSTERS {
        return vec!["kind", "_id"];
    }
    let own = flux.carried.keys().chain(flux.nest.keys()).map(String::as_str);
    own.chain(flux.patches.then_some("patches"))
        .chain(RESERVED_PROPERTIES)
        .collect()
}

fn read_filters(schema: &Value, errors: &mut Vec<Violation>) -> Vec<Filter> {
    let params = match schema.get("query_params") {
        None => return Vec::new(),
        Some(Value::Array(params)) => params,
        Some(_) => {
            errors.push(Violation::new("/schema/query_params", "must be an array"));
            return Vec::new();
        }
    };
    let mut filters = Vec::new();
    for (n, param) in params.iter().enumerate() {
        match param.get("name").and_then(Value::as_str) {
            Some("limit" | "offset" | "selector" | "dry_run" | "cascade") => {
                errors.push(Violation::new(
                    format!("/schema/query_params/{n}/name"),
                    "is a parameter of this API already",
                ));
            }
            Some(name) => filters.push(Filter {
                name: name.to_owned(),
                description: text(param, "/description"),
                schema: param
                    .get("schema")
                    .cloned()
                    .unwrap_or_else(|| json!({"type": "string"})),
            }),
            None => errors.push(Violation::new(
                format!("/schema/query_params/{n}/name"),
                "a parameter has a name",
            )),
        }
    }
    filters
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::draft202012::options()
        // Users write these patterns: an engine that backtracks could be held up by one.
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(true)
        .build(schema)
        .map_err(|error| shorten(error.to_string(), MOST_DETAIL))
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let detail = match error.kind() {
        ValidationErrorKind::PropertyNames { error } => {
            let why = describe(error);
            let plain = format!("{} is not allowed: ", error.instance());
            let why = why.strip_prefix(&plain).unwrap_or(&why);
            format!("the name {} is not allowed: {why}", error.instance())
        }
        // The library's own words leave out all but two of the options.
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().into_iter().flatten();
            let options: Vec<_> = options.map(Value::to_string).take(MOST_DETAIL).collect();
            format!("{} is not one of {}", quoted(error), options.join(", "))
        }
        // A schema that must not hold may say what it stands for.
        ValidationErrorKind::Not { schema } => match schema.get("description").and_then(Value::as_str) {
            Some(description) => {
                let description = description.trim_end_matches('.');
                format!("{} is not allowed: {description}", quoted(error))
            }
            None => plainly(error),
        },
        _ => plainly(error),
    };
    shorten(detail, MOST_DETAIL)
}

/// The library's words, which begin with the value: what is wrong with a long one must not be lost behind it.
fn plainly(error: &jsonschema::ValidationError<'_>) -> String {
    let whole = error.to_string();
    match whole.chars().nth(MOST_DETAIL) {
        Some(_) => error.masked_with(quoted(error)).to_string(),
        None => whole,
    }
}

fn quoted(error: &jsonschema::ValidationError<'_>) -> String {
    const MOST: usize = 100;
    shorten(error.instance().to_string(), MOST)
}

/// How long a message may be that quotes a value.
const MOST_DETAIL: usize = 300;

impl Kind {
    /// What it costs every process that has it. Worked out when it is asked for, unless it was put by this process.
    pub(crate) fn cost(&self) -> Cost {
        *self.cost.get_or_init(|| match is_built_in(&self.document.parse()) {
            true => Cost::OF_OURS,
            false => self.weighed(),
        })
    }

    fn weighed(&self) -> Cost {
        Scales::new(usize::MAX).kind(&self.document.parse(), &self.schema, "")
    }

    /// What is wrong with a document, as far as its schema says it. The first thing only, where there may be very many.
    fn problems<'v>(&'v self, value: &'v Value) -> Vec<jsonschema::ValidationError<'v>> {
        const MOST: usize = 1000;
        if self.validator.is_valid(value) {
            Vec::new()
        } else if self.cost().may_be_flooded(value) {
            self.validator.validate(value).err().into_iter().collect()
        } else {
            self.validator.iter_errors(value).take(MOST).collect()
        }
    }

    /// Everything that is wrong with a document of this kind, each with its pointer.
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        let mut errors: Vec<Violation> = Vec::new();
        for error in self.problems(value) {
            let at = error.instance_path().as_str();
            // What all kinds ask of an id comes after what this one asks of it, and is said only when that was fine.
            let common = error.schema_path().as_str().starts_with(COMMON_RULES);
            if common && errors.iter().any(|error| error.pointer == at) {
                continue;
            }
            match error.kind() {
                ValidationErrorKind::AdditionalProperties { unexpected } => errors.extend(
                    unexpected
                        .iter()
                        .map(|name| Violation::new(format!("{at}{}", segment(name)), "is not a property of this kind")),
                ),
                ValidationErrorKind::Required { property } => {
                    let name = property.as_str().unwrap_or_default();
                    errors.push(Violation::new(format!("{at}{}", segment(name)), "is required"));
                }
                ValidationErrorKind::FalseSchema => errors.push(Violation::new(at, "is not a property of this kind")),
                _ => errors.push(Violation::new(at, describe(&error))),
            }
        }
        if &*self.name == CLUSTERS {
            for (key, _) in value["labels"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, _)| self.is_scalar_field(key))
            {
                let detail = "is a field of clusters: a selector could not tell them apart";
                errors.push(Violation::new(format!("/labels{}", segment(key)), detail));
            }
        }
        errors.sort();
        errors.dedup();
        errors.truncate(MOST_VIOLATIONS);
        errors
    }

    /// Whether every document that held for `old` holds for this kind too, as far as can be said without looking at them.
    pub(crate) fn holds_what(&self, old: &Kind) -> bool {
        self.schema == old.schema && reserved(&self.name, &self.flux) == reserved(&old.name, &old.flux)
    }

    /// All that decides how inputs are made, apart from the documents. Two of the same kind are compared by it.
    pub(crate) fn way_of_inputs(&self) -> (Value, Option<String>, Option<String>) {
        let settings = self.document.parse()["schema"]["x-flux"].take();
        (settings, self.path.clone(), self.references.clone())
    }

    /// What Flux makes of a definition: the kind of object, where the kind's file says it.
    pub fn renders(&self, definition: &Value) -> Option<&str> {
        self.render(|field| definition.get(field))
            .map(|rule| rule.object.as_str())
    }

    /// The rule for an input whose fields are these.
    pub(crate) fn render<'v>(&self, fields: impl Fn(&str) -> Option<&'v Value>) -> Option<&Render> {
        let holds = |rule: &&Render| {
            let matches = |(field, pattern): (&String, &Regex)| {
                let text = fields(field).and_then(Value::as_str);
                text.is_some_and(|text| pattern.is_match(text))
            };
            rule.when.iter().all(matches)
        };
        self.flux.renders.iter().find(holds)
    }

    /// An upper bound on what an input has of this kind's own, beyond its definition and its reference.
    pub(crate) fn carried_len(&self) -> usize {
        let carried = self
            .flux
            .carried
            .iter()
            .map(|(name, schema)| name.len() + schema.to_string().len());
        carried
            .chain(self.flux.nest.keys().map(String::len))
            .map(|length| length + 8)
            .sum()
    }

    /// Scalar fields of the kind: what a selector may name beside labels.
    pub fn is_scalar_field(&self, name: &str) -> bool {
        let scalar = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "number" | "boolean"));
        self.schema["properties"]
            .get(name)
            .is_some_and(|property| match &property["type"] {
                Value::Array(types) => types.iter().all(|kind| scalar(kind) || kind == "null"),
                one => scalar(one),
            })
    }
}

//! The kinds, as commands see them: names, fields that become flags, and what references may carry. They come from the server,
//! so that a kind added there has its commands in a program that was built before it.

use std::fs;
use std::path::PathBuf;

use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::KINDS;
use fleet::log::{Head, Resource, State};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::Client;
use crate::config;
use crate::error::{ApiError, Failure};

/// One entry of `GET /kinds`. Read leniently: a server may be newer than this program.
#[derive(Clone, Debug, Deserialize)]
struct Entry {
    name: String,
    singular: String,
    command: String,
    path: Option<String>,
    references: Option<String>,
    #[serde(default)]
    origin: String,
    document: Value,
}

#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) singular: String,
    pub(crate) command: String,
    /// The last segment of its Flux endpoint.
    pub(crate) path: Option<String>,
    /// The cluster's array of references.
    pub(crate) references: Option<String>,
    pub(crate) origin: String,
    pub(crate) description: String,
    pub(crate) fields: Vec<Field>,
    /// What a reference may override, and what only a reference has.
    pub(crate) overridable: Vec<Field>,
    pub(crate) carried: Vec<Field>,
    /// What turns an input off: fields of the reference.
    pub(crate) off: Map<String, Value>,
    pub(crate) patches: bool,
    /// The field that lists ids of the same kind.
    pub(crate) depends_on: Option<String>,
    pub(crate) filters: Vec<(String, String)>,
    pub(crate) document: Value,
}

/// A property of a kind, as a flag.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// `--label` for `labels`, `--oci-url` for `oci_url`.
    pub(crate) flag: String,
    /// The plural, where the flag is a singular.
    pub(crate) alias: Option<String>,
    pub(crate) form: Form,
    pub(crate) required: bool,
    pub(crate) description: String,
    pub(crate) options: Vec<String>,
}

/// How a value is written on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Whole,
    Number,
    Switch,
    /// An array of texts or numbers: the flag is repeated.
    Texts(Box<Form>),
    /// An array of objects: `name=value,name=value` or JSON, repeated.
    Items(Vec<(String, Form)>),
    /// An object of texts: `key=value`, repeated.
    Pairs,
    Json,
}

/// Names that a command line has for other things.
const TAKEN: [&str; 20] = [
    "all",
    "cascade",
    "clear",
    "cluster",
    "confirm-removals",
    "context",
    "dry-run",
    "help",
    "if-plan",
    "interval",
    "limit",
    "offset",
    "output",
    "reason",
    "revision",
    "selector",
    "unset",
    "update",
    "version",
    "watch",
];

/// A flag that does not mean something else.
pub(crate) fn free_flag(flag: String) -> String {
    if TAKEN.contains(&flag.as_str()) {
        format!("field-{flag}")
    } else {
        flag
    }
}

impl Field {
    fn read(name: &str, schema: &Value, required: bool) -> Field {
        let schema = unwrapped(schema);
        let form = Form::read(schema);
        let dashed = name.replace('_', "-");
        let short = if form.is_repeated() {
            singular(&dashed)
        } else {
            dashed.clone()
        };
        let (flag, alias) = match short == dashed {
            true => (free_flag(dashed), None),
            false => (
                free_flag(short),
                Some(dashed).filter(|plural| !TAKEN.contains(&plural.as_str())),
            ),
        };
        let options = schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned);
        Field {
            name: name.to_owned(),
            flag,
            alias,
            required: required && schema.get("default").is_none(),
            description: schema["description"].as_str().unwrap_or_default().to_owned(),
            options: options.collect(),
            form,
        }
    }

    /// What the command line calls it within: apart from our own arguments, whatever a kind calls its fields.
    pub(crate) fn arg(&self) -> String {
        format!("field:{}", self.name)
    }

    /// Whether a table can show it in a cell.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self.form, Form::Text | Form::Whole | Form::Number | Form::Switch)
    }
}

impl Form {
    fn read(schema: &Value) -> Form {
        match kind_of(schema) {
            "string" => Form::Text,
            "integer" => Form::Whole,
            "number" => Form::Number,
            "boolean" => Form::Switch,
            "array" => {
                let items = unwrapped(&schema["items"]);
                match Form::read(items) {
                    form @ (Form::Text | Form::Whole | Form::Number) => Form::Texts(Box::new(form)),
                    _ => match items["properties"].as_object() {
                        Some(properties) => {
                            let part =
                                |(name, schema): (&String, &Value)| (name.clone(), Form::read(unwrapped(schema)));
                            Form::Items(properties.iter().map(part).collect())
                        }
                        None => Form::Json,
                    },
                }
            }
            "object" => match kind_of(unwrapped(&schema["additionalProperties"])) {
                "string" => Form::Pairs,
                _ => Form::Json,
            },
            _ => Form::Json,
        }
    }

    /// Reads what stands after the flag.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        match self {
            Form::Text => Ok(text.into()),
            Form::Whole => text
                .parse::<i64>()
                .map(Value::from)
                .map_err(|_| format!("\"{text}\" is not a whole number")),
            Form::Number => match serde_json::from_str::<Value>(text) {
                Ok(number @ Value::Number(_)) => Ok(number),
                _ => Err(format!("\"{text}\" is not a number")),
            },
            Form::Switch => match text {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                _ => Err(format!("\"{text}\" is neither true nor false")),
            },
            Form::Texts(inner) => inner.parse(text),
            Form::Pairs => {
                let (key, value) = pair(text)?;
                Ok(Value::Object(Map::from_iter([(key, value.into())])))
            }
            Form::Items(parts) if !text.trim_start().starts_with('{') => {
                let mut item = Map::new();
                for part in text.split(',') {
                    let (key, value) = pair(part)?;
                    let form = parts.iter().find(|(name, _)| *name == key).map(|(_, form)| form);
                    let Some(form) = form else {
                        let known: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
                        return Err(format!("\"{key}\" is not one of {}", known.join(", ")));
                    };
                    item.insert(key, form.parse(&value)?);
                }
                Ok(item.into())
            }
            Form::Items(_) | Form::Json => serde_json::from_str(text).map_err(|error| format!("not JSON: {error}")),
        }
    }

    /// What stands for a value in the help.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Form::Text => "TEXT",
            Form::Whole => "INTEGER",
            Form::Number => "NUMBER",
            Form::Switch => "true|false",
            Form::Texts(_) => "VALUE",
            Form::Items(_) => "NAME=VALUE,...",
            Form::Pairs => "KEY=VALUE",
            Form::Json => "JSON",
        }
    }

    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self, Form::Texts(_) | Form::Items(_) | Form::Pairs)
    }
}

/// `key=value`, where the value may hold anything.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("\"{text}\" is not of the form key=value")),
    }
}

/// Firestone wraps some schemas once more.
fn unwrapped(schema: &Value) -> &Value {
    match schema.get("schema") {
        Some(inner @ Value::Object(_)) => inner,
        _ => schema,
    }
}

/// The type of a schema; of several, the one that is not null, if that is one.
fn kind_of(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => {
            let mut named = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            match (named.next(), named.next()) {
                (Some(one), None) => one,
                _ => "",
            }
        }
        _ => "",
    }
}

fn singular(dashed: &str) -> String {
    match dashed {
        name if name.ends_with("ies") => format!("{}y", &name[..name.len() - 3]),
        name if name.ends_with("ss") || !name.ends_with('s') => name.to_owned(),
        name => name[..name.len() - 1].to_owned(),
    }
}

/// A kind may have both `label` and `labels`: the flags of the plural then stay plural.
fn tell_apart(fields: &mut [Field]) {
    for n in 0..fields.len() {
        let clash = |flag: &str| fields.iter().enumerate().any(|(m, other)| m != n && other.flag == flag);
        if let Some(alias) = fields[n].alias.clone()
            && clash(&fields[n].flag)
        {
            fields[n].flag = alias;
            fields[n].alias = None;
        }
    }
}

impl Kind {
    fn read(entry: Entry) -> Kind {
        let schema = &entry.document["schema"];
        let items = match schema["type"].as_str() {
            Some("array") => &schema["items"],
            _ => schema,
        };
        let flux = &schema["x-flux"];
        let required = |name: &str| {
            items["required"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == name))
        };
        let properties = items["properties"].as_object();
        let mut fields: Vec<Field> = properties
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "id" && entry.references.as_deref() != Some(name))
            .map(|(name, schema)| Field::read(name, schema, required(name)))
            .collect();
        tell_apart(&mut fields);
        let names = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let overridable = names(&flux["overridable"]);
        let mut overridable: Vec<Field> = overridable
            .iter()
            .filter_map(|name| fields.iter().find(|field| field.name == *name))
            .cloned()
            .collect();
        for field in &mut overridable {
            field.required = false;
        }
        let carried = flux["carried"].as_object().into_iter().flatten();
        let mut filters: Vec<(String, String)> = Vec::new();
        for parameter in schema["query_params"].as_array().into_iter().flatten() {
            let description = parameter["description"].as_str().unwrap_or_default();
            match parameter["name"].as_str() {
                Some(name) if filters.iter().all(|(known, _)| known != name) => {
                    filters.push((name.to_owned(), description.to_owned()));
                }
                _ => {}
            }
        }
        Kind {
            description: entry.document["metadata"]["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            carried: carried.map(|(name, schema)| Field::read(name, schema, false)).collect(),
            off: flux["off"].as_object().cloned().unwrap_or_default(),
            patches: flux["patches"] == true,
            depends_on: flux["depends_on"].as_str().map(str::to_owned),
            filters,
            fields,
            overridable,
            name: entry.name,
            singular: entry.singular,
            command: entry.command,
            path: entry.path,
            references: entry.references,
            origin: entry.origin,
            document: entry.document,
        }
    }

    /// Many of them, as the command has it: `components`, `network_policies`.
    pub(crate) fn plural(&self) -> String {
        let command = self.command.replace('-', "_");
        match command == self.singular {
            true => self.name.clone(),
            false => format!("{command}s"),
        }
    }

    /// The fields that turn a reference off, where each can be turned on again by its opposite.
    pub(crate) fn switches(&self) -> Option<Vec<(&str, bool)>> {
        let carried = |name: &str| {
            self.carried
                .iter()
                .any(|field| field.name == name && field.form == Form::Switch)
        };
        let all: Option<Vec<_>> = self
            .off
            .iter()
            .map(|(name, value)| Some((name.as_str(), value.as_bool().filter(|_| carried(name))?)))
            .collect();
        all.filter(|switches| !switches.is_empty())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// The kinds of this release, for when there is no server to ask.
    pub(crate) fn built_in() -> Kinds {
        let documents = fleet::kind::built_in().iter();
        let resources = documents.map(|document| Resource {
            kind: KINDS.into(),
            id: fleet::kind::name_of(document).unwrap_or_default().into(),
            body: Json::new(document),
            origin: Some("built-in".into()),
        });
        let state = State {
            head: Head::default(),
            resources: resources.collect(),
            ..State::default()
        };
        let fleet = fleet::Fleet::load(state).expect("the built-in kinds make a fleet");
        let entries = fleet.kinds().iter().map(|kind| Entry {
            name: kind.name.to_string(),
            singular: kind.singular.clone(),
            command: kind.command.clone(),
            path: kind.path.clone(),
            references: kind.references.clone(),
            origin: "built-in".to_owned(),
            document: kind.document.parse(),
        });
        Kinds(entries.map(Kind::read).collect())
    }

    /// The server's kinds. What was kept of an earlier answer is used when the server says that it still holds.
    pub(crate) fn load(client: &Client) -> Result<Kinds, ApiError> {
        let cache = Cache::of(client.url()?);
        let kept = cache.read();
        let reply = match client.get_raw("/kinds", kept.as_ref().map(|kept| kept.etag.as_str())) {
            Ok(reply) => reply,
            // A read-only server has no such route. What it serves can be asked for all the same.
            Err(error) if error.status() == Some(404) => return Ok(Kinds::built_in()),
            Err(error) => return Err(error),
        };
        if reply.status == 304
            && let Some(kinds) = kept.and_then(|kept| Kinds::parse(kept.body.as_bytes()).ok())
        {
            return Ok(kinds);
        }
        let kinds = Kinds::parse(&reply.body).map_err(|detail| ApiError::Foreign {
            url: client.shown_url(),
            detail,
        })?;
        if let (Some(etag), Ok(body)) = (reply.etag, String::from_utf8(reply.body)) {
            cache.write(&Kept { etag, body });
        }
        Ok(kinds)
    }

    /// What is known without the server: the last answer, or the built-in kinds.
    pub(crate) fn remembered(url: Option<&str>) -> Kinds {
        let kept = url.and_then(|url| Cache::of(url).read());
        kept.and_then(|kept| Kinds::parse(kept.body.as_bytes()).ok())
            .unwrap_or_else(Kinds::built_in)
    }

    fn parse(body: &[u8]) -> Result<Kinds, String> {
        let entries: Vec<Entry> =
            serde_json::from_slice(body).map_err(|error| format!("GET /kinds is not a list of kinds: {error}"))?;
        Ok(Kinds(entries.into_iter().map(Kind::read).collect()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter()
    }

    /// A kind by any of its names: `component`, `components`, `platform_component`, `platform-components`, …
    pub(crate) fn named(&self, name: &str) -> Option<&Kind> {
        let wanted = name.to_ascii_lowercase().replace('-', "_");
        let is = |kind: &&Kind| {
            let command = kind.command.replace('-', "_");
            [kind.name.as_str(), kind.singular.as_str(), command.as_str()].contains(&wanted.as_str())
                || plural_of(&wanted, &command)
        };
        self.0.iter().find(is)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Kind, Failure> {
        self.named(name).ok_or_else(|| {
            let known: Vec<_> = self.0.iter().map(|kind| kind.command.as_str()).collect();
            Failure::new(crate::error::Code::NotFound, format!("there is no kind \"{name}\""))
                .hint(format!("the kinds are {}", known.join(", ")))
        })
    }
}

fn plural_of(text: &str, one: &str) -> bool {
    text.strip_suffix('s').is_some_and(|stem| stem == one)
        || text
            .strip_suffix("ies")
            .zip(one.strip_suffix('y'))
            .is_some_and(|(a, b)| a == b)
}

#[derive(Serialize, Deserialize)]
struct Kept {
    etag: String,
    body: String,
}

/// What the server last said, one file per address. Losing it costs one request, so nothing here is an error.
struct Cache(Option<PathBuf>);

impl Cache {
    fn of(url: &str) -> Cache {
        let name = format!("kinds-{:032x}.json", Etag::of_bytes(url.as_bytes()).0);
        Cache(config::cache_folder().map(|folder| folder.join(name)))
    }

    fn read(&self) -> Option<Kept> {
        serde_json::from_slice(&fs::read(self.0.as_ref()?).ok()?).ok()
    }

    fn write(&self, kept: &Kept) {
        if let Some(path) = &self.0
            && let Some(folder) = path.parent()
            && let Ok(bytes) = serde_json::to_vec(kept)
        {
            let _ = config::replace(path, folder, &bytes);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_come_from_schemas() {
        let kinds = Kinds::built_in();
        let flags = |name: &str| -> Vec<String> {
            let kind = kinds.named(name).unwrap();
            kind.fields
                .iter()
                .map(|field| format!("--{} {}", field.flag, field.form.placeholder()))
                .collect()
        };
        let component = flags("components");
        for flag in [
            "--component-path TEXT",
            "--oci-url TEXT",
            "--depends-on VALUE",
            "--cluster-env-enabled true|false",
        ] {
            assert!(component.iter().any(|known| known == flag), "{flag} in {component:?}");
        }
        assert_eq!(flags("namespace"), ["--annotation KEY=VALUE", "--label KEY=VALUE"]);
        assert_eq!(flags("rolebindings"), ["--role TEXT", "--subject NAME=VALUE,..."]);
    }

    #[test]
    fn items_are_pairs_or_json() {
        let form = Form::Items(vec![("from".into(), Form::Text), ("port".into(), Form::Whole)]);
        assert_eq!(
            form.parse("from=prometheus,port=9090").unwrap(),
            json!({"from": "prometheus", "port": 9090})
        );
        assert_eq!(form.parse(r#"{"port": 1}"#).unwrap(), json!({"port": 1}));
        assert!(form.parse("to=x").unwrap_err().contains("from, port"));
    }

    #[test]
    fn a_field_gives_way_to_our_own_flags() {
        let field = Field::read("selector", &json!({"type": "string"}), false);
        assert_eq!(field.flag, "field-selector");
    }

    #[test]
    fn whatever_a_kind_calls_its_fields_the_command_line_holds_together() {
        crate::args::full(&Kinds::built_in()).debug_assert();
        let entries = json!([{
            "name": "gets", "singular": "get", "command": "get", "path": "gets", "references": "gets",
            "document": {"kind": "get", "schema": {
                "type": "object",
                "x-flux": {"overridable": ["target"], "carried": {"on": {"type": "boolean"}}, "off": {"on": false}, "patches": true},
                "query_params": [{"name": "output"}, {"name": "watch"}, {"name": "label"}, {"name": "label"}],
                "properties": {
                    "id": {"type": "string"}, "target": {"type": "string"}, "values": {"type": "array", "items": {"type": "string"}},
                    "label": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "selector": {"type": "object"}, "reason": {"schema": {"type": "integer"}}, "all": {"type": ["boolean", "null"]},
                    "anything": {}, "many": {"type": "array"}, "nested": {"type": "array", "items": {"type": "array"}},
                },
            }},
        }]);
        let kinds = Kinds::parse(entries.to_string().as_bytes()).unwrap();
        crate::args::full(&kinds).debug_assert();
        let flags: Vec<_> = kinds.0[0].fields.iter().map(|field| field.flag.as_str()).collect();
        let expected = "field-all anything label labels many nested field-reason field-selector target value";
        assert_eq!(flags.join(" "), expected);
        assert_eq!(crate::args::family_name(&kinds.0[0]), "gets");
    }

    #[test]
    fn kinds_have_many_names() {
        let kinds = Kinds::built_in();
        for name in ["component", "components", "platform_components", "platform-component"] {
            assert_eq!(kinds.named(name).unwrap().name, "platform_components", "{name}");
        }
    }
}

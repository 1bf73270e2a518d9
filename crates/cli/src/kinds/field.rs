//! The fields of a kind as flags: their names, and how their values are parsed.

use serde_json::{Map, Value};

/// A field of a kind, as a flag.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// `--label` for `labels`, `--oci-url` for `oci_url`.
    pub(crate) flag: String,
    /// The plural, if the flag is the singular of the field.
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
    /// An object with these fields: `name=value`, repeated, or JSON.
    Settings(Vec<(String, Form)>),
    Json,
}

/// Flags that the commands of kinds have themselves.
const TAKEN: [&str; 31] = [
    "all",
    "cascade",
    "certificate-authority",
    "clear",
    "client-certificate",
    "client-key",
    "cluster",
    "confirm-demotions",
    "confirm-removals",
    "context",
    "dry-run",
    "help",
    "if-plan",
    "interval",
    "limit",
    "manifests",
    "merge",
    "no-headers",
    "offset",
    "output",
    "override-guard",
    "overwrite",
    "reason",
    "revision",
    "selector",
    "sort-by",
    "unset",
    "update",
    "version",
    "watch",
    "yes",
];

/// A flag for a field; one that is taken gets a prefix.
pub(crate) fn free_flag(flag: String) -> String {
    if TAKEN.contains(&flag.as_str()) {
        format!("field-{flag}")
    } else {
        flag
    }
}

impl Field {
    pub(super) fn read(name: &str, schema: &Value, required: bool) -> Field {
        let form = Form::read(schema);
        let dashed = name.replace('_', "-");
        let short = if form.is_repeated() {
            fleet::kind::singular(&dashed)
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

    /// The id of its argument in the parser; the prefix keeps it apart from our own arguments.
    pub(crate) fn arg(&self) -> String {
        format!("field:{}", self.name)
    }

    /// Whether it has a single value, which fits into a cell of a table.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self.form, Form::Text | Form::Whole | Form::Number | Form::Switch)
    }
}

impl Form {
    fn read(schema: &Value) -> Form {
        match type_of(schema) {
            "string" => Form::Text,
            "integer" => Form::Whole,
            "number" => Form::Number,
            "boolean" => Form::Switch,
            "array" => {
                let items = &schema["items"];
                match Form::read(items) {
                    form @ (Form::Text | Form::Whole | Form::Number) => Form::Texts(Box::new(form)),
                    _ => match items["properties"].as_object() {
                        Some(properties) => Form::Items(parts(properties)),
                        None => Form::Json,
                    },
                }
            }
            "object" => match (&schema["additionalProperties"], schema["properties"].as_object()) {
                (Value::Bool(false), Some(properties)) => Form::Settings(settings(properties)),
                (others, _) if type_of(others) == "string" => Form::Pairs,
                _ => Form::Json,
            },
            _ => Form::Json,
        }
    }

    /// Parses the value of the flag.
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
                _ => Err(format!("\"{text}\" is not true or false")),
            },
            Form::Texts(inner) => inner.parse(text),
            Form::Pairs => {
                let (key, value) = pair(text)?;
                Ok(Value::Object(Map::from_iter([(key, value.into())])))
            }
            Form::Items(parts) if !text.trim_start().starts_with('{') => {
                let mut item = Map::new();
                for part in text.split(',') {
                    let (key, value) = parse_part(parts, part)?;
                    item.insert(key, value);
                }
                Ok(item.into())
            }
            Form::Settings(parts) if !text.trim_start().starts_with('{') => {
                Ok(Value::Object(Map::from_iter([parse_part(parts, text)?])))
            }
            Form::Items(_) | Form::Settings(_) | Form::Json => {
                serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
            }
        }
    }

    /// The placeholder of the value in the help.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Form::Text => "TEXT",
            Form::Whole => "INTEGER",
            Form::Number => "NUMBER",
            Form::Switch => "true|false",
            Form::Texts(_) => "VALUE",
            Form::Items(_) => "NAME=VALUE,...",
            Form::Pairs | Form::Settings(_) => "KEY=VALUE",
            Form::Json => "JSON",
        }
    }

    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self, Form::Texts(_) | Form::Items(_) | Form::Pairs | Form::Settings(_))
    }
}

/// The fields of an object, by name.
fn parts(properties: &Map<String, Value>) -> Vec<(String, Form)> {
    let part = |(name, schema): (&String, &Value)| (name.clone(), Form::read(schema));
    properties.iter().map(part).collect()
}

/// The same, where a value that may be null is null if it says so.
fn settings(properties: &Map<String, Value>) -> Vec<(String, Form)> {
    let mut parts = parts(properties);
    for (name, form) in &mut parts {
        let types = properties[name.as_str()]["type"].as_array();
        if types.is_some_and(|types| types.iter().any(|one| one == "null")) {
            *form = Form::Json;
        }
    }
    parts
}

/// Parses `name=value`, where the name is one of the fields of an object. A value of several types that is not JSON is a text.
fn parse_part(parts: &[(String, Form)], text: &str) -> Result<(String, Value), String> {
    let (key, value) = pair(text)?;
    match parts.iter().find(|(name, _)| *name == key) {
        Some((_, Form::Json)) => {
            let json = serde_json::from_str(&value);
            Ok((key, json.unwrap_or_else(|_| value.into())))
        }
        Some((_, form)) => Ok((key, form.parse(&value)?)),
        None => {
            let known: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
            Err(format!("\"{key}\" is not one of {}", known.join(", ")))
        }
    }
}

/// Parses `key=value`; the value may contain anything.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("\"{text}\" must be key=value")),
    }
}

/// The type of a schema. Of several types, the one that is not null, if there is exactly one.
fn type_of(schema: &Value) -> &str {
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

/// Makes flags unique: if a kind has both `label` and `labels`, the flag of the second is the plural.
pub(super) fn make_unique(fields: &mut [Field]) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn settings_are_texts_numbers_or_null() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "converged": {"type": ["string", "integer"]}, "soak": {"type": "string"}, "deadline": {"type": ["string", "null"]},
        }});
        let form = Form::read(&schema);
        for (text, expected) in [
            ("converged=95%", json!({"converged": "95%"})),
            ("converged=3", json!({"converged": 3})),
            ("soak=30m", json!({"soak": "30m"})),
            ("deadline=2h", json!({"deadline": "2h"})),
            ("deadline=null", json!({"deadline": null})),
            (r#"{"deadline": null}"#, json!({"deadline": null})),
        ] {
            assert_eq!(form.parse(text).unwrap(), expected, "{text}");
        }
        assert!(form.parse("speed=1").unwrap_err().contains("converged"));
    }

    #[test]
    fn a_field_gives_way_to_our_own_flags() {
        let field = Field::read("selector", &json!({"type": "string"}), false);
        assert_eq!(field.flag, "field-selector");
    }
}

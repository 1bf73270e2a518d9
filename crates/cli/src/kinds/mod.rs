//! The kinds as commands see them: names, fields that become flags, and what references may carry. They come from the server,
//! so a kind that is added there has its commands in a program that was built earlier.

mod cache;
mod field;

use fleet::kind::{GUARDS, KINDS, Outline, PROFILES};
use fleet::nearest;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::cache::{Cache, Kept};
pub(crate) use self::field::{Field, Form, free_flag, pair};
use crate::client::Client;
use crate::error::{ApiError, Code, Failure};

const BUILT_IN: &str = "built-in";

/// One entry of `GET /kinds`. Unknown fields are ignored: the server may be newer than this program.
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
    /// The fields that a reference may override.
    pub(crate) overridable: Vec<Field>,
    /// The fields that only a reference has.
    pub(crate) carried: Vec<Field>,
    /// The fields of a reference that turn it off, with their values.
    pub(crate) off: Map<String, Value>,
    pub(crate) patches: bool,
    /// The field that lists ids of the same kind.
    pub(crate) depends_on: Option<String>,
    /// The names of the filters of a list, with their descriptions.
    pub(crate) filters: Vec<(String, String)>,
    pub(crate) document: Value,
}

impl Kind {
    fn new(outline: Outline, origin: String, document: Value) -> Kind {
        let required = |name: &String| outline.required.contains(name);
        let mut fields: Vec<Field> = outline
            .properties
            .iter()
            .filter(|(name, _)| *name != "id" && outline.references.as_ref() != Some(name))
            .filter(|(_, schema)| schema["readOnly"] != true)
            .map(|(name, schema)| Field::read(name, schema, required(name)))
            .collect();
        // Commands of profiles and guards select no clusters, so the flag is free there.
        if [PROFILES, GUARDS].contains(&outline.name.as_str()) {
            let selector = fields.iter_mut().find(|field| field.name == "selector");
            selector
                .into_iter()
                .for_each(|field| field.flag = "selector".to_owned());
        }
        field::make_unique(&mut fields);
        let overridable = outline.flux.overridable.iter();
        let overridable = overridable.filter_map(|name| fields.iter().find(|field| field.name == *name));
        let overridable = overridable.map(|field| Field {
            required: false,
            ..field.clone()
        });
        let carried = outline.carried.iter();
        let mut filters: Vec<(String, String)> = Vec::new();
        for filter in outline.filters {
            if filters.iter().all(|(known, _)| *known != filter.name) {
                filters.push((filter.name, filter.description));
            }
        }
        Kind {
            overridable: overridable.collect(),
            carried: carried.map(|(name, schema)| Field::read(name, schema, false)).collect(),
            fields,
            filters,
            off: outline.flux.off,
            patches: outline.flux.patches,
            depends_on: outline.flux.depends_on,
            name: outline.name,
            singular: outline.singular,
            command: outline.command,
            path: outline.path,
            references: outline.references,
            description: outline.description,
            origin,
            document,
        }
    }

    /// Everything that it can be called, with underscores: `platform_components`, `platform_component`, `component`, `components`.
    pub(crate) fn names(&self) -> Vec<String> {
        let command = self.command.replace('-', "_");
        let plural = fleet::kind::plural(&command);
        vec![self.name.clone(), self.singular.clone(), command, plural]
    }

    /// The plural of its command: `components`, `network_policies`.
    pub(crate) fn plural(&self) -> String {
        let command = self.command.replace('-', "_");
        match command == self.singular {
            true => self.name.clone(),
            false => fleet::kind::plural(&command),
        }
    }

    /// The boolean fields that turn a reference off, with the value for off; none if it cannot be turned on again by the
    /// opposite of each.
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

impl From<Entry> for Kind {
    /// The names are the server's own; the rest is read from the document.
    fn from(entry: Entry) -> Kind {
        let outline = Outline {
            name: entry.name,
            singular: entry.singular,
            command: entry.command,
            path: entry.path,
            references: entry.references,
            ..Outline::read(&entry.document)
        };
        Kind::new(outline, entry.origin, entry.document)
    }
}

/// Whether a name means the kinds themselves, as in `history kind network_policies`.
pub(crate) fn is_kind_of_kinds(name: &str) -> bool {
    name == KINDS || name == "kind"
}

#[derive(Clone, Debug)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// The kinds of this release, for when there is no server.
    pub(crate) fn built_in() -> Kinds {
        let documents = fleet::kind::built_in().iter();
        let documents = documents.chain(fleet::kind::server_kinds().iter().map(|(_, document)| document));
        let mut kinds: Vec<Kind> = documents
            .map(|document| Kind::new(Outline::read(document), BUILT_IN.to_owned(), document.clone()))
            .collect();
        // As the server sorts them.
        kinds.sort_by(|one, other| one.name.cmp(&other.name));
        Kinds(kinds)
    }

    /// The kinds of the server. A kept answer is used if the server confirms that it is current.
    pub(crate) fn load(client: &Client) -> Result<Kinds, ApiError> {
        let cache = Cache::of(client.url()?);
        let kept = cache.read();
        let reply = match client.get_raw("/kinds", kept.as_ref().map(|kept| kept.etag.as_str())) {
            Ok(reply) => reply,
            // A read-only server has no such route, but its other routes can be used.
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

    /// The kinds that are known without asking the server: those of its last answer, or the built-in ones.
    pub(crate) fn remembered(url: Option<&str>) -> Kinds {
        let kept = url.and_then(|url| Cache::of(url).read());
        kept.and_then(|kept| Kinds::parse(kept.body.as_bytes()).ok())
            .unwrap_or_else(Kinds::built_in)
    }

    fn parse(body: &[u8]) -> Result<Kinds, String> {
        let entries: Vec<Entry> =
            serde_json::from_slice(body).map_err(|error| format!("GET /kinds is not a list of kinds: {error}"))?;
        Ok(Kinds(entries.into_iter().map(Kind::from).collect()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter()
    }

    /// A kind by any of its names: `component`, `components`, `platform_component`, `platform-components`, …
    pub(crate) fn named(&self, name: &str) -> Option<&Kind> {
        let wanted = name.to_ascii_lowercase().replace('-', "_");
        self.0.iter().find(|kind| kind.names().contains(&wanted))
    }

    /// The commands of the kinds that a misspelt name may stand for.
    fn like(&self, name: &str) -> Vec<&str> {
        let names: Vec<String> = self.0.iter().flat_map(Kind::names).collect();
        let near = nearest::nearest(name, names.iter().map(String::as_str));
        let kinds = near.iter().filter_map(|name| self.named(name));
        let mut commands: Vec<&str> = kinds.map(|kind| kind.command.as_str()).collect();
        commands.dedup();
        commands
    }

    /// A number of resources of a kind: `1 component`, `371 clusters`. The kind may be gone, or be one of the log only.
    pub(crate) fn counted(&self, name: &str, number: u64) -> String {
        let kind = self.0.iter().find(|kind| kind.name == name);
        let noun = match (kind, number) {
            (Some(kind), 1) => kind.command.clone(),
            (Some(kind), _) => kind.plural(),
            (None, 1) => name.strip_suffix('s').unwrap_or(name).to_owned(),
            (None, _) => name.to_owned(),
        };
        format!("{number} {}", noun.replace(['_', '-'], " "))
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Kind, Failure> {
        self.named(name).ok_or_else(|| {
            let failure = Failure::new(Code::NotFound, format!("there is no kind \"{name}\""));
            failure.hint(nearest::ask(&self.like(name)).unwrap_or_else(|| {
                let known: Vec<_> = self.0.iter().map(|kind| kind.command.as_str()).collect();
                format!("the kinds are {}", known.join(", "))
            }))
        })
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
    fn a_kind_may_give_its_fields_any_names() {
        crate::cli::full(&Kinds::built_in()).debug_assert();
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
        crate::cli::full(&kinds).debug_assert();
        let flags: Vec<_> = kinds.0[0].fields.iter().map(|field| field.flag.as_str()).collect();
        let expected = "field-all anything label labels many nested field-reason field-selector target value";
        assert_eq!(flags.join(" "), expected);
        assert_eq!(crate::cli::family_name(&kinds.0[0]), "gets");
    }

    #[test]
    fn resources_are_counted_by_the_names_of_commands() {
        let kinds = Kinds::built_in();
        for (name, number, expected) in [
            ("clusters", 371, "371 clusters"),
            ("platform_components", 1, "1 component"),
            ("platform_components", 2, "2 components"),
            ("kinds", 1, "1 kind"),
            ("released_names", 1, "1 released name"),
            ("decommissions", 3, "3 decommissions"),
        ] {
            assert_eq!(kinds.counted(name, number), expected);
        }
    }

    #[test]
    fn kinds_have_many_names() {
        let kinds = Kinds::built_in();
        for name in ["component", "components", "platform_components", "platform-component"] {
            assert_eq!(kinds.named(name).unwrap().name, "platform_components", "{name}");
        }
    }
}

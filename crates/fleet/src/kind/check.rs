//! Checks a kind's document on its own: its properties, and the settings under `x-flux` that name them.

use serde_json::{Map, Value};

use super::draft::{CLUSTER_NEEDS, Draft, INPUT_PROPERTIES, RESERVED_PROPERTIES, reserved_names};
use super::names;
use super::settings::Flux;
use crate::refusal::Violation;

/// Everything that is wrong with a draft.
pub(super) fn check(draft: &Draft) -> Vec<Violation> {
    let mut check = Check {
        draft,
        flux: &draft.flux,
        properties: draft.properties(),
        errors: Vec::new(),
    };
    check.reserved_properties();
    check.cluster_properties();
    check.merge_settings();
    check.flux_settings();
    check.names();
    check.required();
    check.errors
}

struct Check<'a> {
    draft: &'a Draft,
    flux: &'a Flux,
    properties: &'a Map<String, Value>,
    errors: Vec<Violation>,
}

impl Check<'_> {
    /// Expects something of a setting under `x-flux`.
    fn expect(&mut self, holds: bool, setting: &str, detail: impl Into<String>) {
        if !holds {
            let pointer = format!("/schema/x-flux/{setting}");
            self.errors.push(Violation::new(pointer, detail));
        }
    }

    fn has(&self, property: &str) -> bool {
        self.properties.contains_key(property)
    }

    /// Whether the kind could have a field of this name in its inputs, besides its properties.
    fn is_free(&self, name: &str) -> bool {
        !self.has(name) && !RESERVED_PROPERTIES.contains(&name) && name != "patches"
    }

    fn reserved_properties(&mut self) {
        let properties = self.properties;
        let reserved = reserved_names(self.flux);
        for name in reserved.filter(|name| properties.contains_key(*name)) {
            let pointer = format!("{}/properties/{name}", self.draft.at);
            let detail = match INPUT_PROPERTIES.contains(&name) {
                true => format!("\"{name}\" cannot be a property unless it is nested: inputs have another \"{name}\""),
                false => format!("\"{name}\" cannot be a property: it has another meaning in files"),
            };
            self.errors.push(Violation::new(pointer, detail));
        }
    }

    /// The properties of clusters that the code uses must have the expected types.
    fn cluster_properties(&mut self) {
        if !self.draft.is_clusters() {
            return;
        }
        for (name, expected) in CLUSTER_NEEDS {
            let property = &self.properties[name];
            let property = property.get("schema").unwrap_or(property);
            if property.get("type").is_none_or(|given| given != expected) || property.get("$ref").is_some() {
                let pointer = format!("{}/properties/{name}/type", self.draft.at);
                self.errors
                    .push(Violation::new(pointer, format!("must be \"{expected}\"")));
            }
        }
    }

    /// The settings of the merge: overridable, carried, nest, cluster_labels, patches.
    fn merge_settings(&mut self) {
        let flux = self.flux;
        for (n, name) in flux.overridable.iter().enumerate() {
            let holds = self.has(name) && name != "id" && !flux.overridable[..n].contains(name);
            let detail = format!("\"{name}\" is not a property that can be overridden, or is listed twice");
            self.expect(holds, &format!("overridable/{n}"), detail);
        }
        let taken = |name: &str| format!("\"{name}\" is already a property");
        for name in flux.carried.keys() {
            self.expect(self.is_free(name), &format!("carried/{name}"), taken(name));
        }
        for (target, fields) in &flux.nest {
            let holds = self.is_free(target) && !flux.carried.contains_key(target);
            self.expect(holds, &format!("nest/{target}"), taken(target));
            for (n, field) in fields.iter().enumerate() {
                let holds = self.has(field) && field != "id";
                self.expect(holds, &format!("nest/{target}/{n}"), not_a_property(field));
            }
        }
        for (n, name) in flux.cluster_labels.iter().enumerate() {
            let holds = !name.is_empty() && !flux.cluster_labels[..n].contains(name);
            let detail = format!("\"{name}\" is not the name of a label, or is listed twice");
            self.expect(holds, &format!("cluster_labels/{n}"), detail);
        }
        let holds = !flux.patches || !self.has("patches");
        self.expect(holds, "patches", "the kind has a property \"patches\"");
    }

    /// The settings that say what Flux does with an input: depends_on, renders, off.
    fn flux_settings(&mut self) {
        let flux = self.flux;
        if let Some(field) = &flux.depends_on {
            let property = self.properties.get(field);
            let holds = property.is_some_and(|property| property["type"] == "array");
            self.expect(holds, "depends_on", format!("\"{field}\" is not an array property"));
        }
        for (n, rule) in flux.renders.iter().enumerate() {
            for field in rule.when.keys() {
                let setting = format!("renders/{n}/when/{field}");
                self.expect(self.has(field), &setting, not_a_property(field));
            }
            for (field, default) in &rule.recreated_on {
                let setting = format!("renders/{n}/recreated_on/{field}");
                for name in [Some(field), default.as_ref()].into_iter().flatten() {
                    self.expect(self.has(name), &setting, not_a_property(name));
                }
            }
        }
        for field in flux.off.keys() {
            let holds = self.has(field) || flux.carried.contains_key(field);
            self.expect(holds, &format!("off/{field}"), not_a_property(field));
        }
    }

    fn names(&mut self) {
        let flux = self.flux;
        for (setting, text) in [("path", &flux.path), ("command", &flux.command)] {
            let holds = text.as_deref().is_none_or(is_label);
            self.expect(holds, setting, "must be lower-case letters, digits and dashes");
        }
        if let Some(path) = &self.draft.names.path {
            let holds = !names::RESERVED_PATHS.contains(&path.as_str());
            self.expect(holds, "path", format!("\"{path}\" is reserved: clusters report there"));
        }
        let holds = flux.singular.as_deref().is_none_or(names::well_formed);
        self.expect(holds, "singular", "must be lower-case letters, digits and underscores");
        if let Some(array) = &self.draft.names.references {
            let holds = names::well_formed(array) && !RESERVED_PROPERTIES.contains(&array.as_str());
            let detail = format!("\"{array}\" cannot be a property of clusters");
            self.expect(holds, "references", detail);
        }
        if self.draft.is_clusters() {
            let holds = flux.path.is_none() && flux.references.is_none();
            self.expect(holds, "path", "clusters have no Flux endpoint");
            let holds = flux.cluster_labels.is_empty();
            self.expect(holds, "cluster_labels", "clusters have no inputs");
        }
    }

    /// Required names must be properties, unless the schema is open.
    fn required(&mut self) {
        let items = &self.draft.items;
        let Some(Value::Array(required)) = items.get("required") else {
            return;
        };
        let is_open = items.contains_key("additionalProperties");
        for (n, name) in required.iter().enumerate() {
            if !is_open && !name.as_str().is_some_and(|name| self.has(name)) {
                let pointer = format!("{}/required/{n}", self.draft.at);
                let detail = format!("{name} is required but not a property");
                self.errors.push(Violation::new(pointer, detail));
            }
        }
    }
}

fn not_a_property(field: &str) -> String {
    format!("\"{field}\" is not a property")
}

/// Whether a text can be a segment of a path, and a command.
fn is_label(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(allowed) && !text.starts_with('-')
}

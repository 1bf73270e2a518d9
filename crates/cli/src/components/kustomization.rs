//! What `kustomize build` would make of a directory: enough of it to know that it builds, and what it takes in.
//!
//! Where kustomize is lenient and Flux or an artifact is not (remote bases, inflated charts, links), this is strict.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::variables::{self, Variable};
use super::{Findings, Tree, tree, yaml};

const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
const KUSTOMIZE: &str = "kustomize.config.k8s.io/v1beta1";
const COMPONENT: &str = "kustomize.config.k8s.io/v1alpha1";

/// Fields that hold paths of files, whose content is not looked at here.
const FILES: [&str; 2] = ["crds", "configurations"];
/// Fields that hold paths of files or directories with objects, or such objects themselves.
const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];
/// Every other field that kustomize knows. It refuses the rest, and so do we.
const OTHER: [&str; 27] = [
    "apiVersion",
    "kind",
    "metadata",
    "openapi",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "commonLabels",
    "labels",
    "commonAnnotations",
    "patchesStrategicMerge",
    "patchesJson6902",
    "patches",
    "images",
    "imageTags",
    "replacements",
    "replicas",
    "vars",
    "sortOptions",
    "resources",
    "components",
    "bases",
    "configMapGenerator",
    "secretGenerator",
    "generatorOptions",
    "buildMetadata",
    "helmGlobals",
];
/// kustomize-controller does not inflate charts, and kustomize only when told to.
const CHARTS: [&str; 2] = ["helmCharts", "helmChartInflationGenerator"];

/// The kustomization file of a directory, if it has one.
pub(super) fn file_of(tree: &Tree, directory: &str) -> Option<String> {
    NAMES
        .iter()
        .map(|name| join(directory, name))
        .find(|file| tree.is_file(file))
}

pub(super) fn is_kustomization(file: &str) -> bool {
    NAMES.contains(&file.rsplit('/').next().unwrap_or_default())
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}

/// What names an object to kustomize.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    api: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Id {
    fn of(object: &Value) -> Id {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        Id {
            api: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            // No namespace and the one called default are the same to kustomize.
            namespace: Some(text(&metadata["namespace"]))
                .filter(|name| name != "default")
                .unwrap_or_default(),
            name: text(&metadata["name"]),
        }
    }

    fn shown(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// A directory that was looked at.
#[derive(Debug, Default)]
struct Built {
    objects: BTreeSet<Id>,
    /// Whether names change on the way, or objects come that are not known here: then ids tell nothing.
    uncertain: bool,
    is_component: bool,
    variables: BTreeSet<Variable>,
    /// The directories that it takes in, itself included.
    includes: BTreeSet<String>,
    broken: bool,
}

/// A file of objects that was looked at.
#[derive(Debug, Default)]
struct Objects {
    ids: Vec<Id>,
    variables: Vec<Variable>,
    broken: bool,
}

/// Every directory that was built, each once.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    built: BTreeMap<String, Rc<Built>>,
    files: BTreeMap<String, Rc<Objects>>,
    named: BTreeSet<String>,
    /// Those that are being built: one of them within itself would never end.
    open: Vec<String>,
}

impl Directories {
    /// The files that some kustomization names.
    pub(super) fn named(&self) -> &BTreeSet<String> {
        &self.named
    }

    pub(super) fn contains(&self, directory: &str) -> bool {
        self.built.contains_key(directory)
    }

    /// The directories that can be built by themselves, and are fine as far as was seen.
    pub(crate) fn buildable(&self) -> impl Iterator<Item = &str> {
        let fine = self
            .built
            .iter()
            .filter(|(_, built)| !built.is_component && !built.broken);
        fine.map(|(directory, _)| directory.as_str())
    }

    /// What a folder takes in from outside of it.
    pub(super) fn included_by(&self, folder: &str) -> BTreeSet<&str> {
        let within = self
            .built
            .iter()
            .filter(|(directory, _)| tree::is_within(directory, folder));
        let all = within.flat_map(|(_, built)| built.includes.iter().map(String::as_str));
        all.filter(|directory| !tree::is_within(directory, folder)).collect()
    }

    /// The names of the variables in what a directory takes in.
    pub(super) fn variables(&self, directory: &str) -> BTreeSet<&str> {
        let built = self.built.get(directory).into_iter();
        built
            .flat_map(|built| built.variables.iter().map(|variable| variable.name.as_str()))
            .collect()
    }

    pub(super) fn build(&mut self, tree: &Tree, directory: &str, findings: &mut Findings) {
        self.visit(tree, directory, findings);
    }

    fn visit(&mut self, tree: &Tree, directory: &str, findings: &mut Findings) -> Rc<Built> {
        if let Some(built) = self.built.get(directory) {
            return Rc::clone(built);
        }
        self.open.push(directory.to_owned());
        let mut one = One {
            tree,
            directory,
            file: file_of(tree, directory).unwrap_or_default(),
            all: self,
            findings,
            built: Built::default(),
        };
        one.read();
        let built = Rc::new(one.built);
        self.open.pop();
        self.built.insert(directory.to_owned(), Rc::clone(&built));
        built
    }
}

/// One directory, while it is looked at.
struct One<'a> {
    tree: &'a Tree,
    directory: &'a str,
    file: String,
    all: &'a mut Directories,
    findings: &'a mut Findings,
    built: Built,
}

impl One<'_> {
    fn problem(&mut self, place: impl Into<String>, detail: impl Into<String>) {
        self.built.broken = true;
        self.findings.problem(&self.file, place, detail);
    }

    fn read(&mut self) {
        self.built.includes.insert(self.directory.to_owned());
        let several = NAMES
            .iter()
            .filter(|name| self.tree.is_file(&join(self.directory, name)))
            .count()
            > 1;
        if several {
            self.problem("", format!("is not the only kustomization file of {}", self.directory));
        }
        let text = match self.tree.text(&self.file) {
            Ok(text) => text,
            Err(detail) => return self.problem("", detail),
        };
        let fields = match yaml::document(&text) {
            Ok(Value::Object(fields)) => fields,
            Ok(Value::Null) => return self.problem("", "is empty"),
            Ok(_) => return self.problem("", "is not an object"),
            Err((place, detail)) => return self.problem(place, detail),
        };
        self.heading(&fields);
        for name in fields.keys() {
            let name = name.as_str();
            if CHARTS.contains(&name) {
                self.problem(format!("/{name}"), "kustomize-controller does not inflate charts");
            } else if !OTHER.contains(&name) && !FILES.contains(&name) && !PLUGINS.contains(&name) {
                self.problem(format!("/{name}"), "kustomize knows no such field");
            }
        }
        let elsewhere = ["namePrefix", "nameSuffix", "namespace", "generators", "transformers"];
        self.built.uncertain = elsewhere.iter().any(|name| fields.contains_key(*name));
        for name in ["resources", "bases"] {
            self.each_path(&fields, name, Self::resource);
        }
        for name in FILES {
            self.each_path(&fields, name, |one, place, given| {
                one.file(place, given);
            });
        }
        if let Some(path) = fields.get("openapi").and_then(|openapi| openapi["path"].as_str()) {
            self.file("/openapi/path", path);
        }
        for name in PLUGINS {
            self.each_path(&fields, name, |one, place, given| match given.contains('\n') {
                true => drop(one.inline(place, given)),
                false => one.plugin(place, given),
            });
        }
        for (name, kind) in [("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")] {
            for (place, item) in self.items(&fields, name) {
                self.generator(&place, kind, &item);
            }
        }
        for (place, item) in self.items(&fields, "replacements") {
            if let Some(path) = item["path"].as_str() {
                self.file(&format!("{place}/path"), path);
            }
        }
        self.each_path(&fields, "components", Self::component);
        self.patches(&fields);
    }

    fn heading(&mut self, fields: &Map<String, Value>) {
        let text = |name: &str| fields.get(name).map(|value| value.as_str().unwrap_or_default());
        self.built.is_component = text("kind") == Some("Component");
        match text("kind") {
            None | Some("Kustomization" | "Component") => {}
            Some(_) => self.problem("/kind", "is Kustomization or Component"),
        }
        let expected = if self.built.is_component { COMPONENT } else { KUSTOMIZE };
        if text("apiVersion").is_some_and(|version| version != expected) {
            self.problem("/apiVersion", format!("is {expected}"));
        }
    }

    /// The items of a list, with their pointers.
    fn items(&mut self, fields: &Map<String, Value>, name: &str) -> Vec<(String, Value)> {
        match fields.get(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                let place = |(n, item): (usize, &Value)| (format!("/{name}/{n}"), item.clone());
                items.iter().enumerate().map(place).collect()
            }
            Some(_) => {
                self.problem(format!("/{name}"), "is a list");
                Vec::new()
            }
        }
    }

    fn each_path(&mut self, fields: &Map<String, Value>, name: &str, mut each: impl FnMut(&mut Self, &str, &str)) {
        for (place, item) in self.items(fields, name) {
            match item.as_str() {
                Some(given) => each(self, &place, given),
                None => self.problem(place, "is a path"),
            }
        }
    }

    /// A path of the tree, if it is one.
    fn resolve(&mut self, place: &str, given: &str) -> Option<String> {
        match tree::resolve(self.directory, given) {
            Ok(path) => Some(path),
            Err(detail) => {
                self.problem(place, detail);
                None
            }
        }
    }

    /// A file that kustomize may load: in this directory or below.
    fn file(&mut self, place: &str, given: &str) -> Option<String> {
        let path = self.resolve(place, given)?;
        if !self.tree.is_file(&path) {
            self.problem(place, format!("{given} is not there, or no file"));
            return None;
        }
        if !tree::is_within(&path, self.directory) {
            let detail =
                format!("{given} is not in or below this directory; kustomize takes only directories from elsewhere");
            self.problem(place, detail);
            return None;
        }
        self.all.named.insert(path.clone());
        Some(path)
    }

    fn resource(&mut self, place: &str, given: &str) {
        if is_remote(given) {
            let detail = format!("{given} is fetched from elsewhere, so this does not build in isolation");
            return self.problem(place, detail);
        }
        let Some(path) = self.resolve(place, given) else {
            return;
        };
        if self.tree.is_folder(&path) {
            return self.include(place, given, &path, false);
        }
        let Some(path) = self.file(place, given) else {
            return;
        };
        let objects = self.objects(&path);
        self.built.broken |= objects.broken;
        self.built.variables.extend(objects.variables.iter().cloned());
        for id in &objects.ids {
            self.add(place, id.clone());
        }
    }

    fn component(&mut self, place: &str, given: &str) {
        let Some(path) = self.resolve(place, given) else {
            return;
        };
        match self.tree.is_folder(&path) {
            true => self.include(place, given, &path, true),
            false => self.problem(place, format!("{given} is not a directory that is there")),
        }
    }

    fn include(&mut self, place: &str, given: &str, path: &str, component: bool) {
        if self.all.open.iter().any(|open| open == path) {
            return self.problem(place, format!("{given} takes in this directory: a cycle"));
        }
        if file_of(self.tree, path).is_none() {
            return self.problem(place, format!("{given} has no kustomization.yaml"));
        }
        let built = self.all.visit(self.tree, path, self.findings);
        self.built.broken |= built.broken;
        if built.is_component != component {
            let detail = match component {
                true => format!("{given} is not of kind Component"),
                false => format!("{given} is of kind Component, and belongs under components"),
            };
            self.problem(place, detail);
        }
        self.built.uncertain |= built.uncertain;
        self.built.includes.extend(built.includes.iter().cloned());
        self.built.variables.extend(built.variables.iter().cloned());
        for id in &built.objects {
            self.add(place, id.clone());
        }
    }

    fn add(&mut self, place: &str, id: Id) {
        if !self.built.uncertain && self.built.objects.contains(&id) {
            return self.problem(place, format!("{} is there twice", id.shown()));
        }
        self.built.objects.insert(id);
    }

    /// The objects of a file, looked at once.
    fn objects(&mut self, path: &str) -> Rc<Objects> {
        if let Some(objects) = self.all.files.get(path) {
            return Rc::clone(objects);
        }
        let mut objects = Objects::default();
        let before = self.findings.problems.len();
        match self
            .tree
            .text(path)
            .map_err(|detail| (String::new(), detail))
            .and_then(|text| yaml::documents(&text))
        {
            Err((place, detail)) => self.findings.problem(path, place, detail),
            Ok(documents) => {
                let many = documents.len() > 1;
                for (n, document) in documents.iter().enumerate() {
                    let place = if many { format!("#{}", n + 1) } else { String::new() };
                    objects.look(path, &place, document, self.findings);
                }
            }
        }
        objects.broken = self.findings.problems.len() > before;
        let objects = Rc::new(objects);
        self.all.files.insert(path.to_owned(), Rc::clone(&objects));
        objects
    }

    /// A file or directory with objects for kustomize itself.
    fn plugin(&mut self, place: &str, given: &str) {
        let Some(path) = self.resolve(place, given) else {
            return;
        };
        if self.tree.is_folder(&path) {
            if file_of(self.tree, &path).is_none() {
                self.problem(place, format!("{given} has no kustomization.yaml"));
            } else {
                self.all.visit(self.tree, &path, self.findings);
                self.built.includes.insert(path);
            }
        } else if let Some(path) = self.file(place, given) {
            self.objects(&path);
        }
    }

    /// YAML within YAML.
    fn inline(&mut self, place: &str, text: &str) -> Option<Vec<Value>> {
        match patch_documents(text) {
            Ok(documents) => Some(documents),
            Err((line, detail)) => {
                let at = if line.is_empty() {
                    String::new()
                } else {
                    format!("{line}: ")
                };
                self.problem(place, format!("{at}{detail}"));
                None
            }
        }
    }

    fn generator(&mut self, place: &str, kind: &str, item: &Value) {
        if item["name"].as_str().is_none_or(str::is_empty) {
            self.problem(format!("{place}/name"), "is not there");
        }
        for (list, keyed) in [("files", true), ("envs", false)] {
            for (n, given) in item[list].as_array().into_iter().flatten().enumerate() {
                let given = given.as_str().unwrap_or_default();
                let path = match given.split_once('=') {
                    Some((_, path)) if keyed => path,
                    _ => given,
                };
                self.file(&format!("{place}/{list}/{n}"), path);
            }
        }
        if let Some(path) = item["env"].as_str() {
            self.file(&format!("{place}/env"), path);
        }
        // The others change what somebody else generates.
        if matches!(item["behavior"].as_str(), None | Some("create")) {
            let metadata = json!({"name": item["name"], "namespace": item["namespace"]});
            let made = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
            self.add(place, Id::of(&made));
        }
    }

    fn patches(&mut self, fields: &Map<String, Value>) {
        for (place, item) in self.items(fields, "patchesStrategicMerge") {
            let given = item.as_str().unwrap_or_default().to_owned();
            let patches = match given.contains('\n') {
                true => self.inline(&place, &given),
                false => self.patch_file(&place, &given),
            };
            let Some(patches) = patches else {
                continue;
            };
            self.patch_variables(&place, &patches);
            self.targets_exist(&place, patches);
        }
        for name in ["patches", "patchesJson6902"] {
            for (place, item) in self.items(fields, name) {
                let patches = match (item["path"].as_str(), item["patch"].as_str()) {
                    (Some(_), Some(_)) => {
                        self.problem(&place, "has both path and patch");
                        continue;
                    }
                    (None, None) => {
                        self.problem(&place, "has neither path nor patch");
                        continue;
                    }
                    (Some(path), None) => self.patch_file(&format!("{place}/path"), path),
                    (None, Some(text)) => self.inline(&format!("{place}/patch"), text),
                };
                let Some(patches) = patches else {
                    continue;
                };
                self.patch_variables(&place, &patches);
                let targeted = item.get("target").is_some_and(|target| !target.is_null());
                match patches.as_slice() {
                    [Value::Array(_)] if !targeted => self.problem(&place, "is a JSON patch, which needs a target"),
                    [Value::Array(operations)] => self.json_patch(&place, operations),
                    _ if targeted => {}
                    _ => self.targets_exist(&place, patches),
                }
            }
        }
    }

    fn patch_file(&mut self, place: &str, given: &str) -> Option<Vec<Value>> {
        let path = self.file(place, given)?;
        let text = match self.tree.text(&path) {
            Ok(text) => text,
            Err(detail) => {
                self.built.broken = true;
                self.findings.problem(&path, "", detail);
                return None;
            }
        };
        match patch_documents(&text) {
            Ok(documents) => Some(documents),
            Err((line, detail)) => {
                self.built.broken = true;
                self.findings.problem(&path, line, detail);
                None
            }
        }
    }

    /// What a patch brings in is part of the result, so its variables are too.
    fn patch_variables(&mut self, place: &str, patches: &[Value]) {
        for patch in patches {
            let (found, wrong) = variables::of_object(patch);
            self.built.variables.extend(found);
            for (pointer, detail) in wrong {
                self.problem(format!("{place} {pointer}"), detail);
            }
        }
    }

    fn json_patch(&mut self, place: &str, operations: &[Value]) {
        const KNOWN: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];
        for operation in operations {
            let known = operation["op"].as_str().is_some_and(|op| KNOWN.contains(&op));
            if !known || !operation["path"].is_string() {
                self.problem(
                    place,
                    "is a JSON patch with an operation that has no known op, or no path",
                );
            }
        }
    }

    /// A patch without a target names the object that it is for. Components patch what others bring, so there nothing is known.
    fn targets_exist(&mut self, place: &str, patches: Vec<Value>) {
        if patches.is_empty() {
            return self.problem(place, "is empty");
        }
        for patch in patches {
            let id = Id::of(&patch);
            if id.kind.is_empty() || id.name.is_empty() {
                self.problem(place, "names no object: it has no kind, or no metadata.name");
            } else if !self.built.objects.contains(&id) && !self.built.uncertain && !self.built.is_component {
                self.problem(place, format!("there is no {} of {} to patch", id.shown(), id.api));
            }
        }
    }
}

impl Objects {
    fn look(&mut self, path: &str, place: &str, object: &Value, findings: &mut Findings) {
        let at = |pointer: &str| match (place, pointer) {
            ("", pointer) => pointer.to_owned(),
            (place, "") => place.to_owned(),
            (place, pointer) => format!("{place} {pointer}"),
        };
        if !object.is_object() {
            return findings.problem(path, at(""), "is not an object");
        }
        let id = Id::of(object);
        if id.kind.ends_with("List") && object["items"].is_array() {
            for (n, item) in object["items"].as_array().into_iter().flatten().enumerate() {
                self.look(path, &at(&format!("/items/{n}")), item, findings);
            }
            return;
        }
        for (pointer, text) in [
            ("/apiVersion", &id.api),
            ("/kind", &id.kind),
            ("/metadata/name", &id.name),
        ] {
            if text.is_empty() {
                findings.problem(path, at(pointer), "is not there");
            }
        }
        let (found, wrong) = variables::of_object(object);
        for (pointer, detail) in wrong {
            findings.problem(path, at(&pointer), detail);
        }
        for variable in found
            .iter()
            .filter(|variable| !variable.provided_for && !IDENTITY.contains(&variable.name.as_str()))
        {
            let detail = format!(
                "${{{0}}} has no default, such as ${{{0}:=1}}: without a patch it is empty",
                variable.name
            );
            findings.warning(path, at(""), detail);
        }
        self.variables.extend(found);
        self.ids.push(id);
    }
}

/// What every cluster has in its ConfigMap `cluster-identity`.
const IDENTITY: [&str; 4] = ["CLUSTER_NAME", "CLUSTER_DNS", "ENVIRONMENT", "INTERNAL_API_URL"];

/// The documents of a patch. What begins with a bracket is JSON to kustomize, and nothing but JSON.
fn patch_documents(text: &str) -> Result<Vec<Value>, (String, String)> {
    if !text.starts_with('[') {
        return yaml::documents(text);
    }
    let wrong = |error: serde_json::Error| (String::new(), format!("begins as JSON does, and is none: {error}"));
    serde_json::from_str(text).map(|value| vec![value]).map_err(wrong)
}

/// What kustomize would fetch.
fn is_remote(given: &str) -> bool {
    let host = given.split('/').next().unwrap_or_default();
    given.contains("://")
        || given.contains("?ref=")
        || given.starts_with("git@")
        || given.starts_with("git::")
        || host == "github.com"
}

//! What kustomizations name: files, folders, and the variables in them. kustomize itself decides whether a folder builds
//! (`build.rs`).
//!
//! Everything that a kustomization names must be in the repository. kustomize tries to fetch a path that it does not find, so
//! a folder that names anything else is a problem, and is not built.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::variables::{self, Variable};
use super::{Findings, Tree, tree, yaml};

const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Fields with a list of paths of manifests, of folders, or of YAML texts.
const MANIFESTS: [&str; 7] = [
    "resources",
    "bases",
    "components",
    "generators",
    "transformers",
    "validators",
    "patchesStrategicMerge",
];
/// Fields with a list of paths of other files.
const FILES: [&str; 2] = ["crds", "configurations"];
/// Fields with a list of objects that have a path or a text of a patch.
const PATCHES: [&str; 2] = ["patches", "patchesJson6902"];
/// Fields with a list of objects that name files.
const GENERATORS: [&str; 2] = ["configMapGenerator", "secretGenerator"];

/// The kustomization file of a folder, if it has one.
pub(super) fn file_of(tree: &Tree, folder: &str) -> Option<String> {
    let path = |name: &&str| match folder {
        "" => (*name).to_owned(),
        folder => format!("{folder}/{name}"),
    };
    FILE_NAMES.iter().map(path).find(|file| tree.is_file(file))
}

pub(super) fn is_kustomization(file: &str) -> bool {
    FILE_NAMES.contains(&file.rsplit('/').next().unwrap_or_default())
}

/// A folder with a kustomization.
#[derive(Debug, Default)]
struct Folder {
    /// Whether it is of kind Component, which cannot be built by itself.
    is_component: bool,
    /// The folders that it names.
    includes: BTreeSet<String>,
    /// The variables in the manifests that it names.
    variables: BTreeSet<Variable>,
    /// Whether something that it names is remote, missing, outside of the repository, or cannot be read.
    broken: bool,
}

/// Every kustomization of a repository that was read.
#[derive(Debug, Default)]
pub(crate) struct Kustomizations {
    folders: BTreeMap<String, Folder>,
    /// The files that they name.
    named: BTreeSet<String>,
}

impl Kustomizations {
    /// Reads the kustomization of a folder, and of all that it includes.
    pub(super) fn read(&mut self, tree: &Tree, folder: &str, findings: &mut Findings) {
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            let Some(file) = file_of(tree, &folder).filter(|_| !self.folders.contains_key(&folder)) else {
                continue;
            };
            let mut reader = Reader {
                tree,
                folder: &folder,
                file,
                findings,
                read: Folder::default(),
                named: &mut self.named,
            };
            reader.read();
            let read = reader.read;
            open.extend(read.includes.iter().cloned());
            self.folders.insert(folder, read);
        }
    }

    /// The files that some kustomization names.
    pub(super) fn named(&self) -> &BTreeSet<String> {
        &self.named
    }

    pub(super) fn contains(&self, folder: &str) -> bool {
        self.folders.contains_key(folder)
    }

    /// The folders that kustomize can build without fetching anything.
    pub(crate) fn buildable(&self) -> impl Iterator<Item = &str> {
        let is_whole = |folder: &str| {
            let mut all = self
                .closure(folder)
                .into_iter()
                .filter_map(|path| self.folders.get(path));
            all.all(|folder| !folder.broken)
        };
        let folders = self.folders.iter().filter(|(_, folder)| !folder.is_component);
        folders
            .map(|(path, _)| path.as_str())
            .filter(move |path| is_whole(path))
    }

    /// The folders outside of `folder` that something in it includes.
    pub(super) fn included_by(&self, folder: &str) -> BTreeSet<&str> {
        let within = self.folders.keys().filter(|path| tree::is_within(path, folder));
        let all = within.flat_map(|path| self.closure(path));
        all.filter(|path| !tree::is_within(path, folder)).collect()
    }

    /// The names of the variables in a folder, and in all that it includes.
    pub(super) fn variables(&self, folder: &str) -> BTreeSet<&str> {
        let all = self
            .closure(folder)
            .into_iter()
            .filter_map(|path| self.folders.get(path));
        all.flat_map(|folder| &folder.variables)
            .map(|variable| variable.name.as_str())
            .collect()
    }

    /// A folder, and all that it includes.
    fn closure<'a>(&'a self, folder: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open = vec![folder];
        while let Some(path) = open.pop() {
            if found.insert(path)
                && let Some(folder) = self.folders.get(path)
            {
                open.extend(folder.includes.iter().map(String::as_str));
            }
        }
        found
    }
}

/// One kustomization while it is read.
struct Reader<'a> {
    tree: &'a Tree,
    folder: &'a str,
    file: String,
    findings: &'a mut Findings,
    read: Folder,
    named: &'a mut BTreeSet<String>,
}

impl Reader<'_> {
    fn problem(&mut self, place: &str, detail: impl Into<String>) {
        self.read.broken = true;
        self.findings.problem(&self.file, place, detail);
    }

    fn read(&mut self) {
        let text = match self.tree.text(&self.file) {
            Ok(text) => text,
            Err(detail) => return self.problem("", detail),
        };
        let document = match yaml::document(&text) {
            Ok(document) => document,
            Err((place, detail)) => return self.problem(&place, detail),
        };
        self.read.is_component = fields(&document, "kind").any(|(_, kind)| kind == "Component");
        for (place, text) in items_of(&document, &MANIFESTS) {
            match text.contains('\n') {
                true => self.manifests(None, &place, text),
                false => self.path(&place, text, true),
            }
        }
        for (place, path) in items_of(&document, &FILES) {
            self.path(&place, path, false);
        }
        self.objects(&document);
    }

    /// Paths in the objects of lists.
    fn objects(&mut self, document: &Value) {
        for (place, item) in objects_of(document, &PATCHES) {
            for (name, path) in texts(item, "path") {
                self.path(&format!("{place}/{name}"), path, true);
            }
            for (name, patch) in texts(item, "patch") {
                self.manifests(None, &format!("{place}/{name}"), patch);
            }
        }
        for (place, item) in objects_of(document, &GENERATORS) {
            for (at, file) in items_of(item, &["files"]) {
                // `key=path`, or the path alone.
                let path = file.split_once('=').map_or(file, |(_, path)| path);
                self.path(&format!("{place}{at}"), path, false);
            }
            for (at, path) in items_of(item, &["envs"]) {
                self.path(&format!("{place}{at}"), path, false);
            }
            for (name, path) in texts(item, "env") {
                self.path(&format!("{place}/{name}"), path, false);
            }
        }
        for (place, item) in objects_of(document, &["replacements"]) {
            for (name, path) in texts(item, "path") {
                self.path(&format!("{place}/{name}"), path, false);
            }
        }
        for (_, openapi) in fields(document, "openapi") {
            for (name, path) in texts(openapi, "path") {
                self.path(&format!("/openapi/{name}"), path, false);
            }
        }
    }

    /// A path that the kustomization names.
    fn path(&mut self, place: &str, given: &str, manifests: bool) {
        if is_remote(given) {
            let detail = format!("{given} is remote; a version folder must build without the network");
            return self.problem(place, detail);
        }
        let path = match tree::resolve(self.folder, given) {
            Ok(path) => path,
            Err(detail) => return self.problem(place, detail),
        };
        if self.tree.is_folder(&path) {
            if file_of(self.tree, &path).is_none() {
                self.problem(place, format!("{given} has no kustomization.yaml"));
            }
            self.read.includes.insert(path);
            return;
        }
        if !self.tree.is_file(&path) {
            return self.problem(place, format!("{given} does not exist, or is not a regular file"));
        }
        // kustomize refuses files of other folders; `prune` must keep them all the same.
        if !tree::is_within(&path, self.folder)
            && let Some((parent, _)) = path.rsplit_once('/')
        {
            self.read.includes.insert(parent.to_owned());
        }
        self.named.insert(path.clone());
        if manifests {
            match self.tree.text(&path) {
                Ok(text) => self.manifests(Some(&path), "", &text),
                Err(detail) => {
                    self.read.broken = true;
                    self.findings.problem(&path, "", detail);
                }
            }
        }
    }

    /// Collects the variables of manifests in a file, or in a text at a place of the kustomization.
    fn manifests(&mut self, file: Option<&str>, place: &str, text: &str) {
        let path = file.unwrap_or(&self.file).to_owned();
        let documents = match yaml::documents(text) {
            Ok(documents) => documents,
            Err((line, detail)) => {
                self.read.broken = true;
                return self.findings.problem(&path, joined(place, &line), detail);
            }
        };
        let many = documents.len() > 1;
        for (n, document) in documents.iter().enumerate() {
            let number = if many { format!("#{}", n + 1) } else { String::new() };
            let place = joined(place, &number);
            let (found, wrong) = variables::of_object(document);
            for (pointer, detail) in wrong {
                self.read.broken = true;
                self.findings.problem(&path, joined(&place, &pointer), detail);
            }
            // A patch may rely on the default that the manifest has.
            for variable in found
                .iter()
                .filter(|variable| file.is_some() && variable.is_empty_without_patch())
            {
                let detail = format!(
                    "${{{0}}} has no default, such as ${{{0}:=1}}; it is empty unless a patch sets it",
                    variable.name
                );
                self.findings.warning(&path, place.clone(), detail);
            }
            self.read.variables.extend(found);
        }
    }
}

/// Two parts of a place, either of which may be empty.
fn joined(first: &str, second: &str) -> String {
    match (first, second) {
        ("", second) => second.to_owned(),
        (first, "") => first.to_owned(),
        (first, second) => format!("{first} {second}"),
    }
}

/// The fields of this name. kustomize ignores the case of names, so there may be several.
fn fields<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let all = value.as_object().into_iter().flatten();
    let named = all.filter(move |(key, _)| key.eq_ignore_ascii_case(name));
    named.map(|(key, value)| (key.as_str(), value))
}

/// The texts of these fields.
fn texts<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    fields(value, name).filter_map(|(key, value)| Some((key, value.as_str()?)))
}

/// The items of the lists of these names, each with its pointer.
fn objects_of<'a>(value: &'a Value, names: &[&str]) -> Vec<(String, &'a Value)> {
    let lists = names.iter().flat_map(|name| fields(value, name));
    let items = lists.flat_map(|(key, list)| {
        let items = list.as_array().into_iter().flatten().enumerate();
        items.map(move |(n, item)| (format!("/{key}/{n}"), item))
    });
    items.collect()
}

/// The texts in the lists of these names, each with its pointer.
fn items_of<'a>(value: &'a Value, names: &[&str]) -> Vec<(String, &'a str)> {
    let items = objects_of(value, names).into_iter();
    items
        .filter_map(|(place, item)| Some((place, item.as_str()?)))
        .collect()
}

/// Whether kustomize would fetch a path.
fn is_remote(given: &str) -> bool {
    let host = given.split('/').next().unwrap_or_default();
    given.contains("://")
        || given.contains("?ref=")
        || given.starts_with("git@")
        || given.starts_with("git::")
        || host == "github.com"
}

//! `render`: the manifests that Flux applies to a cluster, or that a ResourceSet renders to.
//!
//! For a cluster, the server renders with its own templates; with --template, this program renders other templates with the
//! inputs of the server, to try them before a release. Offline, it replaces `flux-operator build resourceset`: the same files,
//! the same output, the same errors.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use fleet::kind::CLUSTERS;
use resourceset::Bundle;
use resourceset::offline::{self, Offline};
use serde_json::{Map, Value, json};

use crate::args::complete::{cluster_ids, kind_names};
use crate::args::given;
use crate::args::ids::cluster_id;
use crate::client::{encode, with_query};
use crate::error::{Failure, plain};
use crate::output::Printer;
use crate::session::{Session, missing_cluster, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct RenderArgs {
    /// The id of a cluster
    #[arg(value_parser = cluster_id, add = cluster_ids(), required_unless_present = "filename")]
    cluster: Option<String>,
    /// Only the manifests of this kind
    #[arg(long, value_parser = given, add = kind_names(), requires = "cluster")]
    kind: Option<String>,
    /// Render the ResourceSets of this file or folder instead of those of the server
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath, requires = "cluster")]
    template: Option<PathBuf>,
    /// Render the cluster as it was at this revision
    #[arg(long, value_name = "REVISION", requires = "cluster")]
    revision: Option<u64>,
    /// Offline: the ResourceSet, or - for stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "cluster")]
    filename: Option<PathBuf>,
    /// Offline: a list of inputs, merged over those of the ResourceSet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "filename")]
    inputs_from: Option<PathBuf>,
    /// Offline: ResourceSetInputProviders of type Static that the ResourceSet selects from
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "filename")]
    inputs_from_provider: Option<PathBuf>,
    /// Offline: the namespace of a ResourceSet without one
    #[arg(short, long, default_value = "default")]
    namespace: String,
}

impl RenderArgs {
    /// The file to render without a server, if one was given.
    pub(crate) fn offline(&self) -> Option<&Path> {
        self.filename.as_deref()
    }
}

/// Renders a cluster.
pub(crate) fn of_cluster(session: &Session<'_>, args: &RenderArgs) -> Result<(), Failure> {
    let cluster = args.cluster.as_deref().unwrap_or_default();
    let kind = match &args.kind {
        Some(name) => Some(session.kinds()?.get(name)?),
        None => None,
    };
    let revision = args.revision.map(|revision| revision.to_string());
    let objects = match &args.template {
        Some(path) => {
            let objects = with_templates(session, cluster, path, revision.as_deref())?;
            let wanted = kind.map(|kind| kind.path.clone().unwrap_or_default());
            let is_read = |wanted: &String| objects.iter().any(|(paths, _)| paths.contains(wanted));
            if let Some(wanted) = wanted.as_ref().filter(|wanted| !is_read(wanted)) {
                let path = path.display();
                session
                    .printer
                    .note(&format!("note: {path}: no ResourceSet reads the path {wanted}"));
            }
            let objects = objects
                .into_iter()
                .filter(|(paths, _)| wanted.as_ref().is_none_or(|path| paths.contains(path)));
            objects.flat_map(|(_, objects)| objects).collect()
        }
        None => {
            let query = [("kind", kind.map(|kind| kind.name.to_string())), ("revision", revision)];
            let path = with_query(&format!("/{CLUSTERS}/{}/manifests", encode(cluster)), query);
            let list = session.client.get(&path);
            let mut list = list.map_err(|error| missing_cluster(error.into(), cluster))?;
            for note in list["notes"].as_array().into_iter().flatten() {
                session.printer.note(&format!("note: {}", text(note)));
            }
            match list["items"].take() {
                Value::Array(objects) => objects,
                _ => Vec::new(),
            }
        }
    };
    let printer = session.printer;
    if !printer.is_manifests() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let names = || objects.iter().map(name).collect();
        return printer.print(&list, |_| Default::default(), names);
    }
    let mut out = String::new();
    for object in &objects {
        out.push_str("---\n");
        out.push_str(&resourceset::to_yaml(object).map_err(|error| Failure::refused(error.to_string()))?);
    }
    printer.text(&out)
}

fn name(object: &Value) -> String {
    let metadata = &object["metadata"];
    match text(&metadata["namespace"]) {
        "" => format!("{}/{}", text(&object["kind"]), text(&metadata["name"])),
        namespace => format!("{}/{namespace}/{}", text(&object["kind"]), text(&metadata["name"])),
    }
}

/// The objects of each ResourceSet, with the paths that it takes its inputs from.
type Rendered = Vec<(Vec<String>, Vec<Value>)>;

/// Renders local templates with the inputs of a cluster.
fn with_templates(
    session: &Session<'_>,
    cluster: &str,
    path: &Path,
    revision: Option<&str>,
) -> Result<Rendered, Failure> {
    let files = template_files(path)?;
    let bundle = Bundle::read(files.iter().map(|(name, text)| (name.as_str(), text.as_slice())));
    let bundle = bundle.map_err(|error| Failure::refused(error.to_string()))?;
    if bundle.is_empty() {
        return Err(Failure::usage(format!("{}: no ResourceSet was found", path.display())));
    }
    // A missing cluster is reported before any error of a template.
    if revision.is_none() {
        session.client.resource(CLUSTERS, cluster)?;
    }
    let failed: RefCell<Option<Failure>> = RefCell::default();
    let inputs_of = |path: &str| -> Option<Vec<Map<String, Value>>> {
        let url = format!("/{CLUSTERS}/{}/inputs/{}", encode(cluster), encode(path));
        match session
            .client
            .get(&with_query(&url, [("revision", revision.map(str::to_owned))]))
        {
            Ok(mut reply) => match reply["inputs"].take() {
                Value::Array(inputs) => Some(
                    inputs
                        .into_iter()
                        .filter_map(|input| input.as_object().cloned())
                        .collect(),
                ),
                _ => None,
            },
            // There is no such kind: Flux would get no answer either.
            Err(error) if error.is("not-found") => None,
            Err(error) => {
                failed.borrow_mut().get_or_insert(error.into());
                None
            }
        }
    };
    let rendered = bundle.render(inputs_of);
    if let Some(failure) = failed.take() {
        return Err(failure);
    }
    let mut out = Vec::new();
    for one in rendered {
        let steps = one
            .result
            .map_err(|error| Failure::refused(format!("ResourceSet {}: {error}", one.name)))?;
        let paths = one.paths.iter().map(|path| (*path).to_owned()).collect();
        out.push((paths, steps.into_iter().flat_map(|step| step.objects).collect()));
    }
    Ok(out)
}

fn template_files(path: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).map_err(|error| unreadable(&path, &error))? {
                let entry = entry.map_err(|error| unreadable(&path, &error))?.path();
                let extension = entry.extension().and_then(|extension| extension.to_str());
                // As the server reads TEMPLATES_DIR.
                let name = entry.file_name().unwrap_or_default();
                if name.as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                if entry.is_dir() || matches!(extension, Some("yaml" | "yml" | "json")) {
                    open.push(entry);
                }
            }
        } else {
            found.push((path.display().to_string(), read(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

/// Renders files, without a server.
pub(crate) fn from_files(printer: &Printer, args: &RenderArgs, file: &Path) -> Result<(), Failure> {
    let resource_set = read_or_stdin(file)?;
    let inputs = read_if_given(args.inputs_from.as_deref())?;
    let providers = read_if_given(args.inputs_from_provider.as_deref())?;
    let documents = offline::build(&Offline {
        resource_set: &resource_set,
        inputs: inputs.as_deref(),
        providers: providers.as_deref(),
        namespace: &args.namespace,
    });
    printer.text(&documents.map_err(|error| Failure::refused(error.to_string()))?)
}

fn read_if_given(path: Option<&Path>) -> Result<Option<Vec<u8>>, Failure> {
    path.map(read).transpose()
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn read_or_stdin(path: &Path) -> Result<Vec<u8>, Failure> {
    if path != Path::new("-") {
        return read(path);
    }
    let mut text = Vec::new();
    io::stdin()
        .read_to_end(&mut text)
        .map_err(|error| unreadable(Path::new("stdin"), &error))?;
    // As the operator's command does; the result can differ, since a block scalar may keep its last line breaks.
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    text.truncate(end.map_or(0, |end| end + 1));
    Ok(text)
}

/// Exit code 1, not 2 as in other commands: the operator's command has one code for all errors.
fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::refused(format!("{}: {}", path.display(), plain(error)))
}

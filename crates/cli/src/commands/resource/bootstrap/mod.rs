//! `cluster bootstrap`: everything that a new cluster applies to join the fleet.

mod bundle;
mod evidence;
mod folder;
mod trust;

use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{ArgMatches, Args, Command, FromArgMatches as _, ValueHint};
use fleet::identity::CLUSTER_PREFIX;
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use self::bundle::{Bundle, Source};
use self::evidence::Reporter;
use self::trust::Trust;
use super::{Verb, id, id_arg};
use crate::args::given;
use crate::client::encode;
use crate::commands::token;
use crate::config::without_user;
use crate::error::Failure;
use crate::identities::{revocation, send};
use crate::kinds::{Kind, Kinds};
use crate::output::Format;
use crate::session::{Session, missing_cluster, text};

pub(super) const VERB: Verb = Verb {
    name: "bootstrap",
    command,
    run,
};

const HELP: &str = "\
The manifests are printed as YAML, or with -o DIR written to a folder that `kubectl apply -k DIR` accepts: the identity of the \
cluster (ConfigMap), a new token of its own (Secret), a provider for every kind of the server, and the ResourceSets of the server. The \
cluster needs Flux Operator; --flux-instance also installs the controllers of Flux. --reporter, or --notifications where Flux's \
notification-controller runs, lets the API know what came of the inputs. Each call issues another token: those of earlier \
calls stay valid, see `token list`.

Examples:
  flux-resourceset-cli cluster bootstrap prod-1 --url https://fleet.example.com | kubectl apply -f -
  flux-resourceset-cli cluster bootstrap prod-1 --url https://fleet.example.com -o prod-1
  flux-resourceset-cli cluster bootstrap prod-1 --url https://fleet.example.com --reporter --nudge -o prod-1
  flux-resourceset-cli cluster bootstrap prod-1 --dry-run --source oci://ghcr.io/acme/fleet:latest";

#[derive(Args, Clone, Debug)]
struct BootstrapArgs {
    /// Write files to this folder [default: YAML on stdout]; names of formats, as json, are formats
    #[arg(id = "output", short, long, value_name = "DIR", value_parser = folder_or_format, value_hint = ValueHint::DirPath)]
    _output: Option<Format>,
    /// Write to a folder that is not empty; files of the same names are replaced
    #[arg(long)]
    force: bool,
    /// The address of the API as the cluster reaches it [default: the one that this command uses]
    #[arg(long, value_parser = address)]
    url: Option<String>,
    /// The certificate authorities that the cluster trusts for this address, in PEM format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ca_file: Option<PathBuf>,
    /// The cluster identifies with this client certificate; no token is issued
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key_file", conflicts_with = "expires_in")]
    cert_file: Option<PathBuf>,
    /// The key of the client certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// How often the cluster polls: 30s, 5m [default: as the templates of the server say, 5m]
    #[arg(long, value_name = "TIME", value_parser = given)]
    interval: Option<String>,
    /// How long the token is valid: 12h, 90d [default: it does not expire]
    #[arg(long, value_name = "TIME", value_parser = given)]
    expires_in: Option<String>,
    /// Also a source and a Kustomization that keep providers and ResourceSets at what this artifact of k8s/ has
    #[arg(long, value_name = "oci://HOST/NAME[:TAG]", value_parser = Source::parse)]
    source: Option<Source>,
    /// Also a FluxInstance, with which Flux Operator installs the controllers of Flux
    #[arg(long)]
    flux_instance: bool,
    /// Also a Provider and an Alert: Flux's notification-controller, which must run, tells the API what failed and succeeded
    #[arg(long)]
    notifications: bool,
    /// Also the reporter, which tells the API how every object is that came of its inputs
    #[arg(long)]
    reporter: bool,
    /// The reporter has the cluster poll as soon as something changes; for that it may patch providers
    #[arg(long, requires = "reporter")]
    nudge: bool,
    /// The image of the reporter
    #[arg(long, value_name = "IMAGE", requires = "reporter", default_value = evidence::IMAGE, value_parser = given)]
    reporter_image: String,
    /// The reason for the token; kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Issue no token: the Secret has a placeholder
    #[arg(long)]
    dry_run: bool,
}

/// `-o DIR`; formats keep their names.
fn folder_or_format(text: &str) -> Result<Format, String> {
    given(text)?;
    match Format::from_str(text) {
        Err(error) if text.starts_with("jsonpath=") || text.starts_with("custom-columns=") => Err(error),
        Err(_) => Ok(Format::Folder(text.into())),
        Ok(format) => Ok(format),
    }
}

fn address(text: &str) -> Result<String, String> {
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("expected an address that begins with http:// or https://".to_owned()),
    }
}

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    if kind.name != CLUSTERS {
        return None;
    }
    let command = command
        .about("Print everything that a new cluster applies to join the fleet, with a token of its own")
        .arg(id_arg(kind));
    Some(BootstrapArgs::augment_args(command).after_help(HELP))
}

fn run(session: &Session<'_>, _: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let args = BootstrapArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    let id = id(matches);
    // Everything that can fail comes before the token.
    let cluster = session.client.resource(CLUSTERS, id);
    let cluster = cluster.map_err(|error| missing_cluster(error.into(), id))?.value;
    let url = match &args.url {
        Some(url) => url.clone(),
        None => without_user(session.client.url()?),
    };
    let trust = Trust::read(
        args.ca_file.as_deref(),
        args.cert_file.as_deref().zip(args.key_file.as_deref()),
    )?;
    let templates = session
        .client
        .get(&format!("/{CLUSTERS}/{}/resourcesets", encode(id)))?;
    let mut bundle = Bundle::new(&cluster, &url, trust)?;
    bundle.interval.clone_from(&args.interval);
    bundle.source.clone_from(&args.source);
    bundle.flux_instance = args.flux_instance;
    bundle.notifications = args.notifications;
    bundle.reporter = args.reporter.then(|| Reporter {
        image: args.reporter_image.clone(),
        nudge: args.nudge,
    });
    let paths: Vec<&str> = session
        .kinds()?
        .iter()
        .filter_map(|kind| kind.path.as_deref())
        .collect();
    bundle.add_templates(
        &paths,
        templates["items"].as_array().map(Vec::as_slice).unwrap_or_default(),
    )?;
    if let Some(folder) = session.printer.folder() {
        folder::check(folder, args.force)?;
    }
    advise(session, &args, &bundle, &url);
    if bundle.needs_token() {
        let token = token_for(session, id, &args)?;
        bundle.token = Some(text(&token["token"]).to_owned());
        return finish(session, &bundle).inspect_err(|_| take_back(session, id, &token));
    }
    finish(session, &bundle)
}

/// The new token of the cluster; for a dry run, a text in its place.
fn token_for(session: &Session<'_>, id: &str, args: &BootstrapArgs) -> Result<Value, Failure> {
    if args.dry_run {
        session
            .printer
            .note("dry run: no token was issued; the Secret has a placeholder");
        return Ok(json!({"token": "PLACEHOLDER: no token was issued"}));
    }
    let identity = format!("{CLUSTER_PREFIX}{id}");
    let reason = args.reason.as_deref().unwrap_or("cluster bootstrap");
    let change = token::issue(&identity, args.expires_in.as_deref(), Some(reason));
    let issued = token::issued(session, &identity, &change)?;
    token::note(session, &issued, "it is in the Secret");
    Ok(issued)
}

/// Revokes a token that could not be handed over.
fn take_back(session: &Session<'_>, id: &str, issued: &Value) {
    let token = text(&issued["id"]);
    if token.is_empty() {
        return;
    }
    let change = revocation(
        &format!("{CLUSTER_PREFIX}{id}"),
        token,
        Some("cluster bootstrap failed"),
    );
    session.printer.note(&match send(session, &change) {
        Ok(_) => format!("the token {token} was revoked again"),
        Err(failure) => format!("the token {token} could not be revoked: {}", failure.message),
    });
}

/// Says what may not be as it was meant.
fn advise(session: &Session<'_>, args: &BootstrapArgs, bundle: &Bundle, url: &str) {
    let printer = session.printer;
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let local = ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|name| host.starts_with(name));
    if local && args.url.is_none() {
        printer.hint(&format!(
            "the cluster will poll {url}; use --url if it reaches the API at another address"
        ));
    }
    if url.starts_with("http://") {
        printer.note("note: the address is plain http, so tokens can be read on the way (`insecure: true`)");
    }
    if args.notifications {
        printer.note("note: while notification-controller is down, Flux waits up to 15 s for each of its events");
    }
    for note in bundle.notes() {
        printer.note(&format!("note: {note}"));
    }
}

fn finish(session: &Session<'_>, bundle: &Bundle) -> Result<(), Failure> {
    let files = bundle.files()?;
    if let Some(path) = session.printer.folder() {
        folder::write(path, &files)?;
        session.printer.note(&format!(
            "wrote {} files; apply them with `kubectl apply -k {}`",
            files.len(),
            path.display()
        ));
        return Ok(());
    }
    let objects: Vec<&Value> = files.iter().flat_map(|file| &file.objects).collect();
    if !session.printer.is_manifests() {
        let names = || objects.iter().map(|object| bundle::name(object)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        return session.printer.print(&list, |_| Default::default(), names);
    }
    let mut out = String::new();
    for object in objects {
        out.push_str("---\n");
        out.push_str(&bundle::yaml(object)?);
    }
    session.printer.text(&out)
}

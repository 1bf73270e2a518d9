//! `register`: a new cluster joins the fleet by itself, with the token of a join identity.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint};
use fleet::identity::{Role, Token, token_text};
use serde_json::{Map, Value, json};

use crate::args::given;
use crate::client::{Change, Conditions, Method};
use crate::config::replace;
use crate::error::{Code, Failure};
use crate::kubernetes::{SERVICE_ACCOUNT, Secret};
use crate::output::{Table, Tone};
use crate::session::{ATTEMPTS, Session, text};

pub(crate) const AFTER_HELP: &str = "\
The command makes the token of the cluster itself, keeps it in the file or the Secret, and sends only its SHA-256. So it can be repeated: \
a token that is kept already is used again, and the same registration is answered as the first time. FLUX_API_TOKEN is a token of a join \
identity; the address is that of a server in crud mode. See k8s/registration for a Job that runs it on first boot.

Examples:
  flux-resourceset-cli register e7 --dns e7.example.com --environment prod --token-file token
  flux-resourceset-cli register e7 --dns e7.example.com --environment prod --secret fleet-token";

#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("kept").args(["token_file", "secret"]).required(true)))]
pub(crate) struct RegisterArgs {
    /// The name of the cluster, which is also its id
    #[arg(value_parser = given)]
    name: String,
    /// The DNS name that it polls with
    #[arg(long, value_parser = given)]
    dns: String,
    /// Its environment
    #[arg(long, value_parser = given)]
    environment: String,
    /// A label of the cluster (can be repeated); those that the join identity forces are added
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Keep the token in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,
    /// Keep the token under the key `token` of this Secret, in the cluster that the command runs in
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = given)]
    secret: Option<String>,
    /// The folder with the token and the authority of the pod's ServiceAccount
    #[arg(long, value_name = "DIR", default_value = SERVICE_ACCOUNT, requires = "secret")]
    service_account: PathBuf,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(crate) fn run(session: &Session<'_>, args: &RegisterArgs) -> Result<(), Failure> {
    // The token is kept before the server knows it: whatever is lost later, the cluster still has it.
    let token = match (&args.token_file, &args.secret) {
        (Some(path), _) => in_file(path)?,
        (None, Some(name)) => in_secret(&Secret::new(&args.service_account, name)?)?,
        (None, None) => return Err(Failure::usage("name the place of the token: --token-file or --secret")),
    };
    let mut body = json!({
        "cluster_name": args.name,
        "cluster_dns": args.dns,
        "environment": args.environment,
        "token_sha256": Token::digest_of(token.as_bytes()).to_string(),
    });
    if !args.label.is_empty() {
        let labels = args
            .label
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        body["labels"] = labels.collect::<Map<_, _>>().into();
    }
    let change = Change::new(Method::Post, "/register".to_owned(), None).with_body(body);
    let reply = session
        .client
        .change(&change, &Conditions::default())
        .map_err(|error| {
            let is_known = error.is("exists");
            let mut failure = Failure::from(error);
            // The refusal of a field does not repeat its name.
            if let [(pointer, detail)] = failure.details.as_slice()
                && failure.message == *detail
                && !is_known
            {
                failure.message = format!("{}: {detail}", pointer.trim_start_matches('/'));
            }
            match is_known {
                true => failure.hint(
                    "another cluster has this name; a registration is repeated only with the token of the first time",
                ),
                false => failure,
            }
        })?;
    let cluster = session.client.json(&reply)?["cluster"].take();
    let is_new = reply.status == 201;
    let table = |_| {
        let mut table = Table::default();
        let verb = if is_new { "registered" } else { "is registered already" };
        table.line(format!("clusters/{} {verb}", text(&cluster["id"])), Tone::Good);
        table
    };
    let names = || vec![format!("clusters/{}", text(&cluster["id"]))];
    session.printer.print(&cluster, table, names)
}

/// The token in a file; a new one if there is none. Only its owner can read it.
fn in_file(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::file(path, &error)),
    }
    let token = new_token()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let written = replace(path, folder.unwrap_or(Path::new(".")), format!("{token}\n").as_bytes());
    written.map_err(|error| Failure::file(path, &error))?;
    Ok(token)
}

/// The token in a Secret; a new one if there is none. Of several that do this at once, one wins.
fn in_secret(secret: &Secret) -> Result<String, Failure> {
    const KEY: &str = "token";
    for _ in 0..ATTEMPTS {
        let held = secret.read(KEY)?;
        if let Some(token) = held.text {
            return Ok(token.trim().to_owned());
        }
        let token = new_token()?;
        if secret.write(KEY, &token, &held)? {
            return Ok(token);
        }
    }
    Err(Failure::refused("the Secret changes all the time; try again"))
}

fn new_token() -> Result<String, Failure> {
    let mut random = [0; 32];
    let source = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    let filled = source.fill(&mut random);
    filled.map_err(|_| Failure::new(Code::Refused, "the system has no random numbers"))?;
    Ok(token_text(Role::Cluster, random))
}

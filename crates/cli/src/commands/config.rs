//! `config`: contexts in the configuration file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::args::given;
use crate::config::{Context, File, REDACTED, redacted};
use crate::error::{Code, Failure};
use crate::login::Login;
use crate::output::{Printer, Table, Tone, cell};
use crate::tls::TlsFiles;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Add or change a context, with the certificates that the global options name; the first one becomes the current context
    SetContext(Box<SetContextArgs>),
    /// Make a context the current context
    UseContext(NameArgs),
    /// List the contexts
    GetContexts,
    /// Print the name of the current context as plain text, or as JSON with -o json
    CurrentContext,
    /// Remove a context
    DeleteContext(NameArgs),
    /// Show the configuration file, without its tokens
    View(ViewArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct NameArgs {
    /// The name of the context
    #[arg(value_parser = given)]
    name: String,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ViewArgs {
    /// Show tokens too
    #[arg(long)]
    raw: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SetContextArgs {
    /// The name of the context
    #[arg(value_parser = given)]
    name: String,
    /// The address of the API, http:// or https://
    #[arg(long, value_parser = address)]
    url: Option<String>,
    /// The token for reading
    #[arg(long, group = "read")]
    token: Option<String>,
    /// A file with the token for reading
    #[arg(long, value_name = "FILE", group = "read")]
    token_file: Option<PathBuf>,
    /// A command that prints the token for reading
    #[arg(long, value_name = "COMMAND", group = "read")]
    token_command: Option<String>,
    /// The token for writing
    #[arg(long, group = "write")]
    write_token: Option<String>,
    /// A file with the token for writing
    #[arg(long, value_name = "FILE", group = "write")]
    write_token_file: Option<PathBuf>,
    /// A command that prints the token for writing
    #[arg(long, value_name = "COMMAND", group = "write")]
    write_token_command: Option<String>,
    /// Remove the client certificate and its key from the context
    #[arg(long)]
    no_client_certificate: bool,
    /// Also make it the current context
    #[arg(long = "use")]
    use_it: bool,
}

fn address(text: &str) -> Result<String, String> {
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("expected an address that begins with http:// or https://".to_owned()),
    }
}

pub(crate) fn run(printer: &Printer, tls: TlsFiles, command: ConfigCommand) -> Result<(), Failure> {
    let mut file = File::read()?;
    match command {
        ConfigCommand::SetContext(args) => set_context(printer, file, tls, *args),
        ConfigCommand::UseContext(args) => {
            known(&file, &args.name)?;
            file.current_context = Some(args.name);
            file.write()?;
            show(printer, &file)
        }
        ConfigCommand::GetContexts => show(printer, &file),
        ConfigCommand::CurrentContext => {
            match &file.current_context {
                Some(name) => {
                    // Scripts use the plain name, so JSON is printed only if it was asked for.
                    if !printer.is_explicit() {
                        return printer.text(&format!("{name}\n"));
                    }
                    let mut table = Table::default();
                    table.line(name, Tone::Plain);
                    printer.print(&json!(name), |_| table, || vec![name.clone()])
                }
                None => Err(Failure::new(Code::NotFound, "no context is the current one").hint(
                    match file.contexts.is_empty() {
                        true => "there is none; `config set-context NAME --url URL` adds one",
                        false => "set it with `config use-context NAME`",
                    },
                )),
            }
        }
        ConfigCommand::DeleteContext(args) => {
            known(&file, &args.name)?;
            file.contexts.remove(&args.name);
            if file.current_context.as_ref() == Some(&args.name) {
                file.current_context = None;
            }
            file.write()?;
            show(printer, &file)
        }
        ConfigCommand::View(args) => {
            if !args.raw {
                file.contexts.values_mut().for_each(redact);
            }
            let value = serde_json::to_value(&file).map_err(|error| Failure::usage(error.to_string()))?;
            printer.value(&value)
        }
    }
}

fn known(file: &File, name: &str) -> Result<(), Failure> {
    match file.contexts.contains_key(name) {
        true => Ok(()),
        false => Err(file.unknown(name)),
    }
}

fn redact(context: &mut Context) {
    for token in [&mut context.token, &mut context.write_token].into_iter().flatten() {
        *token = REDACTED.to_owned();
    }
    if let Some(login) = &mut context.login {
        login.id_token = REDACTED.to_owned();
        login.refresh_token = login.refresh_token.take().map(|_| REDACTED.to_owned());
    }
    context.url = redacted(&context.url);
}

fn set_context(printer: &Printer, mut file: File, tls: TlsFiles, args: SetContextArgs) -> Result<(), Failure> {
    let context = file.contexts.entry(args.name.clone()).or_default();
    if let Some(url) = args.url {
        // A login is for one server.
        if url != context.url {
            context.login = None;
        }
        context.url = url;
    }
    if context.url.is_empty() {
        return Err(Failure::usage(format!(
            "--url is required for the new context \"{}\"",
            args.name
        )));
    }
    // A token is given in one of three ways: a new one replaces the others.
    if args.token.is_some() || args.token_file.is_some() || args.token_command.is_some() {
        (context.token, context.token_file, context.token_command) =
            (args.token, absolute(args.token_file)?, args.token_command);
    }
    if args.write_token.is_some() || args.write_token_file.is_some() || args.write_token_command.is_some() {
        context.write_token = args.write_token;
        context.write_token_file = absolute(args.write_token_file)?;
        context.write_token_command = args.write_token_command;
    }
    if args.no_client_certificate {
        (context.client_certificate, context.client_key) = (None, None);
    }
    set_certificates(context, tls)?;
    if args.use_it || file.current_context.is_none() {
        file.current_context = Some(args.name);
    }
    file.write()?;
    show(printer, &file)
}

/// Sets the files of TLS that were named.
fn set_certificates(context: &mut Context, tls: TlsFiles) -> Result<(), Failure> {
    for (given, kept) in [
        (tls.authority, &mut context.certificate_authority),
        (tls.certificate, &mut context.client_certificate),
        (tls.key, &mut context.client_key),
    ] {
        if given.is_some() {
            *kept = absolute(given)?;
        }
    }
    match context.client_certificate.is_some() == context.client_key.is_some() {
        true => Ok(()),
        false => Err(Failure::usage(
            "a client certificate and its key belong together: name both files, --client-certificate and --client-key",
        )),
    }
}

/// Contexts are used from any folder, so the paths in them are absolute.
fn absolute(path: Option<PathBuf>) -> Result<Option<PathBuf>, Failure> {
    path.map(|path| std::path::absolute(&path).map_err(|error| Failure::file(&path, &error)))
        .transpose()
}

fn show(printer: &Printer, file: &File) -> Result<(), Failure> {
    let how = |plain: bool, path: Option<&PathBuf>, command: Option<&String>, login: Option<&Login>| match (
        login, plain, path, command,
    ) {
        (Some(_), ..) => json!("login"),
        (_, true, ..) => json!("kept"),
        (_, _, Some(path), _) => json!(format!("file {}", path.display())),
        (_, _, _, Some(command)) => json!(format!("command {command}")),
        _ => Value::Null,
    };
    let contexts = file.contexts.iter().map(|(name, context)| {
        let login = context.login.as_ref();
        json!({
            "name": name, "current": file.current_context.as_ref() == Some(name), "url": redacted(&context.url),
            "token": how(context.token.is_some(), context.token_file.as_ref(), context.token_command.as_ref(), login),
            "client_certificate": context.client_certificate,
            "certificate_authority": context.certificate_authority,
            "write_token":
                how(context.write_token.is_some(), context.write_token_file.as_ref(), context.write_token_command.as_ref(), login),
        })
    });
    let contexts: Vec<Value> = contexts.collect();
    let table = |wide: bool| {
        let mut columns = vec!["name", "url", "token", "write_token"];
        if wide || contexts.iter().any(|context| context["client_certificate"].is_string()) {
            columns.push("client_certificate");
        }
        if wide {
            columns.push("certificate_authority");
        }
        let mut table = Table::new(["current"].iter().chain(&columns));
        for context in &contexts {
            let current = context["current"] == true;
            let mark = (if current { "*" } else { "" }.to_owned(), Tone::Good);
            let cells = columns.iter().map(|name| (cell(&context[*name]), Tone::Plain));
            table.row([mark].into_iter().chain(cells));
        }
        table
    };
    printer.print(&Value::Array(contexts.clone()), table, || {
        file.contexts.keys().cloned().collect()
    })
}

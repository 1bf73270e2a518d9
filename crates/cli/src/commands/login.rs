//! `login` and `logout`.

use clap::Args;

use crate::args::{Global, given};
use crate::client::{Client, Right};
use crate::commands::whoami;
use crate::config::{Access, File};
use crate::error::{Code, Failure};
use crate::login::{self, Issuer, Login, code, device};
use crate::output::Printer;
use crate::session::text;

pub(crate) const AFTER_HELP: &str = "\
The server says which issuer it trusts. The login is kept in the context, in the configuration file, which only you can read. Commands fetch the next \
token when one has expired.

Without a browser on this machine, use --device. For issuers that accept one redirect address only, register http://localhost:PORT/callback and use \
--port PORT.";

#[derive(Args, Clone, Debug)]
pub(crate) struct LoginArgs {
    /// Log in with a browser on another machine, by a code
    #[arg(long, conflicts_with_all = ["port", "no_browser"])]
    device: bool,
    /// Only print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
    /// The port that the issuer redirects the browser to [default: any]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// The issuer [default: what the server says]
    #[arg(long, value_name = "URL", value_parser = given)]
    issuer: Option<String>,
    /// The client to log in as [default: what the server says]
    #[arg(long, value_name = "ID", value_parser = given)]
    client_id: Option<String>,
    /// What to ask the issuer for, separated by blanks [default: what the server says]
    #[arg(long, value_name = "SCOPES", value_parser = given)]
    scopes: Option<String>,
}

/// What a login needs to know.
struct Settings {
    issuer: String,
    client_id: String,
    scopes: String,
}

pub(crate) fn log_in(printer: &Printer, global: &Global, args: &LoginArgs) -> Result<(), Failure> {
    let context = context(global)?;
    let settings = settings(global, args)?;
    let issuer = Issuer::discover(&settings.issuer)?;
    let tokens = match args.device {
        true => device::log_in(&issuer, &settings.client_id, &settings.scopes, printer)?,
        false => {
            let request = code::Request {
                client_id: &settings.client_id,
                scopes: &settings.scopes,
                port: args.port,
                opens: !args.no_browser,
            };
            code::log_in(&issuer, &request, printer)?
        }
    };
    let kept = Login {
        issuer: settings.issuer,
        client_id: settings.client_id,
        id_token: tokens.id_token,
        refresh_token: tokens.refresh_token,
    };
    login::keep(&context.name, context.url.as_deref(), kept)?;
    let access = Access::settle(&global.chosen())?;
    if !access.is_logged_in() {
        let source = access.read_source();
        printer.note(&format!(
            "note: commands use {source}, and not this login, while it is set"
        ));
    }
    let caller = Client::new(access).whoami(Right::Read).map_err(|error| {
        let failure = Failure::from(error);
        Failure {
            message: format!("logged in, but the server does not let you in: {}", failure.message),
            ..failure
        }
    })?;
    whoami::show(printer, &caller)
}

/// The context that keeps the login.
struct Keeper {
    name: String,
    /// Of a new one.
    url: Option<String>,
}

/// The named context, or the current one. Without one, a first one for FLUX_API_URL.
fn context(global: &Global) -> Result<Keeper, Failure> {
    let file = File::read()?;
    let existing = |name: &String| Keeper {
        name: name.clone(),
        url: None,
    };
    if let Some(name) = &global.context {
        return match file.contexts.contains_key(name) {
            true => Ok(existing(name)),
            false => Err(file.unknown(name)),
        };
    }
    let url = crate::config::set("FLUX_API_URL").map(|url| url.trim_end_matches('/').to_owned());
    match (&file.current_context, url) {
        (Some(name), url) => {
            let kept = file.contexts.get(name).ok_or_else(|| file.unknown(name))?;
            match url.filter(|url| *url != kept.url.trim_end_matches('/')) {
                None => Ok(existing(name)),
                Some(_) => Err(Failure::usage(format!(
                    "FLUX_API_URL is another address than the one of the context \"{name}\", which would keep the login"
                ))
                .hint("unset FLUX_API_URL, or use --context")),
            }
        }
        (None, Some(url)) => Ok(Keeper {
            name: "default".to_owned(),
            url: Some(url),
        }),
        (None, None) => Err(
            Failure::usage("no context is the current one, so the login cannot be kept")
                .hint("`flux-resourceset-cli config set-context NAME --url URL` adds one"),
        ),
    }
}

/// What the line says, and for the rest what the server says.
fn settings(global: &Global, args: &LoginArgs) -> Result<Settings, Failure> {
    let (issuer, client_id, scopes) = (args.issuer.clone(), args.client_id.clone(), args.scopes.clone());
    if let (Some(issuer), Some(client_id), Some(scopes)) = (&issuer, &client_id, &scopes) {
        return Ok(Settings {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            scopes: scopes.clone(),
        });
    }
    let client = Client::new(Access::settle(&global.chosen())?);
    let told = client.discovery().map_err(|error| match error.status() {
        Some(401 | 404) => no_login(&client),
        _ => error.into(),
    })?;
    let told = &told["login"];
    if !told.is_object() {
        return Err(no_login(&client));
    }
    let or_told = |value: Option<String>, name: &str| value.unwrap_or_else(|| text(&told[name]).to_owned());
    Ok(Settings {
        issuer: or_told(issuer, "issuer"),
        client_id: or_told(client_id, "client_id"),
        scopes: or_told(scopes, "scopes"),
    })
}

fn no_login(client: &Client) -> Failure {
    let failure = Failure::refused(format!("{} accepts no logins", client.shown_url()));
    failure.hint("its OIDC_ISSUER is not set; ask for a token, and use `config set-context NAME --token-file FILE`")
}

pub(crate) fn log_out(printer: &Printer, global: &Global) -> Result<(), Failure> {
    let file = File::read()?;
    let name = global.context.as_ref().or(file.current_context.as_ref());
    let name = name.ok_or_else(|| Failure::new(Code::NotFound, "no context is the current one"))?;
    let kept = file.contexts.get(name).ok_or_else(|| file.unknown(name))?;
    let Some(login) = &kept.login else {
        printer.note(&format!("the context \"{name}\" has no login"));
        return Ok(());
    };
    login::forget(name)?;
    // The login is forgotten here in any case.
    if let Some(refresh_token) = &login.refresh_token {
        let revoked = Issuer::discover(&login.issuer).and_then(|issuer| issuer.revoke(&login.client_id, refresh_token));
        if let Err(failure) = revoked {
            printer.note(&format!(
                "warning: the refresh token could not be revoked: {}",
                failure.message
            ));
        }
    }
    printer.note(&format!("logged out of the context \"{name}\""));
    Ok(())
}

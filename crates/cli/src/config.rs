//! The address of the API and its tokens: from the environment, or from a context of the configuration file.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fleet::nearest::did_you_mean;
use serde::{Deserialize, Serialize};

use crate::args::Chosen;
use crate::error::{Code, Failure};
use crate::login::{self, Login};
use crate::process::{self, Capture};
use crate::tls::TlsFiles;

/// Where the rights come from if there is no token.
const CERTIFICATE: &str = "the client certificate";

/// Where the rights come from after a login.
pub(crate) const LOGIN: &str = "the login of the context";

const FOLDER: &str = "flux-resourceset";

/// How long a command may take to print a token.
const TOKEN_LIMIT: Duration = Duration::from_secs(10);

/// The configuration file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_context: Option<String>,
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// The address of an API, and its tokens: in plain text, in a file, or printed by a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Context {
    pub(crate) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) write_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) write_token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) write_token_command: Option<String>,
    /// A file with the authorities to trust, in place of those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_authority: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_key: Option<PathBuf>,
    /// What `login` keeps. It comes before the tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<Login>,
}

impl Context {
    fn tls(&self) -> TlsFiles {
        TlsFiles {
            authority: self.certificate_authority.clone(),
            certificate: self.client_certificate.clone(),
            key: self.client_key.clone(),
        }
    }
}

impl File {
    pub(crate) fn path() -> Result<PathBuf, Failure> {
        if let Some(path) = set("FLUX_RESOURCESET_CONFIG") {
            return Ok(path.into());
        }
        let folder = folder("XDG_CONFIG_HOME", ".config");
        let folder = folder.ok_or_else(|| {
            Failure::usage("neither HOME nor XDG_CONFIG_HOME is set, so there is no configuration file")
        })?;
        Ok(folder.join("config.yaml"))
    }

    /// Reads the file; one that does not exist has no contexts.
    pub(crate) fn read() -> Result<File, Failure> {
        let path = File::path()?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(File::default()),
            Err(error) => return Err(Failure::file(&path, &error)),
        };
        let wrong = |detail: String| Failure::new(Code::Usage, format!("{}: {detail}", path.display()));
        let value = fleet::yaml::parse(&text).map_err(wrong)?;
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
    }

    /// The failure about a context that does not exist.
    pub(crate) fn unknown(&self, name: &str) -> Failure {
        let failure = Failure::new(Code::NotFound, format!("there is no context \"{name}\""));
        let like = did_you_mean(name, self.contexts.keys().map(String::as_str));
        failure.hint(like.unwrap_or_else(|| match self.contexts.is_empty() {
            true => format!("there is none; `config set-context {name} --url URL` adds it"),
            false => "`config get-contexts` lists the contexts".to_owned(),
        }))
    }

    /// Writes the file. Only its owner can read it, and a crash leaves the old file.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let path = File::path()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let value = serde_json::to_value(self).map_err(|error| Failure::usage(error.to_string()))?;
        replace(&path, folder, fleet::yaml::write(&value).as_bytes()).map_err(|error| Failure::file(&path, &error))
    }
}

/// Replaces a file as a whole. Only its owner can read it, as with every temporary file.
pub(crate) fn replace(path: &Path, folder: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// The value of a variable that is set and not empty.
pub(crate) fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let base = set(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(below_home)))?;
    Some(base.join(FOLDER))
}

/// The folder for answers that the server can confirm by their version.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache")
}

/// What is shown in place of a secret.
pub(crate) const REDACTED: &str = "REDACTED";

/// The name and password in a URL. A password with an unescaped `/` is found as well: only the last `@` ends it.
pub(crate) fn user_info(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.rsplit_once('@')
        .map(|(secret, _)| secret)
        .filter(|secret| !secret.is_empty())
}

/// A URL without the name and password.
pub(crate) fn without_user(url: &str) -> String {
    match user_info(url) {
        Some(secret) => url.replacen(&format!("{secret}@"), "", 1),
        None => url.to_owned(),
    }
}

/// A URL as it may be shown: without the name and password.
pub(crate) fn redacted(url: &str) -> String {
    match user_info(url) {
        Some(secret) => url.replacen(&format!("{secret}@"), &format!("{REDACTED}@"), 1),
        None => url.to_owned(),
    }
}

#[derive(Clone, Debug)]
enum Secret {
    Plain(String),
    File(PathBuf),
    Command(String),
    /// The login of this context.
    Login(String),
}

impl Secret {
    fn of(plain: Option<&String>, file: Option<&PathBuf>, command: Option<&String>) -> Option<Secret> {
        let file = || file.cloned().map(Secret::File);
        let command = || command.cloned().map(Secret::Command);
        plain.cloned().map(Secret::Plain).or_else(file).or_else(command)
    }

    fn reveal(&self, source: &str) -> Result<String, Failure> {
        let text = match self {
            Secret::Plain(text) => text.clone(),
            Secret::Login(context) => login::token(context)?,
            Secret::File(path) => fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?,
            Secret::Command(line) => {
                let failed = |detail| Failure::new(Code::Usage, format!("the token command `{line}` {detail}"));
                let printed = printed(line).map_err(failed)?;
                String::from_utf8(printed).map_err(|_| failed("printed something that is not text".to_owned()))?
            }
        };
        // The first line that is not blank: files and output end with line breaks.
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        match line.is_empty() || line.chars().any(|c| c.is_ascii_control()) {
            true => Err(Failure::new(
                Code::Usage,
                format!("{source} is empty, or is not a line of text"),
            )),
            false => Ok(line.to_owned()),
        }
    }
}

/// What a command prints, if it succeeds in time.
fn printed(line: &str) -> Result<Vec<u8>, String> {
    let (status, bytes) = process::run(Command::new("sh").arg("-c").arg(line), Capture::Stdout, TOKEN_LIMIT)?;
    match status.success() {
        true => Ok(bytes),
        false => Err(format!("failed: {status}")),
    }
}

/// A token, and where it comes from.
#[derive(Clone, Debug)]
struct Token {
    secret: Secret,
    source: String,
}

impl Token {
    fn of_environment(name: &str, value: String) -> Token {
        Token {
            secret: Secret::Plain(value),
            source: name.to_owned(),
        }
    }

    fn of_login(context: &str) -> Token {
        Token {
            secret: Secret::Login(context.to_owned()),
            source: format!("{LOGIN} \"{context}\""),
        }
    }
}

/// The address of the API and its tokens. Tokens are read when they are needed: a command that prints one may be slow.
#[derive(Debug)]
pub(crate) struct Access {
    url: Result<String, String>,
    read: Option<Token>,
    write: Option<Token>,
    /// Why the tokens of the context are not used, if they are not.
    note: Option<String>,
    tls: TlsFiles,
    read_token: OnceCell<String>,
    write_token: OnceCell<String>,
}

impl Access {
    /// The named context if there is one, else the environment, else the current context. Files of TLS that the line names come
    /// before those.
    pub(crate) fn settle(chosen: &Chosen) -> Result<Access, Failure> {
        let named = chosen.context.as_deref();
        let file = match (named, set("FLUX_API_URL"), set("FLUX_API_TOKEN")) {
            // The environment has everything, so a broken file does not matter.
            (None, Some(_), Some(_)) => File::default(),
            _ => File::read()?,
        };
        let context = match named.or(file.current_context.as_deref()) {
            None => None,
            Some(name) => match file.contexts.get(name) {
                Some(context) => Some((name, context)),
                None => return Err(file.unknown(name)),
            },
        };
        let environment = |name: &str| if named.is_some() { None } else { set(name) };
        let url = environment("FLUX_API_URL").or_else(|| context.map(|(_, context)| context.url.clone()));
        let url = url.map(|url| url.trim_end_matches('/').to_owned());
        let mut note = None;
        // A token is only sent to the address of its context.
        let context = context.filter(|(name, context)| {
            let same = url.as_deref() == Some(context.url.trim_end_matches('/'));
            if !same {
                note = Some(format!(
                    "the tokens and certificates of the context \"{name}\" are not used, because FLUX_API_URL is another address"
                ));
            }
            same
        });
        let login = context.and_then(|(name, c)| c.login.as_ref().map(|_| Token::of_login(name)));
        let read = login.clone().or_else(|| {
            context.and_then(|(name, c)| {
                Some(Token {
                    secret: Secret::of(c.token.as_ref(), c.token_file.as_ref(), c.token_command.as_ref())?,
                    source: format!("the token of the context \"{name}\""),
                })
            })
        });
        let write = login.or_else(|| {
            context.and_then(|(name, c)| {
                let (file, command) = (c.write_token_file.as_ref(), c.write_token_command.as_ref());
                Some(Token {
                    secret: Secret::of(c.write_token.as_ref(), file, command)?,
                    source: format!("the write token of the context \"{name}\""),
                })
            })
        });
        let token_in = |name: &str| environment(name).map(|value| Token::of_environment(name, value));
        let url = match url {
            None => Err("FLUX_API_URL is not set, and there is no current context".to_owned()),
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => Ok(url),
            Some(url) => Err(format!("\"{}\" is not an http:// or https:// address", redacted(&url))),
        };
        let file_in = |name: &str| environment(name).map(PathBuf::from);
        let of_environment = TlsFiles {
            authority: file_in("FLUX_API_CA_FILE"),
            certificate: file_in("FLUX_API_CLIENT_CERTIFICATE"),
            key: file_in("FLUX_API_CLIENT_KEY"),
        };
        let of_context = context.map(|(_, context)| context.tls()).unwrap_or_default();
        Ok(Access {
            url,
            tls: chosen.tls.clone().or(of_environment).or(of_context),
            read: token_in("FLUX_API_TOKEN").or(read),
            write: token_in("FLUX_API_WRITE_TOKEN").or(write),
            note,
            read_token: OnceCell::new(),
            write_token: OnceCell::new(),
        })
    }

    pub(crate) fn url(&self) -> Result<&str, Failure> {
        let hint =
            "export FLUX_API_URL=http://127.0.0.1:8080, or `flux-resourceset-cli config set-context NAME --url URL`";
        self.url
            .as_deref()
            .map_err(|message| Failure::usage(message.clone()).hint(hint))
    }

    /// The files of TLS.
    pub(crate) fn tls(&self) -> &TlsFiles {
        &self.tls
    }

    /// The token for reading. None: the client certificate identifies the caller.
    pub(crate) fn read_token(&self) -> Result<Option<&str>, Failure> {
        self.token(&self.read_token, self.reader(), "FLUX_API_TOKEN")
    }

    /// The token for writing. None: the client certificate identifies the caller.
    pub(crate) fn write_token(&self) -> Result<Option<&str>, Failure> {
        self.token(&self.write_token, self.writer(), "FLUX_API_WRITE_TOKEN")
    }

    fn reader(&self) -> Option<&Token> {
        self.read.as_ref().or(self.write.as_ref())
    }

    fn writer(&self) -> Option<&Token> {
        self.write.as_ref().or(self.read.as_ref())
    }

    /// Whether both tokens are those of a login.
    pub(crate) fn is_logged_in(&self) -> bool {
        let is_login = |token: Option<&Token>| {
            matches!(
                token,
                Some(Token {
                    secret: Secret::Login(_),
                    ..
                })
            )
        };
        is_login(self.reader()) && is_login(self.writer())
    }

    /// Where the token for reading comes from.
    pub(crate) fn read_source(&self) -> &str {
        self.reader().map_or(CERTIFICATE, |token| token.source.as_str())
    }

    /// Where the token for writing comes from.
    pub(crate) fn write_source(&self) -> &str {
        self.writer().map_or(CERTIFICATE, |token| token.source.as_str())
    }

    fn token<'a>(
        &'a self,
        cell: &'a OnceCell<String>,
        token: Option<&Token>,
        variable: &str,
    ) -> Result<Option<&'a str>, Failure> {
        if let Some(token) = cell.get() {
            return Ok(Some(token));
        }
        let token = match token {
            Some(token) => token.secret.reveal(&token.source)?,
            // A key without a certificate is reported when the files are read.
            None if self.tls.certificate.is_some() || self.tls.key.is_some() => return Ok(None),
            None => {
                let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
                let failure = Failure::usage(format!("{variable} is not set, and no context has a token{note}"));
                return Err(failure.hint(format!(
                    "export {variable}=…, or `flux-resourceset-cli config set-context NAME --token-file FILE`"
                )));
            }
        };
        Ok(Some(cell.get_or_init(|| token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_name_and_password() {
        for (url, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            (
                "https://ann:pa55@fleet.example.com/api",
                "https://REDACTED@fleet.example.com/api",
            ),
            ("https://pa55@fleet.example.com", "https://REDACTED@fleet.example.com"),
            (
                "https://ann:p@a/55@fleet.example.com",
                "https://REDACTED@fleet.example.com",
            ),
            ("http://http@h", "http://REDACTED@h"),
            ("ann:pa55@fleet.example.com", "REDACTED@fleet.example.com"),
            ("http://@h", "http://@h"),
            ("", ""),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }
}

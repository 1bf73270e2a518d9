//! Arguments that several commands share. A command's own arguments stand beside the command, in `commands/`.

pub(crate) mod complete;
pub(crate) mod fields;
pub(crate) mod ids;
pub(crate) mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches as _, ValueHint};
use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;

use crate::args::complete::formats;
use crate::client::Conditions;
use crate::error::Failure;
use crate::output::{Format, Printer};
use crate::plan::whole::Objects;
use crate::tls::TlsFiles;

// Options of every command. (Not a doc comment: clap would use it as the description of each command.)
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Use this context of the configuration file
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) context: Option<String>,
    /// Output format: json, yaml, name, table, wide, jsonpath=TEMPLATE or custom-columns=HEADING:PATH,... [default: table on a
    /// terminal, else json]
    #[arg(short, long, global = true, value_name = "FORMAT", help_heading = "Global options", add = formats())]
    pub(crate) output: Option<Format>,
    /// Leave out the headings of tables
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_headers: bool,
    /// Trust only the certificate authorities in this file [default: those of the system]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options", value_hint = ValueHint::FilePath)]
    certificate_authority: Option<PathBuf>,
    /// Identify with this client certificate, in PEM format
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options", value_hint = ValueHint::FilePath)]
    client_certificate: Option<PathBuf>,
    /// The key of the client certificate
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options", value_hint = ValueHint::FilePath)]
    client_key: Option<PathBuf>,
}

impl Global {
    /// What it says about the server to use.
    pub(crate) fn chosen(&self) -> Chosen {
        Chosen {
            context: self.context.clone(),
            tls: TlsFiles {
                authority: self.certificate_authority.clone(),
                certificate: self.client_certificate.clone(),
                key: self.client_key.clone(),
            },
        }
    }
}

/// What a command line says about the server to use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) context: Option<String>,
    pub(crate) tls: TlsFiles,
}

impl Chosen {
    /// Found before the line is parsed, since the parser needs the kinds of that server.
    pub(crate) fn in_line(given: &[String]) -> Chosen {
        let file = |name: &str| value_in(given, name).map(PathBuf::from);
        Chosen {
            context: value_in(given, "--context"),
            tls: TlsFiles {
                authority: file("--certificate-authority"),
                certificate: file("--client-certificate"),
                key: file("--client-key"),
            },
        }
    }
}

/// The value of an option, as `--name value` or `--name=value`.
fn value_in(given: &[String], name: &str) -> Option<String> {
    let mut rest = given.iter();
    while let Some(word) = rest.next() {
        if word == name {
            return rest.next().cloned();
        }
        if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
    }
    None
}

// Options of every write.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WriteArgs {
    /// The reason for the change; kept in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Show the changes and their effect on the clusters, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show the plan with the Kubernetes objects that change, as a diff; at a terminal, always ask
    #[arg(long)]
    pub(crate) manifests: bool,
    /// Confirm that something is removed from N clusters; required beyond the removal budget
    #[arg(long, value_name = "N")]
    pub(crate) confirm_removals: Option<u64>,
    /// Confirm that N clusters leave a wave that a rollout has promoted, and so go back to what they had before
    #[arg(long, value_name = "N")]
    pub(crate) confirm_demotions: Option<u64>,
    /// Override a guard that refuses the write; only for admins, and with --reason (can be repeated)
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = given)]
    pub(crate) override_guard: Vec<String>,
    /// Write only if the effect is still the one of this plan; a dry run prints the digest
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    pub(crate) if_plan: Option<String>,
}

impl WriteArgs {
    /// The conditions of the write itself.
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            plan: self.if_plan.clone(),
            removals: self.confirm_removals,
            demotions: self.confirm_demotions,
            overrides: self.override_guard.clone(),
            ..Conditions::default()
        }
    }

    /// The conditions of the dry run that shows the plan.
    pub(crate) fn planning(&self, printer: &Printer) -> Conditions {
        let conditions = if self.dry_run {
            self.conditions()
        } else {
            Conditions {
                overrides: self.override_guard.clone(),
                ..Conditions::default()
            }
        };
        Conditions {
            dry_run: true,
            objects: objects(self.manifests, printer, self.dry_run),
            ..conditions
        }
    }

    pub(crate) fn read(matches: &ArgMatches) -> Result<WriteArgs, Failure> {
        WriteArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
    }
}

/// The objects that a plan needs. A table of many clusters shows examples; what programs read has all.
pub(crate) fn objects(manifests: bool, printer: &Printer, is_output: bool) -> Objects {
    match manifests {
        false => Objects::None,
        true if printer.is_wide() || (is_output && !printer.is_table()) => Objects::All,
        true => Objects::Examples,
    }
}

// Files of documents.
#[derive(Args, Clone, Debug)]
pub(crate) struct Files {
    /// A file or folder of documents, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, required = true, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    pub(crate) filename: Vec<PathBuf>,
    /// Also read the folders within folders
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// Parses a name or an id. An empty one usually comes from an unset shell variable.
pub(crate) fn given(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("the value is empty; is a shell variable unset?".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Parses the number of a revision.
pub(crate) fn revision(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("revisions begin at 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected the number of a revision".to_owned()),
    }
}

/// Parses a time span: seconds, or numbers with their units, as in `90`, `30s`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(30 * 86_400);
    let span = || {
        let span = SpanParser::new().parse_span(text).ok()?;
        let time = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
        Duration::try_from(time).ok()
    };
    let time = text.parse().ok().map(Duration::from_secs).or_else(span);
    time.filter(|time| *time <= MOST)
        .ok_or_else(|| "expected a time such as 30s, 10m or 1h30m, of at most 30 days".to_owned())
}

/// Parses the digest of a plan.
fn digest(text: &str) -> Result<String, String> {
    match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("the digest of a plan has 64 hexadecimal digits".to_owned()),
    }
}

/// A flag without a value.
pub(crate) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_have_units_or_are_seconds() {
        for (text, seconds) in [("0", 0), ("90", 90), ("30s", 30), ("10m", 600), ("1h30m", 5400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "soon", "-5s", "10x", "400d", "99999999999999999999"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}

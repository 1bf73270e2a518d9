//! `edit`: changes a resource in the user's editor.

use std::env;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::Command;

use clap::Args;
use fleet::diff::differences;
use serde_json::{Value, json};

use crate::args::complete::{ids_of_the_kind, resources};
use crate::args::{WriteArgs, given, ids};
use crate::client::{Operation, Versioned};
use crate::error::{Failure, plain};
use crate::kinds::Kind;
use crate::output::yaml;
use crate::session::{Outcome, Session, blame, missing};

#[derive(Args, Clone, Debug)]
pub(crate) struct EditArgs {
    /// A kind, by any of its names; or KIND/ID
    #[arg(value_parser = given, add = resources())]
    kind: String,
    /// The id of the resource
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: Option<String>,
    #[command(flatten)]
    how: WriteArgs,
}

/// How often the editor is opened at most: an editor that never changes the text would be opened for ever.
const TRIES: usize = 10;

pub(crate) fn run(session: &Session<'_>, args: &EditArgs) -> Result<(), Failure> {
    let (kind, id) = ids::resource(session.kinds()?, &args.kind, args.id.as_ref())?;
    edit(session, kind, &id, &args.how)
}

pub(crate) fn edit(session: &Session<'_>, kind: &Kind, id: &str, how: &WriteArgs) -> Result<(), Failure> {
    let mut present = session
        .client
        .resource(&kind.name, id)
        .map_err(|error| missing(error.into(), kind, id))?;
    let label = format!("{} {id}", kind.command);
    let mut text = yaml(&present.value);
    let mut refused: Option<Failure> = None;
    let given_up = |failure: Failure, text: &str| failure.hint(format!("{label} was not changed; {}", kept(text)));
    // Without a terminal, the editor is a program that would make the same change again.
    let tries = if io::stdin().is_terminal() { TRIES } else { 1 };
    let mut tried = 0;
    loop {
        let edited = open(&format!("{}{text}", remarks(&label, refused.as_ref())));
        let edited = edited.map_err(|failure| match refused {
            Some(_) => given_up(failure, &text),
            None => failure,
        })?;
        tried += 1;
        let body = without_remarks(&edited);
        if body.trim().is_empty() || body == text {
            // Saving the text unchanged after a refusal means that the user gives up.
            return match refused {
                Some(failure) => Err(given_up(failure, &text)),
                None => session.show_unchanged(how),
            };
        }
        text = body;
        let failure = match fleet::yaml::parse(&text) {
            Err(detail) => Failure::refused(format!("this is not YAML: {detail}")),
            Ok(value) => match save(session, kind, id, &mut present, value, how) {
                Ok(outcome) => return session.show(&outcome),
                Err(Refused::Fix(failure)) => failure,
                Err(Refused::Stop(failure)) => {
                    let hint = failure.hint.clone().map(|hint| hint + "; ").unwrap_or_default();
                    return Err(failure.hint(format!("{hint}{}", kept(&text))));
                }
            },
        };
        if tried >= tries {
            return Err(given_up(failure, &text));
        }
        session.printer.failure(&failure);
        refused = Some(failure);
    }
}

/// The comment above the text in the editor.
fn remarks(label: &str, refused: Option<&Failure>) -> String {
    let Some(failure) = refused else {
        return format!(
            "# {label}. Lines that begin with # are ignored; an unchanged or empty file changes nothing.\n"
        );
    };
    let mut lines = vec![format!("error: {}", failure.message)];
    if failure.details.len() > 1 {
        lines.extend(
            failure
                .details
                .iter()
                .map(|(place, detail)| format!("  {place}: {detail}")),
        );
    }
    lines.push("Correct it and save; save it unchanged to give up.".to_owned());
    lines
        .iter()
        .map(|line| format!("# {}\n", line.replace('\n', " ")))
        .collect()
}

enum Refused {
    /// Another text may help: open the editor again.
    Fix(Failure),
    /// No other text helps.
    Stop(Failure),
}

/// Replaces the version of the resource that was edited. If the resource has changed since, the edit is applied to the new
/// version, unless both changed the same fields.
fn save(
    session: &Session<'_>,
    kind: &Kind,
    id: &str,
    present: &mut Versioned,
    mut value: Value,
    how: &WriteArgs,
) -> Result<Outcome, Refused> {
    loop {
        let body = json!({"op": "replace", "kind": kind.name, "id": id, "value": value, "if_match": present.etag});
        let operations = [Operation::new(format!("{} {id}", kind.command), body)];
        match session.write(&operations, how) {
            Ok(outcome) => return Ok(outcome),
            Err(error) if error.is("stale") => {
                let stop = |error| Refused::Stop(Failure::from(error));
                let now = session.client.resource(&kind.name, id).map_err(stop)?;
                value = rebase(&present.value, &value, &now.value).map_err(|failure| Refused::Stop(*failure))?;
                *present = now;
            }
            Err(error) if ["removal-budget", "protected"].iter().any(|name| error.is(name)) => {
                return Err(Refused::Stop(blame(&operations, error)));
            }
            Err(error) if matches!(error.status(), Some(400 | 409 | 413 | 422)) => {
                return Err(Refused::Fix(blame(&operations, error)));
            }
            Err(error) => return Err(Refused::Stop(blame(&operations, error))),
        }
    }
}

/// Applies the edit from `base` to `edited` to `now`. A top-level field that both changed is a conflict.
fn rebase(base: &Value, edited: &Value, now: &Value) -> Result<Value, Box<Failure>> {
    let (Some(old), Some(mine), Some(theirs)) = (base.as_object(), edited.as_object(), now.as_object()) else {
        return Err(Box::new(Failure::refused("the document must be an object")));
    };
    let mut result = theirs.clone();
    let mut conflicts = Vec::new();
    let mut names: Vec<&String> = old.keys().chain(mine.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (before, wanted, there) = (old.get(name), mine.get(name), theirs.get(name));
        if before == wanted || wanted == there {
            continue;
        }
        if before != there {
            conflicts.extend(differences(
                before.map(|b| json!({ name: b })).as_ref(),
                there.map(|t| json!({ name: t })).as_ref(),
            ));
            continue;
        }
        match wanted {
            Some(value) => result.insert(name.clone(), value.clone()),
            None => result.remove(name),
        };
    }
    if conflicts.is_empty() {
        return Ok(result.into());
    }
    let mut failure = Failure::refused("someone else has changed the same fields");
    failure.details = conflicts
        .iter()
        .map(|conflict| (conflict.pointer.clone(), conflict.describe()))
        .collect();
    Err(Box::new(failure))
}

/// Saves the text, so that the edit is not lost; returns where.
fn kept(text: &str) -> String {
    let write = || -> std::io::Result<String> {
        let mut file = tempfile::Builder::new()
            .prefix("flux-resourceset-edit-")
            .suffix(".yaml")
            .tempfile()?;
        file.write_all(text.as_bytes())?;
        let (_, path) = file.keep()?;
        Ok(path.display().to_string())
    };
    match write() {
        Ok(path) => format!("your text is in {path}"),
        Err(error) => format!("your text could not be saved: {}", plain(&error)),
    }
}

fn without_remarks(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Opens the editor on a text, and returns the edited text.
fn open(text: &str) -> Result<String, Failure> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let failed = |detail: String| Failure::usage(format!("the editor `{editor}` {detail}")).hint("set EDITOR");
    let file = tempfile::Builder::new()
        .prefix("flux-resourceset-")
        .suffix(".yaml")
        .tempfile();
    let mut file = file.map_err(|error| Failure::file(&env::temp_dir(), &error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|error| Failure::file(file.path(), &error))?;
    // EDITOR may contain arguments, so the shell splits it, as git and kubectl do.
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file.path());
    let status = command
        .status()
        .map_err(|error| failed(format!("cannot be run: {}", plain(&error))))?;
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    read(file.path())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_applied_to_the_new_version() {
        let base = json!({"id": "x", "a": 1, "b": 1, "c": 1});
        let edited = json!({"id": "x", "a": 2, "b": 1});
        let now = json!({"id": "x", "a": 1, "b": 5, "c": 1});
        assert_eq!(
            rebase(&base, &edited, &now).unwrap(),
            json!({"id": "x", "a": 2, "b": 5})
        );
    }

    #[test]
    fn the_same_field_is_a_conflict() {
        let failure = rebase(&json!({"a": 1}), &json!({"a": 2}), &json!({"a": 3})).unwrap_err();
        assert_eq!(failure.details, [("/a".to_owned(), "1 -> 3".to_owned())]);
    }
}

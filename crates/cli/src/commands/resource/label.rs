//! `KIND label`, as in kubectl: `KEY=VALUE` sets a label, `KEY-` removes one.

use clap::{Arg, ArgMatches, Command};
use fleet::kind::CLUSTERS;
use fleet::nearest::did_you_mean;
use serde_json::{Map, Value, json};

use super::chosen::{Chosen, Found, selection_args};
use super::{Verb, label as name, noun, write_args, write_args_with};
use crate::args::ids::{id_of, unique};
use crate::args::{WriteArgs, complete, given, switch};
use crate::client::Operation;
use crate::error::Failure;
use crate::kinds::{Form, Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "label",
    command,
    run,
};

/// The field of a kind that `label` changes.
const FIELD: &str = "labels";

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli cluster label demo-cluster-01 team=payments
  flux-resourceset-cli cluster label dev-1 dev-2 team=payments wave- --overwrite
  flux-resourceset-cli cluster label -l environment=dev wave=1 --dry-run";

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    kind.fields
        .iter()
        .find(|field| field.name == FIELD && field.form == Form::Pairs)?;
    let words = Arg::new("words")
        .value_name("ID|KEY=VALUE|KEY-")
        .required(true)
        .num_args(1..)
        .value_parser(given)
        .help("Ids, then the labels: KEY=VALUE sets one, KEY- removes one")
        .add(complete::ids(&kind.name));
    let command = command
        .about(format!("Set or remove labels of a {}, or of several", noun(kind)))
        .arg(words)
        .arg(switch("overwrite", "Also change labels that have another value"));
    Some(match kind.name.as_str() {
        CLUSTERS => write_args_with(selection_args(command), EXAMPLES),
        _ => write_args(command),
    })
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let words: Vec<String> = matches
        .get_many::<String>("words")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let (ids, labels) = Labels::split(&words)?;
    let parse = id_of(kind.names());
    let ids: Result<Vec<String>, String> = ids.iter().map(|id| parse(id)).collect();
    let ids = unique(ids.map_err(Failure::usage)?);
    let selected = match kind.name == CLUSTERS {
        true => Chosen::selected(matches),
        false => None,
    };
    let chosen = match (selected, ids.is_empty()) {
        (Some(_), false) => {
            return Err(Failure::usage(
                "--selector and --all choose the clusters: leave out the ids",
            ));
        }
        (Some(selected), true) => selected,
        (None, false) => Chosen::Ids(ids),
        (None, true) => {
            return Err(Failure::usage(format!(
                "name the {} to label",
                kind.plural().replace('_', " ")
            )));
        }
    };
    let how = WriteArgs::read(matches)?;
    labels.write(session, kind, &chosen, matches.get_flag("overwrite"), &how)
}

/// The labels that are set, and those that are removed (null).
#[derive(Debug, PartialEq)]
pub(crate) struct Labels(Map<String, Value>);

impl Labels {
    /// Tells labels from ids: an id has no `=`, and does not end with `-`.
    pub(crate) fn split(words: &[String]) -> Result<(Vec<String>, Labels), Failure> {
        let mut labels = Map::new();
        let mut ids = Vec::new();
        for word in words {
            let (key, value) = match (word.split_once('='), word.strip_suffix('-')) {
                (Some((key, value)), _) => (key, Value::from(value)),
                (None, Some(key)) => (key, Value::Null),
                (None, None) => {
                    ids.push(word.clone());
                    continue;
                }
            };
            if key.is_empty() {
                return Err(Failure::usage(format!("\"{word}\" has no key")));
            }
            if labels.insert(key.to_owned(), value).is_some() {
                return Err(Failure::usage(format!("the label \"{key}\" is given twice")));
            }
        }
        match labels.is_empty() {
            true => Err(Failure::usage("name a label: KEY=VALUE sets one, KEY- removes one")),
            false => Ok((ids, Labels(labels))),
        }
    }

    /// Writes the labels to every resource that does not have them yet, in one revision.
    pub(crate) fn write(
        &self,
        session: &Session<'_>,
        kind: &Kind,
        chosen: &Chosen,
        overwrite: bool,
        how: &WriteArgs,
    ) -> Result<(), Failure> {
        let found = chosen.find(session, kind)?;
        if !overwrite {
            self.check(kind, &found)?;
        }
        self.warn_of_absent(session, &found);
        let operations: Vec<Operation> = found.iter().filter_map(|one| self.operation(kind, one)).collect();
        if operations.is_empty() {
            return session.show_unchanged(how);
        }
        session.write_and_show(&operations, how)
    }

    /// The operation for a resource; none if it has the labels already. It names the version that was read.
    fn operation(&self, kind: &Kind, found: &Found) -> Option<Operation> {
        let present = &found.value[FIELD];
        let changed = self.0.iter().filter(|(key, value)| present[key.as_str()] != **value);
        let changed: Map<String, Value> = changed.map(|(key, value)| (key.clone(), value.clone())).collect();
        let body = json!({
            "op": "merge", "kind": kind.name, "id": found.id(), "value": {FIELD: changed}, "if_match": found.etag,
        });
        (!changed.is_empty()).then(|| Operation::new(name(kind, found.id()), body))
    }

    /// Refuses to change labels that have another value.
    fn check(&self, kind: &Kind, found: &[Found]) -> Result<(), Failure> {
        let mut details = Vec::new();
        for one in found {
            for (key, value) in self.0.iter().filter(|(_, value)| !value.is_null()) {
                let present = &one.value[FIELD][key.as_str()];
                if !present.is_null() && present != value {
                    details.push((
                        name(kind, one.id()),
                        format!("the label \"{key}\" is {present}, not {value}"),
                    ));
                }
            }
        }
        if details.is_empty() {
            return Ok(());
        }
        let several = details.len();
        let mut failure = Failure::refused(match details.as_slice() {
            [(place, detail)] => format!("{place}: {detail}"),
            _ => format!("{several} labels have another value"),
        });
        details.truncate(10);
        if several > details.len() {
            details.push((String::new(), format!("... and {} more", several - details.len())));
        }
        failure.details = details;
        Err(failure.hint("use --overwrite to change them"))
    }

    /// Removing a label that no resource has changes nothing, which is often a typo.
    fn warn_of_absent(&self, session: &Session<'_>, found: &[Found]) {
        let has = |key: &str| found.iter().any(|one| !one.value[FIELD][key].is_null());
        for (key, _) in self.0.iter().filter(|(key, value)| value.is_null() && !has(key)) {
            let known = found.iter().flat_map(|one| one.value[FIELD].as_object()).flatten();
            let like = did_you_mean(key, known.map(|(known, _)| known.as_str()));
            let like = like.map(|like| format!("; {like}")).unwrap_or_default();
            session
                .printer
                .hint(&format!("there is no label \"{key}\" to remove{like}"));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn split(words: &str) -> Result<(Vec<String>, Labels), String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        Labels::split(&words).map_err(|failure| failure.message)
    }

    #[test]
    fn words_are_ids_or_labels() {
        let (ids, labels) = split("a b-c team=x empty= wave- url=http://x?a=b").unwrap();
        assert_eq!(ids, ["a", "b-c"]);
        let expected = json!({"team": "x", "empty": "", "wave": null, "url": "http://x?a=b"});
        assert_eq!(Value::Object(labels.0), expected);
        assert!(split("a b").unwrap_err().contains("name a label"));
        assert!(split("a team=x team-").unwrap_err().contains("twice"));
        assert!(split("a =x").unwrap_err().contains("no key"));
    }
}

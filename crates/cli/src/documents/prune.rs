//! `--prune`: deletes what the files do not hold, in the same revision as what they do hold. What is not read is deleted, so
//! everything that may hide documents is refused.

use std::collections::HashSet;

use clap::Args;
use fleet::kind::{CLUSTERS, KINDS};
use serde_json::{Value, json};

use super::{Applied, Document, Known};
use crate::args::complete::kind_names;
use crate::args::given;
use crate::client::{Operation, with_query};
use crate::error::{ApiError, Code, Failure};
use crate::kinds::Kind;
use crate::session::{Session, text};

/// For the help of the commands that prune.
pub(crate) const AFTER_HELP: &str = "\
--prune deletes the resources of the kinds that --kind names which the files do not hold, in the same revision: the files \
may remove a definition and the references to it together. With -l, of the clusters only those that match are deleted; -l \
has no effect on other kinds. Nothing is pruned if a file cannot be read or holds no document, if a folder has folders that \
are not read (use -R), or if the files hold no document of a kind. Deletions and documents share the limit of 10,000 \
operations of a revision.";

// What beside the documents themselves is written.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct PruneArgs {
    /// Also delete the resources that the files do not hold, of the kinds that --kind names
    #[arg(long)]
    pub(super) prune: bool,
    /// A kind that --prune deletes, by any of its names (can be repeated)
    #[arg(long = "kind", value_name = "KIND", requires = "prune", value_parser = given, add = kind_names())]
    kinds: Vec<String>,
}

impl PruneArgs {
    /// Checks what the flags alone tell.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.prune && self.kinds.is_empty() {
            let failure = Failure::usage("--prune needs --kind: the kinds of which resources may be deleted");
            return Err(failure.hint("for example --prune --kind clusters --kind namespaces"));
        }
        match self.kinds.iter().any(|name| ["kind", KINDS].contains(&name.as_str())) {
            true => Err(Failure::usage("kinds are not pruned").hint("`kind delete` deletes a kind")),
            false => Ok(()),
        }
    }
}

/// What may be deleted.
pub(super) struct Prune<'a> {
    kinds: Vec<&'a Kind>,
    selector: Option<&'a str>,
}

impl<'a> Prune<'a> {
    /// The kinds of --kind; none without --prune. A kind that comes with the documents has nothing on the server yet.
    pub(super) fn read(
        session: &'a Session<'_>,
        args: &PruneArgs,
        selector: Option<&'a str>,
        documents: &[Document],
    ) -> Result<Option<Prune<'a>>, Failure> {
        if !args.prune {
            return Ok(None);
        }
        let known = Known::read(session, documents);
        let mut kinds: Vec<&Kind> = Vec::new();
        for given in &args.kinds {
            let name = known.name(given, "--kind")?;
            let kind = session.kinds()?.named(&name);
            kinds.extend(kind.filter(|kind| kinds.iter().all(|other| other.name != kind.name)));
        }
        if selector.is_some() {
            check_selector(session, &kinds)?;
        }
        // Clusters go first, since they refer to definitions.
        kinds.sort_by_key(|kind| kind.name != CLUSTERS);
        Ok(Some(Prune { kinds, selector }))
    }

    /// The deletions of what the documents do not hold.
    pub(super) fn operations(&self, session: &Session<'_>, held: &[Applied]) -> Result<Vec<Operation>, Failure> {
        let mut operations = Vec::new();
        for kind in &self.kinds {
            let ids: HashSet<&str> = held
                .iter()
                .filter(|applied| applied.kind == kind.name)
                .map(|applied| applied.id.as_str())
                .collect();
            if ids.is_empty() {
                return Err(none_held(kind));
            }
            let selector = self.selector.filter(|_| kind.name == CLUSTERS).map(str::to_owned);
            let list = session
                .client
                .get(&with_query(&format!("/{}", kind.name), [("selector", selector)]))
                .map_err(|error| self.unselectable(error))?;
            let all = list.as_array().into_iter().flatten().map(|item| text(&item["id"]));
            operations.extend(all.filter(|id| !ids.contains(id)).map(|id| deletion(kind, id)));
        }
        Ok(operations)
    }

    /// A label that no cluster has yet is refused like a misspelt one.
    fn unselectable(&self, error: ApiError) -> Failure {
        let refused = self.selector.is_some() && matches!(error.status(), Some(400 | 422));
        let failure = Failure::from(error);
        match refused {
            true => failure.or_hint(|| "if the files bring this label, apply them without --prune first".to_owned()),
            false => failure,
        }
    }
}

/// A selector is for clusters; says what happens to the other kinds.
fn check_selector(session: &Session<'_>, kinds: &[&Kind]) -> Result<(), Failure> {
    let (clusters, others): (Vec<&str>, Vec<&str>) = kinds
        .iter()
        .map(|kind| kind.name.as_str())
        .partition(|name| *name == CLUSTERS);
    if clusters.is_empty() {
        let message = format!("-l selects clusters, and --kind names none: {}", others.join(", "));
        return Err(Failure::usage(message).hint("use --kind clusters, or leave -l out"));
    }
    if !others.is_empty() {
        let names = others.join(" and ");
        session.printer.hint(&format!(
            "-l selects only clusters: all {names} that the files do not hold are deleted"
        ));
    }
    Ok(())
}

fn deletion(kind: &Kind, id: &str) -> Operation {
    let body: Value = json!({"op": "delete", "kind": kind.name, "id": id});
    Operation::new(format!("--prune ({}/{id})", kind.name), body)
}

/// The refusal to delete every resource of a kind, which a wrong folder would do.
fn none_held(kind: &Kind) -> Failure {
    let message = format!(
        "the files hold no {}: --prune would delete all of them; nothing was changed",
        kind.name
    );
    Failure::new(Code::Refused, message).hint(format!(
        "check the path, and -R for folders within folders; `{} delete` deletes single ones",
        kind.command
    ))
}

/// Explains why a definition that should be pruned cannot be deleted. --prune never cascades.
pub(super) fn in_use(mut failure: Failure) -> Failure {
    if let Some((message, _)) = failure.message.split_once("; cascade=true") {
        failure.message = message.to_owned();
    }
    failure.details.clear();
    failure.hint("remove the references in the files, or prune these clusters too")
}

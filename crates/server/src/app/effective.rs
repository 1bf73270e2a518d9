//! What a cluster has by its profiles and its own document together, and where each value comes from.

use std::sync::Arc;

use fleet::Fleet;
use fleet::kind::CLUSTERS;
use fleet::log::Revision;
use fleet::nearest::did_you_mean;
use fleet::profile::{Explanation, explain};
use fleet::refusal::quote;
use fleet::snapshot::Cluster;
use serde_json::Value;

use super::App;
use super::errors::ReadError;
use super::reads::Turn;

/// What is explained.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// One Flux path, or all.
    pub path: Option<String>,
    /// One input of that path, or all.
    pub input: Option<String>,
}

impl App {
    /// A cluster's document with what its profiles bring, now or at a revision.
    pub fn effective(&self, turn: &Turn, id: &str, revision: Option<Revision>) -> Result<Value, ReadError> {
        let fleet = self.fleet_then(turn, revision)?;
        let cluster = cluster_then(&fleet, id, revision)?;
        Ok(fleet.view(cluster).shown_effective())
    }

    /// Where the values of a cluster's inputs come from, now or at a revision.
    pub fn explain(
        &self,
        turn: &Turn,
        id: &str,
        wanted: &Wanted,
        revision: Option<Revision>,
    ) -> Result<Explanation, ReadError> {
        let fleet = self.fleet_then(turn, revision)?;
        let cluster = cluster_then(&fleet, id, revision)?;
        if let Some(path) = wanted
            .path
            .as_deref()
            .filter(|path| fleet.kinds().at_path(path).is_none())
        {
            let paths = fleet.kinds().definitions().filter_map(|kind| kind.path.as_deref());
            let like = did_you_mean(path, paths)
                .map(|like| format!("; {like}"))
                .unwrap_or_default();
            let detail = format!("no kind has the path \"{}\"{like}", quote(path));
            return Err(ReadError::NotFound(detail));
        }
        let explanation = explain(&fleet, cluster, wanted.path.as_deref(), wanted.input.as_deref());
        match (&wanted.input, explanation.inputs.values().all(Vec::is_empty)) {
            (Some(input), true) => {
                let detail = format!("cluster \"{}\" has no input \"{}\" there", quote(id), quote(input));
                Err(ReadError::NotFound(detail))
            }
            _ => Ok(explanation),
        }
    }

    fn fleet_then(&self, turn: &Turn, revision: Option<Revision>) -> Result<Arc<Fleet>, ReadError> {
        match revision {
            None => Ok(self.fleet()),
            Some(revision) => self.fleet_at(turn, revision),
        }
    }
}

fn cluster_then<'a>(fleet: &'a Fleet, id: &str, revision: Option<Revision>) -> Result<&'a Arc<Cluster>, ReadError> {
    if fleet.is_damaged(CLUSTERS) || fleet.is_damaged(fleet::kind::PROFILES) {
        return Err(ReadError::Damaged);
    }
    let then = revision.map_or_else(String::new, |revision| format!(" at revision {revision}"));
    let missing = || ReadError::NotFound(format!("there is no cluster \"{}\"{then}", quote(id)));
    fleet.cluster(id).ok_or_else(missing)
}

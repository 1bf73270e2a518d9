//! The clusters that use a definition.

use std::sync::Arc;

use fleet::Fleet;
use fleet::kind::{CLUSTERS, Kind, is_server_kind, name_record};
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use fleet::usage::Usage;

use super::errors::ReadError;
use super::reads::Turn;
use super::resources::{document_of, kind_of};
use super::{App, Page};

/// A definition and the clusters that use it, sorted by id.
#[derive(Debug)]
pub struct References {
    fleet: Arc<Fleet>,
    kind: Arc<Kind>,
    id: String,
    clusters: Vec<Arc<Cluster>>,
}

impl References {
    /// How many clusters there are.
    pub fn count(&self) -> usize {
        self.clusters.len()
    }

    /// One page of them, each with the values that it effectively gets.
    pub fn page(&self, page: Page) -> impl Iterator<Item = Usage> {
        let clusters = self.clusters.iter().skip(page.offset).take(page.limit);
        clusters.filter_map(|cluster| Usage::of(&self.kind, &self.id, &self.fleet.view(cluster)))
    }
}

impl App {
    /// The clusters that use a definition and match the selector, if there is one.
    pub fn references(
        &self,
        turn: &Turn,
        kind: &str,
        id: &str,
        selector: Option<&str>,
    ) -> Result<References, ReadError> {
        if kind == CLUSTERS || is_server_kind(kind) || name_record(kind).is_some() {
            return Err(ReadError::NotFound(format!("{kind} are not referred to")));
        }
        let fleet = self.fleet();
        let selector = selector.map(|text| Selector::for_fleet(text, &fleet)).transpose()?;
        document_of(&fleet, kind, id)?;
        let clusters_kind = fleet.kinds().clusters().ok_or(ReadError::Internal)?;
        let matcher = selector.as_ref().map(|selector| selector.on(clusters_kind));
        let kind = kind_of(&fleet, kind)?;
        let users = fleet.ids(fleet.users(&kind.name, id));
        let users = users.iter().filter_map(|user| fleet.cluster(user));
        let mut clusters = Vec::new();
        for cluster in turn.until_stopped(users) {
            let cluster = cluster?;
            let matches = matcher.as_ref().is_none_or(|matcher| matcher.matches(cluster));
            if matches && fleet.uses(cluster, &kind, id) {
                clusters.push(cluster.clone());
            }
        }
        Ok(References {
            fleet,
            kind,
            id: id.to_owned(),
            clusters,
        })
    }
}

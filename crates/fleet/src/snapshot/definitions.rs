//! The definitions of one kind in the snapshot, and the clusters that refer to them.

use std::sync::Arc;

use imbl::{HashMap, OrdMap, OrdSet};
use serde_json::Value;

use crate::document::Document;
use crate::json::Json;

/// A definition, parsed: there are few of them, and each is merged into many replies.
#[derive(Debug)]
pub struct Definition {
    pub document: Document,
    value: Value,
}

impl Definition {
    /// `value` is the parsed `body`.
    pub(crate) fn new(id: Arc<str>, body: Json, value: Value) -> Self {
        let document = Document::new(id, body);
        Definition { document, value }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// The definitions of one kind, and which clusters refer to each.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    documents: OrdMap<Arc<str>, Arc<Definition>>,
    users: HashMap<Arc<str>, OrdSet<Arc<str>>>,
    /// No definition was ever longer than this. It bounds the size of a reply without creating the reply.
    pub(super) longest: usize,
}

impl Definitions {
    pub fn get(&self, id: &str) -> Option<&Arc<Definition>> {
        self.documents.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.documents.values()
    }

    pub fn len(&self) -> usize {
        self.documents.len()
    }

    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The ids of the clusters that refer to a definition, sorted.
    pub fn users(&self, id: &str) -> impl Iterator<Item = &Arc<str>> {
        self.users.get(id).into_iter().flatten()
    }

    /// Whether a cluster refers to a definition.
    pub(crate) fn is_user(&self, id: &str, cluster: &str) -> bool {
        self.users.get(id).is_some_and(|users| users.contains(cluster))
    }

    pub fn is_used(&self, id: &str) -> bool {
        self.users.contains_key(id)
    }

    /// The missing definitions that clusters refer to.
    pub(super) fn dangling(&self) -> impl Iterator<Item = &Arc<str>> {
        self.users.keys().filter(|id| !self.documents.contains_key(*id))
    }

    /// The clusters that refer to one definition.
    pub(super) fn users_of(&self, id: &str) -> OrdSet<Arc<str>> {
        self.users.get(id).cloned().unwrap_or_default()
    }

    /// The clusters that refer to any of the definitions.
    pub(super) fn all_users(&self) -> OrdSet<Arc<str>> {
        OrdSet::unions(self.users.values().cloned())
    }

    /// Puts or removes a definition. `value` is the parsed `after`, if the caller has it.
    pub(super) fn put(&mut self, id: Arc<str>, after: Option<Json>, value: Option<Value>) {
        let Some(body) = after else {
            self.documents.remove(&id);
            return;
        };
        self.longest = self.longest.max(body.as_str().len());
        let value = value.unwrap_or_else(|| body.parse());
        let definition = Definition::new(id.clone(), body, value);
        self.documents.insert(id, Arc::new(definition));
    }

    pub(super) fn add_user(&mut self, id: &str, cluster: &Arc<str>) {
        // The definition's own id, if there is one, so that the text is in memory once.
        let known = self.documents.get(id).map(|definition| definition.document.id.clone());
        let key = known.unwrap_or_else(|| id.into());
        self.users.entry(key).or_default().insert(cluster.clone());
    }

    pub(super) fn remove_user(&mut self, id: &str, cluster: &str) {
        if let Some(users) = self.users.get_mut(id) {
            users.remove(cluster);
            if users.is_empty() {
                self.users.remove(id);
            }
        }
    }

    pub(super) fn forget_users(&mut self) {
        self.users = HashMap::new();
    }
}

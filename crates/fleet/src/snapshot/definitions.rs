//! The definitions of one kind in the snapshot, and the clusters that refer to them.

use std::sync::{Arc, OnceLock};

use imbl::{HashMap, OrdMap};
use serde_json::Value;

use super::{ClusterSet, Number};
use crate::document::Document;
use crate::inputs::Common;
use crate::json::Json;
use crate::kind::Kind;

/// A definition, parsed: there are few of them, and each is merged into many replies.
#[derive(Debug)]
pub struct Definition {
    pub document: Document,
    value: Value,
    /// What most of its inputs have in common, made when the first one is.
    common: OnceLock<Option<Box<Common>>>,
}

impl Definition {
    /// `value` is the parsed `body`.
    pub(crate) fn new(id: Arc<str>, body: Json, value: Value) -> Self {
        let document = Document::new(id, body);
        Definition {
            document,
            value,
            common: OnceLock::new(),
        }
    }

    /// What inputs of the definition have in common, if a cluster says nothing else about it.
    pub(crate) fn common(&self, kind: &Kind) -> Option<&Common> {
        let common = self.common.get_or_init(|| Common::new(kind, &self.value).map(Box::new));
        common.as_deref()
    }

    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// The definitions of one kind, and which clusters refer to each.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    documents: OrdMap<Arc<str>, Arc<Definition>>,
    users: HashMap<Arc<str>, ClusterSet>,
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

    /// The clusters that refer to a definition.
    pub fn users(&self, id: &str) -> ClusterSet {
        self.users.get(id).cloned().unwrap_or_default()
    }

    /// Whether a cluster refers to a definition.
    pub(crate) fn is_user(&self, id: &str, cluster: Number) -> bool {
        self.users.get(id).is_some_and(|users| users.contains(cluster))
    }

    pub fn is_used(&self, id: &str) -> bool {
        self.users.contains_key(id)
    }

    /// The missing definitions that clusters refer to.
    pub(super) fn dangling(&self) -> impl Iterator<Item = &Arc<str>> {
        self.users.keys().filter(|id| !self.documents.contains_key(*id))
    }

    /// The clusters that refer to any of the definitions.
    pub(super) fn all_users(&self) -> ClusterSet {
        self.users.values().collect()
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

    /// Forgets what was made with an earlier version of the kind.
    pub(super) fn forget_texts(&mut self) {
        let renewed = |definition: &Arc<Definition>| {
            let Document { id, body, .. } = &definition.document;
            Arc::new(Definition::new(id.clone(), body.clone(), definition.value.clone()))
        };
        self.documents = self
            .documents
            .iter()
            .map(|(id, definition)| (id.clone(), renewed(definition)))
            .collect();
    }

    pub(super) fn add_user(&mut self, id: &str, cluster: Number) {
        if let Some(users) = self.users.get_mut(id) {
            users.insert(cluster);
            return;
        }
        // The definition's own id, if there is one, so that the text is in memory once.
        let known = self.documents.get(id).map(|definition| definition.document.id.clone());
        let key = known.unwrap_or_else(|| id.into());
        self.users.entry(key).or_default().insert(cluster);
    }

    pub(super) fn remove_user(&mut self, id: &str, cluster: Number) {
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

//! An imitation of Kubernetes' API: list, watch and merge patch of objects in a namespace.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct Kubernetes {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    world: Mutex<World>,
    /// Moves with each write, to wake up watches.
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct World {
    version: u64,
    /// The objects of each kind that exists, by plural.
    kinds: BTreeMap<String, BTreeMap<String, Value>>,
    /// Each write: its version, the plural, the event.
    log: Vec<(u64, String, Value)>,
    /// The status of every call of a kind, if it is not to be answered.
    refused: BTreeMap<String, u16>,
    patches: Vec<(String, Value)>,
    /// Whether objects may be patched.
    read_only: bool,
    refused_patches: usize,
    lists: BTreeMap<String, usize>,
    /// Watches end when this is not the one that they began with.
    cut: u64,
}

const KINDS: [&str; 9] = [
    "helmreleases",
    "kustomizations",
    "ocirepositories",
    "helmrepositories",
    "helmcharts",
    "gitrepositories",
    "buckets",
    "resourcesets",
    "resourcesetinputproviders",
];

impl Kubernetes {
    /// A cluster with the definitions of all kinds, and no objects.
    pub(crate) async fn start() -> Kubernetes {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let world = World {
            version: 1,
            kinds: KINDS.map(|kind| (kind.to_owned(), BTreeMap::new())).into(),
            ..World::default()
        };
        let kubernetes = Kubernetes {
            address: listener.local_addr().unwrap(),
            shared: Arc::new(Shared {
                world: Mutex::new(world),
                version: watch::Sender::new(1),
            }),
        };
        let router = Router::new()
            .route("/apis/{group}/{version}/namespaces/{namespace}/{plural}", get(read))
            .route(
                "/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}",
                get(read).patch(patch),
            )
            .with_state(kubernetes.shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        kubernetes
    }

    fn write<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.shared.world.lock().unwrap();
        let changed = change(&mut world);
        self.shared.version.send_replace(world.version);
        changed
    }

    pub(crate) fn put(&self, plural: &str, object: Value) {
        self.write(|world| world.put(plural, object));
    }

    pub(crate) fn delete(&self, plural: &str, name: &str) {
        self.write(|world| {
            let mut object = world.kinds.get_mut(plural).unwrap().remove(name).unwrap();
            world.version += 1;
            object["metadata"]["resourceVersion"] = world.version.to_string().into();
            let event = json!({"type": "DELETED", "object": object});
            world.log.push((world.version, plural.to_owned(), event));
        });
    }

    /// Removes the definition of a kind.
    pub(crate) fn remove_kind(&self, plural: &str) {
        self.write(|world| {
            world.kinds.remove(plural);
            world.cut += 1;
        });
    }

    pub(crate) fn add_kind(&self, plural: &str) {
        self.write(|world| drop(world.kinds.insert(plural.to_owned(), BTreeMap::new())));
    }

    /// Every call of a kind gets this status, and its watches end.
    pub(crate) fn refuse(&self, plural: &str, status: Option<u16>) {
        self.write(|world| {
            match status {
                Some(status) => world.refused.insert(plural.to_owned(), status),
                None => world.refused.remove(plural),
            };
            world.cut += 1;
        });
    }

    /// What was patched, in order: the name, and the patch.
    pub(crate) fn patches(&self) -> Vec<(String, Value)> {
        self.shared.world.lock().unwrap().patches.clone()
    }

    /// Nothing may be patched from now on.
    pub(crate) fn forbid_patches(&self) {
        self.write(|world| world.read_only = true);
    }

    pub(crate) fn refused_patches(&self) -> usize {
        self.shared.world.lock().unwrap().refused_patches
    }

    /// How often a kind was listed.
    pub(crate) fn lists(&self, plural: &str) -> usize {
        self.shared
            .world
            .lock()
            .unwrap()
            .lists
            .get(plural)
            .copied()
            .unwrap_or_default()
    }
}

impl World {
    fn put(&mut self, plural: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = self.kinds.get_mut(plural).unwrap();
        let event = if kind.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        kind.insert(name, object.clone());
        let event = json!({"type": event, "object": object});
        self.log.push((self.version, plural.to_owned(), event));
    }

    fn refusal(&self, plural: &str) -> Option<Response> {
        match self.refused.get(plural) {
            Some(status) => Some(refusal(*status)),
            None if self.kinds.contains_key(plural) => None,
            None => Some(refusal(404)),
        }
    }
}

fn refusal(status: u16) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
            "reason": "Refused", "message": "refused"});
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

async fn read(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<BTreeMap<String, String>>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let plural = path["plural"].clone();
    let mut world = shared.world.lock().unwrap();
    if let Some(refusal) = world.refusal(&plural) {
        return refusal;
    }
    if !query.contains_key("watch") {
        *world.lists.entry(plural.clone()).or_default() += 1;
        let items: Vec<&Value> = world.kinds[&plural].values().collect();
        let metadata = json!({"resourceVersion": world.version.to_string()});
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items});
        return axum::Json(list).into_response();
    }
    let from: u64 = query["resourceVersion"].parse().unwrap();
    let cut = world.cut;
    drop(world);
    let versions = shared.version.subscribe();
    Body::from_stream(stream::unfold(
        (shared, versions, from),
        move |(shared, mut versions, from)| {
            let plural = plural.clone();
            async move {
                loop {
                    versions.borrow_and_update();
                    {
                        let world = shared.world.lock().unwrap();
                        if world.cut != cut {
                            return None;
                        }
                        let next = world
                            .log
                            .iter()
                            .find(|(version, of, _)| *version > from && *of == plural);
                        if let Some((version, _, event)) = next {
                            let line = Bytes::from(format!("{event}\n"));
                            let version = *version;
                            drop(world);
                            return Some((Ok::<_, std::io::Error>(line), (shared, versions, version)));
                        }
                    }
                    versions.changed().await.ok()?;
                }
            }
        },
    ))
    .into_response()
}

async fn patch(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<BTreeMap<String, String>>,
    axum::Json(change): axum::Json<Value>,
) -> Response {
    let (plural, name) = (&path["plural"], &path["name"]);
    let mut world = shared.world.lock().unwrap();
    if let Some(refusal) = world.refusal(plural) {
        return refusal;
    }
    if world.read_only {
        world.refused_patches += 1;
        return refusal(403);
    }
    let Some(mut object) = world.kinds[plural].get(name).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    for (key, value) in change["metadata"]["annotations"].as_object().unwrap() {
        object["metadata"]["annotations"][key] = value.clone();
    }
    world.put(plural, object.clone());
    world.patches.push((name.clone(), change));
    shared.version.send_replace(world.version);
    axum::Json(object).into_response()
}

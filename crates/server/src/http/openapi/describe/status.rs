//! The states of clusters.

use std::collections::BTreeSet;

use fleet::kind::{CLUSTERS, Kinds};
use fleet::status::State;
use serde_json::{Map, Value, json};

use super::Operation;
use crate::http::openapi::schemas::{array, described, flag, integer, number, object, selector, text};
use crate::http::status::USUAL;

fn state() -> Value {
    let names: Vec<_> = State::ALL.iter().map(|state| state.name()).collect();
    json!({"type": "string", "enum": names})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time", "nullable": true})
}

fn maybe_text() -> Value {
    json!({"type": "string", "nullable": true})
}

fn maybe_integer() -> Value {
    let mut maybe = integer();
    maybe["nullable"] = true.into();
    maybe
}

/// The parameter that is a part of a name.
fn searching(operation: Operation) -> Operation {
    operation.query("search", "Only clusters whose id or DNS name has this part.", text())
}

fn counts() -> Value {
    let counts: Map<_, _> = State::ALL
        .iter()
        .map(|state| (state.name().to_owned(), integer()))
        .collect();
    object(&State::ALL.map(State::name), Value::Object(counts))
}

fn summary() -> Value {
    json!({
        "at": {"type": "string", "format": "date-time"},
        "revision": described("The revision that clusters are compared with.", integer()),
        "counts": described("How many clusters have each state.", counts()),
        "by_environment": {"type": "object", "additionalProperties": counts()},
    })
}

fn input() -> Value {
    object(
        &["id", "state", "digest", "enabled", "evidence"],
        json!({
            "id": text(), "state": state(),
            "digest": described("The mark of the input as the cluster would get it now.", text()),
            "enabled": flag(), "since": time(),
            "object": described("What the state rests on: KIND/NAMESPACE/NAME.", maybe_text()),
            "version": maybe_text(), "reason": maybe_text(), "message": maybe_text(),
            "evidence": {"type": "string", "enum": ["poll", "report", "event"]},
            "at": described("When it was seen.", time()),
        }),
    )
}

fn row() -> Map<String, Value> {
    let row = json!({
        "id": text(), "dns": text(), "environment": text(), "state": state(), "since": time(), "last_poll": time(),
    });
    row.as_object().cloned().unwrap_or_default()
}

/// The names that a kind with a Flux endpoint can be called by.
fn kind_names(kinds: &Kinds) -> Value {
    let named = kinds.definitions().filter_map(|kind| {
        let path = kind.path.clone()?;
        Some([kind.name.to_string(), kind.singular.clone(), kind.command.clone(), path])
    });
    let names: BTreeSet<String> = named.flatten().collect();
    json!({"type": "string", "enum": names})
}

pub fn map(_: &Kinds) -> Operation {
    let group = json!({
        "name": described("The value of the label. Null: clusters without it.", maybe_text()),
        "states": described(
            "One letter for each cluster, in the order of ids: f failing, s silent, n never, b behind, t told, c converged.",
            text(),
        ),
    });
    let map = json!({
        "at": {"type": "string", "format": "date-time"}, "revision": integer(), "by": text(),
        "groups": array(object(&["name", "states"], group)),
        "id": described("Of the cluster at a place.", text()), "dns": text(), "environment": text(),
    });
    searching(Operation::new(
        "status",
        "status_map",
        "The state of every cluster as a letter, in groups; or which cluster is at a place of a group.",
    ))
    .query("selector", "Only clusters that match this label selector.", selector())
    .query(
        "by",
        "The label, or `environment`, that clusters are grouped by.",
        json!({"type": "string", "default": "environment"}),
    )
    .query(
        "group",
        "With `place`: the name of a group. Without it: the clusters without the label.",
        text(),
    )
    .query(
        "revision",
        "With `place`: the revision of the map. If clusters were created or changed since, the answer is 400.",
        number(0),
    )
    .query(
        "place",
        "The place of a cluster in its group, from 0: the answer is the cluster.",
        number(0),
    )
    .answer(
        200,
        "The map: `at`, `revision`, `by`, `groups`. With `place`: `id`, `dns`, `environment`.",
        object(&[], map),
    )
    .problem(404, "No cluster has the label, or there is no such place.")
    .bad_parameters()
    .bad_selector()
    .late()
}

pub fn versions(kinds: &Kinds) -> Operation {
    let counts = || json!({"type": "object", "additionalProperties": integer()});
    let version = json!({
        "version": text(), "clusters": integer(),
        "pinned": described("Of them, by what their own documents say.", integer()),
        "by_profile": integer(), "by_rollout": counts(), "environments": counts(),
    });
    let required = [
        "version",
        "clusters",
        "pinned",
        "by_profile",
        "by_rollout",
        "environments",
    ];
    let component = json!({
        "id": text(), "current": described("The version of the definition as it is.", text()),
        "versions": array(object(&required, version)),
    });
    let holder = json!({
        "id": text(), "environment": text(), "version": text(), "state": state(), "rollout": maybe_text(),
        "source": {"type": "string", "enum": ["definition", "profile", "cluster", "rollout"]},
    });
    let answer = json!({
        "revision": integer(), "kind": text(), "path": maybe_text(), "field": described("The field that is the version.", text()),
        "kinds": described("Every kind whose definitions have versions.", array(text())),
        "components": array(object(&["id", "current", "versions"], component)),
        "total": described("With `component`: how many clusters have it, on all pages.", integer()),
        "clusters": array(object(&["id", "environment", "version", "source", "rollout", "state"], holder)),
    });
    searching(Operation::new(
        "status",
        "status_versions",
        "How many clusters have which version of each definition; or which clusters have one.",
    ))
    .query(
        "kind",
        "The kind of the definitions; the first that has versions if it is left out.",
        kind_names(kinds),
    )
    .query("selector", "Only clusters that match this label selector.", selector())
    .query(
        "component",
        "The id of a definition: the answer is the clusters that have it.",
        text(),
    )
    .query("version", "With `component`: only this version.", text())
    .query(
        "limit",
        "With `component`: the most clusters to return.",
        json!({"type": "integer", "format": "int64", "minimum": 0, "default": USUAL}),
    )
    .query("offset", "With `component`: how many clusters to skip.", number(0))
    .answer(
        200,
        "The versions. With `component`: `total` and `clusters`.",
        object(&[], answer),
    )
    .bad_parameters()
    .bad_selector()
    .late()
}

pub fn labels(_: &Kinds) -> Operation {
    let value = object(&["value", "clusters"], json!({"value": text(), "clusters": integer()}));
    let label = json!({
        "key": text(),
        "values": described("The values of most clusters, at most 100.", array(value)),
        "more": described("How many values there are besides.", integer()),
    });
    Operation::new(
        "status",
        "status_labels",
        "The labels of clusters and their values, with `environment` first.",
    )
    .answer(
        200,
        "The labels.",
        object(
            &["labels"],
            json!({"labels": array(object(&["key", "values", "more"], label))}),
        ),
    )
    .bad_parameters()
    .late()
}

pub fn list(kinds: &Kinds) -> Operation {
    let names = State::ALL.map(State::name).join("|");
    let states = json!({"type": "string", "pattern": format!("^({names})(,({names}))*$")});
    let mut cluster = row();
    cluster.insert(
        "told".to_owned(),
        described("The revision that it was told last.", maybe_integer()),
    );
    cluster.insert(
        "agent".to_owned(),
        described("The User-Agent of its last poll.", maybe_text()),
    );
    cluster.insert("input".to_owned(), input());
    let required = ["id", "dns", "environment", "state", "since", "last_poll"];
    let mut answer = summary();
    answer["total"] = described("How many clusters have the wanted states, on all pages.", integer());
    answer["clusters"] = array(object(&required, Value::Object(cluster)));
    let required = ["at", "revision", "counts", "by_environment", "total", "clusters"];
    searching(Operation::new(
        "status",
        "status",
        "The states of clusters, the worst first, and how many have each.",
    ))
    .query("selector", "Only clusters that match this label selector.", selector())
    .query(
        "state",
        "Only clusters with one of these states, separated by commas. The counts are of all.",
        states,
    )
    .query(
        "kind",
        "The states of the clusters' inputs of this kind.",
        kind_names(kinds),
    )
    .query(
        "component",
        "The states of this input, of the clusters that have it. With `kind` if several kinds have the id.",
        text(),
    )
    .query(
        "reason",
        "Only clusters on which something fails for this reason, such as `UpgradeFailed`. With `component`: on which this input does.",
        text(),
    )
    .query("version", "Only clusters on which something fails at this version.", text())
    .query(
        "limit",
        "The most clusters to return. 0: only counts. In a fleet of more than 50,000 clusters those are of `at` and `revision`, which may be a minute ago, if nothing else is asked for.",
        json!({"type": "integer", "format": "int64", "minimum": 0, "default": USUAL}),
    )
    .query("offset", "How many clusters to skip.", number(0))
    .answer(200, "The states.", object(&required, answer))
    .problem(404, "There is no such component.")
    .bad_parameters()
    .bad_selector()
    .late()
}

pub fn causes(_: &Kinds) -> Operation {
    let cause = json!({
        "reason": text(), "path": maybe_text(), "component": maybe_text(), "version": text(),
        "clusters": described("How many have it.", integer()),
        "examples": described("The first ones.", array(text())),
        "since": described("When the first cluster got it.", time()),
        "joined": described("When the last cluster got it.", time()),
        "message": described("The newest.", text()),
    });
    let required = [
        "reason",
        "path",
        "component",
        "version",
        "clusters",
        "examples",
        "since",
        "joined",
        "message",
    ];
    let owner = json!({"id": text(), "causes": integer()});
    let own = json!({
        "causes": described("How many causes `own` leaves out.", integer()),
        "clusters": described("The clusters that have them, those with most first.", array(object(&["id", "causes"], owner))),
    });
    let answer = json!({
        "causes": array(object(&required, cause)),
        "total": described("All causes, also those that are left out.", integer()),
        "own": object(&["causes", "clusters"], own),
    });
    Operation::new(
        "status",
        "status_causes",
        "What fails, grouped by reason, component and version; what most clusters have first, then the newest.",
    )
    .query("selector", "Only clusters that match this label selector.", selector())
    .query("limit", "The most causes to return.", number(1))
    .query(
        "own",
        "Of the causes that only one cluster has, return at most so many of each cluster, the newest.",
        number(0),
    )
    .answer(200, "The causes.", object(&["causes", "total", "own"], answer))
    .bad_parameters()
    .bad_selector()
    .late()
}

pub fn stream(_: &Kinds) -> Operation {
    let data = "For `counts`: {at, revision, counts, by_environment}. For `cluster`: {id, dns, environment, before, state, since, last_poll}. For `missed`: {missed}; read the list again.";
    let event = json!({
        "event": {"type": "string", "enum": ["counts", "cluster", "missed"]},
        "data": described(data, text()),
    });
    Operation::new(
        "status",
        "stream_status",
        "Follow the states: each cluster whose state changes, and the counts.",
    )
    .query(
        "clusters",
        "`false`: only counts, at most a few small events a second whatever happens.",
        json!({"type": "boolean", "default": true}),
    )
    .answers(
        200,
        "Server-sent events.",
        &[("text/event-stream", object(&["event", "data"], event))],
    )
    .bad_parameters()
    .problem(503, "Too many clients follow.")
}

pub fn cluster(_: &Kinds) -> Operation {
    let told = json!({
        "digest": text(), "revision": integer(), "at": time(), "since": time(), "agent": text(),
    });
    let mut told = object(&["digest", "revision", "at", "since", "agent"], told);
    told["nullable"] = true.into();
    let kind = json!({
        "state": state(),
        "current": described("The digest of the reply that the cluster would get now.", text()),
        "told": described("Its last poll.", told), "inputs": array(input()),
    });
    let kind = object(&["state", "current", "told", "inputs"], kind);
    let stray = json!({
        "object": text(), "version": text(), "reason": text(), "message": text(), "evidence": text(), "at": time(),
        "since": time(),
    });
    let mut answer = row();
    answer.insert("at".to_owned(), json!({"type": "string", "format": "date-time"}));
    answer.insert(
        "heard".to_owned(),
        described("When it last sent an event or a report.", time()),
    );
    answer.insert("reporter".to_owned(), maybe_text());
    answer.insert(
        "kinds".to_owned(),
        json!({"type": "object", "additionalProperties": kind}),
    );
    answer.insert(
        "objects".to_owned(),
        described(
            "What fails and belongs to no input.",
            array(object(&["object", "reason"], stray)),
        ),
    );
    answer.insert(
        "events".to_owned(),
        described(
            "With `events`: what events and reports said last of each object, the newest first.",
            array(event()),
        ),
    );
    let required = [
        "at",
        "id",
        "dns",
        "environment",
        "state",
        "since",
        "last_poll",
        "kinds",
        "objects",
    ];
    Operation::new(
        CLUSTERS,
        "cluster_status",
        "The state of the cluster and of each of its inputs.",
    )
    .path("id", "The id of the resource.")
    .query(
        "events",
        "Also return so many of the newest observations that the server keeps: the last one of each object.",
        number(1),
    )
    .answer(200, "The status.", object(&required, Value::Object(answer)))
    .bad_parameters()
    .problem(404, "There is no such resource.")
    .late()
}

/// What an event or a report said of an object.
fn event() -> Value {
    let health = json!({"type": "string", "enum": ["ready", "progressing", "failing", "deleted"]});
    let properties = json!({
        "object": text(), "input": described("The input that it was made from, as PATH/ID. null: not known.", maybe_text()),
        "health": health, "version": text(), "reason": text(), "message": text(),
        "evidence": {"type": "string", "enum": ["event", "report"]}, "at": time(), "since": time(),
    });
    object(
        &[
            "object", "input", "health", "version", "reason", "message", "evidence", "at", "since",
        ],
        properties,
    )
}

pub fn revision(_: &Kinds) -> Operation {
    let parts = [
        "revision",
        "affected",
        "told",
        "converged",
        "failing",
        "silent",
        "behind",
    ];
    let mut answer: Map<_, _> = parts.iter().map(|name| ((*name).to_owned(), integer())).collect();
    let missing = json!({
        "id": text(), "dns": text(), "environment": text(), "state": state(),
        "told": described("Whether it was told of the revision.", flag()),
        "path": text(), "input": described("What the state comes from.", input()),
    });
    let required = ["id", "dns", "environment", "state", "told"];
    let missing = array(object(&required, missing));
    let text = "With `limit`: clusters that have not converged, the worst first.";
    answer.insert("clusters".to_owned(), described(text, missing));
    Operation::new(
        "changes",
        "revision_status",
        "How far a revision has come: how many clusters it affects, and how it is with them.",
    )
    .path("revision", "The number of the revision.")
    .query("selector", "Only clusters that match this label selector.", selector())
    .query(
        "limit",
        "How many clusters to name that have not converged.",
        json!({"type": "integer", "format": "int64", "minimum": 0, "default": 0}),
    )
    .answer(200, "How far it has come.", object(&parts, Value::Object(answer)))
    .bad_parameters()
    .bad_selector()
    .problem(404, "There is no such revision.")
    .compacted()
    .unreadable()
}

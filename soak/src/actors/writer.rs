//! Writers. Each owns its clusters, so it knows their expected state after every write, even after one without a reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::generate::Rng;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::WITHOUT_A_FAULT;
use crate::client::{Reply, Request};
use crate::ledger::{Acknowledged, hash};
use crate::model::{ARRAYS, Cluster, Shape, ids};
use crate::process::Process;
use crate::run::Run;
use crate::site::{COMING_AND_GOING, Outcome, Site, WRITERS};

const PAUSE: Duration = Duration::from_millis(150);
/// How long a process may refuse writes because it has not followed another process's write yet.
const LAG: Duration = Duration::from_secs(20);
/// How long the outcome of a write may stay unknown.
const DOUBT: Duration = Duration::from_secs(120);

pub(crate) async fn act(run: Arc<Run>, site: Arc<Site>, number: usize) {
    let mut writer = Writer {
        rng: run.rng(&format!("writer {}", site.name), number),
        run: &run,
        site: &site,
        number,
        serial: 0,
    };
    loop {
        sleep(PAUSE).await;
        let Some(_place) = run.place().await else { return };
        writer.step().await;
    }
}

struct Writer<'a> {
    run: &'a Run,
    site: &'a Site,
    number: usize,
    rng: Rng,
    /// Makes every value unique: a write that changes nothing creates no revision.
    serial: u64,
}

impl<'a> Writer<'a> {
    async fn step(&mut self) {
        self.serial += 1;
        match self.rng.below(100) {
            0..30 => self.set_value().await,
            30..48 => drop(self.assign().await),
            48..60 => self.unassign().await,
            60..68 => self.batch().await,
            68..75 => self.undo().await,
            75..80 => self.roll_back().await,
            80..90 => self.guest().await,
            90..94 => self.stale().await,
            94..97 => self.edit_definition().await,
            _ => self.put_kind().await,
        }
    }

    /// One of the clusters that are always there.
    fn pick(&mut self) -> (usize, Cluster) {
        let index = self.rng.below(self.run.clusters / WRITERS) * WRITERS + self.number;
        (index, self.cluster(index))
    }

    fn cluster(&self, index: usize) -> Cluster {
        self.site.model.lock().expect("no panic while it is held").clusters[index].clone()
    }

    fn patch(cluster: &Cluster, body: &Value) -> Request {
        Request::new("PATCH", &format!("/clusters/{}", cluster.id)).json(body)
    }

    /// Sets a value, with the version that the cluster must have if that is known.
    async fn set_value(&mut self) {
        let (index, cluster) = self.pick();
        let Some(component) = cluster.shape.inputs[0].first() else {
            return;
        };
        let body = json!({"patches": {component: {"soak": format!("{}-{}", self.number, self.serial)}}});
        let mut request = Self::patch(&cluster, &body);
        if let Some(etag) = &cluster.etag {
            request = request.header("If-Match", etag);
        }
        self.write(index, &request, cluster.shape).await;
    }

    /// Adds a reference that is not there; the revision, and the cluster before it.
    async fn assign(&mut self) -> Option<(usize, u64, Shape)> {
        let (index, cluster) = self.pick();
        let (path, id) = match self.rng.percent(50) {
            true => (0, format!("component-{:02}", self.rng.below(20))),
            false => (1, format!("team-{:02}", self.rng.below(40))),
        };
        let mut next = cluster.shape.clone();
        if !next.inputs[path].insert(id.clone()) {
            return None;
        }
        let request = Self::patch(&cluster, &json!({ARRAYS[path]: [{"id": id}]}));
        let revision = self.write(index, &request, next).await?;
        Some((index, revision, cluster.shape))
    }

    async fn unassign(&mut self) {
        let (index, cluster) = self.pick();
        let path = self.rng.below(ARRAYS.len());
        // Enough stay for a list to be never empty; the first components are what others depend on.
        if cluster.shape.inputs[path].len() < 5 {
            return;
        }
        let Some(id) = cluster.shape.inputs[path].last().cloned() else {
            return;
        };
        let mut next = cluster.shape.clone();
        next.inputs[path].remove(&id);
        let request = Self::patch(&cluster, &json!({ARRAYS[path]: [{"id": id, "$patch": "delete"}]}));
        self.write(index, &request, next).await;
    }

    /// Values of several clusters in one revision.
    async fn batch(&mut self) {
        let mut all: Vec<(usize, Cluster)> = (0..5).map(|_| self.pick()).collect();
        all.dedup_by_key(|(index, _)| *index);
        let value = format!("{}-{}", self.number, self.serial);
        let operation = |cluster: &Cluster| {
            let component = cluster.shape.inputs[0].first()?;
            Some(
                json!({"op": "patch", "kind": "platform_components", "id": component, "cluster": cluster.id,
                "set": {"batch": value}}),
            )
        };
        let operations: Vec<Value> = all.iter().filter_map(|(_, cluster)| operation(cluster)).collect();
        let request = Request::new("POST", "/batch").json(&json!({"reason": "soak", "operations": operations}));
        self.forget_versions(&all);
        let Some((_, reply)) = self.send(&request).await else {
            return;
        };
        let ids = all.into_iter().map(|(_, cluster)| cluster.id);
        let ids = ids.collect::<std::collections::BTreeSet<_>>();
        self.acknowledge(
            &reply,
            ids.into_iter().map(|id| Acknowledged { id, document: None }).collect(),
        );
    }

    /// Their documents change, and the reply does not say to what.
    fn forget_versions(&self, all: &[(usize, Cluster)]) {
        let mut model = self.site.model.lock().expect("no panic while it is held");
        for (index, _) in all {
            model.clusters[*index].etag = None;
        }
    }

    /// Assigns, and undoes that.
    async fn undo(&mut self) {
        let Some((index, revision, before)) = self.assign().await else {
            return;
        };
        let request = Request::new("POST", "/rollback").json(&json!({"undo": revision, "reason": "soak"}));
        self.write(index, &request, before).await;
    }

    /// Rolls a cluster back to an earlier revision.
    async fn roll_back(&mut self) {
        let (index, cluster) = self.pick();
        let Some((revision, then)) = cluster.past else { return };
        self.site.model.lock().expect("no panic while it is held").clusters[index].past = None;
        let body = json!({"revision": revision, "kind": "clusters", "id": cluster.id, "reason": "soak"});
        self.write(index, &Request::new("POST", "/rollback").json(&body), then)
            .await;
    }

    /// The life of a cluster that comes and goes: created, renamed, deleted, created again.
    async fn guest(&mut self) {
        let index = self.run.clusters + self.number * COMING_AND_GOING + self.rng.below(COMING_AND_GOING);
        let guest = self.cluster(index);
        let name = |n: usize| format!("{}-{n}.k8s.example.com", guest.id);
        match &guest.shape.dns {
            None => {
                let document = guest_document(&guest.id, &name(self.rng.below(2)), self.serial);
                let next = Shape::of(&document);
                let request = Request::new("POST", "/clusters").json(&document);
                self.write(index, &request, next).await;
            }
            Some(dns) if self.rng.percent(50) => {
                let other = if *dns == name(0) { name(1) } else { name(0) };
                let request = Self::patch(&guest, &json!({"cluster_dns": other}));
                let next = Shape {
                    dns: Some(other),
                    ..guest.shape.clone()
                };
                self.write(index, &request, next).await;
            }
            Some(_) => {
                let request = Request::new("DELETE", &format!("/clusters/{}", guest.id));
                self.write(index, &request, Shape::default()).await;
            }
        }
    }

    /// A version that was never there is refused.
    async fn stale(&mut self) {
        let (_, cluster) = self.pick();
        let request = Self::patch(&cluster, &json!({"labels": {"stale": "yes"}}));
        let request = request.header("If-Match", "\"00000000000000000000000000000000\"");
        let process = self.site.any_crud(&mut self.rng);
        match self.site.send(process, &request, self.number).await {
            Outcome::Reply(reply) if reply.status == 412 => self.run.tally.count("stale writes refused"),
            Outcome::Reply(reply) => {
                let problem = format!("{} on {}: status {}", cluster.id, process.name, reply.status);
                self.run.findings.add("a stale write is refused", problem);
            }
            Outcome::Disturbed => {}
            Outcome::Failed(problem) => self
                .run
                .findings
                .add(WITHOUT_A_FAULT, format!("{}: {problem}", process.name)),
        }
    }

    /// Changes what many clusters are told.
    async fn edit_definition(&mut self) {
        let id = format!("team-{:02}", self.rng.below(40));
        let body = json!({"labels": {"soak": format!("{}-{}", self.number, self.serial)}});
        let Some((_, reply)) = self
            .send(&Request::new("PATCH", &format!("/namespaces/{id}")).json(&body))
            .await
        else {
            return;
        };
        let document = reply.json().ok().map(|document| hash(&document));
        self.acknowledge(&reply, vec![Acknowledged { id, document }]);
    }

    async fn put_kind(&mut self) {
        let kind = format!("soak_notes_{}s", self.number);
        let text = format!(
            "kind: {kind}\napiVersion: v1\nschema:\n  type: object\n  required: [id]\n  properties:\n    id: {{type: string}}\n    \
             text: {{type: string, description: \"version {}\"}}\n",
            self.serial
        );
        let request = Request::new("PUT", &format!("/kinds/{kind}")).content("application/yaml", text.into_bytes());
        let Some((_, reply)) = self.send(&request).await else {
            return;
        };
        self.acknowledge(
            &reply,
            vec![Acknowledged {
                id: kind,
                document: None,
            }],
        );
    }

    /// Sends a write of one cluster, after which it must be like `next`; the revision if that was acknowledged.
    async fn write(&mut self, index: usize, request: &Request, next: Shape) -> Option<u64> {
        let before = self.cluster(index);
        self.site
            .model
            .lock()
            .expect("no panic while it is held")
            .expect(index, &next);
        let Some((process, reply)) = self.send(request).await else {
            self.find_out(index, &before, &next).await;
            return None;
        };
        let body = reply.json().unwrap_or_default();
        if body["changes"].as_array().is_some_and(Vec::is_empty) {
            // A rollback to what the cluster is already: no revision.
            return None;
        }
        let document = Some(body).filter(|document| document["cluster_dns"].is_string());
        if let Some(document) = &document
            && Shape::of(document) != next
        {
            let problem = format!("{} on {}: {}", before.id, process.name, reply.text());
            self.run.findings.add("a reply is what was written", problem);
        }
        let acknowledged = Acknowledged {
            id: before.id,
            document: document.as_ref().map(hash),
        };
        self.acknowledge(&reply, vec![acknowledged]);
        // Only the reply of a resource carries its version: that of a rollback carries another one, or none.
        let etag = document.and_then(|_| reply.etag.clone());
        self.site
            .model
            .lock()
            .expect("no panic while it is held")
            .known(index, next.clone(), etag, reply.revision);
        if self.rng.percent(20) {
            self.read_back(process, &next).await;
        }
        reply.revision
    }

    /// Checks that a process serves what it has acknowledged.
    async fn read_back(&mut self, process: &Process, expected: &Shape) {
        let Some(dns) = &expected.dns else { return };
        let path = self.rng.below(ARRAYS.len());
        let request = Request::poll(dns, bench::generate::PATHS[path]);
        let Outcome::Reply(reply) = self.site.send(process, &request, self.number).await else {
            return;
        };
        self.run.tally.count("acknowledged writes read back");
        let served = reply.json().map(|body| ids(&body["inputs"])).unwrap_or_default();
        if reply.status != 200 || served != expected.inputs[path] {
            let problem = format!(
                "{dns} on {}: status {}, {} inputs",
                process.name,
                reply.status,
                served.len()
            );
            self.run
                .findings
                .add("an acknowledged write is served at once", problem);
        }
    }

    fn acknowledge(&self, reply: &Reply, all: Vec<Acknowledged>) {
        self.run.tally.count("writes acknowledged");
        let Some(revision) = reply.revision else {
            self.run.findings.add("a write has a revision", reply.text());
            return;
        };
        let mut ledger = self.site.ledger.lock().expect("no panic while it is held");
        if let Err(problem) = ledger.acknowledge(revision, all) {
            self.run
                .findings
                .add("revisions are unique", format!("{}: {problem}", self.site.name));
        }
    }

    /// Sends a write to any process. None: it was refused, or it is not known whether it was done.
    async fn send(&mut self, request: &Request) -> Option<(&'a Process, Reply)> {
        let site = self.site;
        let process = site.any_crud(&mut self.rng);
        let begun = Instant::now();
        let mut confirmed = None;
        loop {
            let asked = Instant::now();
            let outcome = site
                .send(process, confirmed.as_ref().unwrap_or(request), self.number)
                .await;
            let reply = match outcome {
                Outcome::Reply(reply) => reply,
                Outcome::Disturbed => {
                    self.run.tally.count("writes that met a fault");
                    return None;
                }
                Outcome::Failed(problem) => {
                    self.run
                        .findings
                        .add(WITHOUT_A_FAULT, format!("write on {}: {problem}", process.name));
                    return None;
                }
            };
            if reply.status < 300 {
                self.run.tally.time("writes", asked.elapsed());
                return Some((process, reply));
            }
            let problem = reply.json().unwrap_or_default();
            if let Some(count) = problem["removals"]["count"].as_u64().filter(|_| confirmed.is_none()) {
                self.run.tally.count("removals confirmed");
                confirmed = Some(request.clone().header("X-Confirm-Removals", &count.to_string()));
            } else if reply.status == 410 {
                // It goes back to a revision that was compacted.
                return None;
            } else if begun.elapsed() > LAG {
                let problem = format!(
                    "{request} on {}: status {}: {}",
                    process.name,
                    reply.status,
                    reply.text()
                );
                self.run.findings.add("a valid write is accepted", problem);
                return None;
            } else {
                // This process may not have followed yet what the other one acknowledged, or others were quicker.
                self.run.tally.count("writes refused at first, then accepted");
                sleep(Duration::from_millis(250)).await;
            }
        }
    }

    /// After a write with an unknown outcome: one more write resolves it, since revisions have one order. Its reply must show the
    /// cluster either before or after the first write.
    async fn find_out(&mut self, index: usize, before: &Cluster, next: &Shape) {
        let begun = Instant::now();
        while begun.elapsed() < DOUBT {
            self.serial += 1;
            let body = json!({"labels": {"probe": format!("{}-{}", self.number, self.serial)}});
            let process = self.site.any_crud(&mut self.rng);
            let Outcome::Reply(reply) = self.site.send(process, &Self::patch(before, &body), self.number).await else {
                sleep(Duration::from_millis(500)).await;
                continue;
            };
            let found = match reply.status {
                200 => reply.json().map(|document| Shape::of(&document)).unwrap_or_default(),
                // A process that is behind may not know a new cluster yet; it is asked for longer than that takes.
                404 if begun.elapsed() > LAG / 2 => Shape::default(),
                _ => {
                    sleep(Duration::from_millis(500)).await;
                    continue;
                }
            };
            if found != before.shape && found != *next {
                let problem = format!("{} on {}: neither as before nor as written", before.id, process.name);
                self.run.findings.add("no acknowledged write is lost", problem);
            }
            self.run.tally.count("writes of unknown end settled");
            let mut model = self.site.model.lock().expect("no panic while it is held");
            model.known(index, found, reply.etag.filter(|_| reply.status == 200), None);
            drop(model);
            return;
        }
        self.run
            .findings
            .add("a write can be settled", format!("{} of {}", before.id, self.site.name));
    }
}

/// A cluster with something of every kind.
fn guest_document(id: &str, dns: &str, serial: u64) -> Value {
    json!({
        "id": id,
        "cluster_name": id,
        "cluster_dns": dns,
        "environment": "dev",
        "labels": {"guest": serial.to_string()},
        "platform_components": [{"id": "component-00"}, {"id": "component-01"}],
        "namespaces": [{"id": "team-00"}, {"id": "team-01"}],
        "rolebindings": [{"id": "team-00-access"}],
    })
}

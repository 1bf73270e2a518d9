//! Failures whose input is not known: objects that do not say what they come from, such as the chart of a release. What the cluster renders
//! tells. That takes long, so it is done later, one at a time, and whoever sent the event does not wait for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet::Fleet;
use fleet::inputs::{Form, Mark};
use fleet::snapshot::Cluster;
use fleet::status::{InputRef, Object, Observation, Told};
use serde_json::Value;
use tracing::debug;

use super::App;
use crate::app::manifests::inputs;
use crate::app::reads::on_a_thread;

/// How many failures wait, at most: of all clusters, and of one, so that a flood of one cluster leaves places for the others. What finds no
/// place stays a failure of the cluster without an input.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 16;

/// The failures that wait.
#[derive(Debug, Default)]
pub struct Strays(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Arc<str>, Observation)>,
    /// Whether a thread works on them.
    is_worked_on: bool,
}

impl Strays {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, if there is a place. Returns whether a thread is to be started.
    fn push(&self, id: Arc<str>, stray: Observation) -> bool {
        let mut queue = self.lock();
        let own = queue.waiting.iter().filter(|(other, _)| *other == id);
        if queue.waiting.len() >= MOST || own.count() >= MOST_OF_ONE {
            debug!(cluster = %id, object = %stray.object, "too many events wait for their input");
            return false;
        }
        queue.waiting.push_back((id, stray));
        !std::mem::replace(&mut queue.is_worked_on, true)
    }

    /// The next one. None: there is none, and the thread ends.
    fn next(&self) -> Option<(Arc<str>, Observation)> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        queue.is_worked_on = next.is_some();
        next
    }
}

/// Lets another thread be started, also after a panic.
struct Working<'a>(&'a Strays);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_worked_on = false;
        }
    }
}

impl App {
    /// Finds out later which input a failing object comes from.
    pub(super) fn find_input(self: &Arc<Self>, id: Arc<str>, stray: Observation) {
        if !self.strays.push(id, stray) {
            return;
        }
        let app = self.clone();
        let started = on_a_thread(move || {
            let _working = Working(&app.strays);
            while let Some((id, stray)) = app.strays.next() {
                app.find_input_now(&id, stray);
            }
        });
        if started.is_err() {
            self.strays.lock().is_worked_on = false;
        }
    }

    fn find_input_now(&self, id: &Arc<str>, mut stray: Observation) {
        let fleet = self.fleet();
        let Some(cluster) = fleet.cluster(id) else { return };
        let Some((input, mark)) = self.origin(&fleet, cluster, &stray.object) else {
            return;
        };
        debug!(cluster = %id, object = %stray.object, path = input.path, input = input.id, "found the input of an event");
        let evidence = self.evidence.get(&fleet, cluster);
        let told = evidence.told_at(&input.path);
        stray.mark = mark.filter(|_| has_current(&fleet, cluster, &stray, told));
        stray.inferred = true;
        stray.input = Some(input);
        self.evidence.observe(id, stray.learnt, Some(stray));
    }

    /// The input that an object of a cluster is rendered from, and the mark that it has now.
    fn origin(&self, fleet: &Fleet, cluster: &Cluster, object: &Object) -> Option<(InputRef, Option<Mark>)> {
        let templates = self.templates.current();
        let rendered = templates.render(|path| inputs(fleet, cluster, path, Form::Marked));
        let steps = rendered
            .into_iter()
            .filter_map(|rendered| rendered.result.ok())
            .flatten();
        for made in steps.flat_map(|step| step.objects) {
            let text = |pointer: &str| made.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let annotation = |name: &str| text(&format!("/metadata/annotations/event.toolkit.fluxcd.io~1{name}"));
            let made_object = Object {
                kind: text("/kind").into(),
                namespace: text("/metadata/namespace").into(),
                name: text("/metadata/name").into(),
            };
            if (made_object == *object || object.is_chart_of(&made_object))
                && let Some(input) = InputRef::parse(annotation("input"))
            {
                return Some((input, annotation("desired").parse().ok()));
            }
        }
        None
    }
}

/// Whether an event is about what the cluster would be told now: it was told just that, and the event came later. Else it may be about an earlier
/// content, which the current one repairs.
fn has_current(fleet: &Fleet, cluster: &Cluster, stray: &Observation, told: Option<&Told>) -> bool {
    let Some((told, kind)) = told.and_then(|told| Some((told, fleet.kinds().at_path(&told.path)?))) else {
        return false;
    };
    let is_told = fleet
        .plain_etag(cluster, kind)
        .is_ok_and(|current| current == told.digest);
    is_told && stray.learnt >= told.since
}

#[cfg(test)]
mod tests {
    use fleet::status::{Event, Moment};

    use super::*;

    #[test]
    fn few_wait_of_one_cluster_and_one_thread_works() {
        let event = br#"{"involvedObject":{"kind":"HelmChart","name":"x"},"severity":"error"}"#;
        let stray = Event::parse(event, Moment(1)).unwrap().observation.unwrap();
        let strays = Strays::default();
        let push = |id: &str| strays.push(id.into(), stray.clone());
        assert!(push("a"), "the first one starts a thread");
        let waiting = || strays.lock().waiting.len();
        for _ in 0..100 {
            assert!(!push("a"));
        }
        assert_eq!(waiting(), MOST_OF_ONE);
        assert!(!push("b"));
        assert_eq!(waiting(), MOST_OF_ONE + 1, "another cluster has places of its own");
        (0..1000).for_each(|n| assert!(!push(&format!("c{n}"))));
        assert_eq!(waiting(), MOST);
        while strays.next().is_some() {}
        assert!(push("a"), "the thread has ended");
    }
}

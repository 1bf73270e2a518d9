//! Evidence that clusters send: events and reports.

use std::sync::Arc;

use fleet::inputs::Form;
use fleet::status::{Event, EventError, InputRef, Object, Observation, Report, ReportError};
use serde_json::Value;
use tracing::debug;

use super::{App, now};
use crate::app::manifests::inputs;
use crate::app::reads::on_a_thread;

impl App {
    /// Takes an event of a cluster's notification-controller. That of a decommissioned cluster is dropped.
    pub fn receive_event(self: &Arc<Self>, dns: &str, body: &[u8]) -> Result<(), EventError> {
        let now = now();
        let event = Event::parse(body, now)?;
        let Some(id) = self.id_at(dns) else {
            return Ok(());
        };
        self.metrics.events.inc();
        let stray = event.observation.clone().filter(Observation::is_stray_failure);
        let is_new = self.evidence.observe(&id, now, event.observation);
        if let Some(stray) = stray.filter(|_| is_new) {
            self.find_input(id, stray);
        }
        Ok(())
    }

    /// Takes a report of the reporter in a cluster. That of a decommissioned cluster is dropped.
    pub fn receive_report(&self, dns: &str, body: &[u8]) -> Result<(), ReportError> {
        let report = Report::parse(body, now())?;
        let Some(id) = self.id_at(dns) else {
            return Ok(());
        };
        self.metrics.reports.inc();
        self.evidence.report(&id, report);
        Ok(())
    }

    /// Finds out which input an object comes from that does not say so, such as the chart of a release: by rendering what the cluster
    /// renders. Later, and one at a time: whoever sent the event does not wait for it.
    fn find_input(self: &Arc<Self>, id: Arc<str>, mut stray: Observation) {
        let Ok(place) = self.finding.clone().try_acquire_owned() else {
            return;
        };
        let app = self.clone();
        let started = on_a_thread(move || {
            let _place = place;
            if let Some((input, mark)) = app.origin(&id, &stray.object) {
                debug!(cluster = %id, object = %stray.object, path = input.path, input = input.id, "found the input of an event");
                stray.mark = mark.parse().ok();
                stray.inferred = true;
                stray.input = Some(input);
                app.evidence.observe(&id, stray.learnt, Some(stray));
            }
        });
        if started.is_err() {
            debug!("cannot look for the input of an event");
        }
    }

    /// The input that an object of a cluster is rendered from, and its mark.
    fn origin(&self, id: &str, object: &Object) -> Option<(InputRef, String)> {
        let fleet = self.fleet();
        let cluster = fleet.cluster(id)?;
        let templates = self.templates.current();
        let rendered = templates.render(|path| inputs(&fleet, cluster, path, Form::Marked));
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
                return Some((input, annotation("desired").to_owned()));
            }
        }
        None
    }

    /// The id of the cluster with a DNS name.
    fn id_at(&self, dns: &str) -> Option<Arc<str>> {
        let fleet = self.engine.peek();
        fleet.cluster_at(dns).map(|cluster| cluster.document().id.clone())
    }
}

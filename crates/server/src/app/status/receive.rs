//! Evidence that clusters send: events and reports.

use std::sync::Arc;

use fleet::status::{Event, EventError, Observation, Report, ReportError};

use super::{App, now};

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

    /// The id of the cluster with a DNS name.
    fn id_at(&self, dns: &str) -> Option<Arc<str>> {
        let fleet = self.engine.peek();
        fleet.cluster_at(dns).map(|cluster| cluster.document().id.clone())
    }
}

//! Polls over TLS with a connection each, against rustls and axum alone.

use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::certificates::Certificates;
use crate::load::{self, Connections, Source};
use crate::measure::{Bench, Fleet, READERS, Sample, median, median_ratio};
use crate::server::{DATABASE, Server};

impl Bench<'_> {
    pub(crate) async fn tls(&mut self, binary: &Path, fleet: &Fleet, size: usize) -> Result<()> {
        const NAME: &str = "TLS, one connection per poll";
        let dir = fleet.dir.path();
        let certificates = Certificates::generate(dir)?;
        let url = format!("sqlite://{}", dir.join(DATABASE).display());
        let product = Server::started_with_tls(binary, dir, &url, &certificates).await?;
        load::poll_every_reply(&product, fleet.clusters.clone()).await?;
        let yardstick = Server::yardstick(size, Some(&certificates)).await?;
        let source = Arc::new(Source::polls(fleet.clusters.iter()));
        let load = |server: &Server| vec![self.load(server, &source, READERS, Connections::OnePerRequest)];
        let (a, b) = self
            .alternate(NAME, (&yardstick, load(&yardstick)), (&product, load(&product)))
            .await?;
        let rate = |samples: &[Sample]| median(samples.iter().map(|s| s.tally.per_second));
        let detail = format!(
            "{:.0} handshakes/s, each with a poll, against {:.0}",
            rate(&b),
            rate(&a)
        );
        let speed = median_ratio(&a, &b, |s| s.tally.per_second);
        self.report
            .at_least(&format!("throughput, {NAME}"), speed, 0.95, detail);
        let cpu = |samples: &[Sample]| median(samples.iter().map(|s| s.cpu_micros));
        let detail = format!("{:.0} µs against {:.0} µs", cpu(&b), cpu(&a));
        let ratio = median_ratio(&a, &b, |s| s.cpu_micros);
        self.report
            .at_most(&format!("CPU per poll, {NAME}"), ratio, 1.3, "", detail);
        Ok(())
    }
}

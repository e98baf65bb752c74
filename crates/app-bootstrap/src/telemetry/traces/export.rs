//! From spans to the collector: what is exported, in batches, and what happens when the collector is away.

use std::time::Duration;

use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{Protocol, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter},
};
use tracing::{Level, Metadata};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, filter_fn},
};

use crate::{
    outage::Outage,
    settings::Settings,
    telemetry::{SpanLayer, TracesError, settings::collector},
};

/// The export of this process's spans, if it has one.
#[derive(Debug)]
pub(crate) struct Traces(Option<Export>);

#[derive(Debug)]
struct Export {
    provider: SdkTracerProvider,
    timeout: Duration,
}

impl Traces {
    /// Starts the export that the settings ask for, and gives what hands spans to it. Nothing is connected yet.
    ///
    /// # Errors
    /// [`TracesError`] when the exporter cannot be set up.
    pub(crate) fn start(settings: &Settings) -> Result<(Self, Option<SpanLayer>), TracesError> {
        let otlp = &settings.telemetry.otlp;
        let Some(endpoint) = &otlp.endpoint else { return Ok((Self(None), None)) };
        let address = collector(endpoint).map_err(|bound| TracesError(bound.into()))?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address)
            .with_timeout(otlp.timeout)
            .build()
            .map_err(|error| TracesError(error.into()))?;
        let telling = Telling { exporter, endpoint: endpoint.clone(), outage: Outage::default() };
        let provider = provider(settings, telling);
        let layer = layer(&provider);
        Ok((Self(Some(Export { provider, timeout: otlp.timeout })), Some(layer)))
    }

    /// Exports what is left, at most for the time-out of an export; what then is still left is dropped.
    pub(crate) async fn stop(self) {
        let Some(Export { provider, timeout }) = self.0 else { return };
        // It blocks. When the collector takes too long, the thread is left behind and ends with the process.
        let flush = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(timeout));
        if !matches!(tokio::time::timeout(timeout, flush).await, Ok(Ok(Ok(())))) {
            tracing::warn!(timeout_ms = timeout.as_millis(), "the last spans were not exported");
        }
    }
}

/// Samples by the parent's decision, and at the begin of a trace by the share of the settings.
fn provider(settings: &Settings, exporter: impl SpanExporter + 'static) -> SdkTracerProvider {
    let otlp = &settings.telemetry.otlp;
    let process = [
        KeyValue::new("service.instance.id", settings.service.instance.clone()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let resource = Resource::builder().with_service_name(otlp.service_name.clone()).with_attributes(process).build();
    SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(otlp.sample_ratio))))
        .with_resource(resource)
        .with_batch_exporter(exporter)
        .build()
}

/// What makes spans of the process's spans, through a filter that is not that of the logs.
pub(super) fn layer(provider: &SdkTracerProvider) -> SpanLayer {
    tracing_opentelemetry::layer::<Registry>()
        .with_tracer(provider.tracer(env!("CARGO_PKG_NAME")))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(is_exported).with_max_level_hint(LevelFilter::DEBUG))
        .boxed()
}

/// Spans, not log lines: those stay where logs go, and name the trace.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    let least = match metadata.target().split("::").next() {
        Some("application_core") => Level::DEBUG,
        // Their spans are for log lines, and begin outside of any trace.
        Some("adapter_inbound" | "lapin") => return false,
        _ => Level::INFO,
    };
    metadata.is_span() && *metadata.level() <= least
}

/// Tells of an outage of the collector once, however many exports fail.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    endpoint: String,
    outage: Outage,
}

impl<E: SpanExporter> SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (spans, endpoint) = (batch.len(), &self.endpoint);
        let exported = self.exporter.export(batch).await;
        match &exported {
            Err(error) if self.outage.begins() => {
                tracing::warn!(endpoint, spans, %error, "spans cannot be exported and are dropped; the service goes on");
            }
            Err(error) => tracing::debug!(endpoint, spans, %error, "spans still cannot be exported"),
            Ok(()) if self.outage.ends() => tracing::info!(endpoint, "spans are exported again"),
            Ok(()) => {}
        }
        exported
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use opentelemetry_sdk::error::OTelSdkError;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::telemetry::traces::tests::{Lines, listen};

    /// A collector that is away as long as this is set.
    #[derive(Debug, Clone, Default)]
    struct Away(Arc<AtomicBool>);

    impl SpanExporter for Away {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            let refused = || OTelSdkError::InternalFailure("connection refused".to_owned());
            if self.0.load(Ordering::SeqCst) { Err(refused()) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn an_outage_of_the_collector_is_told_once_and_so_is_its_end() {
        let (lines, away) = (Lines::default(), Away::default());
        let _guards = listen(Registry::default().with(lines.layer()));
        let endpoint = "http://localhost:4318".to_owned();
        let telling = Telling { exporter: away.clone(), endpoint, outage: Outage::default() };
        for is_away in [false, true, true, false, false] {
            away.0.store(is_away, Ordering::SeqCst);
            assert_eq!(telling.export(Vec::new()).await.is_err(), is_away);
        }
        let text = lines.text();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(text.matches("spans cannot be exported and are dropped").count(), 1, "{text}");
        assert_eq!(text.matches("spans are exported again").count(), 1, "{text}");
    }
}

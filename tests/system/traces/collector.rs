//! A collector inside the test: takes OTLP over HTTP and keeps the spans.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span},
};
use prost::Message;
use tokio::{net::TcpListener, task::JoinHandle};

/// A span, and what was said of the process that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) process: String,
    pub(super) environment: String,
    pub(super) span: Span,
}

type Kept = Arc<Mutex<Vec<Received>>>;

pub(super) struct Collector {
    address: SocketAddr,
    kept: Kept,
    server: JoinHandle<io::Result<()>>,
}

impl Collector {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, kept) = (listener.local_addr()?, Kept::default());
        let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&kept));
        let server = tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { address, kept, server })
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything of one trace, given in hexadecimal digits.
    pub(super) fn trace(&self, id: &str) -> Vec<Received> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|received| hex(&received.span.trace_id) == id).cloned().collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

async fn take(State(kept): State<Kept>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let received = request.resource_spans.into_iter().flat_map(of_process);
    kept.lock().unwrap_or_else(PoisonError::into_inner).extend(received);
    StatusCode::OK
}

fn of_process(spans: ResourceSpans) -> Vec<Received> {
    let attributes = spans.resource.map(|resource| resource.attributes).unwrap_or_default();
    let process = text(&attributes, "service.instance.id");
    let environment = text(&attributes, "deployment.environment.name");
    let spans = spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
    spans.map(|span| Received { process: process.clone(), environment: environment.clone(), span }).collect()
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

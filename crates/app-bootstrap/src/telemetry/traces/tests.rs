//! What a collector would be sent, by the wrapped ports and routes around an outbox in memory.

use std::{
    future::pending,
    io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use adapter_inbound::amqp::HandleMessage;
use application_core::{
    inbox::InboundMessage,
    outbox::{FailureClass, NewOutboxEvent, OutboxEvent, bounds::MAX_HEADERS_BYTES, headers::TRACEPARENT},
    ports::{ConsumerName, MessagePublishPort, OutboxAppendPort, UnitOfWork},
    usecases::{HandleMessageOnce, HandlerError, MessageHandler, Transaction, Transactional},
};
use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Request, StatusCode},
    middleware::from_fn,
    routing::post,
};
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use test_support::{
    clock::FakeClock,
    fixtures::new_event,
    in_memory::{InMemoryOutbox, InMemoryTransaction, RecordingPublisher},
};
use time::OffsetDateTime;
use tower::ServiceExt;
use tracing::{
    Dispatch, Subscriber,
    subscriber::{DefaultGuard, NoSubscriber, set_default},
};
use tracing_subscriber::{Layer, Registry, filter::LevelFilter, layer::SubscriberExt};

use super::{
    append::TracedAppend,
    consume::TracedHandler,
    export::layer,
    publish::TracedPublisher,
    request::{MOST_OF_A_PATH, traced},
};
use crate::{telemetry::SpanLayer, wakeup::RelayWakeup};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

/// Listens to what this thread does, for as long as both are kept. While one dispatcher alone is alive, a callsite asks only
/// the thread that meets it first whether it is heard: a test beside this one, which listens to nothing, would turn it off
/// for all.
pub(super) fn listen(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (set_default(subscriber), second)
}

/// Spans that have ended.
#[derive(Debug, Clone, Default)]
struct Ended(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Ended {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    }
}

impl Ended {
    /// The spans of this test, for as long as the guards live.
    fn record() -> (Self, (DefaultGuard, Dispatch)) {
        let ended = Self::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(ended.clone()).build();
        let guards = listen(Registry::default().with(layer(&provider)));
        (ended, guards)
    }

    fn all(&self) -> Vec<SpanData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn named(&self, name: &str) -> SpanData {
        let all = self.all();
        let found = all.iter().find(|span| span.name == name);
        found
            .cloned()
            .unwrap_or_else(|| panic!("{name} among {:?}", all.iter().map(|span| &span.name).collect::<Vec<_>>()))
    }

    fn parent_of(&self, span: &SpanData) -> SpanData {
        let parent = self.all().into_iter().find(|other| other.span_context.span_id() == span.parent_span_id);
        parent.unwrap_or_else(|| panic!("{} has no parent here", span.name))
    }
}

/// What is logged.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Lines as they are by default.
    pub(super) fn layer(&self) -> SpanLayer {
        let writer = self.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        lines.with_filter(LevelFilter::INFO).boxed()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn outbox() -> InMemoryOutbox {
    InMemoryOutbox::new(Arc::new(FakeClock::at(OffsetDateTime::UNIX_EPOCH)))
}

fn transactional(outbox: &InMemoryOutbox) -> Arc<Transactional<InMemoryTransaction>> {
    let append = Arc::new(TracedAppend::<InMemoryTransaction>::new(Arc::new(outbox.clone())));
    Arc::new(Transactional::new(Arc::new(outbox.unit_of_work()), append, Arc::new(RelayWakeup::local())))
}

async fn place(State(transactional): State<Arc<Transactional<InMemoryTransaction>>>) -> StatusCode {
    let placed = transactional
        .run(async |transaction: &mut Transaction<InMemoryTransaction>| {
            transaction.record(new_event("7").build());
            Ok::<(), HandlerError>(())
        })
        .await;
    placed.map_or(StatusCode::INTERNAL_SERVER_ERROR, |()| StatusCode::CREATED)
}

/// The only event of the outbox as a relay claims it.
fn claimed(outbox: &InMemoryOutbox) -> OutboxEvent {
    let event = outbox.events().into_iter().next().expect("an event");
    OutboxEvent {
        id: event.id,
        sequence: event.sequence,
        aggregate_type: event.aggregate_type,
        aggregate_id: event.aggregate_id,
        event_type: event.event_type,
        payload: event.payload,
        headers: event.headers,
        attempts: 0,
        replays: 0,
        created_at: OffsetDateTime::UNIX_EPOCH,
        age_at_claim: Duration::ZERO,
    }
}

/// An event that was appended without a span.
async fn stored(outbox: &InMemoryOutbox, event: NewOutboxEvent) -> OutboxEvent {
    let mut tx = outbox.unit_of_work().begin().await.unwrap();
    outbox.append(&mut tx, &[event]).await.unwrap();
    outbox.unit_of_work().commit(tx).await.unwrap();
    claimed(outbox)
}

/// An event as a consumer receives it.
fn received(event: &OutboxEvent) -> InboundMessage {
    InboundMessage {
        id: event.id,
        event_type: event.event_type.clone(),
        aggregate_type: event.aggregate_type.clone(),
        aggregate_id: event.aggregate_id.clone(),
        sequence: event.sequence,
        schema_version: 1,
        idempotency_key: event.idempotency_key(),
        occurred_at: event.occurred_at(),
        replay: false,
        payload: event.payload.clone(),
        headers: event.headers.clone(),
    }
}

/// A handler of a context, with a span and a log line of its own.
struct Effect;

#[async_trait]
impl MessageHandler<InMemoryTransaction> for Effect {
    async fn handle(
        &self,
        _transaction: &mut Transaction<InMemoryTransaction>,
        message: &InboundMessage,
    ) -> Result<(), HandlerError> {
        let _effect = tracing::info_span!("effect").entered();
        tracing::info!("handled");
        match message.aggregate_id.as_str() {
            "7" => Ok(()),
            _ => Err(HandlerError::Reject { reason: "hush".to_owned() }),
        }
    }
}

fn handler(outbox: &InMemoryOutbox) -> TracedHandler {
    let consumer = ConsumerName::new("effects");
    let once = HandleMessageOnce::new(transactional(outbox), Arc::new(outbox.clone()), consumer, Arc::new(Effect));
    TracedHandler::new(Arc::new(once), "orders")
}

#[tokio::test]
async fn one_trace_leads_from_a_request_through_append_and_publish_to_the_effect() {
    let (ended, _guards) = Ended::record();
    let (outbox, broker) = (outbox(), RecordingPublisher::new());
    let routes: Router = Router::new().route("/orders/{id}", post(place)).with_state(transactional(&outbox));
    let request = Request::post("/orders/7").header(TRACEPARENT, format!("00-{TRACE}-{CLIENT}-01"));
    let answer = routes.layer(from_fn(traced)).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);

    let publisher = TracedPublisher::new(Arc::new(broker.clone()), "rabbitmq");
    publisher.publish(&claimed(&outbox)).await.unwrap();
    let message = received(&broker.sent().into_iter().next().expect("a message"));
    handler(&outbox).handle(&message).await.unwrap();

    let request = ended.named("POST /orders/{id}");
    assert_eq!(request.parent_span_id.to_string(), CLIENT);
    let append = ended.named("append");
    assert_eq!(ended.parent_of(&append).name, "transaction");
    assert_eq!(ended.parent_of(&ended.parent_of(&append)).name, request.name);
    let publish = ended.named("sample publish");
    assert_eq!(ended.parent_of(&publish).name, append.name);
    let process = ended.named("orders process");
    assert_eq!(ended.parent_of(&process).name, publish.name);
    let effect = ended.named("effect");
    assert_eq!(ended.parent_of(&effect).name, "transaction");
    assert_eq!(ended.parent_of(&ended.parent_of(&effect)).name, process.name);
    let kinds = [&request, &append, &publish, &process, &effect].map(|span| span.span_kind.clone());
    let expected = [SpanKind::Server, SpanKind::Internal, SpanKind::Producer, SpanKind::Consumer, SpanKind::Internal];
    assert_eq!(kinds, expected);
    let mut traces = ended.all().into_iter().map(|span| span.span_context.trace_id().to_string());
    assert!(traces.all(|trace| trace == TRACE), "{:?}", ended.all());
    assert_eq!(ended.all().len(), 7);
}

#[tokio::test]
async fn what_fails_marks_its_span_and_says_no_word_of_others() {
    let (ended, _guards) = Ended::record();
    let (outbox, broker) = (outbox(), RecordingPublisher::new());
    let routes: Router = Router::new().route("/{id}", post(async || StatusCode::SERVICE_UNAVAILABLE));
    let request = Request::post("/7").body(Body::empty()).unwrap();
    routes.layer(from_fn(traced)).oneshot(request).await.unwrap();

    let append = TracedAppend::<InMemoryTransaction>::new(Arc::new(outbox.clone()));
    let event = new_event("8").build();
    let mut tx = outbox.unit_of_work().begin().await.unwrap();
    append.append(&mut tx, std::slice::from_ref(&event)).await.unwrap();
    append.append(&mut tx, &[event]).await.unwrap_err();
    drop(tx);

    transactional(&outbox)
        .run(async |transaction: &mut Transaction<InMemoryTransaction>| {
            transaction.record(new_event("8").build());
            Ok::<(), HandlerError>(())
        })
        .await
        .unwrap();
    let event = claimed(&outbox);
    broker.refuse_next(event.id, FailureClass::Rejected);
    TracedPublisher::new(Arc::new(broker), "rabbitmq").publish(&event).await.unwrap_err();
    handler(&outbox).handle(&received(&event)).await.unwrap_err();

    let failed = ended.all().into_iter().filter(|span| span.status != Status::Unset);
    let failed: Vec<_> = failed.map(|span| (span.name.to_string(), span.status)).collect();
    let expected =
        [("POST /{id}", "503"), ("append", "duplicate"), ("sample publish", "rejected"), ("orders process", "reject")];
    assert_eq!(failed, expected.map(|(name, kind)| (name.to_owned(), Status::error(kind))));
    let told = format!("{:?}", ended.all());
    assert!(!told.contains("hush") && !told.contains("refused by the test"), "{told}");
}

/// What becomes of work that is begun and then dropped.
fn begun<T>(work: impl Future<Output = T>) -> Poll<T> {
    pin!(work).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn what_is_dropped_before_its_end_marks_its_span_as_cancelled() {
    let (ended, _guards) = Ended::record();
    let (outbox, broker) = (outbox(), RecordingPublisher::new());
    let routes: Router = Router::new().route("/{id}", post(async || pending::<StatusCode>().await));
    let request = Request::post("/7").body(Body::empty()).unwrap();
    assert!(begun(routes.layer(from_fn(traced)).oneshot(request)).is_pending());

    let event = stored(&outbox, new_event("7").build()).await;
    let _held = broker.hold_confirms();
    let publisher = TracedPublisher::new(Arc::new(broker.clone()), "rabbitmq");
    assert!(begun(publisher.publish(&event)).is_pending());

    for name in ["POST /{id}", "sample publish"] {
        assert_eq!(ended.named(name).status, Status::error("cancelled"), "{name}");
    }
}

#[tokio::test]
async fn a_span_holds_no_more_of_a_path_than_its_bound() {
    let (ended, _guards) = Ended::record();
    let routes: Router = Router::new().route("/{id}", post(async || StatusCode::OK));
    let request = Request::post(format!("/{}", "x".repeat(10_000))).body(Body::empty()).unwrap();
    routes.layer(from_fn(traced)).oneshot(request).await.unwrap();
    let span = ended.named("POST /{id}");
    let path = span.attributes.iter().find(|attribute| attribute.key.as_str() == "url.path").expect("a path");
    assert_eq!(path.value.as_str().len(), MOST_OF_A_PATH);
}

#[tokio::test]
async fn a_publish_adds_no_context_to_headers_that_are_full() {
    let (ended, _guards) = Ended::record();
    let (outbox, broker) = (outbox(), RecordingPublisher::new());
    let event = stored(&outbox, new_event("7").header("a", "x".repeat(MAX_HEADERS_BYTES - 20)).build()).await;
    TracedPublisher::new(Arc::new(broker.clone()), "rabbitmq").publish(&event).await.unwrap();
    let sent: Vec<_> = broker.sent().into_iter().map(|event| event.headers).collect();
    assert_eq!(sent, [event.headers]);
    assert_eq!(ended.all().len(), 1);
}

#[tokio::test]
async fn a_message_without_a_trace_begins_one() {
    let (ended, _guards) = Ended::record();
    let outbox = outbox();
    let event = stored(&outbox, new_event("7").build()).await;
    handler(&outbox).handle(&received(&event)).await.unwrap();
    let process = ended.named("orders process");
    assert!(process.span_context.is_valid() && !process.parent_span_is_remote);
    assert_eq!(process.parent_span_id.to_string(), "0".repeat(16));
}

#[tokio::test]
async fn without_a_trace_or_room_for_it_events_are_appended_as_they_are() {
    let outbox = outbox();
    let append = TracedAppend::<InMemoryTransaction>::new(Arc::new(outbox.clone()));
    let carried = async |event: NewOutboxEvent| {
        let mut tx = outbox.unit_of_work().begin().await.unwrap();
        append.append(&mut tx, std::slice::from_ref(&event)).await.unwrap();
        outbox.unit_of_work().commit(tx).await.unwrap();
        let appended = outbox.events().into_iter().find(|appended| appended.id == event.id());
        appended.expect("an event").headers
    };
    let given = || new_event("7").header(TRACEPARENT, "00-1-2-01").build();
    assert_eq!(carried(given()).await, *given().headers());

    let (ended, _guards) = Ended::record();
    let full = new_event("7").header("a", "x".repeat(MAX_HEADERS_BYTES - 20)).build();
    assert_eq!(carried(full.clone()).await, *full.headers());
    let traced = carried(given()).await;
    assert!(traced.get(TRACEPARENT).is_some_and(|parent| parent != "00-1-2-01"), "{traced:?}");
    assert_eq!(ended.all().len(), 2);
}

#[tokio::test]
async fn a_log_line_of_a_message_names_its_trace() {
    let (lines, outbox) = (Lines::default(), outbox());
    let layers: Vec<SpanLayer> = vec![lines.layer(), layer(&SdkTracerProvider::builder().build())];
    let _guards = listen(Registry::default().with(layers));

    let event = new_event("7").header(TRACEPARENT, format!("00-{TRACE}-{CLIENT}-01")).build();
    handler(&outbox).handle(&received(&stored(&outbox, event).await)).await.unwrap();

    let text = lines.text();
    let line = text.lines().find(|line| line.contains("handled")).expect("the handler's line");
    assert!(line.contains(&format!("trace_id={TRACE}")), "{line}");
}

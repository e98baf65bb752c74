//! What the tests share: publishers, events, and receivers that are none.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use adapter_outbound::{OutboundSettings, PublisherKind, WebhookOutboxMessagePublisher, webhook::WebhookSettings};
use application_core::outbox::{
    AggregateId, AggregateType, EventHeaders, EventId, EventType, FailureClass, OutboxEvent, Payload, PublishFailure,
    Sequence,
};
use test_support::{
    clock::FakeClock,
    webhook::{Received, WebhookReceiver},
};
use time::macros::datetime;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    time::{Instant, interval},
};
use uuid::Uuid;

/// How long anything may take that takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// A time-out that no test waits for.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);
/// Host and port where nothing listens: the port belongs to a service that nobody runs.
pub(crate) const CLOSED: &str = "127.0.0.1:1";
pub(crate) const SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";
pub(crate) const OLDER_SECRET: &str = "whsec_dGhlIG9sZGVyIHNlY3JldCBvZiB0ZXN0cywgYSBsaXR0bGUgbG9uZ2Vy";

/// Settings for one receiver; nothing ends by a time-out.
pub(crate) fn settings(url: &str) -> OutboundSettings {
    OutboundSettings {
        publisher: PublisherKind::Webhook,
        webhook: WebhookSettings {
            url: Some(url.into()),
            secrets: Some(SECRET.into()),
            connect_timeout: NEVER,
            confirm_timeout: NEVER,
            ..WebhookSettings::default()
        },
        ..OutboundSettings::default()
    }
}

pub(crate) fn publisher(settings: &OutboundSettings) -> WebhookOutboxMessagePublisher {
    publisher_at(settings, Arc::new(FakeClock::default()))
}

pub(crate) fn publisher_at(settings: &OutboundSettings, clock: Arc<FakeClock>) -> WebhookOutboxMessagePublisher {
    WebhookOutboxMessagePublisher::try_new(settings, clock).unwrap()
}

pub(crate) fn event(event_type: &str) -> OutboxEvent {
    static SEQUENCE: AtomicUsize = AtomicUsize::new(1);
    let n = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    OutboxEvent {
        id: EventId::new(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0000 + n as u128)),
        sequence: Sequence(i64::try_from(n).unwrap()),
        aggregate_type: AggregateType::from_stored("work-log"),
        aggregate_id: AggregateId::from_stored("a1"),
        event_type: EventType::from_stored(event_type),
        payload: Payload::from_stored(format!("{{\"n\":{n}}}")),
        headers: EventHeaders::default(),
        attempts: 0,
        replays: 0,
        created_at: datetime!(2026-01-02 03:04:05 UTC),
        age_at_claim: Duration::ZERO,
    }
}

/// What became of a publish, which must end.
pub(crate) async fn fate(publish: impl Future<Output = Result<(), PublishFailure>>) -> Result<(), PublishFailure> {
    tokio::time::timeout(SOON, publish).await.unwrap()
}

/// The one request that came.
pub(crate) fn only(receiver: &WebhookReceiver) -> Received {
    let mut requests = receiver.received();
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests.remove(0)
}

pub(crate) fn class(result: &Result<(), PublishFailure>) -> Option<FailureClass> {
    result.as_ref().err().map(PublishFailure::class)
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    let mut ticks = interval(Duration::from_millis(20));
    while !holds() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        ticks.tick().await;
    }
}

/// Host and port of something that takes each connection, waits until it is sent something, and does this with it.
pub(crate) async fn strange_server<F, Fut>(then: F) -> String
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _read = stream.read(&mut [0; 4096]).await;
            tokio::spawn(then(stream));
        }
    });
    address
}

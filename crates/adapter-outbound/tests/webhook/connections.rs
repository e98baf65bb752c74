//! Receivers that are away, silent, or none at all; and what others notice of it.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_outbound::webhook::WebhookOverride;
use application_core::{outbox::FailureClass, ports::MessagePublishPort};
use test_support::{
    tls::Authority,
    webhook::{Answer, WebhookReceiver},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{
    CLOSED, NEVER, OLDER_SECRET, class, event, eventually, fate, only, publisher, settings, strange_server,
};

/// Long enough to be a time-out, and short enough to be waited for.
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn whatever_keeps_an_event_from_the_receiver_is_nobodys_fault() {
    let cut = strange_server(|stream| async move { drop(stream) }).await;
    let no_http = strange_server(|mut stream| async move {
        let _written = stream.write_all(b"220 mail.example.com ESMTP\r\n").await;
    })
    .await;
    for url in [
        format!("http://{CLOSED}/in"),
        format!("http://{cut}/in"),
        format!("http://{no_http}/in"),
        // By RFC 6761 there is no such name; should a resolver invent one, nothing answers there in time.
        "http://receiver.invalid/in".to_owned(),
    ] {
        let mut settings = settings(&url);
        settings.webhook.allow_http = true;
        settings.webhook.connect_timeout = Duration::from_secs(5);
        let result = fate(publisher(&settings).publish(&event("Reserved"))).await;
        assert_eq!(class(&result), Some(FailureClass::Unavailable), "{url}: {result:?}");
    }
}

#[tokio::test]
async fn a_receiver_that_never_answers_costs_the_confirm_time_out_and_no_event() {
    let receiver = WebhookReceiver::start(|_| Answer::Never).await.unwrap();
    let mut settings = settings(&receiver.url("/in"));
    settings.webhook.confirm_timeout = SHORT;
    let failure = fate(publisher(&settings).publish(&event("Reserved"))).await.unwrap_err();
    assert_eq!((failure.class(), failure.reason()), (FailureClass::Unavailable, "no answer within 50ms"));
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_costs_the_connect_time_out() {
    let silent = strange_server(|stream| async move {
        pending::<()>().await;
        drop(stream);
    })
    .await;
    let ca_file = Authority::new().unwrap().file().unwrap();
    let mut settings = settings(&format!("https://{silent}/in"));
    settings.webhook.ca_file = Some(ca_file.path().to_owned());
    settings.webhook.connect_timeout = SHORT;
    let failure = fate(publisher(&settings).publish(&event("Reserved"))).await.unwrap_err();
    assert_eq!((failure.class(), failure.reason()), (FailureClass::Unavailable, "no connection: not within 50ms"));
}

#[tokio::test]
async fn a_host_that_is_silent_is_a_destination_of_its_own_and_disturbs_no_other() {
    let silent = WebhookReceiver::start(|_| Answer::Never).await.unwrap();
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let mut settings = settings(&receiver.url("/in"));
    settings.webhook.overrides.push(WebhookOverride {
        event_type: Some("Silent".to_owned()),
        url: Some(silent.url("/in").into()),
        secrets: Some(OLDER_SECRET.into()),
        ..WebhookOverride::default()
    });
    assert_eq!(settings.webhook.confirm_timeout, NEVER);
    let publisher = publisher(&settings);
    let (waiting, usual) = (event("Silent"), event("Reserved"));
    assert_ne!(publisher.destination(&waiting).unwrap(), publisher.destination(&usual).unwrap());
    let mut stuck = Box::pin(publisher.publish(&waiting));
    let meanwhile = async {
        eventually("the silent receiver has its request", || silent.received().len() == 1).await;
        fate(publisher.publish(&usual)).await
    };
    tokio::select! {
        result = &mut stuck => unreachable!("a silent receiver answers nothing: {result:?}"),
        result = meanwhile => result.unwrap(),
    }
    assert_eq!(only(&receiver).header("x-event-type"), "Reserved");
}

#[tokio::test]
async fn a_publish_that_is_dropped_ends_its_connection() {
    let (asked, closed) = (Arc::new(AtomicBool::default()), Arc::new(AtomicBool::default()));
    let (asking, closing) = (Arc::clone(&asked), Arc::clone(&closed));
    let silent = strange_server(move |mut stream| {
        let (asking, closing) = (Arc::clone(&asking), Arc::clone(&closing));
        async move {
            asking.store(true, Ordering::SeqCst);
            // The rest of the request, and then its end or a reset.
            while stream.read(&mut [0; 4096]).await.is_ok_and(|bytes| bytes > 0) {}
            closing.store(true, Ordering::SeqCst);
        }
    })
    .await;
    let publisher = publisher(&settings(&format!("http://{silent}/in")));
    let event = event("Reserved");
    let mut stuck = Box::pin(publisher.publish(&event));
    tokio::select! {
        result = &mut stuck => unreachable!("a silent receiver answers nothing: {result:?}"),
        () = eventually("the receiver is asked", || asked.load(Ordering::SeqCst)) => {}
    }
    assert!(!closed.load(Ordering::SeqCst));
    drop(stuck);
    eventually("the connection is closed", || closed.load(Ordering::SeqCst)).await;
}

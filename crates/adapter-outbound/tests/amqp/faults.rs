//! What happens when the broker, its objects or the way to it fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use adapter_outbound::{OutboundSettings, OutboxMessagePublishAdapter};
use application_core::{
    outbox::{FailureClass, OutboxEvent, Payload, PublishFailure},
    ports::{MessagePublishPort, ReadinessCheck},
};
use futures_util::future::join_all;
use lapin::{
    options::QueueDeleteOptions,
    types::{AMQPValue, FieldTable},
};
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    time::{Instant, timeout},
};
use url::Url;
use uuid::Uuid;

use crate::{
    proxy::Proxy,
    stage::{
        SOON, Stage, argument, class, event, events, eventually, faulty_broker, publish_all, settings, start,
        until_unavailable, with_override,
    },
};

/// Publishes events of a type in small batches until told to stop; what was confirmed, and all failures.
async fn load(
    publisher: &OutboxMessagePublishAdapter,
    event_type: &str,
    stop: &AtomicBool,
) -> (BTreeSet<Uuid>, Vec<PublishFailure>) {
    let (mut confirmed, mut failures) = (BTreeSet::new(), Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let before = failures.len();
        for (id, fate) in publish_all(publisher, &events(50, event_type)).await {
            match fate {
                Ok(()) => {
                    confirmed.insert(id);
                }
                Err(failure) => failures.push(failure),
            }
        }
        if failures.len() > before {
            tokio::task::yield_now().await;
        }
    }
    (confirmed, failures)
}

async fn publish_until_confirmed(publisher: &OutboxMessagePublishAdapter, event: &OutboxEvent) {
    eventually("the event is confirmed", async || publisher.publish(event).await.is_ok()).await;
}

fn all_unavailable(failures: &[PublishFailure]) -> bool {
    failures.iter().all(|failure| failure.class() == FailureClass::Unavailable)
}

async fn quorum_queue(stage: &Stage, exchange: &str) -> String {
    let mut arguments = FieldTable::default();
    argument(&mut arguments, "x-queue-type", AMQPValue::LongString("quorum".into()));
    stage.queue_with("q", exchange, "#", arguments).await
}

/// A proxy before the broker, and settings that lead through it.
async fn through_a_proxy(stage: &Stage, exchange: &str) -> (Proxy, OutboundSettings) {
    let mut url = Url::parse(&stage.url).unwrap();
    let proxy = Proxy::to(url.host_str().unwrap(), url.port().unwrap()).await;
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.port)).unwrap();
    let settings = settings(url.as_str(), exchange, "k");
    (proxy, settings)
}

/// Case B28.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_deleted_under_load_fails_alone_and_flows_again_once_it_is_back() {
    let stage = Stage::shared("deleted").await;
    let (doomed, there) = (stage.exchange("doomed").await, stage.exchange("there").await);
    stage.queue("dq", &doomed, "#").await;
    let queue = stage.queue("q", &there, "#").await;
    let mut settings = stage.settings(&doomed, "k");
    with_override(&mut settings, "Open", &there);
    let publisher = stage.publisher(&settings).await;
    let stop = AtomicBool::new(false);
    let ((_, doomed_failures), (confirmed, other_failures), ()) =
        tokio::join!(load(&publisher, "Doomed", &stop), load(&publisher, "Open", &stop), async {
            publish_until_confirmed(&publisher, &event("Doomed")).await;
            stage.delete_exchange(&doomed).await;
            let not_found = |failure: PublishFailure| failure.reason().contains("NOT_FOUND");
            eventually("the exchange is missed", async || {
                publisher.publish(&event("Doomed")).await.is_err_and(not_found)
            })
            .await;
            stage.exchange("doomed").await;
            stage.queue("dq", &doomed, "#").await;
            publish_until_confirmed(&publisher, &event("Doomed")).await;
            stop.store(true, Ordering::SeqCst);
        });
    assert_eq!(other_failures, []);
    // The exchange is there for a moment without its queue, both when it goes and when it comes back.
    let expected = [FailureClass::Unavailable, FailureClass::Unroutable];
    assert!(doomed_failures.iter().all(|failure| expected.contains(&failure.class())), "{doomed_failures:?}");
    let in_queue: BTreeSet<_> = stage.count_all(&queue).await.into_keys().collect();
    assert_eq!(in_queue, confirmed);
}

/// Case B28: the broker forgets what it has checked when the connection is new.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_permission_fails_as_unavailable_and_other_destinations_flow() {
    let (_turn, servers, server) = faulty_broker().await;
    let stage = Stage::on(servers, "permission").await;
    let control = server.control().unwrap();
    let (closed, there) = (stage.exchange("closed").await, stage.exchange("there").await);
    stage.queue("cq", &closed, "#").await;
    stage.queue("q", &there, "#").await;
    let user = stage.name("user").replace('.', "_");
    control.ctl(&["add_user", &user, "p@ss/:#?%w"]).await.unwrap();
    control.ctl(&["set_permissions", "-p", &stage.vhost(), &user, "", ".*", ".*"]).await.unwrap();
    let mut url = Url::parse(&stage.url).unwrap();
    url.set_username(&user).unwrap();
    url.set_password(Some("p%40ss%2F%3A%23%3F%25w")).unwrap();
    let mut settings = settings(url.as_str(), &closed, "k");
    with_override(&mut settings, "Open", &there);
    let publisher = stage.publisher(&settings).await;
    publisher.publish(&event("Closed")).await.unwrap();

    let only = there.replace('.', "\\.");
    control.ctl(&["set_permissions", "-p", &stage.vhost(), &user, "", &only, ".*"]).await.unwrap();
    control.ctl(&["close_all_user_connections", &user, "revoked"]).await.unwrap();
    publish_until_confirmed(&publisher, &event("Open")).await;
    for _ in 0..10 {
        let (to_closed, to_open) = (events(20, "Closed"), events(20, "Open"));
        let (failed, flowing) = tokio::join!(publish_all(&publisher, &to_closed), publish_all(&publisher, &to_open));
        for (_, fate) in failed {
            let failure = fate.unwrap_err();
            assert_eq!(failure.class(), FailureClass::Unavailable);
            assert!(failure.reason().contains("ACCESS_REFUSED") && !failure.reason().contains("p@ss"), "{failure}");
        }
        assert!(flowing.iter().all(|(_, fate)| fate.is_ok()));
    }
    control.ctl(&["set_permissions", "-p", &stage.vhost(), &user, "", ".*", ".*"]).await.unwrap();
    publish_until_confirmed(&publisher, &event("Closed")).await;
}

/// Case B36.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_back_without_its_topology_takes_nothing_until_it_is_declared_again() {
    let (_turn, servers, server) = faulty_broker().await;
    let mut stage = Stage::on(servers, "forgotten").await;
    let exchange = stage.exchange("e").await;
    let queue = quorum_queue(&stage, &exchange).await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    publisher.publish(&event("First")).await.unwrap();
    let first: BTreeSet<_> = stage.count_all(&queue).await.into_keys().collect();
    assert_eq!(first.len(), 1);

    let control = server.control().unwrap();
    control.restart().await.unwrap();
    stage.reconnect().await;
    let channel = stage.admin_channel().await;
    channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    stage.delete_exchange(&exchange).await;
    let missing = |failure: &PublishFailure, reason: &str| failure.reason().contains(reason);
    eventually("the exchange is missed", async || {
        publisher.publish(&event("Lost")).await.is_err_and(|failure| missing(&failure, "NOT_FOUND"))
    })
    .await;
    // The exchange comes first, and no queue takes what it gets: each message is returned, and each failure says so.
    stage.exchange("e").await;
    eventually("the queue is missed", async || {
        publisher.publish(&event("Lost")).await.is_err_and(|failure| missing(&failure, "NO_ROUTE"))
    })
    .await;
    let returned = events(50, "Returned");
    let fates = publish_all(&publisher, &returned).await;
    assert!(fates.iter().all(|(_, fate)| class(fate) == Some(FailureClass::Unroutable)), "{fates:?}");

    let queue = quorum_queue(&stage, &exchange).await;
    // The same messages, as a relay tries them again.
    let fates = publish_all(&publisher, &returned).await;
    assert!(fates.iter().all(|(_, fate)| fate.is_ok()), "{fates:?}");
    let expected: BTreeSet<_> = fates.into_iter().map(|(id, _)| id).collect();
    assert_eq!(stage.count_all(&queue).await.into_keys().collect::<BTreeSet<_>>(), expected);
}

/// Case B32.
#[tokio::test(flavor = "multi_thread")]
async fn a_memory_alarm_makes_the_publisher_unavailable_and_everything_flows_afterwards() {
    let (_turn, servers, server) = faulty_broker().await;
    let stage = Stage::on(servers, "alarm").await;
    let control = server.control().unwrap();
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let mut settings = stage.settings(&exchange, "k");
    settings.amqp.confirm_timeout = Duration::from_secs(3);
    let publisher = stage.publisher(&settings).await;
    publisher.publish(&event("First")).await.unwrap();
    let normal = control.ctl(&["eval", "vm_memory_monitor:get_vm_memory_high_watermark()."]).await.unwrap();
    control.ctl(&["set_vm_memory_high_watermark", "0"]).await.unwrap();

    let blocked = events(100, "Blocked");
    let begun = Instant::now();
    let fates = timeout(SOON, publish_all(&publisher, &blocked)).await.unwrap();
    assert!(begun.elapsed() < SOON / 2, "every confirm is resolved in time");
    assert!(fates.iter().all(|(_, fate)| class(fate) == Some(FailureClass::Unavailable)), "{fates:?}");
    let reason = until_unavailable(&publisher).await;
    assert!(reason.contains("blocks publishers: low on memory"), "{reason}");
    assert_eq!(publisher.check().await.unwrap_err(), reason);
    let at_once = publisher.publish(&event("Refused")).await.unwrap_err();
    assert_eq!(at_once.reason(), reason);

    control.ctl(&["set_vm_memory_high_watermark", normal.trim()]).await.unwrap();
    publisher.wait_until_available(SOON).await.unwrap();
    eventually("the publisher is available", async || publisher.check().await.is_ok()).await;
    for (_, fate) in publish_all(&publisher, &blocked).await {
        fate.unwrap();
    }
    let counts = stage.count_all(&queue).await;
    assert!(blocked.iter().all(|event| counts.contains_key(&event.id.as_uuid())));
}

/// Case S62: the client writes nothing on a blocked connection, not even its farewell.
#[tokio::test(flavor = "multi_thread")]
async fn closing_while_the_broker_blocks_ends_in_time() {
    let (_turn, servers, server) = faulty_broker().await;
    let stage = Stage::on(servers, "closing_blocked").await;
    let control = server.control().unwrap();
    let exchange = stage.exchange("e").await;
    stage.queue("q", &exchange, "#").await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    publisher.publish(&event("First")).await.unwrap();
    let normal = control.ctl(&["eval", "vm_memory_monitor:get_vm_memory_high_watermark()."]).await.unwrap();
    control.ctl(&["set_vm_memory_high_watermark", "0"]).await.unwrap();
    let stuck = event("Stuck");
    let mut publishing = std::pin::pin!(publisher.publish(&stuck));
    assert!(futures_util::poll!(publishing.as_mut()).is_pending());
    until_unavailable(&publisher).await;
    let closing = timeout(SOON, publisher.close(Duration::from_millis(500))).await;
    let fate = timeout(SOON, publishing).await;
    control.ctl(&["set_vm_memory_high_watermark", normal.trim()]).await.unwrap();
    closing.expect("closing ends");
    assert_eq!(class(&fate.expect("the confirm is resolved")), Some(FailureClass::Unavailable));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_loses_no_confirmed_event_and_is_found_again() {
    let (_turn, servers, server) = faulty_broker().await;
    let stage = Stage::on(servers, "restart").await;
    let control = server.control().unwrap();
    let exchange = stage.exchange("e").await;
    let queue = quorum_queue(&stage, &exchange).await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    let stop = AtomicBool::new(false);
    let ((confirmed, failures), ()) = tokio::join!(load(&publisher, "Load", &stop), async {
        publish_until_confirmed(&publisher, &event("Before")).await;
        control.stop().await.unwrap();
        let reason = until_unavailable(&publisher).await;
        assert!(reason.contains("broker"), "{reason}");
        control.start().await.unwrap();
        publish_until_confirmed(&publisher, &event("After")).await;
        stop.store(true, Ordering::SeqCst);
    });
    assert!(!failures.is_empty() && all_unavailable(&failures));
    let counts = stage.count_all(&queue).await;
    assert_eq!(confirmed.iter().filter(|id| !counts.contains_key(id)).count(), 0, "confirmed and not in the queue");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_force_under_load_lose_no_confirmed_event() {
    let (_turn, servers, server) = faulty_broker().await;
    let stage = Stage::on(servers, "forced").await;
    let control = server.control().unwrap();
    let exchange = stage.exchange("e").await;
    let queue = quorum_queue(&stage, &exchange).await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    let stop = AtomicBool::new(false);
    let ((confirmed, failures), ()) = tokio::join!(load(&publisher, "Load", &stop), async {
        for _ in 0..3 {
            publish_until_confirmed(&publisher, &event("Before")).await;
            control.ctl(&["close_all_connections", "-p", &stage.vhost(), "by force"]).await.unwrap();
        }
        publish_until_confirmed(&publisher, &event("After")).await;
        stop.store(true, Ordering::SeqCst);
    });
    assert!(!failures.is_empty() && all_unavailable(&failures), "{failures:?}");
    assert!(failures.iter().any(|failure| failure.reason().contains("CONNECTION_FORCED")), "{failures:?}");
    let counts = stage.count_all(&queue).await;
    assert_eq!(confirmed.iter().filter(|id| !counts.contains_key(id)).count(), 0, "confirmed and not in the queue");
}

/// Case B31.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_between_write_and_confirm_a_hundred_times_loses_nothing() {
    let stage = Stage::shared("cut").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let (proxy, mut settings) = through_a_proxy(&stage, &exchange).await;
    settings.amqp.reconnect_first_pause = Duration::from_millis(10);
    settings.amqp.reconnect_longest_pause = Duration::from_millis(20);
    let publisher = stage.publisher(&settings).await;
    let (mut confirmed, mut open) = (BTreeSet::new(), Vec::new());
    for cut in 0..100 {
        publisher.wait_until_available(SOON).await.unwrap();
        open.extend(events(20, "Load"));
        let cutting = async {
            // Some cuts come before the first byte, some among the confirms.
            for _ in 0..cut * 5 {
                tokio::task::yield_now().await;
            }
            proxy.cut();
        };
        let (fates, ()) = tokio::join!(publish_all(&publisher, &open), cutting);
        confirmed.extend(fates.iter().filter(|(_, fate)| fate.is_ok()).map(|(id, _)| *id));
        open.retain(|event| !confirmed.contains(&event.id.as_uuid()));
    }
    for event in &open {
        publish_until_confirmed(&publisher, event).await;
        confirmed.insert(event.id.as_uuid());
    }
    assert_eq!(confirmed.len(), 2_000);
    let in_queue: BTreeSet<_> = stage.count_all(&queue).await.into_keys().collect();
    assert_eq!(in_queue, confirmed);
}

/// Case B31, at its worst: each time the broker has all messages, and not one of its confirms comes back.
#[tokio::test(flavor = "multi_thread")]
async fn messages_whose_confirms_are_cut_off_a_hundred_times_count_as_failed_and_are_lost_nowhere() {
    const CUTS: usize = 100;
    let stage = Stage::shared("unheard").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let (proxy, settings) = through_a_proxy(&stage, &exchange).await;
    let publisher = stage.publisher(&settings).await;
    let batch = events(20, "Load");
    for _ in 0..CUTS {
        // The connection of this round has its channel open.
        publish_until_confirmed(&publisher, &event("Before")).await;
        let all = stage.messages(&queue).await + 20;
        proxy.swallow_answers(true);
        let cutting = async {
            eventually("the broker has all messages", async || stage.messages(&queue).await >= all).await;
            proxy.cut();
        };
        let (fates, ()) = tokio::join!(publish_all(&publisher, &batch), cutting);
        proxy.swallow_answers(false);
        assert!(fates.iter().all(|(_, fate)| class(fate) == Some(FailureClass::Unavailable)), "{fates:?}");
    }
    for event in &batch {
        publish_until_confirmed(&publisher, event).await;
    }
    let counts = stage.count_all(&queue).await;
    for event in &batch {
        let count = counts.get(&event.id.as_uuid()).copied().unwrap_or_default();
        assert!(count > CUTS, "{count} times {}", event.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn confirms_that_never_come_are_resolved_in_time_and_silence_ends_the_connection() {
    let stage = Stage::shared("silence").await;
    let exchange = stage.exchange("e").await;
    stage.queue("q", &exchange, "#").await;
    let (proxy, mut settings) = through_a_proxy(&stage, &exchange).await;
    settings.amqp.confirm_timeout = Duration::from_millis(700);
    settings.amqp.heartbeat = Duration::from_secs(1);
    settings.amqp.connect_timeout = Duration::from_secs(1);
    let publisher = stage.publisher(&settings).await;
    publisher.publish(&event("First")).await.unwrap();
    proxy.swallow(true);
    let silent = events(1_500, "Silent");
    let fates = timeout(SOON, publish_all(&publisher, &silent)).await.unwrap();
    for (_, fate) in &fates {
        assert_eq!(class(fate), Some(FailureClass::Unavailable));
    }
    assert!(fates.iter().any(|(_, fate)| fate.as_ref().unwrap_err().reason().contains("no confirm within")));
    until_unavailable(&publisher).await;
    proxy.swallow(false);
    publish_until_confirmed(&publisher, &event("After")).await;
}

/// The client cannot cancel a handshake; each attempt would leave a thread behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_says_nothing_holds_up_no_attempt_and_keeps_no_thread() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut settings = settings(&format!("amqp://{address}/v"), "e", "k");
    settings.amqp.connect_timeout = Duration::from_millis(100);
    settings.amqp.reconnect_first_pause = Duration::from_millis(10);
    settings.amqp.reconnect_longest_pause = Duration::from_millis(10);
    let publisher = start(&settings);
    for _ in 0..20 {
        let (mut client, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
        tokio::spawn(async move {
            let mut said = Vec::new();
            // Ends when the client gives up.
            let _ = client.read_to_end(&mut said).await;
        });
    }
    let reason = publisher.check().await.unwrap_err();
    assert!(reason.contains("did not accept a connection within"), "{reason}");
    drop(publisher);
    drop(listener);
    #[cfg(target_os = "linux")]
    eventually("the threads of this test are gone", async || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let names = threads.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        // Other tests have a few connections each.
        names.filter(|name| name.starts_with("lapin-io-loop")).count() < 20
    })
    .await;
}

/// Case B33, where our limit is above the broker's.
#[tokio::test(flavor = "multi_thread")]
async fn over_the_brokers_own_limit_only_the_large_event_is_poison_and_the_limit_is_remembered() {
    let (_turn, servers, server) = faulty_broker().await;
    let stage = Stage::on(servers, "limit").await;
    let control = server.control().unwrap();
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let set = async |limit: &str| {
        let expression = format!("application:set_env(rabbit, max_message_size, {limit}).");
        control.ctl(&["eval", &expression]).await.unwrap();
    };
    set("100000").await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    let mut batch = events(100, "Reserved");
    let large = Payload::from_stored(format!("\"{}\"", "x".repeat(200_000)));
    batch[50].payload = large.clone();
    let large_id = batch[50].id.as_uuid();
    let (mut poison, mut rounds) = (BTreeSet::new(), 0);
    while !batch.is_empty() {
        rounds += 1;
        assert!(rounds < 10, "{batch:?}");
        let fates: BTreeMap<_, _> = publish_all(&publisher, &batch).await.into_iter().collect();
        poison.extend(fates.iter().filter(|(_, fate)| class(fate) == Some(FailureClass::Poison)).map(|(id, _)| *id));
        batch.retain(|event| class(&fates[&event.id.as_uuid()]) == Some(FailureClass::Unavailable));
    }
    set("134217728").await;
    assert_eq!(poison, BTreeSet::from([large_id]));
    assert_eq!(stage.count_all(&queue).await.len(), 99);

    let mut again = events(20, "Reserved");
    again[10].payload = large;
    for (at, (_, fate)) in publish_all(&publisher, &again).await.iter().enumerate() {
        assert_eq!(class(fate), (at == 10).then_some(FailureClass::Poison), "{at}: {fate:?}");
    }
}

/// Every destination goes its own way while others fail in every manner at once.
#[tokio::test(flavor = "multi_thread")]
async fn destinations_that_fail_in_all_ways_at_once_do_not_disturb_one_that_works() {
    let stage = Stage::shared("independent").await;
    let there = stage.exchange("there").await;
    let queue = stage.queue("q", &there, "#").await;
    let full = stage.exchange("full").await;
    let mut arguments = FieldTable::default();
    argument(&mut arguments, "x-max-length", AMQPValue::LongInt(1));
    argument(&mut arguments, "x-overflow", AMQPValue::LongString("reject-publish".into()));
    stage.queue_with("fq", &full, "#", arguments).await;
    let lonely = stage.exchange("lonely").await;
    let mut settings = stage.settings(&there, "k");
    with_override(&mut settings, "Full", &full);
    with_override(&mut settings, "Lonely", &lonely);
    with_override(&mut settings, "Missing", &stage.name("missing"));
    let publisher = stage.publisher(&settings).await;
    let kinds = ["Open", "Full", "Lonely", "Missing"];
    let all = join_all((0..50).map(async |_| {
        join_all(kinds.map(async |kind| (kind, publish_all(&publisher, &events(10, kind)).await))).await
    }))
    .await;
    for (kind, fates) in all.into_iter().flatten() {
        let seen: BTreeSet<_> = fates.iter().map(|(_, fate)| class(fate)).collect();
        let expected: &[_] = match kind {
            "Open" => &[None],
            "Full" => &[None, Some(FailureClass::Rejected)],
            "Lonely" => &[Some(FailureClass::Unroutable)],
            _ => &[Some(FailureClass::Unavailable)],
        };
        assert!(seen.iter().all(|class| expected.contains(class)), "{kind}: {seen:?}");
    }
    assert_eq!(stage.count_all(&queue).await.len(), 500);
}

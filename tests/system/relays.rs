//! From a request to its effect, over one relay, several relays, a relay that is killed, and one that is disabled.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use system_tests::{AppEnvironment, AppProcess, eventually, tally::Tally, work_load::WorkLoad};
use test_support::{
    checker::{DeliveryChecker, DuplicateReason},
    webhook::{Answer, WebhookReceiver},
};

use crate::world::{Outcome, PATIENCE, PORTFOLIO, World, complete_one, counter, load, read, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_work_log_created_over_http_is_applied_once_at_the_consumer() -> Outcome {
    let world = World::shared("applied_once").await?;
    let process = world.serve("only").await?;
    let clients = WorkLoad::new(vec![process.url("")], PATIENCE);
    let created = clients.create(PORTFOLIO, "twice", 25).await?;
    let repeated = clients.create(PORTFOLIO, "twice", 25).await?;
    assert_eq!(created, repeated, "the same idempotency key finds the same work log");
    complete_one(&process, "twice").await?;

    let minutes = eventually("the sums of the portfolio", PATIENCE, || async {
        let minutes = clients.minutes(PORTFOLIO).await.ok()??;
        (minutes.pointer("/events/completed")?.as_u64()? > 0).then_some(minutes)
    });
    let minutes = minutes.await?;
    assert_eq!(minutes["completedMinutes"], 25, "{minutes}");
    assert_eq!(minutes["events"]["reserved"], 1, "{minutes}");
    let counts = world.until_settled().await?;
    assert_eq!((counts.work_logs, counts.events, counts.applied), (1, 3, 3));
    world.report(Some(DuplicateReason::LeaseExpired)).await?.assert_clean();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_killed_while_publishing_loses_nothing() -> Outcome {
    let world = World::shared("killed").await?;
    let mut first = world.serve("relay-1").await?;
    let second = world.serve("relay-2").await?;
    let load = load(&[&first, &second]);
    world.until_published_more(30).await?;

    let mut tally = world.tally().await?;
    until_holding(&mut tally, "relay-1").await?;
    first.kill().await?;
    load.turn_to(&[&second]);

    world.until_published_more(30).await?;
    let work_logs = load.finish().await?;
    let counts = world.until_settled().await?;
    assert_eq!((counts.work_logs, counts.events), (work_logs, work_logs * 3));
    world.report(Some(DuplicateReason::RelayKilled)).await?.assert_clean();
    assert_eq!(tally.leftovers().await?, (0, 0));
    Ok(())
}

/// Waits until the relay holds a lease: it is in the middle of something.
async fn until_holding(tally: &mut Tally, relay: &str) -> Outcome {
    let begun = Instant::now();
    while tally.held_by(relay).await? == 0 {
        assert!(begun.elapsed() < PATIENCE, "{relay} never held a lease");
    }
    Ok(())
}

/// So many that a relay is busy with them for a while.
const MANY: i64 = 5_000;
const APPEND_MANY: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT gen_random_uuid(), 'order', (n % 20)::text, 'Moved', '{}' FROM generate_series(1, 5000) AS n";

/// Waits until so many events were published and delivered, and checks how; they may be repeated for this reason.
async fn assert_all_delivered(world: &World, events: i64, duplicates: DuplicateReason) -> Outcome {
    world.until("every event published", |counts| counts.published == events).await?;
    world.until_delivered(usize::try_from(events)?).await?;
    let checker = DeliveryChecker::new();
    checker.allow_duplicates(duplicates);
    world.examine(checker).await?.assert_clean();
    Ok(())
}

/// Case L26: no other relay is there to go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_killed_in_mid_batch_and_started_again_at_once_delivers_the_rest_in_order() -> Outcome {
    let world = World::shared("again").await?;
    let mut tally = world.tally().await?;
    let mut events = 0;
    loop {
        let mut relay = world.environment.relay("relay").await?;
        world.execute(APPEND_MANY).await?;
        events += MANY;
        until_holding(&mut tally, "relay").await?;
        relay.kill().await?;
        if tally.held_by("relay").await? > 0 {
            break;
        }
        // It had settled everything: once more.
    }
    let _again = world.environment.relay("relay").await?;
    assert_all_delivered(&world, events, DuplicateReason::RelayKilled).await?;
    assert_eq!(tally.leftovers().await?, (0, 0));
    Ok(())
}

/// Cases L21 and L22: without processor time, all threads of a process stand still, and its clock goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_stands_still_for_longer_than_its_lease_is_replaced_and_its_late_word_counted_as_stale() -> Outcome
{
    const SOON: Duration = Duration::from_secs(20);
    let world = World::shared("still").await?;
    let first = world.environment.relay("relay-1").await?;
    let second = world.environment.relay("relay-2").await?;
    let mut tally = world.tally().await?;
    let (mut events, begun) = (0, Instant::now());
    loop {
        assert!(begun.elapsed() < PATIENCE, "relay-1 was never stopped in the middle of a batch");
        let expired = counter(&second, "outbox_expired_claims_total").await?;
        world.execute(APPEND_MANY).await?;
        events += MANY;
        until_holding(&mut tally, "relay-1").await?;
        first.signal(Signal::STOP)?;
        world.until("everything published by the other relay", |counts| counts.published == events).await?;
        let replaced = counter(&second, "outbox_expired_claims_total").await? > expired;
        first.signal(Signal::CONT)?;
        let told = || async { (counter(&first, "outbox_stale_settlements_total").await.ok()? > 0.0).then_some(()) };
        // Stopped between two claims, or before it had read one, it has nothing to say: once more.
        if replaced && eventually("a stale settlement", SOON, told).await.is_ok() {
            break;
        }
    }
    assert_all_delivered(&world, events, DuplicateReason::LeaseExpired).await?;
    assert_eq!(tally.leftovers().await?, (0, 0), "the late word changed nothing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn several_relays_publish_each_aggregate_in_order() -> Outcome {
    let world = World::shared("several").await?;
    let servers = [world.serve("serve-1").await?, world.serve("serve-2").await?];
    let relays = [world.environment.relay("relay-1").await?, world.environment.relay("relay-2").await?];
    let load = load(&servers.iter().collect::<Vec<_>>());

    let all: Vec<&AppProcess> = servers.iter().chain(&relays).collect();
    let published_by_all = || async {
        for process in &all {
            if counter(process, "outbox_published_total").await.ok()? == 0.0 {
                return None;
            }
        }
        Some(())
    };
    eventually("a share of every relay", PATIENCE, published_by_all).await?;
    world.until_published_more(60).await?;
    let work_logs = load.finish().await?;

    let counts = world.until_settled().await?;
    assert_eq!(counts.events, work_logs * 3);
    world.report(Some(DuplicateReason::LeaseExpired)).await?.assert_clean();
    Ok(())
}

fn with_settings(world: &World, settings: &[(&str, &str)]) -> AppEnvironment {
    let environment = world.environment.clone();
    settings.iter().fold(environment, |environment, (name, value)| environment.with(&format!("APP__{name}"), value))
}

/// Case O5. Connections alone are fewer than they may be: the server has 200 for all tests.
#[tokio::test(flavor = "multi_thread")]
async fn no_setting_at_its_maximum_reorders_an_aggregate() -> Outcome {
    const ROUNDS: usize = 10;
    let world = World::shared("maximum").await?;
    let settings = [
        ("DATABASE__POOL__MAX_CONNECTIONS", "24"),
        ("OUTBOX__RELAY__WORKERS", "64"),
        ("OUTBOX__RELAY__MAX_EVENTS", "10000"),
        ("OUTBOX__RELAY__MIN_LANES", "10000"),
        ("OUTBOX__RELAY__MAX_RUN", "10000"),
        ("OUTBOX__RELAY__MAX_BYTES", "1073741824"),
        ("OUTBOX__RELAY__WINDOW", "10000"),
        ("OUTBOX__RELAY__LONGEST_POLL", "50ms"),
        ("OUTBOUND__AMQP__CHANNELS_PER_DESTINATION", "64"),
    ];
    let environment = with_settings(&world, &settings);
    let relays = [environment.relay("relay-1").await?, environment.relay("relay-2").await?];
    // Each aggregate is claimed again and again, by whichever relay looks first.
    for round in 1..=ROUNDS {
        world
            .execute(
                "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
                 SELECT gen_random_uuid(), 'order', (n % 20)::text, 'Moved', '{}' FROM generate_series(1, 100) AS n",
            )
            .await?;
        let some = i64::try_from(round * 50)?;
        world.until("half of what was appended published", |counts| counts.published >= some).await?;
    }
    let all = ROUNDS * 100;
    let published = i64::try_from(all)?;
    world.until("every event published", |counts| counts.published == published).await?;
    world.until_delivered(all).await?;
    world.examine(DeliveryChecker::new()).await?.assert_clean();
    let mut counted = 0.0;
    for relay in &relays {
        counted += counter(relay, "outbox_published_total").await?;
    }
    assert!(counted >= 1000.0, "{counted} were published by the relays");
    Ok(())
}

/// Case O5 once more. A claim of many events leaves little to other workers; after one of a single event another worker
/// is woken, and the next event of the aggregate is for whoever comes first.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_workers_of_each_relay_that_claim_single_events_reorder_no_aggregate() -> Outcome {
    let world = World::shared("workers").await?;
    let settings = [
        ("DATABASE__POOL__MAX_CONNECTIONS", "24"),
        ("OUTBOX__RELAY__WORKERS", "64"),
        ("OUTBOX__RELAY__MAX_EVENTS", "1"),
        ("OUTBOX__RELAY__MIN_LANES", "1"),
        ("OUTBOX__RELAY__MAX_RUN", "1"),
        ("OUTBOX__RELAY__LONGEST_POLL", "50ms"),
    ];
    let environment = with_settings(&world, &settings);
    let _relays = [environment.relay("relay-1").await?, environment.relay("relay-2").await?];
    world
        .execute(
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             SELECT gen_random_uuid(), 'order', (n % 64)::text, 'Moved', '{}' FROM generate_series(1, 640) AS n",
        )
        .await?;
    assert_all_delivered(&world, 640, DuplicateReason::LeaseExpired).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_work_log_arrive_signed_and_in_order_at_a_webhook_receiver() -> Outcome {
    const SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";
    let world = World::shared("webhook").await?;
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await?;
    let url = receiver.url("/in");
    let environment = [
        ("APP__CONSUMER__ENABLED", "false"),
        ("APP__OUTBOUND__PUBLISHER", "webhook"),
        ("APP__OUTBOUND__WEBHOOK__URL", url.as_str()),
        ("APP__OUTBOUND__WEBHOOK__SECRETS", SECRET),
        ("APP__OUTBOUND__WEBHOOK__CONFIRM_TIMEOUT", "1500ms"),
    ]
    .into_iter()
    .fold(world.environment.clone(), |environment, (name, value)| environment.with(name, value));
    let process = environment.serve("webhook").await?;
    complete_one(&process, "by-webhook").await?;
    world.until("every event published", |counts| (counts.events, counts.published) == (3, 3)).await?;

    let requests = receiver.received();
    assert!(requests.iter().all(|request| request.is_signed_by(SECRET)), "{requests:?}");
    // On a slow machine a lease may end, and an event come twice.
    let mut types: Vec<&str> = Vec::new();
    for kind in requests.iter().map(|request| request.header("x-event-type")) {
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    assert_eq!(types, ["WorkLogReserved", "WorkLogStarted", "WorkLogCompleted"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_publisher_claims_nothing_and_events_wait() -> Outcome {
    let world = World::shared("disabled").await?;
    let mut disabled = world.environment_without_publisher().serve("disabled").await?;
    complete_one(&disabled, "waits").await?;

    let seen = || async {
        let (_, page) = read(&disabled, "/metrics").await.ok()?;
        page.contains("outbox_events{status=\"pending\"} 3").then_some(page)
    };
    let page = eventually("three waiting events in the figures", PATIENCE, seen).await?;
    assert!(!page.contains("outbox_claims_total"), "the relay has claimed:\n{page}");
    let counts = world.counts().await?;
    assert_eq!((counts.events, counts.published, counts.in_flight), (3, 0, 0));
    assert_eq!(world.number("SELECT count(*) FROM outbox_claim").await?, 0);

    disabled.signal(Signal::TERM)?;
    assert!(disabled.ended(PATIENCE).await?.success());
    let _enabled = world.serve("enabled").await?;
    world.until_settled().await?;
    world.report(Some(DuplicateReason::LeaseExpired)).await?.assert_clean();
    Ok(())
}

/// What `app outbox status` says in a few words, again and again until all of them are there; holders by their instances.
async fn until_status_says(world: &World, said: &[&str]) -> Outcome {
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let look = || async {
        let (_, shown) = run(&quiet, &["outbox", "status"]).await.ok()?;
        let shown: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().map(by_instance).collect::<Vec<_>>().join(" ")).collect();
        said.iter().all(|said| shown.iter().any(|line| line.contains(said))).then_some(())
    };
    Ok(eventually(&format!("a status with {said:?}"), PATIENCE, look).await?)
}

/// A holder without the digits that are its own.
fn by_instance(word: &str) -> String {
    let cut = word.split_once('#').map(|(instance, own)| format!("{instance}{}", own.get(12..).unwrap_or_default()));
    cut.unwrap_or_else(|| word.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_live_relays_of_one_instance_are_listed_as_two() -> Outcome {
    let world = World::shared("twins").await?;
    let often = world.environment.clone().with("APP__OUTBOX__RELAY__REPORT_EVERY", "500ms");
    let (first, second) = (often.relay("twin").await?, often.relay("twin").await?);
    until_status_says(&world, &["relays alive 2 of 2", "twin: alive"]).await?;
    let listed = "SELECT string_agg(split_part(holder, '#', 1), ' ') FROM outbox_relay";
    assert_eq!(world.text(listed).await?, "twin twin");
    drop((first, second));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_without_work_is_listed_alive_then_gone_when_it_is_killed_and_not_at_all_when_it_was_stopped() -> Outcome
{
    let world = World::shared("listed").await?;
    let often = world.environment.clone().with("APP__OUTBOX__RELAY__REPORT_EVERY", "500ms");
    let (mut killed, mut stopped) = (often.relay("relay-1").await?, often.relay("relay-2").await?);
    until_status_says(&world, &["relays alive 2 of 2", "relay-1: alive", "relay-2: alive"]).await?;
    let (_, status) = read_ops(&killed, "/ops/outbox/status").await?;
    let told = ["/relays/0/state", "/relays/1/state"].map(|at| status.pointer(at).and_then(serde_json::Value::as_str));
    assert_eq!(told, [Some("alive"); 2], "{status}");

    killed.kill().await?;
    until_status_says(&world, &["relays alive 1 of 2", "relay-1: gone", "relay-2: alive"]).await?;
    stopped.signal(Signal::TERM)?;
    assert!(stopped.ended(PATIENCE).await?.success());
    assert_eq!(world.text("SELECT string_agg(split_part(holder, '#', 1), ' ') FROM outbox_relay").await?, "relay-1");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_is_away_is_shown_in_the_status_with_the_relay_that_pauses_it_and_the_reason() -> Outcome {
    let world = World::shared("breaker").await?;
    let receiver = WebhookReceiver::start(|_| Answer::Status(503)).await?;
    let url = receiver.url("/in");
    let environment = [
        ("APP__CONSUMER__ENABLED", "false"),
        ("APP__OUTBOX__RELAY__REPORT_EVERY", "500ms"),
        ("APP__OUTBOUND__PUBLISHER", "webhook"),
        ("APP__OUTBOUND__WEBHOOK__URL", url.as_str()),
        ("APP__OUTBOUND__WEBHOOK__SECRETS", "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw=="),
        ("APP__OUTBOUND__WEBHOOK__CONFIRM_TIMEOUT", "1500ms"),
    ]
    .into_iter()
    .fold(world.environment.clone(), |environment, (name, value)| environment.with(name, value));
    let _relay = environment.relay("relay-1").await?;
    world
        .execute(
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES (gen_random_uuid(), 'order', 'o-1', 'OrderPlaced', '{}')",
        )
        .await?;
    until_status_says(&world, &["breaker http://127.0.0.1:", "of relay-1, open for", "503"]).await
}

/// Reads an answer below `/ops`.
async fn read_ops(process: &AppProcess, path: &str) -> Outcome<(u16, serde_json::Value)> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let answer = client.get(process.ops_url(path)).send().await?;
    Ok((answer.status().as_u16(), answer.json().await?))
}

//! The doctor against misconfigurations of database, broker and settings: each is planted alone, and found alone.

use lapin::{
    Connection, ConnectionProperties, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use serde_json::Value;
use system_tests::AppEnvironment;

use crate::world::{Outcome, World, run};

const EVERYTHING: &str = ".*";
const NOTHING: &str = "^$";

/// Something that is wrong, and what the doctor is to say: of each finding the check, and a word of subject or problem.
struct Plant {
    environment: AppEnvironment,
    sql: &'static str,
    undo: &'static str,
    found: Found,
}

type Found = &'static [(&'static str, &'static str)];

/// What the doctor answers; its exit code tells whether it found anything.
async fn report(environment: &AppEnvironment, more: &[&str]) -> Outcome<Value> {
    let (status, output) = run(environment, &[&["outbox", "doctor", "--json"], more].concat()).await?;
    let report: Value = serde_json::from_str(&output).map_err(|error| format!("{error}: {output}"))?;
    let nothing = report.get("findings").and_then(Value::as_array).is_some_and(Vec::is_empty);
    assert_eq!(status.code(), Some(i32::from(!nothing)), "{output}");
    Ok(report)
}

/// What the doctor finds, each finding as its check and the rest of its words.
async fn findings(environment: &AppEnvironment) -> Outcome<Vec<(String, String)>> {
    let report = report(environment, &[]).await?;
    let found: Vec<_> = report.get("findings").and_then(Value::as_array).into_iter().flatten().collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let words = |finding: &Value| {
        assert!(!text(finding.get("cure").unwrap_or(&Value::Null)).is_empty(), "{finding}");
        format!("{}: {}; {}", text(&finding["subject"]), text(&finding["problem"]), text(&finding["cure"]))
    };
    Ok(found.into_iter().map(|finding| (text(&finding["check"]), words(finding))).collect())
}

/// What a start declares, and beside it an exchange and a queue of other types.
async fn stand_up(broker_url: &str) -> Outcome {
    let connection = Connection::connect(broker_url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    for (name, kind) in [("outbox.events", ExchangeKind::Topic), ("fan", ExchangeKind::Fanout)] {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await?;
    }
    for (name, kind, single) in
        [("app.events", "quorum", true), ("app.events.parking", "quorum", false), ("classic", "classic", false)]
    {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        if single {
            arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name.into(), options, arguments).await?;
    }
    connection.close(200, "declared".into()).await?;
    Ok(())
}

/// A role that lacks one permission, in a URL of its own.
async fn role_without_delete(world: &World) -> Outcome<String> {
    let mut url = url::Url::parse(world.database_url())?;
    let role = format!("reader_{}", url.path().trim_start_matches('/'));
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'secret'; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}; \
         REVOKE DELETE ON outbox_event FROM {role}"
    );
    world.execute_text(&grants).await?;
    if url.set_username(&role).and_then(|()| url.set_password(Some("secret"))).is_err() {
        return Err("the database's URL takes no user".into());
    }
    Ok(url.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_each_planted_misconfiguration_and_nothing_on_a_healthy_system() -> Outcome {
    let world = World::shared("planted").await?;
    stand_up(world.broker_url()).await?;
    let healthy = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let looking = healthy.clone().with("APP__OUTBOUND__AMQP__TOPOLOGY__DECLARE", "false");
    for environment in [&healthy, &looking] {
        assert_eq!(findings(environment).await?, []);
    }
    let plants = plants(&world, &healthy, &looking).await?;
    assert!(plants.len() >= 10);
    for Plant { environment, sql, undo, found } in plants {
        world.execute(sql).await?;
        let seen = findings(&environment).await?;
        let checks: Vec<_> = seen.iter().map(|(check, _)| check.as_str()).collect();
        assert_eq!(checks, found.iter().map(|(check, _)| *check).collect::<Vec<_>>(), "{seen:#?}");
        for ((_, words), (_, word)) in seen.iter().zip(found) {
            assert!(words.contains(word), "{word} in {words}");
        }
        world.execute(undo).await?;
    }
    assert_eq!(findings(&healthy).await?, [], "the plants are gone");
    Ok(())
}

async fn plants(world: &World, declaring: &AppEnvironment, looking: &AppEnvironment) -> Outcome<Vec<Plant>> {
    let setting = |environment: &AppEnvironment, settings: &[(&str, &str)]| {
        settings.iter().fold(environment.clone(), |environment, (name, value)| environment.with(name, value))
    };
    let set = |environment: &AppEnvironment, settings: &[(&str, &str)], found: Found| Plant {
        environment: setting(environment, settings),
        sql: "",
        undo: "",
        found,
    };
    let sql = |sql, undo, found: Found| Plant { environment: declaring.clone(), sql, undo, found };
    let mute = world.broker_user("mute", [EVERYTHING, NOTHING, EVERYTHING]).await?;
    let blind = world.broker_user("blind", [EVERYTHING, EVERYTHING, NOTHING]).await?;
    let stuck = world.broker_user("stuck", [NOTHING, EVERYTHING, EVERYTHING]).await?;
    let mut stranger = url::Url::parse(world.broker_url())?;
    assert!(stranger.set_password(Some("wrong")).is_ok());
    let reader = role_without_delete(world).await?;
    Ok(vec![
        set(
            looking,
            &[("APP__OUTBOUND__ROUTE__EXCHANGE", "nowhere")],
            &[("broker", "exchange \"nowhere\": it does not exist")],
        ),
        set(
            looking,
            &[("APP__OUTBOUND__AMQP__TOPOLOGY__QUEUE", "nowhere")],
            &[("broker", "queue \"nowhere\": it does not exist")],
        ),
        set(
            looking,
            &[("APP__OUTBOUND__AMQP__TOPOLOGY__PARKING_QUEUE", "nowhere")],
            &[("broker", "queue \"nowhere\": it does not exist")],
        ),
        set(looking, &[("APP__CONSUMER__QUEUE", "nowhere")], &[("consumer", "queue \"nowhere\" (consumer.queue)")]),
        set(
            looking,
            &[("APP__CONSUMER__PARKING_QUEUE", "nowhere")],
            &[("consumer", "queue \"nowhere\" (consumer.parking_queue)")],
        ),
        set(declaring, &[("APP__OUTBOUND__ROUTE__EXCHANGE", "fan")], &[("broker", "exchange \"fan\": it has type")]),
        set(
            declaring,
            &[("APP__OUTBOUND__AMQP__TOPOLOGY__PARKING_QUEUE", "classic"), ("APP__CONSUMER__PARKING_QUEUE", "classic")],
            &[("broker", "queue \"classic\": it has x-queue-type")],
        ),
        sql(
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES ('0198c5a0-0000-7000-8000-000000000001', 'order', 'o-1', 'OrderPlaced', '1'); \
             UPDATE outbox_event SET status = 'FAILED', attempts = 1, last_error = 'unroutable: NO_ROUTE'",
            "DELETE FROM outbox_event; DELETE FROM outbox_lane",
            &[("routing", "events OrderPlaced of order: 1 event was returned")],
        ),
        set(declaring, &[("AMQP_URL", &mute)], &[("broker", "the permission to write")]),
        set(
            declaring,
            &[("AMQP_URL", &stuck)],
            &[
                ("broker", "exchange \"outbox.events\""),
                ("broker", "the permission to configure"),
                ("broker", "queue \"app.events.parking\""),
            ],
        ),
        set(declaring, &[("AMQP_URL", &blind)], &[("consumer", "the permission to read")]),
        set(
            declaring,
            &[("AMQP_URL", stranger.as_str()), ("APP__OUTBOUND__AMQP__CONNECT_TIMEOUT", "500ms")],
            &[("broker", "the broker of outbound.amqp.url"), ("consumer", "the broker of consumer.url")],
        ),
        set(declaring, &[("DATABASE_URL", &reader)], &[("permissions", "outbox_event: this role lacks DELETE")]),
        set(declaring, &[("APP__CONSUMER__FORMAT", "raw")], &[("contradictions", "consumer.format")]),
        set(
            declaring,
            &[("APP__CONSUMER__QUEUE", "app.events.others")],
            &[("contradictions", "consumer.queue"), ("consumer", "queue \"app.events.others\" (consumer.queue)")],
        ),
        set(declaring, &[("APP__DATABASE__PGBOUNCER", "true")], &[("contradictions", "outbox.wakeup.enabled")]),
        sql(
            "DROP INDEX outbox_inbox_processed",
            "CREATE INDEX outbox_inbox_processed ON outbox_inbox (processed_at)",
            &[("indexes", "outbox_inbox_processed")],
        ),
        sql(
            "ALTER TABLE outbox_claim SET (autovacuum_enabled = off)",
            "ALTER TABLE outbox_claim RESET (autovacuum_enabled)",
            &[("autovacuum", "outbox_claim")],
        ),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_nothing_for_members_of_the_roles_and_names_a_role_that_a_process_lacks() -> Outcome {
    let world = World::shared("rights").await?;
    stand_up(world.broker_url()).await?;
    let healthy = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let member = async |user: &str, roles: &[&str]| -> Outcome<AppEnvironment> {
        Ok(healthy.clone().with("DATABASE_URL", &world.url_of_a_member(user, roles).await?))
    };
    let service = member("service", &["appender", "relay", "consumer"]).await?;
    let relay = member("relay", &["relay"]).await?;
    let operator = member("operator", &["operator"]).await?;
    let reader = member("reader", &["reader"]).await?;
    let (nothing, lanes) = (Value::Array(Vec::new()), Value::from(vec!["lanes"]));
    let (serve, its_own): (&[&str], &[&str]) = (&["--process", "serve"], &[]);
    for (environment, process, unseen) in [
        (&service, serve, &lanes),
        (&service, its_own, &lanes),
        (&relay, its_own, &lanes),
        (&operator, its_own, &nothing),
        (&reader, its_own, &nothing),
    ] {
        let report = report(environment, process).await?;
        assert_eq!(report.get("findings"), Some(&nothing), "{report}");
        assert_eq!(report.get("notLookedAt"), Some(unseen), "{report}");
    }
    let report = report(&relay, serve).await?;
    let subject =
        |n: usize| report.pointer(&format!("/findings/{n}/subject")).and_then(Value::as_str).unwrap_or_default();
    assert!(subject(0).ends_with("_appender") && subject(1).ends_with("_consumer"), "{report}");
    assert!(report.pointer("/findings/2").is_none(), "{report}");
    Ok(())
}

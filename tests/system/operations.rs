//! What operators look at: figures, health and metrics.

use rustix::process::Signal;
use serde_json::Value;
use system_tests::{AppEnvironment, AppProcess, eventually};

use crate::world::{Outcome, PATIENCE, PORTFOLIO, World, complete_one, counter, read, run};

#[tokio::test(flavor = "multi_thread")]
async fn outbox_status_shows_the_backlog_as_table_and_json() -> Outcome {
    let world = World::shared("status").await?;
    let mut disabled = world.environment_without_publisher().serve("disabled").await?;
    for key in ["one", "two"] {
        complete_one(&disabled, key).await?;
    }
    disabled.signal(Signal::TERM)?;
    assert!(disabled.ended(PATIENCE).await?.success());
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");

    let (status, table) = run(&quiet, &["outbox", "status"]).await?;
    assert!(status.success(), "{table}");
    let pending = table.lines().find(|line| line.starts_with("PENDING")).unwrap_or_default();
    assert_eq!(pending.split_whitespace().collect::<Vec<_>>(), ["PENDING", "6"], "{table}");
    assert!(table.contains("blocked aggregates"), "{table}");

    let (status, json) = run(&quiet, &["outbox", "status", "--json"]).await?;
    assert!(status.success(), "{json}");
    let figures: Value = serde_json::from_str(&json)?;
    assert_eq!((&figures["pending"], &figures["inFlight"]), (&Value::from(6), &Value::from(0)), "{json}");
    assert!(figures["oldestPendingAgeSeconds"].is_number(), "{json}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_are_served() -> Outcome {
    let world = World::alone("health").await?;
    let process = world.serve("only").await?;
    assert_eq!(read(&process, "/livez").await?.0, 200);
    let (status, report) = read(&process, "/readyz").await?;
    assert_eq!(status, 200, "{report}");

    complete_one(&process, "one").await?;
    world.until_settled().await?;
    let counted = || async { (counter(&process, "outbox_published_total").await.ok()? >= 3.0).then_some(()) };
    eventually("three published events in the metrics", PATIENCE, counted).await?;

    let rabbitmq = world.rabbitmq().await?;
    rabbitmq.stop().await?;
    let unready = || async { read(&process, "/readyz").await.ok().filter(|(status, _)| *status == 503) };
    let (_, report) = eventually("an answer of 503", PATIENCE, unready).await?;
    let report: Value = serde_json::from_str(&report)?;
    let down = |name: &str| {
        let checks = report["checks"].as_array().into_iter().flatten();
        checks.clone().any(|check| check["name"] == name && check["status"] == "down")
    };
    assert!(down("broker") || down("consumer"), "{report}");
    assert!(!down("database") && !down("schema"), "{report}");
    let named = || async {
        let (_, report) = read(&process, "/readyz").await.ok()?;
        let report: Value = serde_json::from_str(&report).ok()?;
        let mut checks = report["checks"].as_array()?.iter();
        checks.find(|check| check["name"] == "broker" && check["status"] == "down").map(|check| check["reason"].clone())
    };
    let reason = eventually("the broker named as down", PATIENCE, named).await?;
    assert!(reason.as_str().is_some_and(|reason| !reason.is_empty()), "{reason}");
    assert_eq!(read(&process, "/livez").await?.0, 200, "an outage of the broker is no reason to restart");

    rabbitmq.start().await?;
    let ready = || async { read(&process, "/readyz").await.ok().filter(|(status, _)| *status == 200) };
    eventually("readiness after the outage", PATIENCE, ready).await?;
    Ok(())
}

/// Where one of the process's listeners said that it listens.
fn listener(process: &AppProcess, server: &str) -> Option<String> {
    let log = process.log();
    let named = format!("server=\"{server}\"");
    let line = log.lines().find(|line| line.contains(" listening ") && line.contains(&named))?;
    line.split("address=").nth(1)?.split_whitespace().next().map(ToOwned::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_answers_its_own_paths_and_no_others() -> Outcome {
    let world = World::shared("listeners").await?;
    let process = world.environment_without_publisher().serve("only").await?;
    let minutes = format!("/portfolios/{PORTFOLIO}/minutes");
    let paths = [
        ("health", "/livez"),
        ("health", "/readyz"),
        ("health", "/metrics"),
        ("ops", "/ops/outbox/status"),
        ("ops", "/ops/outbox/audit"),
        ("service", minutes.as_str()),
    ];
    for server in ["health", "ops", "service"] {
        let named = || async { listener(&process, server) };
        let address = eventually("the listener's line in the log", PATIENCE, named).await?;
        for (own, path) in paths {
            let status = reqwest::get(format!("http://{address}{path}")).await?.status().as_u16();
            assert_eq!(status, if own == server { 200 } else { 404 }, "{path} of the listener {server}");
        }
    }
    Ok(())
}

/// The lines of the log that this service's own parts wrote, and the AMQP client, at these levels.
fn told(process: &AppProcess, levels: &[&str]) -> Vec<String> {
    let ours = ["app_bootstrap::", "adapter_inbound::", "adapter_outbound::", "application_core::", "lapin"];
    let log = process.log();
    let lines = log.lines().filter(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|level| levels.contains(&level))
            && words.next().is_some_and(|target| ours.iter().any(|our| target.starts_with(our)))
    });
    lines.map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_service_on_a_fresh_broker_warns_of_nothing() -> Outcome {
    let world = World::shared("fresh").await?;
    let process = world.serve("first").await?;
    complete_one(&process, "one").await?;
    world.until_settled().await?;
    assert_eq!(told(&process, &["WARN", "ERROR"]), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_broker_is_told_once_and_so_is_its_end() -> Outcome {
    let mut world = World::alone("told").await?;
    world.environment = world
        .environment
        .with("APP__LOGS__FILTER", "info,adapter_inbound::amqp=debug,adapter_outbound::amqp=debug,app_bootstrap=debug")
        .with("APP__CONSUMER__OUTAGE__LONGEST_PAUSE", "1s");
    let process = world.serve("only").await?;
    complete_one(&process, "one").await?;
    world.until_settled().await?;
    let before = told(&process, &["INFO", "WARN", "ERROR"]).len();
    let rabbitmq = world.rabbitmq().await?;
    rabbitmq.stop().await?;
    let tries = || async {
        let log = process.log();
        let often = |message: &str| log.matches(message).count() > 2;
        let all = often("still no connection to the broker") && often("still not consuming");
        (all && log.contains("topology was not looked at")).then_some(())
    };
    eventually("several tries of every part", PATIENCE, tries).await?;
    rabbitmq.start().await?;
    let ready = || async { read(&process, "/readyz").await.ok().filter(|(status, _)| *status == 200) };
    eventually("readiness after the outage", PATIENCE, ready).await?;
    complete_one(&process, "two").await?;
    world.until_settled().await?;

    let mut lines = told(&process, &["INFO", "WARN", "ERROR"]).split_off(before);
    // A queue that has no leader yet when the broker comes back is told, and rightly; so is a clean-up that was due.
    lines.retain(|line| !line.contains("the broker's topology is") && !line.contains("history is cleaned up"));
    let count = |message: &str| lines.iter().filter(|line| line.contains(message)).count();
    assert_eq!(count("the connection to the broker is lost"), 1, "{lines:#?}");
    assert_eq!(count("connected to the broker"), 1, "{lines:#?}");
    assert_eq!((count("not consuming"), count(": consuming")), (1, 1), "{lines:#?}");
    assert_eq!(lines.len(), 4, "{lines:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_without_records_is_told_from_one_with_nothing_parked() -> Outcome {
    let world = World::shared("consumers").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let (status, output) = run(&quiet, &["inbox", "parked", "--consumer", "nobody"]).await?;
    assert!(status.success() && output.contains("consumers with records: none"), "{output}");
    let process = world.serve("only").await?;
    complete_one(&process, "one").await?;
    world.until_settled().await?;

    let event = "0198c5a0-0000-7000-8000-000000000001";
    let (_, known) = run(&quiet, &["inbox", "parked", "--consumer", "portfolio-minutes", "--json"]).await?;
    assert_eq!(known.trim(), "[]");
    for arguments in [
        &["inbox", "parked", "--consumer", "portfolio-minuets"][..],
        &["inbox", "forget", "--consumer", "portfolio-minuets", "--events", event],
    ] {
        let (status, output) = run(&quiet, arguments).await?;
        assert!(status.success(), "{output}");
        let hint = "nothing is recorded of a consumer portfolio-minuets; consumers with records: portfolio-minutes";
        assert!(output.contains(hint), "{output}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_is_listed_and_given_up_by_the_commands_of_the_inbox() -> Outcome {
    const EVENT: &str = "0198c5a0-0000-7000-8000-000000000001";
    const UNREADABLE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
         VALUES ('0198c5a0-0000-7000-8000-000000000001', 'work-log', '42', 'WorkLogCompleted', '{}')";
    let world = World::shared("parked").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let _consuming = world.serve("only").await?;
    world.execute(UNREADABLE).await?;
    let parked = || async {
        let (status, listed) =
            run(&quiet, &["inbox", "parked", "--consumer", "portfolio-minutes", "--json"]).await.ok()?;
        // A hint may follow what is listed.
        let listed = serde_json::Deserializer::from_str(&listed).into_iter::<Value>().next()?.ok()?;
        listed.as_array().filter(|_| status.success()).cloned()
    };
    let one = || async { parked().await.filter(|listed| !listed.is_empty()) };
    let listed = eventually("the parked message in the list", PATIENCE, one).await?;
    assert!(matches!(&listed[..], [only] if only["event"] == EVENT && only["aggregateId"] == "42"), "{listed:?}");

    let aggregate = ["--aggregate-type", "work-log", "--aggregate-id", "42"];
    let by = ["--by", "zoe", "--reason", "it says nothing"];
    let unpark = [&["inbox", "unpark"], &aggregate[..], &["--discard", EVENT], &by].concat();
    let (status, asked) = run(&quiet, &unpark).await?;
    assert!(status.success() && asked.starts_with("1 parked aggregate asked for; "), "{asked}");
    let none = || async { parked().await.filter(Vec::is_empty) };
    eventually("nothing parked any more", PATIENCE, none).await?;
    let (status, again) = run(&quiet, &unpark).await?;
    assert!(status.success() && again.trim() == "0 parked aggregates found, so nothing was asked for", "{again}");
    let (_, json) = run(&quiet, &[&unpark[..], &["--json"]].concat()).await?;
    assert_eq!(json.trim(), r#"{"aggregates":0,"asked":false}"#);
    let (_, audit) = run(&quiet, &["outbox", "audit", "--json"]).await?;
    let audit: Value = serde_json::from_str(&audit)?;
    assert_eq!(audit.as_array().map(Vec::len), Some(1), "what is asked for in vain leaves no record: {audit}");
    let entry = audit.get(0).ok_or("an entry")?;
    assert_eq!((&entry["action"], &entry["operator"]), (&"discard_parked".into(), &"zoe".into()), "{audit}");
    assert_eq!((&entry["aggregateId"], &entry["events"][0]), (&"42".into(), &EVENT.into()), "{audit}");

    let unmarked = [&["inbox", "unpark"], &aggregate[..], &["--discard", EVENT, "--unmarked"]].concat();
    let of_one = [&unmarked[..], &["--consumer", "portfolio-minutes"], &by].concat();
    let (status, asked) = run(&quiet, &of_one).await?;
    assert!(status.success() && asked.starts_with("1 parked aggregate asked for; "), "{asked}");
    let (_, audit) = run(&quiet, &["outbox", "audit", "--json", "--limit", "1"]).await?;
    let audit: Value = serde_json::from_str(&audit)?;
    assert_eq!(audit[0]["consumer"], "portfolio-minutes", "{audit}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn service_operator_and_reader_work_with_the_rights_of_their_roles_alone() -> Outcome {
    let world = World::shared("members").await?;
    let member = async |user: &str, roles: &[&str]| -> Outcome<AppEnvironment> {
        Ok(world.environment.clone().with("DATABASE_URL", &world.url_of_a_member(user, roles).await?))
    };
    let service = member("service", &["appender", "relay", "consumer"]).await?;
    let process = service.serve("only").await?;
    complete_one(&process, "one").await?;
    world.until_settled().await?;

    let everything = ["outbox", "pause", "--all"];
    let (status, refused) = run(&service, &everything).await?;
    assert!(!status.success() && refused.contains("permission denied for function outbox_pause"), "{refused}");
    let operator = member("operator", &["operator"]).await?;
    let (status, paused) = run(&operator, &everything).await?;
    assert!(status.success(), "{paused}");
    let reader = member("reader", &["reader"]).await?;
    let (status, shown) = run(&reader, &["outbox", "status"]).await?;
    assert!(status.success(), "{shown}");
    let (status, refused) = run(&reader, &["outbox", "resume", "--all"]).await?;
    assert!(!status.success() && refused.contains("permission denied for function outbox_resume"), "{refused}");
    let (status, resumed) = run(&operator, &["outbox", "resume", "--all"]).await?;
    assert!(status.success(), "{resumed}");
    let (status, audit) = run(&operator, &["outbox", "audit", "--json"]).await?;
    assert!(status.success() && audit.contains("\"pause\"") && audit.contains("\"resume\""), "{audit}");
    Ok(())
}

const APPEND: &str = "WITH event AS (INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     VALUES ('0198c5a0-0000-7000-8000-000000000001', 'order', 'o-1', 'OrderPlaced', '1') RETURNING 1) \
     SELECT count(*) FROM event";

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_each_finding_with_its_cure_and_repairs_when_no_relay_runs() -> Outcome {
    let world = World::shared("doctor").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!(world.number(APPEND).await?, 1);
    let (status, table) = run(&quiet, &["outbox", "doctor"]).await?;
    assert!(status.success() && table.trim() == "none", "{table}");

    world.number("WITH gone AS (DELETE FROM outbox_lane RETURNING 1) SELECT count(*) FROM gone").await?;
    let (status, table) = run(&quiet, &["outbox", "doctor"]).await?;
    assert_eq!(status.code(), Some(1), "{table}");
    assert!(table.contains("open events without a lane") && table.contains("outbox doctor --repair"), "{table}");
    let (status, json) = run(&quiet, &["outbox", "doctor", "--json"]).await?;
    assert_eq!(status.code(), Some(1), "{json}");
    let report: Value = serde_json::from_str(&json)?;
    assert_eq!((&report["rebuiltLanes"], &report["findings"][0]["check"]), (&Value::Null, &Value::from("lanes")));
    assert!(report["findings"][0]["subject"].as_str().is_some_and(|subject| subject.starts_with("lane ")), "{json}");

    let lease = "WITH claim AS (INSERT INTO outbox_claim (token, holder, lease_expires_at, lanes, held) \
         VALUES (gen_random_uuid(), 'relay', statement_timestamp() + interval '1 h', '{1}', 1) RETURNING 1) \
         SELECT count(*) FROM claim";
    world.number(lease).await?;
    let (status, refused) = run(&quiet, &["outbox", "doctor", "--repair"]).await?;
    assert!(!status.success() && refused.contains("stop the relays"), "{refused}");
    world.number("WITH gone AS (DELETE FROM outbox_claim RETURNING 1) SELECT count(*) FROM gone").await?;
    let (status, json) = run(&quiet, &["outbox", "doctor", "--repair", "--json"]).await?;
    assert!(status.success(), "{json}");
    let report: Value = serde_json::from_str(&json)?;
    assert_eq!((&report["rebuiltLanes"], &report["findings"]), (&Value::from(1), &Value::Array(Vec::new())));
    let (status, again) = run(&quiet, &["outbox", "doctor", "--repair"]).await?;
    assert!(status.success() && again.contains("0 lanes rebuilt: they are as the open events say"), "{again}");
    let repairs = "SELECT count(*) FROM outbox_audit WHERE action = 'repair'";
    assert_eq!(world.number(repairs).await?, 1, "what touched no lane leaves no record");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn published_events_are_deleted_where_the_setting_says_so_and_a_replay_says_why_not() -> Outcome {
    let world = World::shared("delete").await?;
    let deleting = world.environment.clone().with("APP__OUTBOX__RETENTION__ON_PUBLISH", "delete");
    let deleting = deleting.with("APP__OUTBOUND__PUBLISHER", "stdout");
    assert_eq!(world.number(APPEND).await?, 1);
    let (status, output) = run(&deleting, &["relay", "--until-drained"]).await?;
    assert!(status.success(), "{output}");
    assert_eq!(output.matches("OrderPlaced").count(), 1, "{output}");
    assert_eq!(world.number("SELECT count(*) FROM outbox_event").await?, 0);
    let (status, refused) = run(&deleting, &["outbox", "replay", "0198c5a0-0000-7000-8000-000000000001"]).await?;
    assert!(!status.success() && refused.contains("deletes events when they are published"), "{refused}");
    Ok(())
}

pub(crate) const DEAD: &str = "WITH event AS ( \
         INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
         SELECT ('0198c5a0-0000-7000-8000-00000000000' || n)::uuid, 'order', 'o-' || n, 'OrderPlaced', '1' \
           FROM generate_series(1, 5) n RETURNING 1) \
     SELECT count(*) FROM event";

pub(crate) const DIE: &str = "WITH event AS ( \
         UPDATE outbox_event SET status = 'DEAD', attempts = 3, \
                last_error = CASE WHEN aggregate_id < 'o-3' THEN 'rejected: full' ELSE 'poison: too large' END RETURNING 1) \
     SELECT count(*) FROM event";

#[tokio::test(flavor = "multi_thread")]
async fn dead_events_are_moved_in_bulk_after_a_dry_run_and_a_repetition_touches_none() -> Outcome {
    let world = World::shared("bulk").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!((world.number(DEAD).await?, world.number(DIE).await?), (5, 5));
    let says = async |arguments: &[&str], said: &str| -> Outcome {
        let (status, output) = run(&quiet, &[&["outbox"], arguments].concat()).await?;
        assert!(status.success() && output.trim() == said, "{arguments:?}: {output}");
        Ok(())
    };
    says(&["requeue", "--class", "rejected", "--dry-run"], "2 events would be requeued").await?;
    says(&["requeue", "--class", "rejected", "--older-than", "1day"], "0 events requeued").await?;
    says(&["requeue", "--class", "rejected", "--batch", "1"], "2 events requeued").await?;
    says(&["requeue", "--class", "rejected", "--batch", "1"], "0 events requeued").await?;
    let (one, two) = ("0198c5a0-0000-7000-8000-000000000003", "0198c5a0-0000-7000-8000-000000000001");
    let left = format!("event {two} is PENDING, so it cannot be discarded");
    says(&["discard", one, two, "--dry-run"], &format!("1 event would be discarded\n{left}")).await?;
    let given_up = ["discard", one, two, "--by", "zoe", "--reason", "given up"];
    says(&given_up, &format!("1 event discarded\n{left}")).await?;
    let resolved = format!("event {one} is DEAD and resolved, so it cannot be discarded");
    says(&given_up, &format!("0 events discarded\n{resolved}\n{left}")).await?;
    // What was given up on purpose comes back by its id alone.
    says(&["requeue", "--all", "--dry-run"], "2 events would be requeued").await?;
    says(&["requeue", one], "1 event requeued").await?;
    let aggregate = ["--aggregate-type", "order", "--aggregate-id", "o-4"];
    says(&[&["discard"], &aggregate[..]].concat(), "1 event discarded").await?;
    let all = r#"{"action":"discard","dryRun":false,"events":1,"interrupted":false}"#;
    says(&["discard", "--all", "--json"], all).await?;

    let (status, audit) = run(&quiet, &["outbox", "audit", "--json"]).await?;
    assert!(status.success(), "{audit}");
    let audit: Value = serde_json::from_str(&audit)?;
    let entries: Vec<_> = audit.as_array().into_iter().flatten().rev().collect();
    let actions: Vec<_> = entries.iter().map(|entry| entry["action"].as_str().unwrap_or_default()).collect();
    assert_eq!(actions, ["requeue", "requeue", "discard", "requeue", "discard", "discard"], "{audit}");
    assert_eq!((&entries[2]["operator"], &entries[2]["reason"]), (&Value::from("zoe"), &Value::from("given up")));
    assert_eq!(entries[2]["events"], Value::from(vec![one]));
    assert!(entries[0]["operator"].as_str().is_some_and(|who| !who.is_empty()), "{audit}");

    let (status, refused) = run(&quiet, &["outbox", "requeue", two]).await?;
    assert_eq!(status.code(), Some(1), "{refused}");
    assert!(refused.contains("is PENDING, so it cannot be requeued"), "{refused}");
    for wrong in [&["outbox", "requeue"][..], &["outbox", "discard", two, "--all"], &["outbox", "pause"]] {
        assert_eq!(run(&quiet, wrong).await?.0.code(), Some(2), "{wrong:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_outbox_publishes_nothing_until_it_is_resumed_and_says_so() -> Outcome {
    let world = World::shared("pause").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let publishing = quiet.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    assert_eq!(world.number(DEAD).await?, 5);
    for scope in [&["--all"][..], &["--aggregate-type", "order"]] {
        let pause = [&["outbox", "pause"], scope, &["--reason", "moving"]].concat();
        assert_eq!(run(&quiet, &pause).await?.1.trim(), "1 pause set");
        assert_eq!(run(&quiet, &pause).await?.1.trim(), "0 pauses set: it was paused already");
    }
    let (_, published) = run(&publishing, &["relay", "--until-drained"]).await?;
    assert!(!published.contains("OrderPlaced"), "{published}");
    let (_, status) = run(&quiet, &["outbox", "status", "--json"]).await?;
    let status: Value = serde_json::from_str(&status)?;
    let paused = &status["paused"];
    assert_eq!((&paused[0]["everything"], &paused[1]["aggregateType"]), (&Value::from(true), &Value::from("order")));
    assert_eq!(paused[1]["reason"], "moving");
    for scope in [&["--all"][..], &["--aggregate-type", "order"]] {
        let resume = [&["outbox", "resume"], scope].concat();
        assert_eq!(run(&quiet, &resume).await?.1.trim(), "1 pause lifted");
        assert_eq!(run(&quiet, &resume).await?.1.trim(), "0 pauses lifted: it was not paused");
    }
    let (_, published) = run(&publishing, &["relay", "--until-drained"]).await?;
    assert_eq!(published.matches("OrderPlaced").count(), 5, "{published}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_of_publishing_is_that_of_every_relay_whichever_process_is_asked() -> Outcome {
    let world = World::shared("rates").await?;
    let asked = world.environment_without_publisher().serve("asked").await?;
    assert_eq!(world.number(DEAD).await?, 5);
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let another = quiet.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    let (status, output) = run(&another, &["relay", "--until-drained"]).await?;
    assert!(status.success(), "{output}");
    let status: Value = reqwest::get(asked.ops_url("/ops/outbox/status")).await?.json().await?;
    let recent = &status["recentPublishing"];
    assert_eq!(recent["events"], 5, "{status}");
    assert!(recent["perSecond"].as_f64().is_some_and(|rate| rate > 0.0), "{status}");
    assert!(recent["lagP99Seconds"].is_number(), "{status}");
    assert!(counter(&asked, "outbox_published_total").await? < 1.0, "it publishes nothing itself");
    let (_, table) = run(&quiet, &["outbox", "status"]).await?;
    assert!(table.lines().any(|line| line.starts_with("published") && line.contains("a second over 60 s")), "{table}");
    let deleting = quiet.with("APP__OUTBOX__RETENTION__ON_PUBLISH", "delete");
    let (_, json) = run(&deleting, &["outbox", "status", "--json"]).await?;
    let status: Value = serde_json::from_str(&json)?;
    assert_eq!(status["recentPublishing"], Value::Null, "{json}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_status_is_shown_again_until_it_is_interrupted() -> Outcome {
    let world = World::shared("watch").await?;
    let claim = "WITH claim AS (INSERT INTO outbox_claim (token, holder, lease_expires_at, lanes, held) \
         VALUES (gen_random_uuid(), 'relay-7', statement_timestamp() + interval '1 h', '{1,2}', 2) RETURNING 1), \
         leader AS (INSERT INTO outbox_leader (name, holder, term, expires_at) \
         VALUES ('upkeep', 'relay-8', 4, statement_timestamp() + interval '1 h') RETURNING 1) \
         SELECT count(*) FROM claim, leader";
    assert_eq!(world.number(claim).await?, 1);
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let nowhere = "127.0.0.1:9".parse()?;
    let mut watching = quiet.spawn("watch", &["outbox", "status", "--watch", "1"], nowhere, nowhere)?;
    let again = || async { (watching.log().matches("PENDING").count() >= 2).then_some(()) };
    eventually("the status shown a second time", PATIENCE, again).await?;
    watching.signal(Signal::INT)?;
    assert!(watching.ended(PATIENCE).await?.success());
    let shown = watching.log();
    assert!(shown.contains("relay-7: unknown, 2 lanes in 1 claim,"), "{shown}");
    assert!(shown.contains("relay-8 of upkeep, term 4"), "{shown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn old_history_is_purged_in_batches_after_a_dry_run_and_open_and_dead_events_stay() -> Outcome {
    let world = World::shared("purge").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!(world.number(DEAD).await?, 5);
    let old = "UPDATE outbox_event SET created_at = created_at - interval '40 days', \
         status = CASE WHEN aggregate_id < 'o-3' THEN 'PUBLISHED' WHEN aggregate_id < 'o-5' THEN 'DEAD' ELSE 'PENDING' END, \
         published_at = CASE WHEN aggregate_id < 'o-3' THEN statement_timestamp() - interval '20 days' END, \
         resolved_at = CASE WHEN aggregate_id = 'o-3' THEN statement_timestamp() - interval '20 days' END, \
         resolution = CASE WHEN aggregate_id = 'o-3' THEN 'discarded' END";
    world.execute(old).await?;
    let says = async |arguments: &[&str], said: &str| -> Outcome {
        let (status, output) = run(&quiet, &[&["outbox", "purge"], arguments].concat()).await?;
        assert!(status.success() && output.trim() == said, "{arguments:?}: {output}");
        Ok(())
    };
    says(&["--older-than", "30days", "--dry-run"], "0 events would be purged").await?;
    says(&["--older-than", "7days", "--dry-run"], "3 events would be purged").await?;
    says(&["--older-than", "7days", "--only", "resolved"], "1 event purged").await?;
    let json = r#"{"action":"purge","dryRun":false,"events":2,"interrupted":false}"#;
    says(&["--older-than", "7days", "--batch", "1", "--by", "zoe", "--json"], json).await?;
    says(&["--older-than", "7days"], "0 events purged").await?;
    assert_eq!(world.number("SELECT count(*) FROM outbox_event WHERE status IN ('DEAD', 'PENDING')").await?, 2);
    let recorded = "SELECT count(*) FROM outbox_audit WHERE action = 'purge' AND operator = 'zoe' AND affected = 1";
    assert_eq!(world.number(recorded).await?, 2, "one entry for each batch");
    for wrong in [&["outbox", "purge"][..], &["outbox", "purge", "--older-than", "1h", "--only", "dead"]] {
        assert_eq!(run(&quiet, wrong).await?.0.code(), Some(2), "{wrong:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn work_on_many_events_tells_of_each_batch_on_its_way() -> Outcome {
    let world = World::shared("progress").await?;
    assert_eq!((world.number(DEAD).await?, world.number(DIE).await?), (5, 5));
    for (arguments, told) in [
        (&["outbox", "discard", "--all", "--batch", "2"][..], "an operator acted on events"),
        (&["outbox", "purge", "--older-than", "0s", "--batch", "2"], "history is being purged"),
    ] {
        let (status, output) = run(&world.environment, arguments).await?;
        assert!(status.success(), "{output}");
        assert_eq!(output.matches(told).count(), 3, "{output}");
    }
    let order = ["--aggregate-type", "order"];
    assert!(run(&world.environment, &[&["outbox", "pause"], &order[..]].concat()).await?.0.success());
    let resume = [&["outbox", "resume"], &order[..]].concat();
    for (arguments, told) in [
        (&resume[..], "lanes that a pause has held back are being woken"),
        (&["outbox", "doctor", "--repair"], "the lanes are being compared with the open events"),
    ] {
        let (_, output) = run(&world.environment, arguments).await?;
        assert_eq!(output.matches(told).count(), 1, "{output}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_and_pauses_answer_in_json() -> Outcome {
    let world = World::shared("json").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let publishing = quiet.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    assert_eq!(world.number(DEAD).await?, 5);
    let says = async |arguments: &[&str], said: &str| -> Outcome {
        let (status, output) = run(&quiet, &[&["outbox"], arguments].concat()).await?;
        assert!(status.success() && output.trim() == said, "{arguments:?}: {output}");
        Ok(())
    };
    let change = |action: &str, changed: bool| {
        let (scope, pauses) = (r#""aggregateType":"order""#, u8::from(changed));
        format!(r#"{{"action":"{action}",{scope},"changed":{changed},"everything":false,"pauses":{pauses}}}"#)
    };
    let order = ["--aggregate-type", "order", "--json"];
    for changed in [true, false] {
        says(&[&["pause"], &order[..]].concat(), &change("pause", changed)).await?;
    }
    for changed in [true, false] {
        says(&[&["resume"], &order[..]].concat(), &change("resume", changed)).await?;
    }
    assert!(run(&publishing, &["relay", "--until-drained"]).await?.0.success());
    let (one, two) = ("0198c5a0-0000-7000-8000-000000000001", "0198c5a0-0000-7000-8000-000000000002");
    let replayed = |dry_run: bool, events: u32, unchanged: &str| {
        let left = format!(r#""unchanged":[{unchanged}],"unknown":[]"#);
        format!(r#"{{"action":"replay","dryRun":{dry_run},"events":{events},"interrupted":false,{left}}}"#)
    };
    says(&["replay", one, two, "--dry-run", "--json"], &replayed(true, 2, "")).await?;
    says(&["replay", one, "--json"], &replayed(false, 1, "")).await?;
    let pending = format!(r#"{{"id":"{one}","resolved":false,"status":"PENDING"}}"#);
    says(&["replay", one, two, "--json"], &replayed(false, 1, &pending)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn published_events_are_sent_again_by_range_after_a_dry_run_and_a_repetition_sends_none_twice() -> Outcome {
    const YESTERDAY: &str = "UPDATE outbox_event SET published_at = published_at - interval '1 day' \
         WHERE aggregate_id < 'o-4'";
    const AN_HOUR_AGO: &str = "SELECT to_char((statement_timestamp() - interval '1 h') AT TIME ZONE 'UTC', \
     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    let world = World::shared("range").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let publishing = quiet.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    let publish = async || -> Outcome {
        assert!(run(&publishing, &["relay", "--until-drained"]).await?.0.success());
        Ok(())
    };
    let says = async |arguments: &[&str], said: &str| -> Outcome {
        let (status, output) = run(&quiet, &[&["outbox", "replay"], arguments].concat()).await?;
        assert!(status.success() && output.trim() == said, "{arguments:?}: {output}");
        Ok(())
    };
    assert_eq!(world.number(DEAD).await?, 5);
    publish().await?;
    world.execute(YESTERDAY).await?;
    let hour = world.text(AN_HOUR_AGO).await?;
    let range = ["--aggregate-type", "order", "--published-until", hour.as_str()];
    says(&[&range[..], &["--dry-run"]].concat(), "3 events would be replayed").await?;
    says(&[&range[..], &["--batch", "2", "--by", "zoe"]].concat(), "3 events replayed").await?;
    publish().await?;
    says(&range, "0 events replayed").await?;
    assert_eq!(
        world.number("SELECT count(*) FROM outbox_event WHERE replays = 1 AND published_at IS NOT NULL").await?,
        3
    );
    assert_eq!(
        world.number("SELECT count(*) FROM outbox_audit WHERE action = 'replay' AND operator = 'zoe'").await?,
        2
    );
    let (one, four) = ("0198c5a0-0000-7000-8000-000000000001", "0198c5a0-0000-7000-8000-000000000004");
    says(&["--from", one, "--to", four, "--dry-run"], "4 events would be replayed").await?;
    let json = r#"{"action":"replay","dryRun":false,"events":1,"interrupted":false}"#;
    says(&["--event-type", "OrderPlaced", "--after", four, "--json"], json).await?;
    for wrong in [&["--json"][..], &["--after", four], &[one, "--to", four], &["--published-from", "yesterday"]] {
        assert_eq!(run(&quiet, &[&["outbox", "replay"], wrong].concat()).await?.0.code(), Some(2), "{wrong:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_events_the_unknown_ones_are_named_and_the_others_are_changed() -> Outcome {
    let world = World::shared("unknown").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!((world.number(DEAD).await?, world.number(DIE).await?), (5, 5));
    let (one, two) = ("0198c5a0-0000-7000-8000-000000000001", "0198c5a0-0000-7000-8000-000000000002");
    let (gone, lost) = ("0198c5a0-0000-7000-8000-00000000000a", "0198c5a0-0000-7000-8000-00000000000b");
    let fails = async |arguments: &[&str], said: &str| -> Outcome {
        let (status, output) = run(&quiet, &[&["outbox"], arguments].concat()).await?;
        assert_eq!(status.code(), Some(1), "{arguments:?}: {output}");
        assert_eq!(output.trim(), said, "{arguments:?}");
        Ok(())
    };
    let unknown = format!("event {gone} is not in the outbox\nevent {lost} is not in the outbox");
    fails(&["requeue", gone, one, lost, "--dry-run"], &format!("1 event would be requeued\n{unknown}")).await?;
    fails(&["requeue", gone, one, lost, one], &format!("1 event requeued\n{unknown}")).await?;
    let pending = format!(r#"{{"id":"{one}","resolved":false,"status":"PENDING"}}"#);
    let left = format!(r#""unchanged":[{pending}],"unknown":["{gone}"]"#);
    let said = format!(r#"{{"action":"discard","dryRun":false,"events":1,"interrupted":false,{left}}}"#);
    fails(&["discard", one, two, gone, "--json"], &said).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_shown_when_it_is_asked_for_and_to_no_operator_without_the_right() -> Outcome {
    const EVENT: &str = "0198c5a0-0000-7000-8000-000000000001";
    const PAYLOAD: &str = r#"{"note": "for her eyes", "amount": 12345678901234567890.10}"#;
    const PERSONAL: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers) \
         VALUES ('0198c5a0-0000-7000-8000-000000000001', 'order', 'o-1', 'OrderPlaced', \
                 '{\"note\": \"for her eyes\", \"amount\": 12345678901234567890.10}', '{\"origin\": \"shop\"}')";
    let world = World::shared("content").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    world.execute(PERSONAL).await?;
    for arguments in
        [&["outbox", "show", EVENT][..], &["outbox", "show", EVENT, "--json"], &["outbox", "list", "--json"]]
    {
        let (status, shown) = run(&quiet, arguments).await?;
        assert!(status.success() && shown.contains(EVENT), "{shown}");
        assert!(!shown.contains("her eyes") && !shown.contains("shop"), "{shown}");
    }
    let (status, shown) = run(&quiet, &["outbox", "show", EVENT, "--payload"]).await?;
    assert!(status.success() && shown.contains(PAYLOAD), "{shown}");
    let (status, json) = run(&quiet, &["outbox", "show", EVENT, "--payload", "--json"]).await?;
    assert!(status.success(), "{json}");
    let shown: Value = serde_json::from_str(&json)?;
    assert_eq!((&shown["payload"], &shown["headers"]["origin"]), (&Value::from(PAYLOAD), &Value::from("shop")));

    let operator = quiet.with("DATABASE_URL", &world.url_of_a_member("operator", &["operator"]).await?);
    let (status, shown) = run(&operator, &["outbox", "show", EVENT]).await?;
    assert!(status.success(), "{shown}");
    let (status, refused) = run(&operator, &["outbox", "show", EVENT, "--payload"]).await?;
    assert_eq!(status.code(), Some(1), "{refused}");
    assert!(refused.contains("permission denied") && !refused.contains("her eyes"), "{refused}");
    Ok(())
}

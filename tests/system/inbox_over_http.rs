//! What a consumer has handled and parked, looked at and changed over HTTP alone.

use serde_json::{Value, json};
use system_tests::{AppProcess, eventually};

use crate::world::{Outcome, PATIENCE, World, complete_one};

const CONSUMER: &str = "portfolio-minutes";
const EVENT: &str = "0198c5a0-0000-7000-8000-000000000001";
const UNREADABLE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     VALUES ('0198c5a0-0000-7000-8000-000000000001', 'work-log', '42', 'WorkLogCompleted', '{}')";

async fn get(process: &AppProcess, path: &str) -> Outcome<Value> {
    Ok(reqwest::get(process.ops_url(path)).await?.error_for_status()?.json().await?)
}

/// The status of the answer to a change, and its body if it has one.
async fn change(process: &AppProcess, path: &str, body: &Value) -> Outcome<(u16, Value)> {
    let answer = reqwest::Client::new().post(process.ops_url(path)).json(body).send().await?;
    let (status, text) = (answer.status().as_u16(), answer.text().await?);
    Ok((status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_over_http_has_its_effect_again_once_the_consumer_has_forgotten_the_event() -> Outcome {
    let world = World::shared("forget").await?;
    let process = world.serve("only").await?;
    complete_one(&process, "one").await?;
    world.until_settled().await?;
    let completed = "SELECT completed_minutes FROM portfolio_minutes";
    let right = world.number(completed).await?;
    assert!(right > 0);
    // The bug: the event was taken and counted as nothing.
    world.execute("UPDATE portfolio_minutes SET completed_minutes = 0").await?;
    let event = world.text("SELECT id::text FROM outbox_event WHERE event_type LIKE '%Completed%'").await?;

    let forget = json!({ "consumer": CONSUMER, "events": [event], "by": "zoe", "reason": "not counted" });
    assert_eq!(change(&process, "/ops/inbox/forget", &forget).await?, (200, json!({ "forgotten": 1 })));
    assert_eq!(change(&process, "/ops/inbox/forget", &forget).await?, (200, json!({ "forgotten": 0 })), "once");
    let replay = format!("/ops/outbox/events/{event}/replay");
    assert_eq!(change(&process, &replay, &json!({ "by": "zoe" })).await?, (204, Value::Null));
    let mended = || async { (world.number(completed).await.ok()? == right).then_some(()) };
    eventually("the effect of the replay", PATIENCE, mended).await?;

    let audit = get(&process, "/ops/outbox/audit").await?;
    let forgotten = audit["items"].as_array().into_iter().flatten().find(|entry| entry["action"] == "forget");
    let forgotten = forgotten.ok_or("a record of what was forgotten")?;
    assert_eq!((&forgotten["operator"], &forgotten["consumer"]), (&json!("zoe"), &json!(CONSUMER)), "{audit}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_is_listed_and_given_up_over_http() -> Outcome {
    let world = World::shared("unpark").await?;
    let process = world.serve("only").await?;
    world.execute(UNREADABLE).await?;
    let parked = || async {
        let listed = get(&process, &format!("/ops/inbox/parked?consumer={CONSUMER}")).await.ok()?;
        listed["items"].as_array().cloned()
    };
    let one = || async { parked().await.filter(|listed| !listed.is_empty()) };
    let listed = eventually("the parked message in the list", PATIENCE, one).await?;
    assert!(matches!(&listed[..], [only] if only["event"] == EVENT && only["aggregateId"] == "42"), "{listed:?}");

    let unpark = json!({ "aggregateType": "work-log", "aggregateId": "42", "discard": EVENT, "by": "zoe" });
    let asked = json!({ "asked": true, "aggregates": 1 });
    assert_eq!(change(&process, "/ops/inbox/unpark", &unpark).await?, (200, asked));
    let none = || async { parked().await.filter(Vec::is_empty) };
    eventually("nothing parked any more", PATIENCE, none).await?;
    let not_asked = json!({ "asked": false, "aggregates": 0 });
    assert_eq!(change(&process, "/ops/inbox/unpark", &unpark).await?, (200, not_asked));
    let audit = get(&process, "/ops/outbox/audit?limit=1").await?;
    let entry = &audit["items"][0];
    assert_eq!((&entry["action"], &entry["operator"]), (&json!("discard_parked"), &json!("zoe")), "{audit}");
    assert_eq!((&entry["aggregateId"], &entry["events"]), (&json!("42"), &json!([EVENT])), "{audit}");
    Ok(())
}

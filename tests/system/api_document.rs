//! What a running process answers under `/ops`, against the document that it serves.

mod generated;

use std::collections::BTreeSet;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use system_tests::{
    AppProcess, eventually,
    operated::{Operated, TOKEN},
};

use self::generated::{Asked, Expected};
use crate::commands::{Outcome, PATIENCE};

const DEAD: &str = "0198c5a0-0000-7000-8000-000000000001";
const UNKNOWN: &str = "0198c5a0-0000-7000-8000-00000000ffff";
const PUBLISHED: &str = "0198c5a0-0000-7000-8000-000000000009";

/// DEAD events, one that will be published, one in flight, a pause, and parked aggregates.
const EVENTS: &str = "
    INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT ('0198c5a0-0000-7000-8000-00000000000' || n)::uuid, 'order', 'o-' || n, 'OrderPlaced', '1'
      FROM generate_series(1, 9) n;
    UPDATE outbox_event SET status = 'DEAD', attempts = 3,
           last_error = CASE WHEN aggregate_id = 'o-2' THEN 'lease expired 10 times' ELSE 'rejected: full' END
     WHERE aggregate_id < 'o-7';
    SELECT outbox_discard(ARRAY['0198c5a0-0000-7000-8000-000000000006'::uuid], 'zoe', 'sent by hand');
    SELECT outbox_pause('invoice', 'zoe', 'moving');
    INSERT INTO outbox_inbox_parked (consumer, aggregate_type, aggregate_id, event_id, reason)
    VALUES ('minutes', 'order', 'o-1', '0198c5a0-0000-7000-8000-000000000001', 'broken'),
           ('order', 'order', 'order', '0198c5a0-0000-7000-8000-000000000002', 'broken');
    INSERT INTO outbox_claim (token, holder, lease_expires_at, lanes, held)
    SELECT '0198c5a0-0000-7000-8000-00000000000a', 'relay-7', statement_timestamp() + interval '1 h', ARRAY[lane], 1
      FROM outbox_event WHERE aggregate_id = 'o-8';
    UPDATE outbox_lane SET token = '0198c5a0-0000-7000-8000-00000000000a', due_at = NULL, claimed_from = sequence,
           claimed_through = sequence
      FROM outbox_event e WHERE e.lane = outbox_lane.lane AND aggregate_id = 'o-8';";

/// Method, documented path, id in it, query, body: every operation at its best and at what it refuses.
fn requests() -> Vec<(&'static str, &'static str, &'static str, &'static str, Value)> {
    let (none, events, event) = (Value::Null, "/ops/outbox/events", "/ops/outbox/events/{id}");
    let (by, class) = (json!({ "by": "zoe", "reason": "fixed" }), json!({ "class": "rejected" }));
    vec![
        ("get", "/ops/openapi.json", "", "", none.clone()),
        ("get", "/ops/settings", "", "", none.clone()),
        ("get", "/ops/metrics", "", "", none.clone()),
        ("get", "/ops/doctor", "", "", none.clone()),
        ("get", "/ops/outbox/status", "", "", none.clone()),
        ("get", events, "", "?limit=3", none.clone()),
        ("get", events, "", "?status=IN_FLIGHT", none.clone()),
        ("get", events, "", "?status=DEAD&class=rejected&unresolved=true&olderThanSeconds=0", none.clone()),
        ("get", events, "", "?status=GONE", none.clone()),
        (
            "get",
            events,
            "",
            "?publishedFrom=2026-01-02T03:04:05Z&publishedUntil=9999-12-31T23:59:59-23:59",
            none.clone(),
        ),
        ("get", events, "", "?from=0198c5a0-0000-7000-8000-000000000002&publishedUntil=today", none.clone()),
        ("get", "/ops/outbox/events/{id}/payload", DEAD, "", none.clone()),
        ("get", "/ops/outbox/events/{id}/payload", UNKNOWN, "", none.clone()),
        ("get", event, DEAD, "", none.clone()),
        ("get", event, UNKNOWN, "", none.clone()),
        ("get", event, "7", "", none.clone()),
        ("get", "/ops/outbox/events/{id}/audit", "0198c5a0-0000-7000-8000-000000000006", "", none.clone()),
        ("get", "/ops/outbox/events/{id}/audit", UNKNOWN, "?limit=1001", none.clone()),
        ("get", "/ops/outbox/dead", "", "", none.clone()),
        ("get", "/ops/outbox/blocked", "", "?limit=2", none.clone()),
        ("get", "/ops/outbox/audit", "", "?limit=1", none.clone()),
        ("get", "/ops/outbox/audit", "", "?before=x", none.clone()),
        ("post", "/ops/outbox/events/{id}/requeue", DEAD, "", by.clone()),
        ("post", "/ops/outbox/events/{id}/requeue", PUBLISHED, "", by.clone()),
        ("post", "/ops/outbox/events/{id}/requeue", UNKNOWN, "", by.clone()),
        ("post", "/ops/outbox/events/{id}/requeue", DEAD, "", json!({ "force": true })),
        ("post", "/ops/outbox/events/{id}/requeue", DEAD, "", none.clone()),
        ("post", "/ops/outbox/events/{id}/discard", "0198c5a0-0000-7000-8000-000000000002", "", json!({})),
        ("post", "/ops/outbox/events/{id}/discard", "0198c5a0-0000-7000-8000-000000000002", "", json!({})),
        ("post", "/ops/outbox/events/{id}/replay", PUBLISHED, "", by),
        ("post", "/ops/outbox/requeue", "", "", json!({ "filter": class, "dryRun": true })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "filter": class })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "events": [UNKNOWN, PUBLISHED] })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "events": [UNKNOWN], "dryRun": true })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "events": [UNKNOWN], "all": true })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "events": [UNKNOWN], "filter": null, "after": UNKNOWN })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "events": [] })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "events": ["7"] })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "filter": { "class": null } })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "filter": { "aggregateId": "a\u{0}b" } })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "all": true, "events": null, "by": "", "dryRun": true })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "all": true, "events": null, "by": null, "dryRun": true })),
        ("post", "/ops/outbox/requeue", "", "", json!({ "reason": "x".repeat(20_000) })),
        ("post", "/ops/outbox/discard", "", "", json!({ "all": true, "by": "zoe" })),
        ("post", "/ops/outbox/discard", "", "", json!({})),
        ("post", "/ops/outbox/replay", "", "", json!({ "events": [PUBLISHED, UNKNOWN], "dryRun": true })),
        ("post", "/ops/outbox/replay", "", "", json!({ "filter": { "from": DEAD, "to": UNKNOWN }, "by": "zoe" })),
        ("post", "/ops/outbox/replay", "", "", json!({ "filter": { "publishedUntil": "2026-01-02T03:04:05Z" } })),
        ("post", "/ops/outbox/replay", "", "", json!({ "filter": { "publishedFrom": "today" } })),
        ("post", "/ops/outbox/replay", "", "", json!({ "filter": { "eventType": null } })),
        ("post", "/ops/outbox/replay", "", "", json!({ "events": [PUBLISHED], "after": DEAD })),
        ("post", "/ops/outbox/replay", "", "", json!({})),
        ("post", "/ops/outbox/purge", "", "", json!({ "olderThanSeconds": 0, "dryRun": true })),
        ("post", "/ops/outbox/purge", "", "", json!({ "olderThanSeconds": 4_294_967_295_u32, "only": "resolved" })),
        ("post", "/ops/outbox/purge", "", "", json!({ "olderThanSeconds": 4_294_967_296_u64 })),
        ("post", "/ops/outbox/purge", "", "", json!({ "olderThanSeconds": 60, "only": "dead" })),
        ("post", "/ops/outbox/purge", "", "", json!({ "only": null })),
        ("post", "/ops/outbox/pause", "", "", json!({ "aggregateType": "order" })),
        ("post", "/ops/outbox/pause", "", "", json!({})),
        ("post", "/ops/outbox/pause", "", "", json!({ "aggregateType": "order", "everything": true })),
        ("post", "/ops/outbox/pause", "", "", json!({ "aggregateType": "order", "everything": null })),
        ("post", "/ops/outbox/resume", "", "", json!({ "aggregateType": "order" })),
        ("post", "/ops/outbox/resume", "", "", json!({ "everything": true })),
        ("get", "/ops/inbox/parked", "", "?consumer=minutes&limit=1", none.clone()),
        ("get", "/ops/inbox/parked", "", "?limit=1", none.clone()),
        ("post", "/ops/inbox/forget", "", "", json!({ "consumer": "nobody", "events": [PUBLISHED] })),
        ("post", "/ops/inbox/forget", "", "", json!({ "consumer": "nobody" })),
        ("post", "/ops/inbox/unpark", "", "", json!({ "aggregateType": "order", "aggregateId": "o-1", "by": "zoe" })),
        ("post", "/ops/inbox/unpark", "", "", json!({ "aggregateType": "order", "aggregateId": "" })),
        (
            "post",
            "/ops/inbox/unpark",
            "",
            "",
            json!({ "aggregateType": "order", "aggregateId": "o-1", "consumer": "minutes" }),
        ),
    ]
}

/// Of a schema that may refer to the document's components.
fn validator(document: &Value, schema: &Value) -> Outcome<jsonschema::Validator> {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "components": document.get("components"),
        "allOf": [schema],
    });
    Ok(jsonschema::options().should_validate_formats(true).build(&schema)?)
}

/// Whether the document allows the body of a request.
fn allows(document: &Value, method: &str, path: &str, body: &Value) -> Outcome<bool> {
    let operation = document.get("paths").and_then(|paths| paths.get(path)?.get(method));
    let schema = operation.and_then(|operation| operation.pointer("/requestBody/content/application~1json/schema"));
    let schema = schema.ok_or_else(|| format!("{method} {path} has no body in the document"))?;
    Ok(validator(document, schema)?.is_valid(body))
}

/// Holds an answer to what is documented; returns its status.
async fn hold(document: &Value, method: &str, path: &str, answer: Response) -> Outcome<u16> {
    let status = answer.status().as_u16();
    let responses = document.get("paths").and_then(|paths| paths.get(path)?.get(method)?.get("responses"));
    let response = responses.and_then(|responses| responses.get(status.to_string())).unwrap_or(&Value::Null);
    assert!(response.is_object(), "{method} {path}: {status} is not documented: {}", answer.text().await?);
    let content_type = answer.headers().get(CONTENT_TYPE).map(|value| value.to_str()).transpose()?;
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().to_owned();
    let text = answer.text().await?;
    let Some(content) = response.get("content") else {
        assert!(text.is_empty(), "{method} {path}: {status} has a body: {text}");
        return Ok(status);
    };
    let schema = content.get(&media_type).and_then(|described| described.get("schema")).unwrap_or(&Value::Null);
    assert!(schema.is_object(), "{method} {path}: {status} is {media_type}: {response}");
    let body = if media_type.ends_with("json") { serde_json::from_str(&text)? } else { Value::String(text) };
    let validator = validator(document, schema)?;
    let wrong: Vec<_> =
        validator.iter_errors(&body).map(|error| format!("{error} at {}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{method} {path}: {status}: {wrong:?} in {body}");
    Ok(status)
}

/// A process that asks for a token, once one of its events is published, and what it says of itself.
async fn serve(stage: &Operated, client: &Client) -> Outcome<(AppProcess, Value)> {
    stage.execute(EVENTS).await?;
    let process = stage.serve().await?;
    let event = format!("/ops/outbox/events/{PUBLISHED}");
    let published = || async {
        let answer = client.get(process.ops_url(&event)).bearer_auth(TOKEN).send().await.ok()?;
        (answer.json::<Value>().await.ok()?.get("status")? == "PUBLISHED").then_some(())
    };
    eventually("the published event", PATIENCE, published).await?;
    let document = client.get(process.ops_url("/ops/openapi.json")).bearer_auth(TOKEN).send().await?.json().await?;
    Ok((process, document))
}

/// Sends a request when its turn comes: an address may send only so many at once.
async fn answer_to(request: RequestBuilder) -> Outcome<Response> {
    let sent = || async {
        match request.try_clone()?.send().await {
            Ok(answer) if answer.status() == StatusCode::TOO_MANY_REQUESTS => None,
            answer => Some(answer),
        }
    };
    Ok(eventually("a turn to send", PATIENCE, sent).await??)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_operation_answers_a_running_process_as_documented() -> Outcome {
    let stage = Operated::prepare("document").await?.with_a_queue_of_requests().await?;
    let client = Client::builder().timeout(PATIENCE).build()?;
    let (process, document) = serve(&stage, &client).await?;

    let (mut succeeded, mut refused, mut tried_without) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (method, path, id, query, body) in requests() {
        let url = format!("{}{query}", process.ops_url(&path.replace("{id}", id)));
        let mut request = client.request(Method::from_bytes(method.to_uppercase().as_bytes())?, url).bearer_auth(TOKEN);
        if !body.is_null() {
            request = request.json(&body);
        }
        let status = hold(&document, method, path, answer_to(request).await?).await?;
        if !body.is_null() {
            let is_taken = ![400, 413].contains(&status);
            assert_eq!(allows(&document, method, path, &body)?, is_taken, "{method} {path}: {status} to {body}");
        }
        if status < 300 {
            succeeded.insert((method, path))
        } else {
            refused.insert(status)
        };
        if !tried_without.insert((method, path)) {
            continue;
        }
        let request = client
            .request(Method::from_bytes(method.to_uppercase().as_bytes())?, process.ops_url(&path.replace("{id}", id)));
        let status = hold(&document, method, path, answer_to(request).await?).await?;
        assert_eq!(status, 401, "{method} {path} without a token");
    }
    let paths = document["paths"].as_object().into_iter().flatten();
    let documented = paths.flat_map(|(path, operations)| {
        operations.as_object().into_iter().flatten().map(move |(method, _)| (method.as_str(), path.as_str()))
    });
    assert_eq!(succeeded, documented.collect(), "every operation was met at its best");
    let expected = BTreeSet::from([400, 404, 409, 413, 415]);
    assert!(refused.is_superset(&expected), "{refused:?}");
    Ok(())
}

/// Sends a generated request; returns its status.
async fn send(client: &Client, process: &AppProcess, document: &Value, asked: &Asked) -> Outcome<u16> {
    let mut url = url::Url::parse(&process.ops_url(&asked.path.replace("{id}", asked.id)))?;
    if !asked.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&asked.query);
    }
    let method = Method::from_bytes(asked.method.to_uppercase().as_bytes())?;
    let mut request = client.request(method, url).bearer_auth(TOKEN);
    if let Some(content_type) = asked.content_type {
        request = request.header(CONTENT_TYPE, content_type);
    }
    if let Some(body) = &asked.body {
        request = request.body(body.clone());
    }
    hold(document, &asked.method, &asked.path, answer_to(request).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_made_from_the_document_are_taken_or_refused_as_it_says() -> Outcome {
    let stage = Operated::prepare("generated").await?.with_a_queue_of_requests().await?;
    let client = Client::builder().timeout(PATIENCE).build()?;
    let (process, document) = serve(&stage, &client).await?;
    let requests = generated::requests(&document)?;
    assert!((200..=1_000).contains(&requests.len()), "{} requests", requests.len());
    let mut met = BTreeSet::new();
    for asked in &requests {
        let status = send(&client, &process, &document, asked).await?;
        let is_so = match asked.expected {
            Expected::Taken => ![400, 413, 415].contains(&status),
            Expected::TakenUnlessEmpty => ![413, 415].contains(&status),
            Expected::Refused => [400, 413].contains(&status),
            Expected::OtherType => status == 415,
        };
        assert!(is_so && status < 500, "{status} to {asked:?}");
        met.insert(status);
    }
    let expected = BTreeSet::from([200, 204, 400, 404, 415]);
    assert!(met.is_superset(&expected), "{met:?}");
    Ok(())
}

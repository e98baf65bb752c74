//! That the `OpenAPI` document and the routes are the same, both ways.

use std::collections::BTreeSet;

use super::*;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

async fn document() -> Value {
    let answered = ask(MockOutboxOperationsPort::new(), "GET", "/ops/openapi.json", "").await;
    assert_eq!(answered.status, StatusCode::OK);
    answered.body
}

#[tokio::test]
async fn every_route_is_documented_with_its_methods_and_nothing_else_is() {
    let document = document().await;
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")), "{document}");
    let documented = document["paths"].as_object().unwrap();
    let paths: BTreeSet<_> = documented.keys().map(String::as_str).collect();
    assert_eq!(paths, ROUTES.iter().map(|(path, _)| *path).collect());
    for (path, operations) in documented {
        for method in METHODS {
            // What cannot be read is refused by the handler itself.
            let path = format!("{}?limit=0", path.replace("{id}", "7"));
            let refused = ask(MockOutboxOperationsPort::new(), &method.to_uppercase(), &path, "").await;
            let served = refused.status != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(served, operations.get(method).is_some(), "{method} {path}: {}", refused.status);
        }
    }
}

#[tokio::test]
async fn every_operation_is_explained_and_says_how_it_may_be_refused() {
    let document = document().await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
            for status in ["400", "401", "403", "429", "500", "503"] {
                assert!(responses[status]["content"]["application/problem+json"].is_object(), "{path}: {status}");
            }
            for status in ["408", "413", "415"] {
                assert_eq!(responses.contains_key(status), method == "post", "{path}: {status}");
            }
            assert!(responses["431"].get("content").is_none(), "{path}: what is answered below HTTP has no document");
            assert!(responses.keys().any(|status| status.starts_with('2')), "{path}");
        }
    }
}

#[tokio::test]
async fn a_parameter_that_is_not_documented_is_refused_by_name() {
    let document = document().await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let asked = format!("{}?nonsense=1", path.replace("{id}", ID));
            let refused = ask(MockOutboxOperationsPort::new(), &method.to_uppercase(), &asked, "{}").await;
            assert_problem(&refused, 400, "nonsense");
            let detail = refused.body["detail"].as_str().unwrap();
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let allowed: Vec<_> = parameters.filter(|parameter| parameter["in"] == "query").collect();
            for parameter in &allowed {
                assert!(detail.contains(parameter["name"].as_str().unwrap()), "{path}: {detail}");
            }
            assert_eq!(detail.contains("takes none"), allowed.is_empty(), "{path}: {detail}");
        }
    }
}

#[tokio::test]
async fn every_text_of_a_request_has_its_bounds_or_its_form_in_the_document() {
    let document = document().await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (mut bounded, mut together) = (0, 0);
    let names = [
        "ActRequest",
        "PauseRequest",
        "ManyRequest",
        "FilterRequest",
        "ReplayRequest",
        "ReplayFilterRequest",
        "PurgeRequest",
        "ForgetRequest",
        "UnparkRequest",
    ];
    for name in names {
        let schema = &schemas[name];
        together += usize::from(schema["allOf"][1].is_object());
        let fields = if schema["allOf"].is_array() { &schema["allOf"][0] } else { schema };
        assert_eq!(fields["additionalProperties"], false, "{name}");
        for (field, schema) in fields["properties"].as_object().unwrap() {
            let types = schema["type"].to_string();
            let is_bounded =
                ["maxLength", "maxItems", "maximum", "enum", "format"].iter().any(|key| schema[*key] != Value::Null);
            assert!(is_bounded || types.contains("boolean") || field == "filter", "{name}.{field}: {schema}");
            bounded += usize::from(is_bounded);
        }
    }
    assert_eq!((bounded > 20, together), (true, 6), "{bounded}");
}

/// `maxLength` counts characters, and what is stored has its bound in bytes.
#[tokio::test]
async fn every_bound_of_a_text_is_told_in_the_bytes_that_are_counted() {
    let document = document().await;
    let schemas = document["components"]["schemas"].as_object().unwrap().values();
    let schemas = schemas.map(|schema| if schema["allOf"].is_array() { &schema["allOf"][0] } else { schema });
    let fields = schemas.flat_map(|schema| schema["properties"].as_object().into_iter().flatten());
    let fields = fields.map(|(name, schema)| (name.as_str(), &schema["maxLength"], &schema["description"]));
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let parameters = operations.flat_map(|operation| operation["parameters"].as_array().into_iter().flatten());
    let parameters = parameters.map(|parameter| {
        (parameter["name"].as_str().unwrap(), &parameter["schema"]["maxLength"], &parameter["description"])
    });
    let mut bounded = 0;
    for (name, most, description) in fields.chain(parameters) {
        let Some(most) = most.as_u64() else { continue };
        let (description, told) = (description.as_str().unwrap_or_default(), format!("1 to {most} bytes of UTF-8."));
        assert!(description.ends_with(&told), "{name}: {description:?} without {told:?}");
        bounded += 1;
    }
    assert_eq!(bounded, 29);
}

#[tokio::test]
async fn a_text_of_as_many_bytes_as_are_documented_is_taken_and_one_of_as_many_longer_characters_is_not() {
    let filter = |field: &str, text: &str| json!({ "filter": { field: text }, "dryRun": true });
    let post = async |path: &str, body: &Value| {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_list().returning(|_| Ok(page(0, None)));
        operations.expect_published_gone_until().returning(|| Ok(None));
        ask(operations, "POST", path, &body.to_string()).await
    };
    for (most, half) in [(100, "é".repeat(50)), (200, "é".repeat(100)), (500, "é".repeat(250))] {
        let whole = half.repeat(2);
        assert_eq!((half.len(), whole.chars().count()), (most, most));
        let bodies = |text: &str| match most {
            100 => vec![
                ("/ops/outbox/pause", json!({ "everything": true, "by": text })),
                ("/ops/outbox/pause", json!({ "aggregateType": text })),
                ("/ops/outbox/requeue", filter("aggregateType", text)),
                ("/ops/outbox/replay", filter("eventType", text)),
            ],
            200 => vec![("/ops/outbox/discard", filter("aggregateId", text))],
            _ => vec![("/ops/outbox/resume", json!({ "everything": true, "reason": text }))],
        };
        for (path, body) in bodies(&half) {
            assert_eq!(post(path, &body).await.status, StatusCode::OK, "{path} {body}");
        }
        for (path, body) in bodies(&whole) {
            let refused = format!("takes {} bytes, at most {most} are allowed", whole.len());
            assert_problem(&post(path, &body).await, 400, &refused);
        }
    }
}

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
            assert_eq!(responses.contains_key("415"), method == "post", "{path}");
            assert!(responses.keys().any(|status| status.starts_with('2')), "{path}");
        }
    }
}

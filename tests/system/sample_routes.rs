//! The examples of the sample's routes, sent as they stand in the documents.

use std::collections::BTreeSet;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use system_tests::AppProcess;

use crate::world::{Outcome, PORTFOLIO, World, words};

const PAGE: &str = include_str!("../../docs/architecture.md");
const ROUTER: &str = include_str!("../../crates/sample-portfolio/src/adapter/http.rs");

/// A line of `curl`.
#[derive(Debug, Default)]
struct Example {
    method: Option<String>,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Example {
    fn read(line: &str) -> Option<Self> {
        let (mut example, words) = (Self::default(), words(line));
        let mut words = words.into_iter();
        (words.next()? == "curl").then_some(())?;
        while let Some(word) = words.next() {
            match word {
                "-X" => example.method = Some(words.next()?.to_owned()),
                "-d" => example.body = Some(words.next()?.to_owned()),
                "-H" => {
                    let (name, value) = words.next()?.split_once(": ")?;
                    example.headers.push((name.to_owned(), value.to_owned()));
                }
                url => url.strip_prefix("localhost:8080")?.clone_into(&mut example.path),
            }
        }
        Some(example)
    }

    /// Method and path as the router knows them.
    fn route(&self) -> (String, String) {
        let path = self.path.strip_prefix("/portfolios").unwrap_or_default();
        let path = path.replace("$PORTFOLIO", "{portfolio_id}").replace("$WORK_LOG", "{work_log_id}");
        (self.method.clone().unwrap_or_else(|| "GET".to_owned()), path)
    }

    fn request(&self, process: &AppProcess, work_log: &str) -> Outcome<RequestBuilder> {
        let path = self.path.replace("$PORTFOLIO", &PORTFOLIO.to_string()).replace("$WORK_LOG", work_log);
        let method = Method::from_bytes(self.route().0.as_bytes())?;
        let mut request = Client::new().request(method, process.url(&path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        Ok(request.body(self.body.clone().unwrap_or_default()))
    }
}

/// Method and path of every route that the router has.
fn routes() -> BTreeSet<(String, String)> {
    let routes = ROUTER.split(".route(\"/{portfolio_id}").skip(1).filter_map(|route| route.split_once("\", "));
    let methods = |(path, handlers): (&str, &str)| {
        let handlers = handlers.lines().next().unwrap_or_default().to_owned();
        let path = format!("/{{portfolio_id}}{path}");
        ["GET", "POST"]
            .into_iter()
            .filter(move |method| handlers.contains(&format!("{}(", method.to_lowercase())))
            .map(move |method| (method.to_owned(), path.clone()))
    };
    routes.flat_map(methods).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_of_the_sample_has_an_example_that_is_answered_with_success() -> Outcome {
    let examples: Vec<_> = PAGE.lines().filter_map(Example::read).collect();
    assert_eq!(examples.iter().map(Example::route).collect::<BTreeSet<_>>(), routes());
    assert!(examples.len() > 6, "{examples:?}");

    let world = World::shared("routes").await?;
    let process = world.serve("only").await?;
    let (create, start) = (&examples[0], &examples[3]);
    for (number, example) in examples.iter().enumerate() {
        let mut fresh = create.request(&process, "")?.build()?;
        fresh.headers_mut().insert("idempotency-key", number.to_string().parse()?);
        let fresh: Value = Client::new().execute(fresh).await?.error_for_status()?.json().await?;
        let work_log = fresh["id"].as_str().ok_or("an id")?;
        if example.path.ends_with("/complete") {
            start.request(&process, work_log)?.send().await?.error_for_status()?;
        }
        let answer = example.request(&process, work_log)?.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        assert!(status.is_success(), "{example:?}: {status} {text}");
    }
    Ok(())
}

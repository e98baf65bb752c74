//! What the front page and the tutorial tell their readers to type does what they say. The parts that a generator makes
//! are checked by `cargo xtask check-template`.

use reqwest::Method;
use system_tests::AppProcess;

use crate::world::{Outcome, PATIENCE, World, read, run};

const PAGES: [(&str, &str); 2] =
    [("README.md", include_str!("../../README.md")), ("docs/tutorial.md", include_str!("../../docs/tutorial.md"))];

/// The commands of a page's blocks for a shell: continued lines in one, comments left out.
fn commands(page: &str) -> Vec<Vec<String>> {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let lines: String = blocks.map(|block| block.replace("\\\n", "")).collect();
    lines.lines().map(words).filter(|words| !words.is_empty()).collect()
}

/// The words of a line; what stands in single quotation marks is one.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default();
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                begun = true;
            }
            c if c.is_whitespace() && !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// Does what the words behind `curl` say, against this process, and gives the status.
async fn curl(process: &AppProcess, words: &[String]) -> Outcome<(Method, u16)> {
    let (mut method, mut headers, mut body, mut address) = (Method::GET, Vec::new(), None, String::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-i" | "-s" => {}
            // What picks a line of the answer is for who reads it.
            "|" => break,
            "-X" => method = rest.next().ok_or("a method")?.parse()?,
            "-H" => headers.push(rest.next().and_then(|header| header.split_once(": ")).ok_or("a header")?),
            "-d" => body = rest.next().cloned(),
            word => word.clone_into(&mut address),
        }
    }
    if let Some(path) = address.strip_prefix("localhost:9090") {
        return Ok((method, read(process, path).await?.0));
    }
    let path = address.strip_prefix("localhost:8080").ok_or("an address of the service")?;
    let mut request = reqwest::Client::new().request(method.clone(), process.url(path)).timeout(PATIENCE);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = request.body(body.unwrap_or_default()).send().await?;
    Ok((method, answer.status().as_u16()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pages_tell_to_type_does_what_they_say() -> Outcome {
    for (name, page) in PAGES {
        let world = World::shared("pages").await?;
        let process = world.serve("page").await?;
        let (mut requests, mut programs) = (0, 0);
        for command in commands(page) {
            let (program, arguments) = command.split_first().ok_or("a program")?;
            match program.as_str() {
                // What comes after a generator has run.
                "curl" if arguments.iter().any(|word| word.contains("/billing/")) => {}
                "curl" => {
                    requests += 1;
                    let (method, status) = curl(&process, arguments).await?;
                    let wanted = if method == Method::POST { 201 } else { 200 };
                    assert_eq!(status, wanted, "{name}: {command:?}");
                    world.until_settled().await?;
                }
                "target/debug/app" if arguments != ["serve"] => {
                    programs += 1;
                    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                    let (status, output) = run(&world.environment, &arguments).await?;
                    assert!(status.success(), "{name}: {command:?}: {output}");
                }
                "cargo" | "eval" | "target/debug/app" => {}
                other => panic!("{name}: nobody runs {other}"),
            }
        }
        assert!(requests >= 2 && programs >= 1, "{name} has {requests} requests and {programs} commands");
    }
    Ok(())
}

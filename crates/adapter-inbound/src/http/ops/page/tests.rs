//! That the page is served whole and hardened, and that it speaks both languages.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use application_core::outbox::{EventAction, FailureClass, OutboxEventStatus};
use axum::{
    body::Body,
    http::{HeaderMap, Request},
};
use http_body_util::BodyExt;
use secrecy::SecretString;
use tower::ServiceExt;

use super::*;

async fn ask(access: OpsAccess, host: &str, path: &str) -> (StatusCode, HeaderMap, String) {
    let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
    let (parts, body) = router(Arc::new(access)).oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, String::from_utf8(body.into()).unwrap())
}

fn text(name: &str) -> &'static str {
    FILES.iter().find(|(file, _, _)| *file == name).unwrap_or_else(|| panic!("{name} is embedded")).2
}

/// Everything of the page's own that may hold a key of the dictionaries.
fn sources() -> String {
    let own = FILES.iter().filter(|(name, _, _)| {
        name.rsplit_once('.').is_some_and(|(_, kind)| kind == "js") && !name.starts_with("vendor/")
    });
    own.map(|(_, _, text)| *text).chain([INDEX.2]).collect::<Vec<_>>().join("\n")
}

/// The texts between `before` and the next `after`.
fn between<'a>(text: &'a str, before: &'a str, after: char) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split(after).next())
}

fn dictionary(name: &str) -> BTreeMap<String, String> {
    serde_json::from_str(text(name)).unwrap()
}

#[tokio::test]
async fn the_page_and_all_it_loads_are_served_with_a_policy_that_runs_no_foreign_script() {
    let paths = FILES.iter().map(|(name, kind, _)| (format!("/ops/page/{name}"), *kind));
    for (path, kind) in paths.chain([("/ops/".to_owned(), HTML)]) {
        let (status, headers, body) = ask(OpsAccess::Loopback, "localhost:9091", &path).await;
        assert_eq!((status, headers[CONTENT_TYPE].to_str().unwrap()), (StatusCode::OK, kind), "{path}");
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        assert!(!body.is_empty(), "{path}");
    }
    let (status, headers, _) = ask(OpsAccess::Loopback, "localhost", "/ops").await;
    assert_eq!((status, headers[LOCATION].to_str().unwrap()), (StatusCode::PERMANENT_REDIRECT, "/ops/"));
}

#[test]
fn every_file_of_the_folder_is_embedded_and_everything_that_is_loaded_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let mut found = BTreeSet::new();
    for part in ["", "views/", "vendor/"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                found.insert(format!("{part}{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    let embedded: BTreeSet<_> = FILES.iter().map(|(name, _, _)| *name).chain([INDEX.0, "vendor/README.md"]).collect();
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), embedded);
    let loaded = between(INDEX.2, "\"page/", '"');
    let imports = |before| FILES.iter().flat_map(move |(_, _, text)| between(text, before, '"'));
    for name in loaded.chain(imports("from \"./")).chain(imports("from \"../")) {
        let known = |(file, _, _): &(&str, &str, &str)| *file == name || *file == format!("views/{name}");
        assert!(FILES.iter().any(known), "{name}");
    }
    assert!(sources().contains("from \"./api.js\""), "imports are found");
}

#[test]
fn the_markup_has_neither_scripts_nor_styles_of_its_own_and_loads_from_nowhere_else() {
    assert!(!INDEX.2.contains("style=") && !INDEX.2.contains("<style") && !INDEX.2.contains(" on"));
    assert!(
        INDEX.2.matches("<script").count()
            == INDEX.2.matches("<script src").count() + INDEX.2.matches("<script type=\"module\" src").count()
    );
    for (name, _, text) in FILES.iter().filter(|(name, _, _)| !name.starts_with("vendor/")).chain([&INDEX]) {
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://") && !foreign.contains("https://"), "{name}");
        for risky in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!text.contains(risky), "{name}: {risky}");
        }
    }
}

#[test]
fn every_text_is_in_both_languages_with_the_same_values_to_fill_in() {
    let (english, korean) = (dictionary("en.json"), dictionary("ko.json"));
    let keys = |dictionary: &BTreeMap<String, String>| dictionary.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&english), keys(&korean));
    for (key, text) in &english {
        let holes = |text: &str| between(text, "{", '}').map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(holes(text), holes(&korean[key]), "{key}");
        assert!(!text.trim().is_empty() && !korean[key].trim().is_empty(), "{key}");
        assert_ne!(text, &korean[key], "{key} is not translated");
    }
}

#[test]
fn every_text_that_the_page_asks_for_is_there_and_no_other() {
    let (known, sources) = (dictionary("en.json"), sources());
    let calls = sources.match_indices("t(\"").filter(|(at, _)| !sources[..*at].ends_with(char::is_alphanumeric));
    let calls = calls.filter_map(|(at, call)| sources[at + call.len()..].split('"').next());
    let marked = ["data-t=\"", "data-t-label=\""].into_iter().flat_map(|before| between(&sources, before, '"'));
    let asked: BTreeSet<_> = calls.chain(marked).collect();
    assert!(asked.len() > 50, "{asked:?}");
    // Whatever looks like a key of some group is one.
    let groups: BTreeSet<_> = known.keys().filter_map(|key| key.split_once('.')).map(|(group, _)| group).collect();
    let quoted = sources.lines().flat_map(|line| line.split('"').skip(1).step_by(2)).filter(|text| {
        text.split_once('.')
            .is_some_and(|(group, name)| groups.contains(group) && name.chars().all(char::is_alphanumeric))
    });
    for key in asked.iter().copied().chain(quoted) {
        assert!(known.contains_key(key), "{key} has no text");
    }
    let prefixes: Vec<_> = between(&sources, "t(`", '$').collect();
    for key in known.keys() {
        let used = sources.contains(&format!("\"{key}\"")) || prefixes.iter().any(|prefix| key.starts_with(prefix));
        assert!(used, "{key} is used nowhere");
    }
    let others = ["pause", "resume", "purge", "repair", "forget", "unpark", "discard_parked"];
    let recorded = others.into_iter().chain(EventAction::ALL.map(EventAction::as_str));
    for action in recorded {
        assert!(known.contains_key(&format!("action.{action}")), "{action}");
    }
}

#[test]
fn the_page_knows_every_status_and_class_by_the_names_of_the_core() {
    let names = text("names.js");
    let list = |name: &str| between(names, &format!("{name} = ["), ']').next().unwrap().replace('"', "");
    assert_eq!(list("STATUSES"), OutboxEventStatus::ALL.map(OutboxEventStatus::as_str).join(", "));
    assert_eq!(list("CLASSES"), FailureClass::ALL.map(FailureClass::as_str).join(", "));
}

/// Colours among the custom properties of a block of the style sheet, and their relative luminance as WCAG 2 has it.
fn luminances(block: &str) -> BTreeMap<&str, f64> {
    let colours = block.split(';').filter_map(|rule| rule.trim().strip_prefix("--")?.split_once(": #"));
    let luminance = |hex: &str| {
        let channel = |at: usize| {
            let share = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
    };
    colours.map(|(name, hex)| (name, luminance(hex))).collect()
}

#[test]
fn texts_lines_of_charts_and_the_focus_stand_out_from_their_grounds_in_light_and_in_dark() {
    let blocks: Vec<_> = between(text("style.css"), ":root {", '}').map(luminances).collect();
    let [light, dark] = &blocks[..] else { panic!("{blocks:?}") };
    assert!(light.keys().eq(dark.keys()), "{light:?} {dark:?}");
    let texts = ["text", "quiet", "link", "danger", "good"].map(|name| (name, 4.5));
    let others = ["focus", "series-1", "series-2", "series-3", "series-4"].map(|name| (name, 3.0));
    for (colours, ground) in [(light, "ground"), (light, "raised"), (dark, "ground"), (dark, "raised")] {
        for (name, least) in texts.into_iter().chain(others) {
            let (one, other) = (colours[name] + 0.05, colours[ground] + 0.05);
            let contrast = one.max(other) / one.min(other);
            assert!(contrast >= least, "{name} on {ground} has {contrast:.2}, it must be {least} in {colours:?}");
        }
    }
}

#[tokio::test]
async fn the_page_is_for_whoever_reaches_the_listener_by_a_name_of_its_own() {
    let (status, _, _) = ask(OpsAccess::Loopback, "evil.example:9091", "/ops/").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let token = OpsAccess::new(Some(&SecretString::from("0123456789abcdef")));
    assert_eq!(ask(token, "ops.example", "/ops/").await.0, StatusCode::OK);
}

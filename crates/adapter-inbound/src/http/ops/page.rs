//! `/ops/`: the operator's page. It is in the binary as it is in the folder `page` of this crate: no build, no other host.

use std::sync::Arc;

use axum::{
    Router,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::{from_fn_with_state, map_response},
    response::Response,
    routing::get,
};

use super::access::{self, OpsAccess};

/// Scripts and styles come from here alone, none stands in the markup, and no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const SVG: &str = "image/svg+xml";

macro_rules! file {
    ($name:literal, $content_type:expr) => {
        ($name, $content_type, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)))
    };
}

/// Name, content type and text of every file below `/ops/page/`.
const FILES: &[(&str, &str, &str)] = &[
    file!("actions.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("confirm.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("en.json", JSON),
    file!("format.js", SCRIPT),
    file!("i18n.js", SCRIPT),
    file!("icon.svg", SVG),
    file!("ko.json", JSON),
    file!("main.js", SCRIPT),
    file!("metrics.js", SCRIPT),
    file!("names.js", SCRIPT),
    file!("style.css", CSS),
    file!("table.js", SCRIPT),
    file!("token.js", SCRIPT),
    file!("vendor/uPlot.LICENSE", "text/plain; charset=utf-8"),
    file!("vendor/uPlot.iife.min.js", SCRIPT),
    file!("vendor/uPlot.min.css", CSS),
    file!("views/audit.js", SCRIPT),
    file!("views/blocked.js", SCRIPT),
    file!("views/dead.js", SCRIPT),
    file!("views/doctor.js", SCRIPT),
    file!("views/event.js", SCRIPT),
    file!("views/events.js", SCRIPT),
    file!("views/overview.js", SCRIPT),
    file!("views/relays.js", SCRIPT),
    file!("views/settings.js", SCRIPT),
];

const INDEX: (&str, &str, &str) = file!("index.html", HTML);

/// Routes `/ops/` and what it loads, for everybody who reaches the listener: it holds no data and asks for the token.
pub(super) fn router(access: Arc<OpsAccess>) -> Router {
    let (_, index_type, index) = INDEX;
    let router = Router::new()
        .route("/ops", get(async || (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "/ops/")])))
        .route("/ops/", get(async move || ([(CONTENT_TYPE, index_type)], index)));
    let router = FILES.iter().fold(router, |router, &(name, content_type, text)| {
        router.route(&format!("/ops/page/{name}"), get(async move || ([(CONTENT_TYPE, content_type)], text)))
    });
    router.layer(map_response(hardened)).layer(from_fn_with_state(access, access::check_page))
}

async fn hardened(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, &str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        // A new binary brings a new page.
        (CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;

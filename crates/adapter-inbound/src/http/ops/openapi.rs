//! What `/ops` understands and answers, as an `OpenAPI` document.

use application_core::outbox::{EventAction, FailureClass, OutboxEventStatus};
use axum::Json;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        ContentBuilder, Ref, RefOr, Response, ResponseBuilder,
        path::{Operation, PathItem},
        schema::{Object, ObjectBuilder, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::{change, process, read};
use crate::http::problem_details::ProblemDetails;

#[derive(OpenApi)]
#[openapi(
    info(title = "Operations of the outbox", description = "An operator's view of the outbox and actions on its events."),
    paths(
        show,
        process::settings,
        process::metrics,
        read::status,
        read::list,
        read::show,
        read::audit_of,
        read::dead,
        read::blocked,
        read::audit,
        change::requeue_one,
        change::discard_one,
        change::replay_one,
        change::requeue_many,
        change::discard_many,
        change::pause,
        change::resume,
    ),
    components(schemas(ProblemDetails)),
    modifiers(&Common)
)]
struct Document;

/// This document.
#[utoipa::path(get, path = "/ops/openapi.json", tag = "process",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(super) async fn show() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}

/// What is the same for every operation: the token, and how it may be refused.
struct Common;

/// Refusals that any request may meet.
const ANY: &[(&str, &str)] = &[
    ("400", "the request cannot be read: the detail names field, bound and value"),
    ("401", "the bearer token is missing or wrong"),
    ("403", "without a token: the request does not come from this machine, or a foreign web page caused it"),
    ("429", "too many requests from this address; the header Retry-After says how long to wait"),
    ("500", "a bug, or a database that refuses a statement"),
    ("503", "the database cannot be reached, or there was no answer in time"),
];
/// Further refusals of a change.
const CHANGE: &[(&str, &str)] = &[
    ("408", "the body did not arrive in time"),
    ("413", "the body is too large"),
    ("415", "the body is not said to be JSON"),
];
const UNKNOWN: (&str, &str) = ("404", "the event is not in the outbox");
const CONFLICT: (&str, &str) = ("409", "the event's status does not allow it");

impl Modify for Common {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
        // Without a token in the settings, everybody on this machine is an operator.
        document.security =
            Some(vec![SecurityRequirement::new("token", Vec::<String>::new()), SecurityRequirement::default()]);
        for (path, item) in &mut document.paths.paths {
            let of_one = path.contains("{id}");
            for (changes, operation) in operations(item) {
                let own = [(of_one && !path.ends_with("/audit"), UNKNOWN), (of_one && changes, CONFLICT)];
                let own = own.into_iter().filter_map(|(applies, refusal)| applies.then_some(refusal));
                let of_change = CHANGE.iter().filter(|_| changes);
                for (status, description) in ANY.iter().chain(of_change).copied().chain(own) {
                    operation.responses.responses.insert(status.to_owned(), RefOr::T(refusal(description)));
                }
            }
        }
    }
}

/// The operations of a path, and whether each changes anything.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    let get = item.get.as_mut().map(|operation| (false, operation));
    let post = item.post.as_mut().map(|operation| (true, operation));
    get.into_iter().chain(post)
}

fn refusal(description: &str) -> Response {
    let problem = Ref::from_schema_name("ProblemDetails");
    let content = ContentBuilder::new().schema(Some(problem)).build();
    ResponseBuilder::new().description(description).content("application/problem+json", content).build()
}

pub(super) fn status_schema() -> Object {
    one_of(OutboxEventStatus::ALL.map(OutboxEventStatus::as_str))
}

pub(super) fn class_schema() -> Object {
    one_of(FailureClass::ALL.map(FailureClass::as_str))
}

pub(super) fn action_schema() -> Object {
    one_of(EventAction::ALL.map(EventAction::as_str))
}

/// The names come from the core, where they exist once.
fn one_of<const N: usize>(names: [&'static str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

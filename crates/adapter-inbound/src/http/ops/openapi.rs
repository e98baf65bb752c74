//! What `/ops` understands and answers, as an `OpenAPI` document.

use application_core::outbox::{EventAction, FailureClass, OutboxEventStatus, SettledHistory};
use axum::Json;
use serde_json::Value;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        Components, ContentBuilder, Header, Ref, RefOr, Response, ResponseBuilder,
        path::{Operation, PathItem},
        schema::{
            AllOfBuilder, AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat,
            SchemaType, Type,
        },
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::{answer::NoQuery, change, inbox, process, read};
use crate::http::problem_details::ProblemDetails;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Operations of the outbox",
        description = "An operator's view of outbox and inboxes, and actions on their events. Texts are bounded in bytes of UTF-8, which \
                       `maxLength` cannot count: beyond ASCII, fewer characters may be too many bytes."
    ),
    paths(
        show,
        process::settings,
        process::metrics,
        process::doctor,
        read::status,
        read::list,
        read::show,
        read::payload,
        read::audit_of,
        read::dead,
        read::blocked,
        read::audit,
        change::requeue_one,
        change::discard_one,
        change::replay_one,
        change::requeue_many,
        change::discard_many,
        change::replay_many,
        change::purge,
        change::pause,
        change::resume,
        inbox::parked,
        inbox::forget,
        inbox::unpark,
    ),
    components(schemas(ProblemDetails)),
    modifiers(&Common)
)]
struct Document;

/// This document.
#[utoipa::path(get, path = "/ops/openapi.json", tag = "process",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(super) async fn show(_: NoQuery) -> Json<utoipa::openapi::OpenApi> {
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
    ("413", "the body is too large: the detail names the bound"),
    ("415", "the body is not said to be JSON in UTF-8 without a content coding"),
];
const UNKNOWN: (&str, &str) = ("404", "the event is not in the outbox");
const NOT_SHOWN: (&str, &str) = (
    "403",
    "payloads are not shown: the setting or the database does not allow it; or the request may not be made at all",
);
const NOT_ASKED: (&str, &str) =
    ("503", "the database or the broker cannot be reached, or there was no answer in time; it may have been asked for");
const CONFLICT: (&str, &str) = ("409", "the event's status does not allow it");
const HISTORY_GONE: (&str, &str) =
    ("409", "the range reaches behind what is kept of published events: the detail says until when they are gone");
/// Answered by the protocol's own layer, without a document.
const HEAD_TOO_LARGE: (&str, &str) = ("431", "the request line and the headers are over 32 KiB, or over 64 headers");

impl Modify for Common {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
        say_what_goes_together(components);
        // Without a token in the settings, everybody on this machine is an operator.
        document.security =
            Some(vec![SecurityRequirement::new("token", Vec::<String>::new()), SecurityRequirement::default()]);
        for (path, item) in &mut document.paths.paths {
            let of_one = path.contains("{id}");
            for (changes, operation) in operations(item) {
                let own = [
                    (of_one && !path.ends_with("/audit"), UNKNOWN),
                    (of_one && changes, CONFLICT),
                    (path == "/ops/outbox/replay", HISTORY_GONE),
                    (path.ends_with("/payload"), NOT_SHOWN),
                    (path.ends_with("/unpark"), NOT_ASKED),
                ];
                let own = own.into_iter().filter_map(|(applies, refusal)| applies.then_some(refusal));
                let of_change = CHANGE.iter().filter(|_| changes);
                for (status, description) in ANY.iter().chain(of_change).copied().chain(own) {
                    operation.responses.responses.insert(status.to_owned(), RefOr::T(refusal(status, description)));
                }
                let (status, description) = HEAD_TOO_LARGE;
                operation.responses.responses.insert(status.to_owned(), RefOr::T(Response::new(description)));
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

fn refusal(status: &str, description: &str) -> Response {
    let problem = Ref::from_schema_name("ProblemDetails");
    let content = ContentBuilder::new().schema(Some(problem)).build();
    let response = ResponseBuilder::new().description(description).content("application/problem+json", content);
    let headers: &[&str] = match status {
        "401" => &["WWW-Authenticate"],
        "415" => &["Accept", "Accept-Encoding"],
        "429" => &["Retry-After"],
        _ => &[],
    };
    headers.iter().fold(response, |response, name| response.header(*name, Header::default())).build()
}

/// What the fields cannot say one by one: which of them go together.
fn say_what_goes_together(components: &mut Components) {
    let is = Object::with_type::<Type>;
    let only_true = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true])).build();
    let not_true = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Boolean, Type::Null]))
        .enum_values(Some([Value::Bool(false), Value::Null]))
        .build();
    let many = OneOfBuilder::new()
        .item(said("events", is(Type::Array), &["filter", "all", "after"]))
        .item(said("filter", is(Type::Object), &["events", "all"]))
        .item(said("all", only_true.clone(), &["events", "filter"]));
    let replay = OneOfBuilder::new().item(said("events", is(Type::Array), &["filter", "after"])).item(said(
        "filter",
        is(Type::Object),
        &["events"],
    ));
    let pause = OneOfBuilder::new()
        .item(said("everything", only_true, &["aggregateType"]))
        .item(said("aggregateType", is(Type::String), &[]).property("everything", not_true));
    let texts = ["aggregateType", "aggregateId", "eventType", "class"].map(|field| said(field, is(Type::String), &[]));
    let filter = texts.into_iter().chain([said("olderThanSeconds", is(Type::Integer), &[])]);
    let filter = filter.fold(AnyOfBuilder::new(), AnyOfBuilder::item);
    let range = ["aggregateType", "aggregateId", "eventType", "publishedFrom", "publishedUntil", "from", "to"];
    let range = range.into_iter().map(|field| said(field, is(Type::String), &[]));
    let range = range.fold(AnyOfBuilder::new(), AnyOfBuilder::item);
    let nobody = ObjectBuilder::new().property("consumer", is(Type::Null));
    let unpark = AnyOfBuilder::new().item(said("discard", is(Type::String), &[])).item(nobody);
    let together: [(&str, RefOr<Schema>); 6] = [
        ("ManyRequest", many.into()),
        ("ReplayRequest", replay.into()),
        ("PauseRequest", pause.into()),
        ("UnparkRequest", unpark.into()),
        ("FilterRequest", filter.into()),
        ("ReplayFilterRequest", range.into()),
    ];
    for (name, condition) in together {
        if let Some(fields) = components.schemas.remove(name) {
            let both = AllOfBuilder::new().item(fields).item(condition);
            components.schemas.insert(name.to_owned(), both.into());
        }
    }
}

/// An object with a value in one field and none in others.
fn said(field: &'static str, value: impl Into<RefOr<Schema>>, absent: &[&'static str]) -> ObjectBuilder {
    let object = ObjectBuilder::new().required(field).property(field, value);
    absent.iter().fold(object, |object, name| object.property(*name, Object::with_type(Type::Null)))
}

pub(super) fn status_schema() -> Object {
    one_of(OutboxEventStatus::ALL.map(OutboxEventStatus::as_str))
}

pub(super) fn class_schema() -> Object {
    one_of(FailureClass::ALL.map(FailureClass::as_str))
}

pub(super) fn optional_class_schema() -> Object {
    one_of_or_null(FailureClass::ALL.map(FailureClass::as_str))
}

pub(super) fn optional_history_schema() -> Object {
    one_of_or_null(SettledHistory::ALL.map(SettledHistory::as_str))
}

/// Events by their ids.
pub(super) fn events_schema() -> RefOr<Schema> {
    ArrayBuilder::new().items(event_schema()).into()
}

/// The events that a request names, if it names any.
pub(super) fn named_events_schema() -> RefOr<Schema> {
    named_events(SchemaType::from_iter([Type::Array, Type::Null]))
}

/// The events that a request must name.
pub(super) fn required_events_schema() -> RefOr<Schema> {
    named_events(SchemaType::new(Type::Array))
}

fn named_events(schema_type: SchemaType) -> RefOr<Schema> {
    ArrayBuilder::new()
        .schema_type(schema_type)
        .description(Some("these events"))
        .items(event_schema())
        .min_items(Some(1))
        .max_items(Some(change::MOST_NAMED))
        .into()
}

fn event_schema() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::Custom("uuid".to_owned()))).into()
}

pub(super) fn action_schema() -> Object {
    one_of(EventAction::ALL.map(EventAction::as_str))
}

fn one_of_or_null<const N: usize>(names: [&'static str; N]) -> Object {
    let type_or_null = SchemaType::from_iter([Type::String, Type::Null]);
    let names = names.map(Value::from).into_iter().chain([Value::Null]);
    ObjectBuilder::new().schema_type(type_or_null).enum_values(Some(names)).build()
}

/// The names come from the core, where they exist once.
fn one_of<const N: usize>(names: [&'static str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

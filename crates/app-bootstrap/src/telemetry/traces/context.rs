//! The context of a trace as it travels: `traceparent` and `tracestate` (W3C Trace Context).

use std::collections::{BTreeMap, HashMap};

use application_core::outbox::{EventHeaders, headers::TRACEPARENT};
use axum::http::HeaderMap;
use opentelemetry::{Context, propagation::TextMapPropagator, trace::TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

const TRACESTATE: &str = "tracestate";
/// The longest `tracestate` that is passed on, in bytes: the standard wants so many to be carried. What a client sends must
/// not fill the headers of events, and with them those of messages and webhooks.
const MAX_TRACESTATE_BYTES: usize = 512;
/// The field of a span that log lines show.
const TRACE_ID: &str = "trace_id";

/// The two headers, as far as they are there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TraceContext(HashMap<String, String>);

impl TraceContext {
    /// What a request brings. A `traceparent` that is repeated is dropped, as the standard asks.
    pub(super) fn of_request(headers: &HeaderMap) -> Self {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else { return Self::default() };
        let Ok(parent) = parent.to_str() else { return Self::default() };
        let states = headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok());
        let state = states.collect::<Vec<_>>().join(",");
        Self::of([(TRACEPARENT, parent), (TRACESTATE, state.as_str())])
    }

    /// What an event or a message carries.
    pub(super) fn of_event(headers: &EventHeaders) -> Self {
        let texts = [TRACEPARENT, TRACESTATE].map(|name| (name, headers.get(name).unwrap_or_default()));
        Self::of(texts)
    }

    /// The span's own; `None`: it belongs to no trace, because nothing exports here.
    pub(super) fn of_span(span: &Span) -> Option<Self> {
        let mut texts = HashMap::new();
        TraceContextPropagator::new().inject_context(&span.context(), &mut texts);
        texts.retain(|_, text| !text.is_empty());
        texts.contains_key(TRACEPARENT).then_some(Self(texts))
    }

    fn of<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let fits = |name: &str, text: &str| name != TRACESTATE || text.len() <= MAX_TRACESTATE_BYTES;
        let present = texts.into_iter().filter(|&(name, text)| !text.is_empty() && fits(name, text));
        Self(present.map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    /// Makes a span that has not begun the child of this context, or else the root of a new trace, and shows the trace in
    /// its field [`TRACE_ID`].
    pub(super) fn continue_in(&self, span: &Span) {
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &self.0);
        // An error means that nothing exports here.
        if span.set_parent(parent).is_ok() {
            let context = span.context();
            let trace = context.span().span_context().trace_id();
            span.record(TRACE_ID, field::display(trace));
        }
    }

    /// An event's headers with this context in the place of theirs.
    pub(super) fn in_place_of_that_in(&self, headers: &EventHeaders) -> BTreeMap<String, String> {
        let others = headers.iter().filter(|(name, _)| ![TRACEPARENT, TRACESTATE].contains(name));
        let others = others.map(|(name, text)| (name.to_owned(), text.to_owned()));
        others.chain(self.0.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(texts: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, text) in texts {
            headers.append(name, HeaderValue::from_static(text));
        }
        headers
    }

    #[test]
    fn a_request_brings_one_parent_and_any_number_of_states() {
        let brought =
            TraceContext::of_request(&headers(&[(TRACESTATE, "a=1"), (TRACEPARENT, PARENT), (TRACESTATE, "b=2")]));
        assert_eq!(brought, TraceContext::of([(TRACEPARENT, PARENT), (TRACESTATE, "a=1,b=2")]));
        let repeated = headers(&[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT)]);
        assert_eq!(TraceContext::of_request(&repeated), TraceContext::default());
        assert_eq!(TraceContext::of_request(&headers(&[(TRACESTATE, "a=1")])), TraceContext::default());
    }

    #[test]
    fn a_tracestate_over_the_bound_is_left_out_and_the_trace_goes_on() {
        let of = |bytes: usize| {
            let state = format!("a={}", "x".repeat(bytes - 2));
            (TraceContext::of([(TRACEPARENT, PARENT), (TRACESTATE, state.as_str())]), state)
        };
        let (longest, state) = of(MAX_TRACESTATE_BYTES);
        assert_eq!(longest.0.get(TRACESTATE), Some(&state));
        let (longer, _) = of(MAX_TRACESTATE_BYTES + 1);
        assert_eq!(longer, TraceContext::of([(TRACEPARENT, PARENT)]));
    }

    #[test]
    fn a_context_replaces_the_one_that_an_event_has_and_nothing_else() {
        let own = [(TRACEPARENT, "00-1-2-01"), (TRACESTATE, "a=1"), ("tenant", "acme")];
        let own = EventHeaders::from_stored(own.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        let headers = TraceContext::of([(TRACEPARENT, PARENT)]).in_place_of_that_in(&own);
        let headers: Vec<_> = headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(headers, [("tenant", "acme"), (TRACEPARENT, PARENT)]);
    }
}

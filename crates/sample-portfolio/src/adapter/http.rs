//! HTTP: the routes of this module, from request to use case and back.
//!
//! Every answer that is no success is a problem document (RFC 9457), also for paths and methods that do not exist here.

mod body;
mod problem;
mod request;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use axum::{
    Json, Router,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{ETAG, LOCATION},
    },
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use uuid::Uuid;

use self::{
    body::{CompleteBody, CreateBody, MinutesBody, PageBody, ReceiptBody, WorkLogBody},
    problem::Problem,
    request::{JsonBody, NoQuery, PageQuery, idempotency_key, target, traceparent},
};
use crate::{
    application::{
        CancelWorkLogUseCase, CompleteWorkLogUseCase, CreateWorkLogUseCase, CreatedWorkLog, GetPortfolioMinutesUseCase,
        GetWorkLogUseCase, ListWorkLogsUseCase, StartWorkLogUseCase,
    },
    domain::{PortfolioId, Version, WorkLogId},
    ports::WorkLogReceipt,
};

/// The largest request body, in bytes: a title of 200 characters, escaped, and room to spare.
const MAX_BODY_BYTES: usize = 16 * 1024;
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The driving ports that the routes call. The transaction's type stops behind them.
#[derive(Clone)]
pub struct WorkLogUseCases {
    /// Reserves work.
    pub create: Arc<dyn CreateWorkLogUseCase>,
    /// Begins reserved work.
    pub start: Arc<dyn StartWorkLogUseCase>,
    /// Ends started work.
    pub complete: Arc<dyn CompleteWorkLogUseCase>,
    /// Gives work up.
    pub cancel: Arc<dyn CancelWorkLogUseCase>,
    /// Reads one work log.
    pub get: Arc<dyn GetWorkLogUseCase>,
    /// Reads pages of work logs.
    pub list: Arc<dyn ListWorkLogsUseCase>,
    /// Reads the sums of a portfolio.
    pub minutes: Arc<dyn GetPortfolioMinutesUseCase>,
}

impl fmt::Debug for WorkLogUseCases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkLogUseCases").finish_non_exhaustive()
    }
}

/// The routes under `/portfolios`, to be merged into the process's own; it sets no fallback outside of them.
pub fn router(use_cases: WorkLogUseCases) -> Router {
    let routes = Router::new()
        .route("/{portfolio_id}/work-logs", post(create).get(list))
        .route("/{portfolio_id}/work-logs/{work_log_id}", get(get_one))
        .route("/{portfolio_id}/work-logs/{work_log_id}/start", post(start))
        .route("/{portfolio_id}/work-logs/{work_log_id}/complete", post(complete))
        .route("/{portfolio_id}/work-logs/{work_log_id}/cancel", post(cancel))
        .route("/{portfolio_id}/minutes", get(minutes))
        .fallback(async || Problem::no_such_route())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(use_cases);
    // Nesting leaves out the one path that ends in the prefix and a slash.
    let slash = any(async || Problem::no_such_route());
    Router::new().route("/portfolios/", slash).nest("/portfolios", routes)
}

type PathOf<T> = Result<Path<T>, PathRejection>;
type BodyOf<T> = Result<JsonBody<T>, Problem>;

async fn create(
    State(use_cases): State<WorkLogUseCases>,
    _: NoQuery,
    portfolio: PathOf<Uuid>,
    headers: HeaderMap,
    body: BodyOf<CreateBody>,
) -> Result<Response, Problem> {
    let Path(portfolio) = portfolio?;
    let key = idempotency_key(&headers)?;
    let JsonBody(body) = body?;
    let command = body.into_command(PortfolioId::new(portfolio), key, traceparent(&headers))?;
    let CreatedWorkLog { receipt, replayed } = use_cases.create.execute(command).await?;
    let location = format!("/portfolios/{}/work-logs/{}", receipt.portfolio, receipt.id);
    let mut response = (StatusCode::CREATED, [(LOCATION, location)], receipt_answer(&receipt)).into_response();
    if replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn start(
    State(use_cases): State<WorkLogUseCases>,
    _: NoQuery,
    path: PathOf<(Uuid, Uuid)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let receipt = use_cases.start.execute(target(path?, &headers)?).await?;
    Ok(receipt_answer(&receipt).into_response())
}

async fn complete(
    State(use_cases): State<WorkLogUseCases>,
    _: NoQuery,
    path: PathOf<(Uuid, Uuid)>,
    headers: HeaderMap,
    body: BodyOf<CompleteBody>,
) -> Result<Response, Problem> {
    let target = target(path?, &headers)?;
    let JsonBody(body) = body?;
    let receipt = use_cases.complete.execute(target, body.spent()?).await?;
    Ok(receipt_answer(&receipt).into_response())
}

async fn cancel(
    State(use_cases): State<WorkLogUseCases>,
    _: NoQuery,
    path: PathOf<(Uuid, Uuid)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let receipt = use_cases.cancel.execute(target(path?, &headers)?).await?;
    Ok(receipt_answer(&receipt).into_response())
}

async fn get_one(
    State(use_cases): State<WorkLogUseCases>,
    _: NoQuery,
    path: PathOf<(Uuid, Uuid)>,
) -> Result<Response, Problem> {
    let Path((portfolio, id)) = path?;
    let (portfolio, id) = (PortfolioId::new(portfolio), WorkLogId::new(id));
    let found = use_cases.get.execute(portfolio, id).await?;
    let state = found.ok_or_else(|| Problem::no_such_work_log(portfolio, id))?;
    Ok(([(ETAG, etag(state.version))], Json(WorkLogBody::from(&state))).into_response())
}

async fn list(
    State(use_cases): State<WorkLogUseCases>,
    portfolio: PathOf<Uuid>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let (Path(portfolio), Query(query)) = (portfolio?, query?);
    let page = use_cases.list.execute(PortfolioId::new(portfolio), query.after(), query.size()?).await?;
    Ok(Json(PageBody::from(&page)).into_response())
}

async fn minutes(
    State(use_cases): State<WorkLogUseCases>,
    _: NoQuery,
    portfolio: PathOf<Uuid>,
) -> Result<Response, Problem> {
    let Path(portfolio) = portfolio?;
    let portfolio = PortfolioId::new(portfolio);
    let sums = use_cases.minutes.execute(portfolio).await?;
    Ok(Json(MinutesBody::new(portfolio, &sums)).into_response())
}

fn receipt_answer(receipt: &WorkLogReceipt) -> impl IntoResponse + use<> {
    ([(ETAG, etag(receipt.version))], Json(ReceiptBody::from(receipt)))
}

/// The version as an entity tag, which a client sends back in `If-Match`.
fn etag(version: Version) -> String {
    format!("\"{version}\"")
}

//! The check of every run that publishes: nothing lost, nothing repeated, everything in order.

use application_core::outbox::EventId;
use system_tests::tally::Tally;
use test_support::checker::DeliveryChecker;

use crate::error::BenchError;

/// Compares what arrived, in the order of arrival, with what the database says was committed.
///
/// # Errors
/// [`BenchError::Wrong`]: nothing here allows a duplicate, for nothing is killed and no lease runs out.
pub(crate) async fn check(
    what: &str,
    database_url: &str,
    arrived: impl IntoIterator<Item = EventId>,
) -> Result<(), BenchError> {
    let checker = DeliveryChecker::new();
    Tally::connect(database_url).await?.tell(&checker).await?;
    for event in arrived {
        checker.delivered(event);
    }
    let report = checker.report();
    if report.committed == 0 {
        return Err(BenchError::Unsound(format!("{what}: nothing was committed, so nothing was checked")));
    }
    if report.is_clean() {
        return Ok(());
    }
    Err(BenchError::Wrong { what: what.to_owned(), report: Box::new(report) })
}

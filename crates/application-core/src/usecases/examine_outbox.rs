//! Use case: the doctor's round over everything that must not be.

use std::{error::Error, fmt, sync::Arc};

use crate::{
    outbox::Attribution,
    ports::{Finding, LaneRepairPort, OutboxCheckPort, StoreError},
};

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The check's name.
    pub check: &'static str,
    /// What it found; empty: all is well, unless it is forbidden.
    pub findings: Vec<Finding>,
    /// The database does not let this user look, so that nothing is known. Whether it should is what the check of
    /// permissions says.
    pub forbidden: bool,
}

/// Runs the checks, and has the lanes rebuilt on demand.
pub struct ExamineOutboxUseCase {
    checks: Vec<Arc<dyn OutboxCheckPort>>,
    lanes: Arc<dyn LaneRepairPort>,
}

impl ExamineOutboxUseCase {
    /// Puts the ports together; the checks are made in this order.
    #[must_use]
    pub fn new(checks: Vec<Arc<dyn OutboxCheckPort>>, lanes: Arc<dyn LaneRepairPort>) -> Self {
        Self { checks, lanes }
    }

    /// Makes every check. One that cannot be made is a finding and hides none of the others; one that this process's user
    /// may not make is none.
    pub async fn examine(&self) -> Vec<Diagnosis> {
        let mut diagnoses = Vec::new();
        for check in &self.checks {
            let (findings, forbidden) = match check.look().await {
                Ok(findings) => (findings, false),
                Err(StoreError::Forbidden { .. }) => (Vec::new(), true),
                Err(error) => (vec![not_made(check.name(), &error)], false),
            };
            diagnoses.push(Diagnosis { check: check.name(), findings, forbidden });
        }
        diagnoses
    }

    /// Builds the lanes anew, with the relays stopped; returns the number of lanes that were touched, none if all are right.
    ///
    /// # Errors
    /// [`StoreError::Refused`] while a relay holds a lease; other [`StoreError`]s.
    pub async fn repair_lanes(&self, by: &Attribution) -> Result<u64, StoreError> {
        tracing::info!("the lanes are being compared with the open events; appends wait until they are right");
        let lanes = self.lanes.repair_lanes(by).await?;
        if lanes > 0 {
            tracing::warn!(lanes, operator = by.operator.as_str(), "an operator had the lanes rebuilt");
        }
        Ok(lanes)
    }
}

fn not_made(check: &str, error: &StoreError) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Finding {
        problem: format!("the check could not be made: {error}{cause}"),
        subject: check.to_owned(),
        cure: "see to the error, then look again".to_owned(),
    }
}

impl fmt::Debug for ExamineOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExamineOutboxUseCase").field("checks", &self.checks.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{MockLaneRepairPort, MockOutboxCheckPort};

    fn check(name: &'static str, answer: Result<Vec<Finding>, StoreError>) -> Arc<dyn OutboxCheckPort> {
        let mut check = MockOutboxCheckPort::new();
        check.expect_name().return_const(name);
        check.expect_look().times(1).return_once(|| answer);
        Arc::new(check)
    }

    #[tokio::test]
    async fn a_check_that_cannot_be_made_is_a_finding_and_hides_no_other() {
        let finding =
            Finding { problem: "broken".to_owned(), subject: "a thing".to_owned(), cure: "mend it".to_owned() };
        let checks = vec![
            check("refused", Err(StoreError::Refused { source: "no such view".into() })),
            check("sound", Ok(Vec::new())),
            check("broken", Ok(vec![finding.clone()])),
        ];
        let diagnoses = ExamineOutboxUseCase::new(checks, Arc::new(MockLaneRepairPort::new())).examine().await;
        let names: Vec<_> = diagnoses.iter().map(|diagnosis| (diagnosis.check, diagnosis.findings.len())).collect();
        assert_eq!(names, [("refused", 1), ("sound", 0), ("broken", 1)]);
        assert!(diagnoses[0].findings[0].problem.ends_with("no such view"), "{diagnoses:?}");
        assert_eq!(diagnoses[2].findings, [finding]);
    }

    #[tokio::test]
    async fn a_check_that_the_user_may_not_make_is_told_and_is_no_finding() {
        let checks = vec![
            check("secret", Err(StoreError::Forbidden { source: "permission denied".into() })),
            check("sound", Ok(Vec::new())),
        ];
        let diagnoses = ExamineOutboxUseCase::new(checks, Arc::new(MockLaneRepairPort::new())).examine().await;
        let told: Vec<_> = diagnoses.iter().map(|told| (told.check, told.findings.len(), told.forbidden)).collect();
        assert_eq!(told, [("secret", 0, true), ("sound", 0, false)]);
    }
}

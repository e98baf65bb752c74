//! Use case: an operator looks at what consumers have handled and parked, and changes it.

use std::{fmt, sync::Arc};

use crate::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, Attribution, EventId},
    ports::{ConsumerName, GiveUp, InboxOperationsPort, StoreError, UnparkRequestError, UnparkRequestPort},
};

/// An action of an operator on an inbox that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum OperateInboxError {
    /// The store failed.
    #[error("the inbox could not be read or changed")]
    Store {
        /// Why.
        #[from]
        source: StoreError,
    },
    /// The consumer was not asked; that somebody wanted it is recorded.
    #[error(transparent)]
    Unpark(#[from] UnparkRequestError),
}

/// What was found under a consumer's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfConsumer<T> {
    /// It.
    pub found: T,
    /// If nothing at all is recorded under the name: those names under which something is, for the asked one may be
    /// mistyped.
    pub known_instead: Option<Vec<String>>,
}

/// Looks at inboxes and acts on them.
pub struct OperateInboxUseCase {
    inbox: Arc<dyn InboxOperationsPort>,
    requests: Arc<dyn UnparkRequestPort>,
    unordered: bool,
}

impl OperateInboxUseCase {
    /// Puts the ports together; consumers keep the order of aggregates.
    #[must_use]
    pub const fn new(inbox: Arc<dyn InboxOperationsPort>, requests: Arc<dyn UnparkRequestPort>) -> Self {
        Self { inbox, requests, unordered: false }
    }

    /// Says whether consumers park messages without a mark for their aggregate, so that an unpark is always asked for.
    #[must_use]
    pub const fn unordered(mut self, unordered: bool) -> Self {
        self.unordered = unordered;
        self
    }

    /// Lets the consumer forget that it handled these events, so that a replay has its effect again; gives how many it had
    /// handled.
    ///
    /// # Errors
    /// [`OperateInboxError::Store`]; what was forgotten before stays so.
    pub async fn forget(
        &self,
        consumer: &ConsumerName,
        events: &[EventId],
        by: &Attribution,
    ) -> Result<OfConsumer<u64>, OperateInboxError> {
        let found = self.inbox.forget(consumer, events, by).await?;
        let known_instead = if found == 0 { self.known_instead_of(consumer).await? } else { None };
        Ok(OfConsumer { found, known_instead })
    }

    /// The aggregates whose messages the consumer has parked, longest first; at most `limit`.
    ///
    /// # Errors
    /// [`OperateInboxError::Store`].
    pub async fn parked(
        &self,
        consumer: &ConsumerName,
        limit: u32,
    ) -> Result<OfConsumer<Vec<ParkedAggregate>>, OperateInboxError> {
        let found = self.inbox.list_parked(consumer, limit).await?;
        let known_instead = if found.is_empty() { self.known_instead_of(consumer).await? } else { None };
        Ok(OfConsumer { found, known_instead })
    }

    /// Asks the running consumer to handle the aggregate's parked messages in order, `discard` to be given up; it acts on
    /// that later. Gives for how many consumers the aggregate is parked; if it is for none, nothing is recorded or asked for.
    /// The record comes first, so that nothing is asked for without one.
    ///
    /// With `unmarked` it is asked for all the same: messages may be parked whose mark was lost, by a restore of the database
    /// for example.
    ///
    /// # Errors
    /// [`OperateInboxError`].
    pub async fn unpark(
        &self,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        discard: Option<GiveUp>,
        unmarked: bool,
        by: &Attribution,
    ) -> Result<u64, OperateInboxError> {
        let unmarked = unmarked || self.unordered;
        let parked = self.inbox.record_unpark(aggregate_type, aggregate_id, discard.clone(), unmarked, by).await?;
        if parked > 0 {
            self.requests.request(aggregate_type, aggregate_id, discard).await?;
        }
        Ok(parked)
    }

    async fn known_instead_of(&self, consumer: &ConsumerName) -> Result<Option<Vec<String>>, StoreError> {
        let known = self.inbox.consumers().await?;
        Ok((!known.iter().any(|name| name == consumer.as_str())).then_some(known))
    }
}

impl fmt::Debug for OperateInboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperateInboxUseCase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mockall::Sequence;

    use super::*;
    use crate::{
        outbox::OperatorName,
        ports::{MockInboxOperationsPort, MockUnparkRequestPort},
    };

    fn zoe() -> Attribution {
        Attribution { operator: OperatorName::try_new("zoe").unwrap(), reason: None }
    }

    #[tokio::test]
    async fn whether_a_name_has_records_is_told_only_where_nothing_was_found() {
        for (found, known, expected) in [
            (1, vec!["minutes"], None),
            (0, vec!["minuets", "minutes"], None),
            (0, vec!["minuets"], Some(vec!["minuets".to_owned()])),
            (0, vec![], Some(vec![])),
        ] {
            let mut inbox = MockInboxOperationsPort::new();
            inbox.expect_forget().returning(move |_, _, _| Ok(found));
            let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
            inbox.expect_consumers().times(usize::from(found == 0)).returning(move || Ok(known.clone()));
            let operate = OperateInboxUseCase::new(Arc::new(inbox), Arc::new(MockUnparkRequestPort::new()));
            let forgotten = operate.forget(&ConsumerName::new("minutes"), &[], &zoe()).await.unwrap();
            assert_eq!(forgotten, OfConsumer { found, known_instead: expected });
        }
    }

    #[tokio::test]
    async fn an_unpark_is_recorded_before_it_is_asked_for_and_not_asked_for_without_a_record() {
        let (kind, id) = (AggregateType::from_stored("order"), AggregateId::from_stored("42"));
        let mut order = Sequence::new();
        let (mut inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
        inbox.expect_record_unpark().times(1).in_sequence(&mut order).returning(|_, _, _, _, _| Ok(2));
        requests
            .expect_request()
            .times(1)
            .in_sequence(&mut order)
            .returning(|_, _, _| Err(UnparkRequestError { source: "the broker is away".into() }));
        let operate = OperateInboxUseCase::new(Arc::new(inbox), Arc::new(requests));
        let error = operate.unpark(&kind, &id, None, false, &zoe()).await.unwrap_err();
        assert!(matches!(error, OperateInboxError::Unpark(_)), "{error}");

        for record in [Ok(0), Err(StoreError::Unavailable { source: "away".into() })] {
            let (mut inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
            let is_known = record.is_ok();
            inbox.expect_record_unpark().return_once(|_, _, _, _, _| record);
            requests.expect_request().never();
            let operate = OperateInboxUseCase::new(Arc::new(inbox), Arc::new(requests));
            match operate.unpark(&kind, &id, None, false, &zoe()).await {
                Ok(parked) => assert_eq!((parked, is_known), (0, true)),
                Err(error) => assert!(matches!(error, OperateInboxError::Store { .. }) && !is_known, "{error}"),
            }
        }
    }

    #[tokio::test]
    async fn where_messages_may_be_parked_without_a_mark_the_store_is_told_so() {
        let (kind, id) = (AggregateType::from_stored("order"), AggregateId::from_stored("42"));
        for (unordered, asked) in [(false, false), (true, false), (false, true)] {
            let unmarked = unordered || asked;
            let (mut inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
            inbox
                .expect_record_unpark()
                .withf(move |_, _, _, told, _| *told == unmarked)
                .returning(|_, _, _, unmarked, _| Ok(u64::from(unmarked)));
            requests.expect_request().times(usize::from(unmarked)).returning(|_, _, _| Ok(()));
            let operate = OperateInboxUseCase::new(Arc::new(inbox), Arc::new(requests)).unordered(unordered);
            let parked = operate.unpark(&kind, &id, None, asked, &zoe()).await.unwrap();
            assert_eq!(parked, u64::from(unmarked));
        }
    }
}

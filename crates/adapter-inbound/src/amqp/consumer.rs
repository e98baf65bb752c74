//! The consumer: subscribes again and again until it is stopped.

use std::{fmt, sync::Arc};

use application_core::{
    SettingProblem,
    ports::{Clock, ConsumerName, ParkingPort, Random, with_causes},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    handle::HandleMessage,
    observer::{ConsumerObserver, ConsumerSignal},
    park::Parker,
    pauses::{Pauses, sleep},
    readiness::{ConsumerReadiness, State},
    session::{Session, SessionEnd},
    settings::{ConsumerSettings, InvalidConsumerSettings},
    store::{Store, names},
    work::Worker,
};

/// What a consumer is made of, besides its settings.
pub struct ConsumerParts {
    /// The use case with its handler.
    pub handler: Arc<dyn HandleMessage>,
    /// Further ones that hear the messages of the same queue. Each has a name of its own, and with it an inbox, tries and
    /// parked aggregates of its own.
    pub others: Vec<Arc<dyn HandleMessage>>,
    /// The record of parked aggregates.
    pub parking: Arc<dyn ParkingPort>,
    /// Delays and lag.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub random: Arc<dyn Random>,
    /// Metrics.
    pub observer: Arc<dyn ConsumerObserver>,
}

impl fmt::Debug for ConsumerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: Vec<_> = self.others.iter().map(|handler| handler.consumer()).collect();
        let mut parts = f.debug_struct("ConsumerParts");
        parts.field("consumer", self.handler.consumer()).field("others", &others).finish_non_exhaustive()
    }
}

/// Consumes one queue with one handler or several, one after the other.
///
/// # Delivery
/// See the module's page: at least once from the broker, one effect per consumer name, in order per aggregate.
pub struct AmqpConsumer {
    worker: Arc<Worker>,
}

impl AmqpConsumer {
    /// Checks the settings and puts the parts together; nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidConsumerSettings`] with every problem: of the settings, of as many handlers under them, and of two handlers of
    /// one name, each of which would take what the other has handled for handled.
    pub fn try_new(settings: ConsumerSettings, parts: ConsumerParts) -> Result<Self, InvalidConsumerSettings> {
        let ConsumerParts { handler, mut others, parking, clock, random, observer } = parts;
        others.insert(0, handler);
        let handlers = others;
        let consumers: Vec<_> = handlers.iter().map(|handler| handler.consumer().clone()).collect();
        let mut problems = settings.problems_with(consumers.len());
        problems.extend(named_twice(&consumers));
        let backoff = match settings.backoff() {
            Ok(backoff) if problems.is_empty() => backoff,
            _ => return Err(InvalidConsumerSettings { problems }),
        };
        let consumer = names(&consumers);
        let store = Store::new(
            consumers,
            parking,
            Arc::clone(&clock),
            Arc::clone(&random),
            Arc::clone(&observer),
            settings.outage.clone(),
        );
        let parker = Parker::new(&settings);
        let slots = Semaphore::new(usize::from(settings.concurrency));
        let readiness = ConsumerReadiness::new();
        let unparking = tokio::sync::Mutex::new(());
        let worker = Worker {
            settings,
            backoff,
            consumer,
            handlers,
            store,
            parker,
            readiness,
            slots,
            unparking,
            clock,
            random,
            observer,
        };
        Ok(Self { worker: Arc::new(worker) })
    }

    /// Whether the consumer is subscribed and can park what it cannot handle.
    #[must_use]
    pub fn readiness(&self) -> Arc<ConsumerReadiness> {
        Arc::new(self.worker.readiness.clone())
    }

    /// Consumes until `stop`; whatever is lost meanwhile is connected anew, with growing pauses.
    ///
    /// Nothing is ever given up here: a wrong password, too, is tried again, and readiness says why.
    ///
    /// # Delivery
    /// At the stop, running tries end within the grace and are acknowledged; everything else goes back to the queue.
    ///
    /// # Cancellation
    /// Dropping the call drops running handlers, whose transactions are rolled back; their messages are delivered again.
    pub async fn run(&self, stop: CancellationToken) {
        let worker = &self.worker;
        let (mut pauses, mut told) = (Pauses::new(&worker.settings.outage), false);
        while !stop.is_cancelled() {
            let started = worker.clock.monotonic();
            let Some(reason) = self.session(&stop, &mut told).await else { break };
            if worker.clock.monotonic().saturating_sub(started) > worker.settings.outage.longest_pause {
                pauses.reset();
            }
            worker.readiness.set(State::Not(reason.clone()));
            let pause = pauses.draw(&*worker.random);
            // One line an outage: the reason of the moment is the readiness check's to tell.
            if std::mem::replace(&mut told, true) {
                tracing::debug!(consumer = %worker.consumer, reason, ?pause, "still not consuming");
            } else {
                tracing::warn!(consumer = %worker.consumer, reason, "not consuming; connecting again until it succeeds");
            }
            if sleep(&*worker.clock, pause, &stop).await.is_none() {
                break;
            }
        }
        worker.readiness.set(State::Not("stopped".to_owned()));
        worker.parker.close().await;
        tracing::info!(consumer = %worker.consumer, "the consumer stopped");
    }

    /// One subscription; gives the reason of its end, or nothing when the stop was asked for. Once it stands, it says so,
    /// and the next outage is not `told` yet.
    async fn session(&self, stop: &CancellationToken, told: &mut bool) -> Option<String> {
        let worker = &self.worker;
        let opening = async {
            // Without a parking queue, the first message that cannot be handled would hold up everything behind it.
            worker.parker.prepare().await?;
            Session::open(&worker.settings).await
        };
        let mut session = match stop.run_until_cancelled(opening).await? {
            Ok(session) => session,
            Err(error) => return Some(with_causes(&error)),
        };
        tracing::info!(consumer = %worker.consumer, queue = worker.settings.queue, "consuming");
        *told = false;
        worker.readiness.set(State::Consuming);
        worker.observe_for_all(&ConsumerSignal::Subscribed);
        let lost = match session.consume(worker, stop).await {
            SessionEnd::Stopped => None,
            SessionEnd::Lost(reason) => {
                worker.observe_for_all(&ConsumerSignal::SubscriptionLost);
                Some(reason)
            }
        };
        worker.readiness.set(State::Not(lost.clone().unwrap_or_else(|| "stopping".to_owned())));
        session.finish(worker).await;
        lost
    }
}

/// The names that more than one handler has.
fn named_twice(consumers: &[ConsumerName]) -> Vec<SettingProblem> {
    let mut names = consumers.to_vec();
    names.sort_unstable();
    let problem = |same: &[ConsumerName]| {
        let name = same.first().map_or("", ConsumerName::as_str);
        let value = format!("{name:?} {} times", same.len());
        SettingProblem::new("handlers", value, "each handler must have a name of its own")
    };
    names.chunk_by(|one, next| one == next).filter(|same| same.len() > 1).map(problem).collect()
}

impl fmt::Debug for AmqpConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpConsumer").field("settings", &self.worker.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use application_core::{
        inbox::InboundMessage,
        ports::MockParkingPort,
        usecases::{Handled, HandlerError},
    };
    use async_trait::async_trait;
    use test_support::clock::{FakeClock, SeededRandom};

    use super::*;
    use crate::amqp::{NoConsumerObserver, RetrySettings};

    struct Named(ConsumerName);

    #[async_trait]
    impl HandleMessage for Named {
        fn consumer(&self) -> &ConsumerName {
            &self.0
        }

        fn listens_to(&self, _: &InboundMessage) -> bool {
            true
        }

        async fn handle(&self, _: &InboundMessage) -> Result<Handled, HandlerError> {
            Ok(Handled::Applied)
        }
    }

    /// The problems of a consumer with handlers of these names.
    fn told(settings: ConsumerSettings, names: &[&'static str]) -> Vec<String> {
        let mut handlers: Vec<Arc<dyn HandleMessage>> = Vec::new();
        for &name in names {
            handlers.push(Arc::new(Named(ConsumerName::new(name))));
        }
        let parts = ConsumerParts {
            handler: handlers.remove(0),
            others: handlers,
            parking: Arc::new(MockParkingPort::new()),
            clock: Arc::new(FakeClock::default()),
            random: Arc::new(SeededRandom::default()),
            observer: Arc::new(NoConsumerObserver),
        };
        let problems = AmqpConsumer::try_new(settings, parts).err().map(|invalid| invalid.problems);
        problems.into_iter().flatten().map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn two_handlers_of_one_name_are_refused() {
        let refused = told(ConsumerSettings::default(), &["one", "two", "one"]);
        assert_eq!(refused, ["handlers is \"one\" 2 times, but each handler must have a name of its own"]);
    }

    #[test]
    fn the_waits_of_all_handlers_together_stay_within_the_bound() {
        assert_eq!(told(ConsumerSettings::default(), &["one", "two", "three"]), Vec::<String>::new());
        let minute = Duration::from_mins(1);
        let retry = RetrySettings { tries: 7, floor: minute, base: minute, cap: minute };
        let settings = ConsumerSettings { retry, ..ConsumerSettings::default() };
        assert_eq!(told(settings.clone(), &["one"]), Vec::<String>::new());
        let bound = "the waits of all tries of all handlers together must stay within 10m";
        assert_eq!(told(settings, &["one", "two"]), [format!("retry is 6m long for each of 2 handlers, but {bound}")]);
    }
}

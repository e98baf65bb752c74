//! One destination's channel: opened when needed, driven by one task.
//!
//! Only this task publishes on the channel. The client numbers a message and queues its frames in two steps; two tasks
//! could do so in different orders, and each would then be told the fate of the other's message.

use std::{collections::VecDeque, future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use application_core::outbox::{FailureClass, PublishFailure};
use lapin::{Channel, Confirmation, options::BasicPublishOptions, types::ShortString};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{
    connection::{Link, Live},
    failure::{broker_limit, outcome, words},
    in_flight::InFlight,
    message::Message,
    returns::{Answer, Returns, Sent},
};

/// How many waiting messages are taken at once.
const BATCH: usize = 256;
/// A channel on which nothing was published for this long is closed.
const IDLE: Duration = Duration::from_secs(300);
/// So many confirms that nobody waits for any more, and the channel is replaced.
const MOST_FORGOTTEN: usize = 1_000;
/// AMQP's reply code for an orderly end.
const REPLY_SUCCESS: u16 = 200;

/// A message on its way, and who waits for its fate.
pub(super) struct Request {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) message: Message,
    pub(super) answer: oneshot::Sender<Result<(), PublishFailure>>,
}

type Confirm = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The task.
pub(super) struct ChannelTask {
    link: Arc<Link>,
    open_timeout: Duration,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Taken over and not sent yet, in order.
    waiting: VecDeque<Request>,
    open: Option<Open>,
    in_flight: InFlight<Sent, Confirm>,
    returns: Returns,
}

struct Open {
    live: Arc<Live>,
    channel: Arc<Channel>,
    /// Whether the broker has answered a message on it. Until then messages go one at a time: what the client has
    /// queued when the broker closes a channel is sent on the closed channel, and costs the whole connection.
    proven: bool,
}

impl ChannelTask {
    /// Starts the task for one destination. It ends when the sender is dropped.
    pub(super) fn start(link: Arc<Link>, open_timeout: Duration) -> mpsc::UnboundedSender<Request> {
        let (sender, requests) = mpsc::unbounded_channel();
        let task = Self {
            link,
            open_timeout,
            requests,
            waiting: VecDeque::with_capacity(BATCH),
            open: None,
            in_flight: InFlight::new(),
            returns: Returns::default(),
        };
        tokio::spawn(task.run());
        sender
    }

    async fn run(mut self) {
        let mut taken = Vec::with_capacity(BATCH);
        loop {
            self.send_waiting().await;
            let room = if self.waiting.is_empty() { self.room() } else { 0 };
            let idle = self.open.is_some() && self.in_flight.is_empty();
            tokio::select! {
                biased;
                completed = poll_fn(|cx| self.in_flight.poll_completed(cx)), if !self.in_flight.is_empty() => {
                    self.settle(completed);
                }
                count = self.requests.recv_many(&mut taken, room), if room > 0 => {
                    if count == 0 {
                        break;
                    }
                    self.waiting.extend(taken.drain(..));
                }
                () = sleep(IDLE), if idle => self.close_channel(),
            }
        }
        // Nobody can ask any more; what was asked is still answered.
        while !self.in_flight.is_empty() {
            let completed = poll_fn(|cx| self.in_flight.poll_completed(cx)).await;
            self.settle(completed);
        }
        self.close_channel();
    }

    /// How many messages may be sent now.
    fn room(&self) -> usize {
        match &self.open {
            Some(open) if open.proven => BATCH,
            _ if self.in_flight.is_empty() => 1,
            _ => 0,
        }
    }

    async fn send_waiting(&mut self) {
        while self.room() > 0
            && let Some(request) = self.waiting.pop_front()
        {
            if request.answer.is_closed() {
                continue;
            }
            match self.open_channel().await {
                // The channel may have been replaced: then this message is the first one on it, and the last for now.
                Ok(channel) => self.send(channel, request),
                Err(reason) => {
                    fail(request.answer, &reason);
                    self.fail_waiting(&reason);
                }
            }
        }
    }

    /// The channel, opened if there is none or its connection is gone.
    async fn open_channel(&mut self) -> Result<Arc<Channel>, String> {
        let live = self.link.live()?;
        if let Some(open) = &self.open
            && Arc::ptr_eq(&open.live, &live)
            && open.channel.status().connected()
        {
            return Ok(Arc::clone(&open.channel));
        }
        self.settle_the_last().await;
        let channel = Arc::new(live.open_confirming_channel(self.open_timeout).await?);
        self.open = Some(Open { live, channel: Arc::clone(&channel), proven: false });
        Ok(channel)
    }

    /// Takes in what the client says about the messages of a channel that ended, each of which gets an error.
    async fn settle_the_last(&mut self) {
        while !self.in_flight.is_empty() {
            let last = timeout(self.open_timeout, poll_fn(|cx| self.in_flight.poll_completed(cx)));
            match last.await {
                Ok(completed) => self.settle(completed),
                Err(_) => break,
            }
        }
        self.give_up("the channel was closed");
    }

    fn send(&mut self, channel: Arc<Channel>, request: Request) {
        let Request { exchange, routing_key, message, answer } = request;
        let sent = Sent { id: message.id, bytes: message.body.len(), answer, returned: None };
        let confirm = async move {
            let options = BasicPublishOptions { mandatory: true, immediate: false };
            let confirm = {
                let body = message.body;
                channel.basic_publish(exchange, routing_key, options, &body, message.properties).await?
            };
            confirm.await
        };
        self.in_flight.push(sent, Box::pin(confirm));
    }

    /// Answers whoever waits for these messages.
    fn settle(&mut self, completed: Vec<(Sent, Answer)>) {
        let mut broken = None;
        let nothing_left = self.in_flight.is_empty();
        for (sent, answer) in self.returns.attribute(completed, self.in_flight.tags_mut(), nothing_left) {
            let result = outcome(&answer, sent.returned.as_deref(), sent.bytes);
            match (&answer, &mut self.open) {
                (Ok(Confirmation::Ack(_) | Confirmation::Nack(_)), Some(open)) => open.proven = true,
                (Ok(Confirmation::Ack(_) | Confirmation::Nack(_)), None) => {}
                (Ok(Confirmation::NotRequested), _) => {
                    let error = std::io::Error::other("the channel is not in confirm mode");
                    broken = Some(lapin::Error::from(error));
                }
                (Err(error), _) => broken = Some(error.clone()),
            }
            // Whoever waited may have gone meanwhile.
            let _ = sent.answer.send(result);
        }
        match broken {
            Some(error) => self.channel_broke(&error),
            None => self.forget_the_forgotten(),
        }
    }

    /// The channel or its connection ended: nothing more can be learnt about what was sent on it.
    fn channel_broke(&mut self, error: &lapin::Error) {
        if let Some(limit) = broker_limit(error) {
            tracing::warn!(limit, "the broker takes smaller messages than amqp.max_message_bytes allows");
            if let Some(open) = self.open.take() {
                open.live.lower_limit(limit);
            }
            let answer = Err(error.clone());
            for sent in self.in_flight.drain() {
                let _ = sent.answer.send(outcome(&answer, None, sent.bytes));
            }
            self.give_up("the channel was closed because of another message");
            return;
        }
        let reason = words(error);
        tracing::debug!(reason, "the channel ended");
        let was_proven = self.open.as_ref().is_some_and(|open| open.proven);
        self.give_up(&reason);
        // The broker refuses the destination from the start: those who wait would fare no better.
        if !was_proven {
            self.fail_waiting(&reason);
        }
    }

    /// Replaces a channel whose broker leaves too many messages without an answer.
    fn forget_the_forgotten(&mut self) {
        if self.in_flight.len() < MOST_FORGOTTEN {
            return;
        }
        let forgotten = self.in_flight.tags_mut().filter(|sent| sent.answer.is_closed()).count();
        if forgotten >= MOST_FORGOTTEN {
            self.give_up("the channel was replaced, for the broker left many messages without an answer");
        }
    }

    /// Drops the channel and fails what was sent on it.
    fn give_up(&mut self, reason: &str) {
        for sent in self.in_flight.drain().into_iter().chain(self.returns.drain()) {
            fail(sent.answer, reason);
        }
        self.close_channel();
    }

    fn fail_waiting(&mut self, reason: &str) {
        for request in self.waiting.drain(..) {
            fail(request.answer, reason);
        }
        while let Ok(request) = self.requests.try_recv() {
            fail(request.answer, reason);
        }
    }

    /// Closes the channel in a task of its own: on a blocked connection the answer comes late or never.
    ///
    /// Dropping a channel that is open would make the client close it and, if the broker does the same just then,
    /// take the error for one of the whole connection.
    fn close_channel(&mut self) {
        if let Some(open) = self.open.take()
            && open.channel.status().connected()
        {
            tokio::spawn(async move {
                if let Err(error) = open.channel.close(REPLY_SUCCESS, "not needed any more".into()).await {
                    tracing::trace!(%error, "the channel ended by itself");
                }
            });
        }
    }
}

fn fail(answer: oneshot::Sender<Result<(), PublishFailure>>, reason: &str) {
    let _ = answer.send(Err(PublishFailure::new(FailureClass::Unavailable, reason)));
}

//! The connection to the broker: made, watched and made again by one task.
//!
//! The client's own recovery is off. It would replay channels that a broker has closed for a reason, it gives up after
//! some attempts, and it does not tell the messages of the old connection from those of the new one. Here a lost
//! connection is thrown away whole: what waited for a confirm fails, and the next publish finds a new connection.

use std::{
    fmt, io,
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use application_core::ports::{Availability, Random};
use futures_util::{Stream, StreamExt, future::Either};
use lapin::{
    Channel, Connection, ConnectionProperties, ErrorKind, Event, options::ConfirmSelectOptions, tcp::AsyncTcpStream,
};
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{endpoint::Endpoint, failure::words, settings::AmqpSettings};

/// How often a connection is looked at besides its events.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The client never reuses the number of a channel that the broker closed: with 2,047 numbers a connection, an
/// exchange that stays missing would use them up. Long before that the connection is renewed.
const MOST_CHANNELS_OPENED: u32 = 1_000;
/// For a connection that ended before the broker had said a word of AMQP.
const TLS_PORT: &str = "; if this is the broker's port for TLS, the URL must begin with amqps://";
/// AMQP's reply code for an orderly end.
const REPLY_SUCCESS: u16 = 200;

/// What the task knows; shared with all who publish.
pub(super) struct Link {
    state: watch::Sender<State>,
    stop: watch::Sender<bool>,
    endpoint: Endpoint,
    connection_name: String,
    connect_timeout: Duration,
}

enum State {
    Down { reason: String },
    Up(Arc<Live>),
    Closed,
}

/// A connection that was made.
pub(super) struct Live {
    connection: Connection,
    /// A second handle to the socket. The client writes nothing on a blocked connection, not even its farewell, and
    /// an unfinished handshake cannot be cancelled; shutting the socket down ends both.
    socket: Option<TcpStream>,
    blocked: Mutex<Option<String>>,
    opened: AtomicU32,
    worn: Notify,
    body_limit: AtomicUsize,
}

/// What a message must fit in, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The largest frame; a message's properties must fit in one.
    pub(super) frame: usize,
    /// The largest body, as far as it is known.
    pub(super) body: usize,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("the broker did not accept a connection within {0:?}")]
    Timeout(Duration),
    #[error("TLS cannot be set up: {0}")]
    Tls(io::Error),
    #[error("{}{}", words(.error), .way_out.unwrap_or_default())]
    Client { error: lapin::Error, way_out: Option<&'static str> },
}

impl Link {
    /// Starts the task that keeps a connection. Must be called within a runtime.
    pub(super) fn start(endpoint: Endpoint, settings: &AmqpSettings, random: Arc<dyn Random>) -> Arc<Self> {
        let link = Arc::new(Self {
            state: watch::Sender::new(State::Down { reason: "not connected yet".to_owned() }),
            stop: watch::Sender::new(false),
            endpoint,
            connection_name: settings.connection_name.clone(),
            connect_timeout: settings.connect_timeout,
        });
        let pauses = Pauses::new(settings.reconnect_first_pause, settings.reconnect_longest_pause);
        tokio::spawn(supervise(Arc::clone(&link), pauses, random));
        link
    }

    /// The connection, if messages can be sent over it now; otherwise why not. Without I/O.
    pub(super) fn live(&self) -> Result<Arc<Live>, String> {
        match &*self.state.borrow() {
            State::Down { reason } => Err(reason.clone()),
            State::Closed => Err("the publisher is closed".to_owned()),
            State::Up(live) => live.usable().map(|()| Arc::clone(live)),
        }
    }

    pub(super) fn availability(&self) -> Availability {
        match self.live() {
            Ok(_) => Availability::Available,
            Err(reason) => Availability::Unavailable { reason },
        }
    }

    /// Waits until messages can be sent, or the connection is closed for good.
    ///
    /// # Errors
    /// Why they cannot, when the time is over.
    pub(super) async fn wait_until_up(&self, within: Duration) -> Result<Arc<Live>, String> {
        let waiting = async {
            let mut state = self.state.subscribe();
            // A connection may be blocked, or lost without its task knowing yet: that is no change of the state.
            while self.live().is_err() && !matches!(*state.borrow_and_update(), State::Closed) {
                if let Ok(Err(_closed)) = timeout(LOOK_EVERY / 10, state.changed()).await {
                    break;
                }
            }
        };
        // The answer is read anew, for it tells why there is none.
        let _ = timeout(within, waiting).await;
        self.live()
    }

    pub(super) fn vhost(&self) -> &str {
        self.endpoint.vhost()
    }

    /// Ends the connection in order if the broker answers in time, and by force otherwise.
    pub(super) async fn close(&self, within: Duration) {
        self.stop.send_replace(true);
        let State::Up(live) = self.state.send_replace(State::Closed) else { return };
        if live.usable().is_ok() {
            let farewell = live.connection.close(REPLY_SUCCESS, "the publisher stops".into());
            match timeout(within, farewell).await {
                Ok(Ok(())) => tracing::debug!("the connection to the broker is closed"),
                Ok(Err(error)) => tracing::debug!(%error, "the connection to the broker ended by itself"),
                Err(_) => tracing::warn!("the broker did not answer the farewell in time"),
            }
        }
        live.kill();
    }

    /// Ends the connection by force and lets nobody have another.
    pub(super) fn abandon(&self) {
        self.stop.send_replace(true);
        if let State::Up(live) = self.state.send_replace(State::Closed) {
            live.kill();
        }
    }

    async fn connect(&self) -> Result<Live, ConnectError> {
        let tls = self.endpoint.tls().map_err(ConnectError::Tls)?;
        let slot = Arc::new(Mutex::new(None));
        let (limit, socket) = (self.connect_timeout, Arc::clone(&slot));
        let encrypts = tls.is_some();
        let client = |error: lapin::Error| ConnectError::Client { way_out: way_out(&error, encrypts), error };
        let runtime = lapin::runtime::default_runtime().map_err(client)?;
        let properties = ConnectionProperties::default()
            .with_connection_name(self.connection_name.as_str().into())
            .with_client_property("product".into(), env!("CARGO_PKG_NAME").into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
        let connecting = Connection::connector(
            self.endpoint.uri(),
            runtime,
            async move |uri, runtime| {
                let host = uri.authority.host;
                let address = runtime.to_socket_addrs((host.clone(), uri.authority.port));
                let dialling = async {
                    let stream = AsyncTcpStream::connect(&runtime, address).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        let tcp = plain.get_ref();
                        // An aggregate waits for each of its confirms: small frames must not wait for company.
                        tcp.set_nodelay(true)?;
                        *lock(&socket) = second_handle(tcp);
                    }
                    match &tls {
                        Some(connector) => stream.into_rustls(connector, &host).await,
                        None => Ok(stream),
                    }
                };
                let dialled = timeout(limit, dialling).await;
                dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(lapin::Error::from)
            },
            properties,
        );
        let connected = timeout(self.connect_timeout, Box::pin(connecting)).await;
        let socket = lock(&slot).take();
        match connected {
            Ok(Ok(connection)) => Ok(Live {
                connection,
                socket,
                blocked: Mutex::default(),
                opened: AtomicU32::new(0),
                worn: Notify::new(),
                body_limit: AtomicUsize::new(usize::MAX),
            }),
            Ok(Err(error)) => {
                shut_down(socket.as_ref());
                Err(client(error))
            }
            Err(_) => {
                shut_down(socket.as_ref());
                Err(ConnectError::Timeout(limit))
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Live {
    fn usable(&self) -> Result<(), String> {
        let status = self.connection.status();
        if !status.connected() {
            return Err("the connection to the broker is lost".to_owned());
        }
        if status.blocked() {
            let reason = lock(&self.blocked).clone().unwrap_or_default();
            return Err(format!("the broker blocks publishers: {reason}"));
        }
        Ok(())
    }

    /// What the broker can take on this connection.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            frame: usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX),
            body: self.body_limit.load(Ordering::Relaxed),
        }
    }

    /// Remembers the broker's limit for a body, which it tells only when a message was larger.
    pub(super) fn lower_limit(&self, bytes: usize) {
        self.body_limit.fetch_min(bytes, Ordering::Relaxed);
    }

    /// Opens a channel for publishing. It is in confirm mode: without, every message would count as sent.
    pub(super) async fn open_confirming_channel(&self, within: Duration) -> Result<Channel, String> {
        let channel = self.open_channel(within).await?;
        match timeout(within, channel.confirm_select(ConfirmSelectOptions::default())).await {
            Ok(Ok(())) if channel.status().confirm() => Ok(channel),
            Ok(Ok(())) => Err("the channel is not in confirm mode".to_owned()),
            Ok(Err(error)) => Err(words(&error)),
            Err(_) => Err(format!("the broker did not turn confirms on within {within:?}")),
        }
    }

    pub(super) async fn open_channel(&self, within: Duration) -> Result<Channel, String> {
        if self.opened.fetch_add(1, Ordering::Relaxed) >= MOST_CHANNELS_OPENED {
            self.worn.notify_one();
        }
        match timeout(within, self.connection.create_channel()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(words(&error)),
            Err(_) => Err(format!("the broker did not open a channel within {within:?}")),
        }
    }

    fn kill(&self) {
        shut_down(self.socket.as_ref());
    }

    /// Takes in what happens on the connection, until it ends or is to end.
    async fn watch(&self, mut events: impl Stream<Item = Event> + Unpin, stop: &mut watch::Receiver<bool>) -> End {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_error = None;
        loop {
            let next = tokio::select! {
                event = events.next() => Either::Left(event),
                _ = look.tick() => Either::Right(()),
                () = self.worn.notified() => return End::Lost("it had opened many channels".to_owned()),
                _ = stop.wait_for(|stop| *stop) => return End::Stopped,
            };
            match next {
                Either::Left(Some(Event::ConnectionBlocked(reason))) => {
                    tracing::warn!(reason, "the broker blocks publishers");
                    *lock(&self.blocked) = Some(reason);
                }
                Either::Left(Some(Event::ConnectionUnblocked)) => {
                    tracing::info!("the broker lets publishers through again");
                    *lock(&self.blocked) = None;
                }
                Either::Left(Some(Event::Error(error))) => last_error = Some(words(&error)),
                _ => {}
            }
            if !self.connection.status().connected() {
                return End::Lost(last_error.unwrap_or_else(|| "the connection ended".to_owned()));
            }
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("usable", &self.usable()).finish_non_exhaustive()
    }
}

enum End {
    Lost(String),
    Stopped,
}

/// What to set if TLS is why there is no connection: the client's own words do not tell.
fn way_out(error: &lapin::Error, encrypts: bool) -> Option<&'static str> {
    let said = error.to_string();
    match error.kind() {
        ErrorKind::IOError(_) if encrypts && said.contains("certificate") => Some(
            "; outbound.amqp.ca_file names an authority of your own, and the URL's host must be a name in the \
             broker's certificate",
        ),
        ErrorKind::IOError(_) if encrypts && said.contains("InvalidContentType") => {
            Some("; the broker speaks no TLS at this port, as an amqps:// URL asks for")
        }
        // An alert of TLS is no frame of AMQP; the connection may end before it is read.
        ErrorKind::ParsingError(_) if !encrypts => Some(TLS_PORT),
        ErrorKind::IOError(io) if !encrypts && is_cut_off(io.kind()) => Some(TLS_PORT),
        _ => None,
    }
}

fn is_cut_off(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// Keeps a connection until told to stop, or until nobody is left who could use it.
async fn supervise(link: Arc<Link>, mut pauses: Pauses, random: Arc<dyn Random>) {
    let (mut stop, mut told) = (link.stop.subscribe(), false);
    while !*stop.borrow() {
        let connecting = tokio::select! {
            connected = link.connect() => connected,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let reason = match connecting {
            Ok(live) => {
                tracing::info!(broker = %link.endpoint, "connected to the broker");
                let (live, since) = (Arc::new(live), Instant::now());
                // Before anybody publishes: without a listener the client drops its events.
                let events = Box::pin(live.connection.events_listener());
                if !link.put(State::Up(Arc::clone(&live))) {
                    live.kill();
                    return;
                }
                match live.watch(events, &mut stop).await {
                    End::Stopped => return,
                    End::Lost(reason) => {
                        live.kill();
                        pauses.lived(since.elapsed());
                        tracing::warn!(broker = %link.endpoint, reason, "the connection to the broker is lost");
                        format!("the connection to the broker is lost: {reason}")
                    }
                }
            }
            Err(error) => {
                // One line an outage: the reason of the moment is the readiness check's to tell.
                if told {
                    tracing::debug!(broker = %link.endpoint, %error, "still no connection to the broker");
                } else {
                    tracing::warn!(broker = %link.endpoint, %error, "no connection to the broker");
                }
                format!("no connection to the broker: {error}")
            }
        };
        told = true;
        if !link.put(State::Down { reason }) {
            return;
        }
        tokio::select! {
            () = sleep(pauses.next(&*random)) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

impl Link {
    /// Changes the state unless it is final.
    fn put(&self, new: State) -> bool {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = new;
            }
            open
        })
    }
}

/// The pauses between attempts: doubled each time up to the longest, half of each at random.
#[derive(Debug)]
struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    fn next(&mut self, random: &dyn Random) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause / 2 + (pause / 2).mul_f64(random.next_unit())
    }

    /// A connection that is accepted and lost at once must not be made anew in a tight loop.
    fn lived(&mut self, how_long: Duration) {
        if how_long >= self.longest {
            self.next = self.first;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shut_down(socket: Option<&TcpStream>) {
    if let Some(socket) = socket
        && let Err(error) = socket.shutdown(Shutdown::Both)
    {
        tracing::trace!(%error, "the socket was closed already");
    }
}

#[cfg(unix)]
fn second_handle(tcp: &tokio::net::TcpStream) -> Option<TcpStream> {
    use std::os::fd::AsFd;

    tcp.as_fd().try_clone_to_owned().ok().map(TcpStream::from)
}

#[cfg(windows)]
fn second_handle(tcp: &tokio::net::TcpStream) -> Option<TcpStream> {
    use std::os::windows::io::AsSocket;

    tcp.as_socket().try_clone_to_owned().ok().map(TcpStream::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Fixed(u64);

    impl Random for Fixed {
        fn next_u64(&self) -> u64 {
            self.0
        }
    }

    proptest! {
        #[test]
        fn pauses_grow_within_half_of_their_bounds(first in 10_u64..5_000, times in 1_u64..50, draw in any::<u64>()) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(first * times));
            let mut pauses = Pauses::new(first, longest);
            for _ in 0..20 {
                let pause = pauses.next(&Fixed(draw));
                prop_assert!(pause >= first / 2 && pause <= longest);
            }
            prop_assert!(pauses.next(&Fixed(draw)) >= longest / 2);
        }
    }

    #[test]
    fn only_a_connection_that_lasted_makes_the_next_pause_short_again() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(1));
        for _ in 0..5 {
            pauses.next(&Fixed(0));
        }
        pauses.lived(Duration::from_millis(999));
        assert_eq!(pauses.next(&Fixed(0)), Duration::from_millis(500));
        pauses.lived(Duration::from_secs(1));
        assert_eq!(pauses.next(&Fixed(0)), Duration::from_millis(50));
    }
}

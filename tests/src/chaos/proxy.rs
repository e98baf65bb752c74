//! A TCP proxy between one process and one server, whose weather a test makes.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use url::Url;

use super::timer::lasting;
use crate::pause;

/// What happens to bytes under way. What is held back is delivered once the weather is fair again, as TCP does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Everything passes.
    Fair,
    /// Each chunk takes this long.
    Slow(Duration),
    /// Requests arrive, answers do not.
    HalfOpen,
    /// Nothing arrives, and nobody is told.
    BlackHole,
}

impl Weather {
    const fn lets_pass(self, way: Way) -> bool {
        match self {
            Self::Fair | Self::Slow(_) => true,
            Self::HalfOpen => matches!(way, Way::ToServer),
            Self::BlackHole => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

#[derive(Debug, Clone, Copy)]
struct State {
    weather: Weather,
    cuts: u64,
}

/// Listens on a port of its own; dropping it closes every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    url: Url,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Stands before the server that this URL names.
    ///
    /// # Errors
    /// When the URL cannot be read or no port is free.
    pub async fn before(url: &str, default_port: u16) -> io::Result<Self> {
        let url = Url::parse(url).map_err(io::Error::other)?;
        let target = (url.host_str().unwrap_or("127.0.0.1").to_owned(), url.port().unwrap_or(default_port));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = watch::Sender::new(State { weather: Weather::Fair, cuts: 0 });
        let task = tokio::spawn(accept(listener, target, state.clone()));
        Ok(Self { address, url, state, task })
    }

    /// The server's URL by way of this proxy.
    ///
    /// # Errors
    /// When the URL takes no host.
    pub fn url(&self) -> io::Result<String> {
        let mut url = self.url.clone();
        url.set_host(Some(&self.address.ip().to_string())).map_err(io::Error::other)?;
        // Fails only for URLs that cannot have a port.
        let _unchanged = url.set_port(Some(self.address.port()));
        Ok(url.into())
    }

    /// Makes the weather of all connections, those to come included.
    pub fn set(&self, weather: Weather) {
        self.state.send_modify(|state| state.weather = weather);
    }

    /// Closes every connection that there is now.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: (String, u16), state: watch::Sender<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(carry(client, target.clone(), state.subscribe()));
                }
                Err(_) => pause().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries bytes until either end closes or the connection is cut.
async fn carry(client: TcpStream, target: (String, u16), mut state: watch::Receiver<State>) -> io::Result<()> {
    let born = state.borrow().cuts;
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pump(from_client, to_server, Way::ToServer, state.clone());
    let down = pump(from_server, to_client, Way::ToClient, state.clone());
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
        _ = state.wait_for(|state| state.cuts > born) => Ok(()),
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        let passes = state.wait_for(|state| state.weather.lets_pass(way)).await.map_err(io::Error::other)?.weather;
        if let Weather::Slow(delay) = passes {
            lasting(delay).await;
        }
        match buffer.get(..read) {
            Some(bytes) if read > 0 => to.write_all(bytes).await?,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        time::timeout,
    };

    use super::{Proxy, Weather};

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn connected() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Proxy::before(&format!("amqp://user:secret@127.0.0.1:{port}/v"), 5672).await.unwrap();
        assert!(proxy.url().unwrap().ends_with(&format!(":{}/v", proxy.address.port())));
        let client = TcpStream::connect(proxy.address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (proxy, client, server)
    }

    async fn arrives(from: &mut TcpStream, to: &mut TcpStream) -> u8 {
        from.write_all(&[7]).await.unwrap();
        timeout(PATIENCE, to.read_u8()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn fair_and_slow_weather_let_bytes_pass_both_ways() {
        let (proxy, mut client, mut server) = connected().await;
        assert_eq!(arrives(&mut client, &mut server).await, 7);
        proxy.set(Weather::Slow(Duration::from_millis(1)));
        assert_eq!(arrives(&mut server, &mut client).await, 7);
    }

    #[tokio::test]
    async fn half_open_holds_answers_back_until_the_weather_is_fair() {
        let (proxy, mut client, mut server) = connected().await;
        proxy.set(Weather::HalfOpen);
        assert_eq!(arrives(&mut client, &mut server).await, 7);
        server.write_all(&[8]).await.unwrap();
        // The way to the server is still open: what it shows came later than the answer, which is held back.
        assert_eq!(arrives(&mut client, &mut server).await, 7);
        assert!(client.try_read(&mut [0]).is_err(), "the answer came through");
        proxy.set(Weather::Fair);
        assert_eq!(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap(), 8);
    }

    #[tokio::test]
    async fn a_black_hole_holds_everything_and_a_cut_ends_the_connection() {
        let (proxy, mut client, mut server) = connected().await;
        proxy.set(Weather::BlackHole);
        client.write_all(&[9]).await.unwrap();
        proxy.cut();
        // Whatever was under way is gone.
        assert_ne!(timeout(PATIENCE, server.read(&mut [0])).await.unwrap().ok(), Some(1));
    }
}

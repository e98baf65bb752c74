//! A TCP proxy that cuts connections or swallows what passes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::broadcast,
};

/// Passes bytes on to a broker until told otherwise.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: broadcast::Sender<()>,
    requests_lost: Arc<AtomicBool>,
    answers_lost: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a port of its own.
    pub(crate) async fn to(host: &str, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let cut = broadcast::Sender::new(16);
        let (requests_lost, answers_lost) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let target = (host.to_owned(), port);
        let (signal, to_server, to_client) = (cut.clone(), Arc::clone(&requests_lost), Arc::clone(&answers_lost));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(target.clone()).await else { continue };
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                for (from, to, lost) in
                    [(client_read, server_write, &to_server), (server_read, client_write, &to_client)]
                {
                    tokio::spawn(pump(from, to, signal.subscribe(), Arc::clone(lost)));
                }
            }
        });
        Self { port: own, cut, requests_lost, answers_lost }
    }

    /// Ends all connections, both ways, whatever is on its way.
    pub(crate) fn cut(&self) {
        // Nobody listens if there is no connection.
        let _ = self.cut.send(());
    }

    /// Swallows everything from now on, or no more; connections stay open.
    pub(crate) fn swallow(&self, everything: bool) {
        self.requests_lost.store(everything, Ordering::SeqCst);
        self.swallow_answers(everything);
    }

    /// Swallows what the broker says from now on, or no more; what it is told arrives.
    pub(crate) fn swallow_answers(&self, all: bool) {
        self.answers_lost.store(all, Ordering::SeqCst);
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cut: broadcast::Receiver<()>,
    lost: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 16 * 1_024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = cut.recv() => return,
        };
        let Ok(count @ 1..) = read else { return };
        if !lost.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

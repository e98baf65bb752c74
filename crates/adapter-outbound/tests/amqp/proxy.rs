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
    black_hole: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens on a port of its own.
    pub(crate) async fn to(host: &str, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (cut, black_hole) = (broadcast::Sender::new(16), Arc::new(AtomicBool::new(false)));
        let target = (host.to_owned(), port);
        let (signal, swallow) = (cut.clone(), Arc::clone(&black_hole));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(target.clone()).await else { continue };
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                for (from, to) in [(client_read, server_write), (server_read, client_write)] {
                    tokio::spawn(pump(from, to, signal.subscribe(), Arc::clone(&swallow)));
                }
            }
        });
        Self { port: own, cut, black_hole }
    }

    /// Ends all connections, both ways, whatever is on its way.
    pub(crate) fn cut(&self) {
        // Nobody listens if there is no connection.
        let _ = self.cut.send(());
    }

    /// Swallows everything from now on, or no more; connections stay open.
    pub(crate) fn swallow(&self, everything: bool) {
        self.black_hole.store(everything, Ordering::SeqCst);
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cut: broadcast::Receiver<()>,
    swallow: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 16 * 1_024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = cut.recv() => return,
        };
        let Ok(count @ 1..) = read else { return };
        if !swallow.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

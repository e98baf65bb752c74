//! Messages that no well-behaved client would send: published frame by frame.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    broker::eventually,
    world::{Step, World},
};

/// The least of AMQP 0-9-1 that it takes to publish a message whose properties are any bytes.
struct RawClient(TcpStream);

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

impl RawClient {
    async fn connect(url: &str) -> Self {
        let (user, rest) = url.strip_prefix("amqp://").unwrap().split_once('@').unwrap();
        let (address, vhost) = rest.split_once('/').unwrap();
        let mut client = Self(TcpStream::connect(address).await.unwrap());
        client.0.write_all(b"AMQP\0\0\x09\x01").await.unwrap();
        client.answer().await;
        let (name, password) = user.split_once(':').unwrap();
        let login = long(format!("\0{name}\0{password}").as_bytes());
        let start_ok = [&[0, 10, 0, 11][..], &long(b""), &short(b"PLAIN"), &login, &short(b"en_US")];
        client.send(METHOD, 0, &start_ok.concat()).await;
        client.answer().await;
        let tune_ok = [&[0, 10, 0, 31][..], &2_047_u16.to_be_bytes(), &131_072_u32.to_be_bytes(), &[0, 0]];
        client.send(METHOD, 0, &tune_ok.concat()).await;
        client.send(METHOD, 0, &[&[0, 10, 0, 40][..], &short(vhost.as_bytes()), &[0, 0]].concat()).await;
        client.answer().await;
        client.send(METHOD, 1, &[&[0, 20, 0, 10][..], &short(b"")].concat()).await;
        client.answer().await;
        client.send(METHOD, 1, &[0, 85, 0, 10, 0]).await;
        client.answer().await;
        client
    }

    /// Publishes to a queue and waits for the broker's confirm.
    async fn publish(&mut self, queue: &str, flags: u16, properties: &[u8], body: &[u8]) {
        let publish = [&[0, 60, 0, 40, 0, 0][..], &short(b""), &short(queue.as_bytes()), &[0]].concat();
        self.send(METHOD, 1, &publish).await;
        let length = u64::try_from(body.len()).unwrap().to_be_bytes();
        let header = [&[0, 60, 0, 0][..], &length, &flags.to_be_bytes(), properties].concat();
        self.send(HEADER, 1, &header).await;
        self.send(BODY, 1, body).await;
        let answer = self.answer().await;
        assert_eq!(answer.get(..4), Some(&[0, 60, 0, 80][..]), "the broker did not acknowledge");
    }

    async fn send(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&[kind][..], &channel.to_be_bytes(), &length, payload, &[0xCE]].concat();
        self.0.write_all(&frame).await.unwrap();
    }

    async fn answer(&mut self) -> Vec<u8> {
        let mut head = [0; 7];
        self.0.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes(head[3..].try_into().unwrap());
        let mut payload = vec![0; usize::try_from(length).unwrap() + 1];
        self.0.read_exact(&mut payload).await.unwrap();
        payload.pop();
        payload
    }
}

fn short(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

fn long(text: &[u8]) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat()
}

const CONTENT_TYPE: u16 = 1 << 15;
const HEADERS: u16 = 1 << 13;

#[tokio::test]
async fn headers_nested_as_deep_as_the_client_can_read_are_parked() {
    let world = World::new("nested", |_, _, _| Step::Apply).await;
    let depth = 60_u32;
    let arrays: Vec<u8> =
        (0..depth).rev().flat_map(|inner| [&b"A"[..], &(1 + 5 * inner).to_be_bytes()].concat()).collect();
    let table = long(&[&short(b"n")[..], &arrays, b"V"].concat());
    let mut client = RawClient::connect(&world.broker.url).await;
    client.publish(&world.broker.queue, HEADERS, &table, b"{}").await;
    let running = world.start();
    world.publish("a", [1]).await;
    eventually("others flow", async || world.journal.of("a") == [1]).await;
    let messages = world.broker.take_parked(1).await;
    assert!(messages[0].properties.headers().as_ref().unwrap().contains_key("x-parked-without-headers"));
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn a_message_that_the_client_library_cannot_read_stays_in_its_queue_and_readiness_says_so() {
    let world = World::new("unreadable", |_, _, _| Step::Apply).await;
    let mut client = RawClient::connect(&world.broker.url).await;
    // A short string must be UTF-8; the broker does not check that.
    client.publish(&world.broker.queue, CONTENT_TYPE, &short(b"\xFF\xFE"), b"{}").await;
    let running = world.start();
    running.not_ready("failed to parse").await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 1);
}

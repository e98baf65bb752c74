//! A publisher that writes to standard output, for demos and pipes (rule R20).

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use application_core::{
    outbox::{FailureClass, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort},
};
use async_trait::async_trait;

use crate::envelope::OutboxEnvelopeJson;

/// Writes one event as one line of JSON, the envelope of [`OutboxEnvelopeJson`], and flushes it.
///
/// # Delivery
/// `Ok` means that the operating system has taken the line; whoever reads a pipe may still lose it. Once writing has
/// failed, for example because a pipe broke, the publisher stays unavailable: part of a line may have been written.
#[derive(Clone)]
pub struct StdoutOutboxMessagePublisher {
    sink: Arc<Mutex<Sink>>,
}

struct Sink {
    writer: Box<dyn Write + Send>,
    broken: Option<String>,
}

impl StdoutOutboxMessagePublisher {
    /// Writes to the process's standard output.
    #[must_use]
    pub fn new() -> Self {
        Self::writing_to(io::stdout())
    }

    /// Writes elsewhere.
    #[must_use]
    pub fn writing_to(writer: impl Write + Send + 'static) -> Self {
        Self { sink: Arc::new(Mutex::new(Sink { writer: Box::new(writer), broken: None })) }
    }
}

impl Default for StdoutOutboxMessagePublisher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StdoutOutboxMessagePublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdoutOutboxMessagePublisher").finish_non_exhaustive()
    }
}

impl Sink {
    fn write(&mut self, line: &[u8]) -> Result<(), PublishFailure> {
        if self.broken.is_none()
            && let Err(error) = self.writer.write_all(line).and_then(|()| self.writer.flush())
        {
            self.broken = Some(format!("standard output cannot be written: {error}"));
        }
        match &self.broken {
            None => Ok(()),
            Some(reason) => Err(PublishFailure::new(FailureClass::Unavailable, reason)),
        }
    }
}

#[async_trait]
impl MessagePublishPort for StdoutOutboxMessagePublisher {
    fn availability(&self) -> Availability {
        // A writer that waits for a slow reader holds the lock; it is not broken.
        let broken = match self.sink.try_lock() {
            Ok(sink) => sink.broken.clone(),
            Err(_) => None,
        };
        broken.map_or(Availability::Available, |reason| Availability::Unavailable { reason })
    }

    fn destination(&self, _: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new("stdout"))
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        let mut line = OutboxEnvelopeJson::encode(event)?;
        put_on_one_line(&mut line);
        let sink = Arc::clone(&self.sink);
        // A full pipe blocks its writer.
        tokio::task::spawn_blocking(move || sink.lock().unwrap_or_else(PoisonError::into_inner).write(&line))
            .await
            .unwrap_or_else(|_| Err(PublishFailure::new(FailureClass::Unavailable, "the process is stopping")))
    }
}

/// Line breaks in JSON are white space between tokens: inside a string they would be escaped.
fn put_on_one_line(json: &mut Vec<u8>) {
    for byte in json.iter_mut() {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    json.push(b'\n');
}

#[cfg(test)]
mod tests {
    use application_core::outbox::Payload;

    use super::*;
    use crate::testing::event;

    /// A pipe: what was written and flushed, and whether the reader has gone.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Ends>>);

    #[derive(Default)]
    struct Ends {
        written: Vec<u8>,
        flushed: Vec<u8>,
        broken: bool,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut pipe = self.0.lock().unwrap();
            if pipe.broken {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            pipe.written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            let mut pipe = self.0.lock().unwrap();
            let written = std::mem::take(&mut pipe.written);
            pipe.flushed.extend(written);
            Ok(())
        }
    }

    #[tokio::test]
    async fn each_event_becomes_one_flushed_line_even_if_its_payload_has_line_breaks() {
        let pipe = Pipe::default();
        let publisher = StdoutOutboxMessagePublisher::writing_to(pipe.clone());
        let mut broken = event();
        broken.payload = Payload::try_new("{\n  \"text\":\r\n \"a\\nb\"\n}").unwrap();
        publisher.publish(&broken).await.unwrap();
        publisher.publish(&event()).await.unwrap();
        let flushed = String::from_utf8(pipe.0.lock().unwrap().flushed.clone()).unwrap();
        let lines: Vec<serde_json::Value> = flushed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["payload"]["text"], "a\nb");
        assert_eq!(lines[1]["eventId"], event().id.to_string());
    }

    #[tokio::test]
    async fn a_broken_pipe_is_nobodys_fault_and_ends_availability() {
        let pipe = Pipe::default();
        let publisher = StdoutOutboxMessagePublisher::writing_to(pipe.clone());
        assert_eq!(publisher.availability(), Availability::Available);
        pipe.0.lock().unwrap().broken = true;
        let failure = publisher.publish(&event()).await.unwrap_err();
        assert_eq!(failure.class(), FailureClass::Unavailable);
        assert!(matches!(publisher.availability(), Availability::Unavailable { .. }));
    }
}

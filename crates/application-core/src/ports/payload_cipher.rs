//! Port: encrypt what an event tells about a person.

use crate::outbox::{Ciphertext, EncryptionContext};

/// Why a value could not be encrypted or decrypted. No variant holds anything of the value or of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadCipherError {
    /// Nothing can be encrypted: no key is active.
    #[error("no key is active")]
    NoActiveKey,
    /// The ciphertext names a key that is not at hand: it was deleted, or has not arrived here yet.
    #[error("the key {key_id:?} is not known here")]
    UnknownKey {
        /// The key's identifier.
        key_id: String,
    },
    /// The value is larger than any payload could be.
    #[error("the value takes {actual} bytes, at most {bound} are allowed")]
    TooLong {
        /// The most bytes allowed.
        bound: usize,
        /// The bytes met.
        actual: usize,
    },
    /// The text is none that this cipher makes.
    #[error("it is no ciphertext: {reason}")]
    NotCiphertext {
        /// Why not.
        reason: &'static str,
    },
    /// The ciphertext was made for another field, event or aggregate.
    #[error("it was encrypted for another field, event or aggregate")]
    OtherContext,
    /// The ciphertext was changed, or made under another key of the same identifier.
    #[error("it was changed, or encrypted under another key that was called {key_id:?}")]
    NotAuthentic {
        /// The identifier of the key that was tried.
        key_id: String,
    },
    /// The operating system gave no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

impl PayloadCipherError {
    /// Whether the same call may succeed a little later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::NoRandomness)
    }
}

/// Encrypts single values of payloads, each bound to its field, event and aggregate.
///
/// An adapter MUST authenticate value and context together, MUST take a fresh nonce from a cryptographic source for each
/// call, and MUST show no key in `Debug` or in an error. Whoever may replace keys need not touch events: a ciphertext names
/// its key. Both methods compute and do no I/O, so that they may be called while a transaction is open: an adapter has its
/// keys at hand.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait PayloadCipherPort: Send + Sync {
    /// Encrypts under the active key, up to 1 MiB. The same value twice gives two ciphertexts.
    ///
    /// # Errors
    /// [`PayloadCipherError`].
    fn encrypt(&self, plaintext: &[u8], context: &EncryptionContext) -> Result<Ciphertext, PayloadCipherError>;

    /// Decrypts under the key that the ciphertext names, if it was made for this context.
    ///
    /// # Errors
    /// [`PayloadCipherError`].
    fn decrypt(&self, ciphertext: &Ciphertext, context: &EncryptionContext) -> Result<Vec<u8>, PayloadCipherError>;
}

//! The compact form of a JWE: header, no encrypted key, initialisation vector, ciphertext, tag; base64url, joined by dots.

use application_core::{
    outbox::{EncryptionContext, bounds::MAX_PAYLOAD_BYTES},
    ports::PayloadCipherError,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::settings::is_key_id;

/// The bytes of the initialisation vector, which is the nonce.
pub(super) const IV_BYTES: usize = 12;
/// The bytes of the tag.
const TAG_BYTES: usize = 16;

/// The protected header. Another algorithm or a parameter that is not here is refused: it could mean anything.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    alg: KeyManagement,
    enc: Encryption,
    kid: String,
    /// The aggregate's type and id, the event's id, the field.
    context: [String; 4],
}

#[derive(Debug, Serialize, Deserialize)]
enum KeyManagement {
    #[serde(rename = "dir")]
    Direct,
}

#[derive(Debug, Serialize, Deserialize)]
enum Encryption {
    #[serde(rename = "A256GCM")]
    Aes256Gcm,
}

impl Header {
    pub(super) fn new(key_id: &str, context: &EncryptionContext) -> Self {
        Self { alg: KeyManagement::Direct, enc: Encryption::Aes256Gcm, kid: key_id.to_owned(), context: texts(context) }
    }

    pub(super) fn key_id(&self) -> &str {
        &self.kid
    }

    pub(super) fn is_for(&self, context: &EncryptionContext) -> bool {
        self.context == texts(context)
    }

    /// The header as it is sent and authenticated.
    pub(super) fn encoded(&self) -> String {
        // Texts have a JSON form, all of them.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }
}

fn texts(context: &EncryptionContext) -> [String; 4] {
    [
        context.aggregate_type.as_str().to_owned(),
        context.aggregate_id.as_str().to_owned(),
        context.event_id.to_string(),
        context.field.clone(),
    ]
}

/// The parts of a JWE, decoded and not yet authenticated.
#[derive(Debug)]
pub(super) struct Jwe<'a> {
    /// What is authenticated beside the value: the header as it arrived.
    pub(super) encoded_header: &'a str,
    pub(super) header: Header,
    pub(super) iv: [u8; IV_BYTES],
    /// Ciphertext and tag.
    pub(super) sealed: Vec<u8>,
}

impl<'a> Jwe<'a> {
    /// Takes the text apart.
    ///
    /// # Errors
    /// [`PayloadCipherError::NotCiphertext`].
    pub(super) fn read(text: &'a str) -> Result<Self, PayloadCipherError> {
        let not = |reason| PayloadCipherError::NotCiphertext { reason };
        if text.len() > MAX_PAYLOAD_BYTES {
            return Err(not("it is longer than any payload"));
        }
        let parts: Vec<&str> = text.split('.').collect();
        let [encoded_header, "", iv, ciphertext, tag] = *parts.as_slice() else {
            return Err(not("it has not the five parts of a compact JWE whose second is empty"));
        };
        let header = decoded(encoded_header).and_then(|json| serde_json::from_slice::<Header>(&json).ok());
        let header = header.ok_or(not("its header is another one than that of a personal field"))?;
        if !is_key_id(&header.kid) {
            return Err(not("its header names no key"));
        }
        let iv: Option<[u8; IV_BYTES]> = decoded(iv).and_then(|iv| iv.try_into().ok());
        let iv = iv.ok_or(not("its initialisation vector is not 12 bytes"))?;
        let mut sealed = decoded(ciphertext).ok_or(not("its ciphertext is no base64url"))?;
        let tag = decoded(tag).filter(|tag| tag.len() == TAG_BYTES).ok_or(not("its tag is not 16 bytes"))?;
        sealed.extend(tag);
        Ok(Self { encoded_header, header, iv, sealed })
    }
}

fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

/// Puts a JWE together.
pub(super) fn compact(encoded_header: &str, iv: [u8; IV_BYTES], ciphertext: &[u8], tag: &[u8]) -> String {
    let [iv, ciphertext, tag] = [iv.as_slice(), ciphertext, tag].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!("{encoded_header}..{iv}.{ciphertext}.{tag}")
}

//! Encrypts personal fields with AES-256 in Galois/Counter Mode, as compact JWE (RFC 7516) under a key of the settings.
//!
//! The algorithms are `dir` and `A256GCM` (RFC 7518, sections 4.5 and 5.3): the key encrypts the value itself. The header
//! names the key and the context; it is authenticated with the value.

mod jwe;
mod settings;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use application_core::{
    outbox::{Ciphertext, EncryptionContext, bounds::MAX_PAYLOAD_BYTES},
    ports::{PayloadCipherError, PayloadCipherPort},
};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use secrecy::ExposeSecret;

pub use settings::EncryptionSettings;

use jwe::{Header, Jwe};

/// A key ring: one key encrypts, all of them decrypt.
///
/// Nonces are 96 random bits from the operating system for each value. That is good for 2^32 values under one key (NIST SP
/// 800-38D, section 8.3): rotate before.
pub struct JwePayloadCipher {
    active: Option<String>,
    keys: BTreeMap<String, LessSafeKey>,
    random: SystemRandom,
}

impl JwePayloadCipher {
    /// Takes checked settings: a key that [`EncryptionSettings::problems`] complains of is as one that is not there.
    #[must_use]
    pub fn new(settings: &EncryptionSettings) -> Self {
        let keys = settings.keys.iter().filter_map(|(id, text)| {
            let bytes = settings::key_bytes(text).ok()?;
            let key = UnboundKey::new(&AES_256_GCM, bytes.expose_secret()).ok()?;
            Some((id.clone(), LessSafeKey::new(key)))
        });
        Self { active: settings.active_key.clone(), keys: keys.collect(), random: SystemRandom::new() }
    }
}

impl PayloadCipherPort for JwePayloadCipher {
    fn encrypt(&self, plaintext: &[u8], context: &EncryptionContext) -> Result<Ciphertext, PayloadCipherError> {
        let active = self.active.as_ref().and_then(|id| self.keys.get_key_value(id));
        let (key_id, key) = active.ok_or(PayloadCipherError::NoActiveKey)?;
        let too_long = || PayloadCipherError::TooLong { bound: MAX_PAYLOAD_BYTES, actual: plaintext.len() };
        if plaintext.len() > MAX_PAYLOAD_BYTES {
            return Err(too_long());
        }
        let mut iv = [0; jwe::IV_BYTES];
        self.random.fill(&mut iv).map_err(|_unspecific| PayloadCipherError::NoRandomness)?;
        let header = Header::new(key_id, context).encoded();
        let (nonce, aad) = (Nonce::assume_unique_for_key(iv), Aad::from(header.as_bytes()));
        let mut value = plaintext.to_vec();
        let tag = key.seal_in_place_separate_tag(nonce, aad, &mut value).map_err(|_unspecific| too_long())?;
        Ok(Ciphertext::new(jwe::compact(&header, iv, &value, tag.as_ref())))
    }

    fn decrypt(&self, ciphertext: &Ciphertext, context: &EncryptionContext) -> Result<Vec<u8>, PayloadCipherError> {
        let Jwe { encoded_header, header, iv, mut sealed } = Jwe::read(ciphertext.as_str())?;
        // Before the key: a consumer takes an unknown one for deleted, and what is at the wrong place was not forgotten.
        if !header.is_for(context) {
            return Err(PayloadCipherError::OtherContext);
        }
        let key_id = header.key_id();
        let Some(key) = self.keys.get(key_id) else {
            return Err(PayloadCipherError::UnknownKey { key_id: key_id.to_owned() });
        };
        let (nonce, aad) = (Nonce::assume_unique_for_key(iv), Aad::from(encoded_header.as_bytes()));
        let opened = key.open_in_place(nonce, aad, &mut sealed);
        let value = opened.map_err(|_unspecific| PayloadCipherError::NotAuthentic { key_id: key_id.to_owned() })?;
        Ok(value.to_vec())
    }
}

impl fmt::Debug for JwePayloadCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.keys().collect();
        f.debug_struct("JwePayloadCipher").field("active", &self.active).field("keys", &ids).finish_non_exhaustive()
    }
}

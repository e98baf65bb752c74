//! Signatures by the scheme of Standard Webhooks: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};

/// What a secret begins with, so that it is known for one.
const SECRET_PREFIX: &str = "whsec_";
/// The most secrets at once: a change needs two, for a while.
const MOST_SECRETS: usize = 4;
/// The bytes of a key: fewer are guessed, more are no stronger.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Why secrets cannot be used; never holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidSecrets {
    #[error("it must hold 1 to {MOST_SECRETS} secrets, with spaces between them")]
    Count(usize),
    #[error("its secret number {0} must be {SECRET_PREFIX} and then 24 to 64 bytes in base64")]
    Secret(usize),
}

/// Signs requests with one key or several. `Debug` shows how many.
#[derive(Clone)]
pub(super) struct Signer(Vec<hmac::Key>);

impl Signer {
    /// Reads secrets that stand one behind the other, with spaces between them.
    pub(super) fn parse(secrets: &SecretString) -> Result<Self, InvalidSecrets> {
        let texts: Vec<&str> = secrets.expose_secret().split_whitespace().collect();
        if !(1..=MOST_SECRETS).contains(&texts.len()) {
            return Err(InvalidSecrets::Count(texts.len()));
        }
        let keys = texts.iter().zip(1..).map(|(text, number)| key(text).ok_or(InvalidSecrets::Secret(number)));
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// The value of `webhook-signature`: a signature for each key, with spaces between them.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let signatures = self.0.iter().map(|key| {
            let mut context = hmac::Context::with_key(key);
            context.update(id.as_bytes());
            context.update(b".");
            context.update(timestamp.as_bytes());
            context.update(b".");
            context.update(body);
            format!("v1,{}", STANDARD.encode(context.sign()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

fn key(text: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?;
    KEY_BYTES.contains(&bytes.len()).then(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} keys)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";
    const OLD: &str = "whsec_dGhlIG9sZGVyIHNlY3JldCBvZiB0ZXN0cywgYSBsaXR0bGUgbG9uZ2Vy";
    const ID: &str = "01920000-0000-7000-8000-000000000001";
    const BODY: &str = "{\"minutes\":90,\"note\":\"é\"}";

    fn parse(secrets: &str) -> Result<Signer, InvalidSecrets> {
        Signer::parse(&SecretString::from(secrets))
    }

    fn secret_of(bytes: usize) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(vec![7; bytes]))
    }

    /// The signatures were computed with the module `hmac` of Python.
    #[test]
    fn signatures_are_what_another_implementation_computes_in_the_order_of_the_secrets() {
        let (by_new, by_old) =
            ("v1,ca7hidZRezUJ2cAo7kgi7/2YUhRNSYSmN6a2+s8dL8g=", "v1,pee1Ag16KwilxqCfACCJFVXwHU9TQAnhO3vVjfOtRCU=");
        let signed = |secrets: &str| parse(secrets).unwrap().sign(ID, "1767323045", BODY.as_bytes());
        assert_eq!(signed(NEW), by_new);
        assert_eq!(signed(OLD), by_old);
        assert_eq!(signed(&format!(" {NEW}  {OLD}\n")), format!("{by_new} {by_old}"));
        let other = parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(
            other.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b"{\"test\": 2432232314}"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn id_time_and_body_each_change_the_signature() {
        let signer = parse(NEW).unwrap();
        let usual = signer.sign(ID, "1767323045", BODY.as_bytes());
        for other in [
            signer.sign("01920000-0000-7000-8000-000000000002", "1767323045", BODY.as_bytes()),
            signer.sign(ID, "1767323046", BODY.as_bytes()),
            signer.sign(ID, "1767323045", b"{}"),
        ] {
            assert_ne!(other, usual);
        }
    }

    #[test]
    fn a_key_has_24_to_64_bytes_and_there_are_one_to_four() {
        for bytes in [24, 64] {
            assert!(parse(&secret_of(bytes)).is_ok(), "{bytes}");
        }
        for bytes in [0, 23, 65] {
            assert_eq!(parse(&secret_of(bytes)).unwrap_err(), InvalidSecrets::Secret(1), "{bytes}");
        }
        for text in ["", " "] {
            assert_eq!(parse(text).unwrap_err(), InvalidSecrets::Count(0));
        }
        assert!(parse(&[NEW; 4].join(" ")).is_ok());
        assert_eq!(parse(&[NEW; 5].join(" ")).unwrap_err(), InvalidSecrets::Count(5));
        let second = parse(&format!("{NEW} {}", &OLD[6..])).unwrap_err();
        assert_eq!(second.to_string(), "its secret number 2 must be whsec_ and then 24 to 64 bytes in base64");
        assert_eq!(parse("whsec_no-base64").unwrap_err(), InvalidSecrets::Secret(1));
        assert_eq!(format!("{:?}", parse(&format!("{NEW} {OLD}")).unwrap()), "Signer(2 keys)");
    }
}

use crate::secrets::{check, NoSecret};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;
use std::fmt;

const TOLERANCE_SECONDS: u64 = 300;

/// The signature is missing, wrong, or too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureError {
    /// A clock is wrong, or the request is a replay.
    Timestamp,
    /// Another secret signed the body, or the body was changed.
    Mismatch,
    /// There is no secret, or one is invalid. Nothing was verified.
    Secret(NoSecret),
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(error) => return error.fmt(f),
            Self::Timestamp => {
                "Webhook-Timestamp is missing, malformed, or more than 300 seconds from the clock"
            }
            Self::Mismatch => "no signature in Webhook-Signature matches the body and a secret",
        })
    }
}

impl std::error::Error for SignatureError {}

/// Checks that one of the complete secrets (`whsec_…`) signed the body, byte for byte as received,
/// within 300 seconds of now. Pass several secrets after a rotation. An invalid secret is an error,
/// because anyone can sign with an empty one.
pub fn verify<S: AsRef<str>>(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &[S],
    now_seconds: u64,
) -> Result<(), SignatureError> {
    check(secrets).map_err(SignatureError::Secret)?;
    let timestamp = headers
        .get("webhook-timestamp")
        .and_then(|value| value.to_str().ok())
        // Only digits: parse() accepts a sign.
        .filter(|text| text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit()))
        .ok_or(SignatureError::Timestamp)?;
    let sent: u64 = timestamp.parse().map_err(|_| SignatureError::Timestamp)?;
    if now_seconds.abs_diff(sent) > TOLERANCE_SECONDS {
        return Err(SignatureError::Timestamp);
    }
    // A repeated header means the same as a single header with a comma. Skip signatures of other
    // kinds.
    let given: Vec<Vec<u8>> = headers
        .get_all("webhook-signature")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|entry| entry.trim().strip_prefix("v1="))
        .filter_map(|text| hex::decode(text).ok())
        .collect();
    for secret in secrets {
        let mut expected = Hmac::<Sha256>::new_from_slice(secret.as_ref().as_bytes())
            .expect("HMAC takes keys of any length");
        expected.update(timestamp.as_bytes());
        expected.update(b".");
        expected.update(body);
        // verify_slice compares in constant time.
        if given.iter().any(|signature| expected.clone().verify_slice(signature).is_ok()) {
            return Ok(());
        }
    }
    Err(SignatureError::Mismatch)
}

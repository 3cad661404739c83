use base64::prelude::{Engine, BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ed25519_compact::{PublicKey, Signature};
use http::HeaderMap;
use standardwebhooks::{Webhook, WebhookError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Checks v1 with the endpoint's secret, whsec_….
pub fn verify(secret: &str, body: &[u8], headers: &HeaderMap) -> Result<(), WebhookError> {
    Webhook::new(secret)?.verify(body, headers)
}

/// Checks v1a with the x of each key of your endpoint, which are at
/// /.well-known/endpoints/ENDPOINT_ID/jwks.json.
pub fn verify_publicly(keys: &[&str], body: &[u8], headers: &HeaderMap) -> Result<(), String> {
    let header = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
    let sent = header("webhook-timestamp");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?.as_secs();
    if !sent.parse::<u64>().is_ok_and(|seconds| now.abs_diff(seconds) <= 300) {
        return Err("the timestamp is too far from the clock".into());
    }
    let message = [header("webhook-id").as_bytes(), b".", sent.as_bytes(), b".", body].concat();
    let signatures = header("webhook-signature")
        .split(' ')
        .filter_map(|entry| BASE64_STANDARD.decode(entry.strip_prefix("v1a,")?).ok())
        .filter_map(|bytes| Signature::from_slice(&bytes).ok());
    for signature in signatures {
        for x in keys {
            let key = BASE64_URL_SAFE_NO_PAD.decode(x).ok();
            let key = key.and_then(|bytes| PublicKey::from_slice(&bytes).ok());
            if key.is_some_and(|k| k.verify(&message, &signature).is_ok()) {
                return Ok(());
            }
        }
    }
    Err("no signature matches".into())
}

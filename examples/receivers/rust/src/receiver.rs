use crate::{verify, Event, Inbox, Secrets};
use http::{header, HeaderMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Events are smaller than 4 KB. Configure your framework to reject larger bodies with 413.
pub const MAX_BODY_BYTES: usize = 65_536;

const NOT_RAW: &str =
    "the body must be the raw bytes of the request; something has parsed it already";

/// A status, and a line of text with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub text: String,
}

/// Checks and records webhooks. It responds with 200 if the event is recorded now or was recorded
/// before, with 503 if it could not be recorded, so that the service retries, and with 4xx if the
/// request is not a webhook of the service.
#[derive(Clone)]
pub struct Receiver {
    pub secrets: Arc<Secrets>,
    pub inbox: Arc<Inbox>,
}

impl Receiver {
    /// The body must be the received bytes, unchanged. This blocks on the database, so call it
    /// where asynchronous code may block.
    pub fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Answer {
        let (status, text) = match self.check_and_record(headers, body) {
            Ok(true) => (200, "recorded".into()),
            Ok(false) => (200, "recorded before".into()),
            Err(refused) => refused,
        };
        if status != 200 {
            eprintln!("rejected a webhook: {status}, {text}");
        }
        Answer { status, text }
    }

    fn check_and_record(&self, headers: &HeaderMap, body: &[u8]) -> Result<bool, (u16, String)> {
        if !is_plain_json(headers) {
            return Err((415, "a webhook is application/json in UTF-8, not compressed".into()));
        }
        if body.len() > MAX_BODY_BYTES {
            return Err((413, "the body is too large".into()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        verify(headers, body, &self.secrets.current(now), now).map_err(|error| {
            if is_not_what_was_sent(headers, body) {
                return (500, NOT_RAW.into());
            }
            (401, error.to_string())
        })?;
        let event = Event::parse(body).map_err(|error| (400, error.to_string()))?;
        // The body is signed, but this header is not. Anyone with a recorded webhook could send it
        // again under other ids.
        if headers.get("webhook-id").map(|id| id.as_bytes()) != Some(event.id.as_bytes()) {
            return Err((400, "Webhook-Id differs from the id in the body".into()));
        }
        self.inbox.record(&event.id, body).map_err(|error| {
            eprintln!("{} could not be recorded: {error}", event.id);
            (503, "the event could not be recorded; send it again".into())
        })
    }
}

/// Whether something has already read or rewritten the body, so that its length differs.
fn is_not_what_was_sent(headers: &HeaderMap, body: &[u8]) -> bool {
    headers
        .get(header::CONTENT_LENGTH)
        .is_some_and(|sent| sent.as_bytes() != body.len().to_string().as_bytes())
}

/// Whether the body is uncompressed JSON in UTF-8.
fn is_plain_json(headers: &HeaderMap) -> bool {
    let value = |name| headers.get(name).map_or(Some(""), |value| value.to_str().ok());
    let (Some(kind), Some(encoding)) =
        (value(header::CONTENT_TYPE), value(header::CONTENT_ENCODING))
    else {
        return false;
    };
    let kind = kind.to_ascii_lowercase();
    let mut parts = kind.split(';').map(str::trim);
    parts.next() == Some("application/json")
        && parts
            .filter_map(|parameter| parameter.strip_prefix("charset="))
            .all(|charset| charset.trim_matches('"') == "utf-8")
        && (encoding.is_empty() || encoding.eq_ignore_ascii_case("identity"))
}

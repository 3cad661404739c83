use crate::{verify, Event, Inbox, Secrets};
use http::{header, HeaderMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// An event has less than 4 KB. Have your framework refuse what has more than this with 413.
pub const MAX_BODY_BYTES: usize = 65_536;

const NOT_RAW: &str =
    "the body must be the raw bytes of the request; something has parsed it before";

/// A status, and a line of text that says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub text: String,
}

/// Checks and records webhooks. It answers 200 when the event is recorded, or was before; 503, so
/// that the service tries again, when it could not be; and 4xx to what is no event of the service.
#[derive(Clone)]
pub struct Receiver {
    pub secrets: Arc<Secrets>,
    pub inbox: Arc<Inbox>,
}

impl Receiver {
    /// The body is what was received, byte for byte. It waits for the database: in asynchronous
    /// code call it where waiting is allowed.
    pub fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Answer {
        let (status, text) = match self.check_and_record(headers, body) {
            Ok(true) => (200, "recorded".into()),
            Ok(false) => (200, "had before".into()),
            Err(refused) => refused,
        };
        if status != 200 {
            eprintln!("a webhook was not taken: {status}, {text}");
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
        // The header is not signed, and the body is: who recorded a webhook could send it again
        // under other ids.
        if headers.get("webhook-id").map(|id| id.as_bytes()) != Some(event.id.as_bytes()) {
            return Err((400, "Webhook-Id is not the id of the body".into()));
        }
        self.inbox.record(&event.id, body).map_err(|error| {
            eprintln!("{} could not be recorded: {error}", event.id);
            (503, "the event could not be recorded: send it again".into())
        })
    }
}

/// Whether the request had a body of another length: it was read before, or written anew.
fn is_not_what_was_sent(headers: &HeaderMap, body: &[u8]) -> bool {
    headers
        .get(header::CONTENT_LENGTH)
        .is_some_and(|sent| sent.as_bytes() != body.len().to_string().as_bytes())
}

/// Whether the body is what its bytes say, and no form of it.
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

//! The published vectors, and events in the kit's types.

use http::{HeaderMap, HeaderValue};
use lumenhook_receiver::{verify, Event, TEST_PING};
use serde_json::Value;

fn published(name: &str) -> Value {
    let path = format!("{}/../../../schemas/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn verify_does_as_the_published_vectors_say() {
    let vectors = published("signature.json");
    let checks = vectors["checks"].as_array().unwrap();
    assert!(!checks.is_empty());
    for check in checks {
        let text = |name: &str| check[name].as_str().unwrap();
        let mut headers = HeaderMap::new();
        for name in ["timestamp", "signature"] {
            let value = HeaderValue::from_str(text(name)).unwrap();
            headers.insert(["webhook-", name].concat().parse::<http::HeaderName>().unwrap(), value);
        }
        let secrets = ["whsec_another", text("secret")];
        let clock = check["clock"].as_u64().unwrap();
        let verified = verify(&headers, text("body").as_bytes(), &secrets, clock).is_ok();
        assert_eq!(verified, check["accepted"].as_bool().unwrap(), "{}", text("name"));
    }
}

/// Each published event comes out of the types as it went in.
#[test]
fn types_hold_every_field() {
    let events = published("events.json");
    let events = events.as_array().unwrap();
    assert!(!events.is_empty());
    for given in events {
        let mut event = Event::parse(given.to_string().as_bytes()).unwrap();
        event.data = if event.kind == TEST_PING {
            serde_json::to_value(event.ping().unwrap()).unwrap()
        } else {
            serde_json::to_value(event.payment().unwrap()).unwrap()
        };
        assert_eq!(&serde_json::to_value(event).unwrap(), given);
    }
}

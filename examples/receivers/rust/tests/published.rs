//! The published vectors, and events in the kit's types.

use http::{HeaderMap, HeaderValue};
use lumenhook_receiver::{
    verify, Event, MalformedEvent, ENDPOINT_DISABLED, ENDPOINT_FAILING, PAYMENT_RECEIVED,
    PAYMENT_REJECTED, TEST_PING,
};
use serde::Serialize;
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

/// The data of an event, in the type that the event's type asks for, as JSON again.
fn typed(event: &Event) -> Value {
    fn json(data: Result<impl Serialize, MalformedEvent>) -> Value {
        serde_json::to_value(data.unwrap()).unwrap()
    }
    match event.kind.as_str() {
        PAYMENT_RECEIVED | PAYMENT_REJECTED => json(event.payment()),
        TEST_PING => json(event.ping()),
        ENDPOINT_FAILING => json(event.failing()),
        ENDPOINT_DISABLED => json(event.disabled()),
        other => panic!("the kit has no type for {other}"),
    }
}

/// Each published event comes out of the types as it went in.
#[test]
fn types_hold_every_field() {
    for file in ["events.json", "notices.json"] {
        let events = published(file);
        let events = events.as_array().unwrap();
        assert!(!events.is_empty());
        for given in events {
            let mut event = Event::parse(given.to_string().as_bytes()).unwrap();
            event.data = typed(&event);
            assert_eq!(&serde_json::to_value(event).unwrap(), given);
        }
    }
}

/// An event of a type that the kit does not know, with data that is of no type of the kit.
#[test]
fn a_type_of_later_is_readable_and_no_type_of_today() {
    let mut later = published("notices.json")[0].take();
    later["type"] = "endpoint.moved".into();
    later["data"]["failingFrom"] = later["data"]["failingSince"].take();
    let event = Event::parse(later.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&event).unwrap(), later);
    assert!(event.payment().is_err() && event.failing().is_err() && event.disabled().is_err());
}

//! Tests the kit with the published vectors and events.

use http::{HeaderMap, HeaderValue};
use lumenhook_receiver::{
    verify, Event, Inbox, MalformedEvent, NoSecret, Receiver, Secrets, SignatureError,
    ENDPOINT_DISABLED, ENDPOINT_FAILING, PAYMENT_RECEIVED, PAYMENT_REJECTED, TEST_PING,
};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

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

/// Decodes the data of an event into the Rust type for the event's type, and encodes it again.
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

/// Each published event must survive decoding into the kit's types and encoding again.
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

/// An event of an unknown type is readable, but its data is not of any type in the kit.
#[test]
fn a_type_of_later_is_readable_and_no_type_of_today() {
    let mut later = published("notices.json")[0].take();
    later["type"] = "endpoint.moved".into();
    later["data"]["failingFrom"] = later["data"]["failingSince"].take();
    let event = Event::parse(later.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&event).unwrap(), later);
    assert!(event.payment().is_err() && event.failing().is_err() && event.disabled().is_err());
}

/// An empty or malformed secret must not verify anything, because anyone can sign with it.
#[test]
fn secrets_that_are_none_are_refused() {
    let file = secret_file("none");
    let lists: [&[&str]; 6] =
        [&[], &[""], &["whsec_"], &["q8x2v5c7"], &["\"whsec_1\""], &["whsec_1", "w"]];
    for list in lists {
        let verified = verify(&HeaderMap::new(), b"", list, 7);
        assert_eq!(verified, Err(SignatureError::Secret(NoSecret)), "{list:?}");
        assert!(Secrets::of(list.iter().copied()).is_err(), "{list:?}");
        fs::write(&file, list.join("\n")).unwrap();
        assert!(Secrets::from_file(&file).is_err(), "{list:?}");
    }
    assert!(Secrets::from_file("").is_err());
}

/// The secrets file is read again once a second. An invalid file changes nothing.
#[test]
fn a_rotation_needs_no_restart() {
    let file = secret_file("rotation");
    fs::write(&file, "whsec_old\n").unwrap();
    let secrets = Secrets::from_file(&file).unwrap();
    fs::write(&file, "whsec_old\nwhsec_new\n").unwrap();
    assert_eq!(*secrets.current(1), ["whsec_old", "whsec_new"]);
    fs::write(&file, "whsec_new\n").unwrap();
    assert_eq!(secrets.current(1).len(), 2);
    assert_eq!(*secrets.current(2), ["whsec_new"]);
    fs::write(&file, "").unwrap();
    assert_eq!(*secrets.current(3), ["whsec_new"]);
}

fn secret_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The response must say so if something in front of the receiver has read the body.
#[test]
fn a_body_that_was_read_before_is_said() {
    let secrets = Arc::new(Secrets::of(["whsec_1"]).unwrap());
    let inbox = Arc::new(Inbox::open(":memory:").unwrap());
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("content-length", HeaderValue::from_static("7"));
    let answer = Receiver { secrets, inbox }.receive(&headers, b"");
    assert_eq!(answer.status, 500);
    assert!(answer.text.contains("raw bytes"), "{}", answer.text);
}

#[test]
fn a_sample_is_told_from_a_payment() {
    let mut paid = published("events.json")
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["type"] == PAYMENT_RECEIVED)
        .unwrap()
        .clone();
    let parsed = |event: &Value| Event::parse(event.to_string().as_bytes()).unwrap();
    assert!(!parsed(&paid).payment().unwrap().is_sample());
    paid["data"]["watch"]["id"] = "wat_00000000000000000000000000".into();
    assert!(parsed(&paid).payment().unwrap().is_sample());
}

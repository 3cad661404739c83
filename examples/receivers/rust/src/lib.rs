//! Receives Lumenhook's webhooks: verifies each one, records it once, responds, and then passes it
//! to your code.
//!
//! - [`verify`] checks the signature;
//! - [`Secrets`] are the endpoint's secrets, which a rotation changes;
//! - [`Event`], [`PaymentData`], [`PingData`], [`FailingData`] and [`DisabledData`] are the typed
//!   payloads;
//! - [`Inbox`] is the table of received events;
//! - [`Receiver`] handles webhooks in any framework.
//!
//! For code that handles events, it guarantees:
//!
//! 1. The body was signed with one of your secrets within the last five minutes, byte for byte.
//! 2. The event is in the database before the service receives a 200, so a crash loses no event.
//! 3. Whatever the code writes through its transaction is written once per event, however often the
//!    event arrives and wherever the process is killed. Other effects (an email, a call) may be
//!    repeated. Use the event's id to make them idempotent.

mod event;
mod inbox;
mod receiver;
mod secrets;
mod signature;

pub use event::{
    Asset, DisabledData, Endpoint, Event, FailingData, LastAttempt, MalformedEvent, Payment,
    PaymentData, PingData, Verification, Watch, ENDPOINT_DISABLED, ENDPOINT_FAILING,
    PAYMENT_RECEIVED, PAYMENT_REJECTED, TEST_PING,
};
pub use inbox::{HandleError, Inbox};
pub use receiver::{Answer, Receiver, MAX_BODY_BYTES};
pub use secrets::{NoSecret, Secrets};
pub use signature::{verify, SignatureError};

/// A program can link SQLite only once, so use this rusqlite instead of your own dependency.
pub use rusqlite;

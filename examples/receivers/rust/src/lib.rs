//! Takes webhooks of Lumenhook: checks each, records it once, answers, and hands it on afterwards.
//!
//! - [`verify`] checks the signature;
//! - [`Secrets`] are the endpoint's, which a rotation changes;
//! - [`Event`], [`PaymentData`], [`PingData`], [`FailingData`] and [`DisabledData`] are the
//!   payloads, typed;
//! - [`Inbox`] is the table of events that were received;
//! - [`Receiver`] says what to answer, whatever the framework.
//!
//! What it guarantees to the code that handles an event:
//!
//! 1. Its body was signed with a secret of yours within the last five minutes, byte for byte.
//! 2. It is in the database before the service is told 200: no event is lost by a crash.
//! 3. What the code writes through the transaction that it is given is written once for each
//!    event, however often the event arrives and wherever the process is killed. What it does
//!    elsewhere (a mail, a call) may be done again, and has to be told apart by the event's id.

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

/// SQLite is linked once into a program: use this rusqlite, and depend on none of your own.
pub use rusqlite;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A payment matched a watch and passed its rules.
pub const PAYMENT_RECEIVED: &str = "payment.received";
/// A payment to a watched wallet failed the rules.
pub const PAYMENT_REJECTED: &str = "payment.rejected";
/// A test that the account asked for.
pub const TEST_PING: &str = "test.ping";
/// Another endpoint, whose notices come to this one, takes nothing.
pub const ENDPOINT_FAILING: &str = "endpoint.failing";
/// Another endpoint, whose notices come to this one, was disabled.
pub const ENDPOINT_DISABLED: &str = "endpoint.disabled";

/// The body of a webhook, after the JSON Schemas of `schemas/events`: what `data` holds depends
/// on `kind`. There may be other types one day, and other fields: pass over what you do not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub api_version: String,
    /// ISO 8601, UTC.
    pub created_at: String,
    pub data: Value,
}

/// The data of payment.received and payment.rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaymentData {
    pub payment: Payment,
    pub watch: Watch,
    pub verification: Verification,
}

/// The watch of samples, which is nobody's.
const SAMPLE_WATCH: &str = "wat_00000000000000000000000000";

impl PaymentData {
    /// Whether the payment is a sample (lumenhook endpoints test --type payment.received), which
    /// nobody paid: credit nothing for it.
    pub fn is_sample(&self) -> bool {
        self.watch.id == SAMPLE_WATCH
    }
}

/// A payment of the Stellar network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payment {
    pub id: String,
    pub tx_hash: String,
    pub ledger: u32,
    /// ISO 8601, UTC.
    pub ledger_closed_at: String,
    pub from: String,
    pub to: String,
    pub to_muxed_id: Option<String>,
    pub memo: Option<String>,
    /// text, id, hash or return.
    pub memo_type: Option<String>,
    pub asset: Asset,
    /// In units, with 7 digits after the point.
    pub amount: String,
    /// The same as an integer: compute with [`Payment::stroops`].
    pub amount_stroops: String,
}

impl Payment {
    /// The amount as an integer, 10,000,000 to one unit.
    pub fn stroops(&self) -> Result<u64, MalformedEvent> {
        self.amount_stroops
            .parse()
            .map_err(|_| MalformedEvent(format!("payment {} has no amount", self.id)))
    }
}

/// What was paid. The issuer is none for XLM, the network's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asset {
    pub code: String,
    pub issuer: Option<String>,
}

/// The watch that the payment matched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    pub id: String,
    pub label: String,
    pub wallet_address: String,
}

/// How the payment did by the rules of the watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// VERIFIED or REJECTED.
    pub outcome: String,
    /// Every reason against it, such as AMOUNT_TOO_LOW.
    pub reasons: Vec<String>,
}

/// The data of test.ping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingData {
    pub endpoint: Endpoint,
}

/// The data of endpoint.failing: the endpoint has taken nothing for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingData {
    pub endpoint: Endpoint,
    /// ISO 8601, UTC.
    pub failing_since: String,
    pub failed_attempts: u64,
    pub last_attempt: LastAttempt,
}

/// The data of endpoint.disabled: nothing is sent to the endpoint any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisabledData {
    pub endpoint: Endpoint,
    /// gone or consecutive_failures.
    pub reason: String,
    /// ISO 8601, UTC.
    pub disabled_at: String,
    pub last_attempt: LastAttempt,
}

/// What the endpoint's receiver answered last. Without a status there is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastAttempt {
    pub event_id: String,
    pub status_code: Option<u16>,
    pub error: Option<String>,
}

/// The endpoint that an event is about, as it was when the event was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    pub id: String,
    pub url: String,
    pub description: String,
}

/// A body, or the data of an event, is not what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedEvent(String);

impl fmt::Display for MalformedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedEvent {}

impl Event {
    /// Reads a body: one JSON object in UTF-8 with the fields of every event.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedEvent> {
        let malformed = |why: String| MalformedEvent(format!("the body is no event: {why}"));
        let text = std::str::from_utf8(body).map_err(|error| malformed(error.to_string()))?;
        let event: Self =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if event.id.is_empty() || event.kind.is_empty() {
            return Err(malformed("it has no id or no type".into()));
        }
        Ok(event)
    }

    /// The data of payment.received or payment.rejected.
    pub fn payment(&self) -> Result<PaymentData, MalformedEvent> {
        self.data_as()
    }

    /// The data of test.ping.
    pub fn ping(&self) -> Result<PingData, MalformedEvent> {
        self.data_as()
    }

    /// The data of endpoint.failing.
    pub fn failing(&self) -> Result<FailingData, MalformedEvent> {
        self.data_as()
    }

    /// The data of endpoint.disabled.
    pub fn disabled(&self) -> Result<DisabledData, MalformedEvent> {
        self.data_as()
    }

    fn data_as<'a, T: Deserialize<'a>>(&'a self) -> Result<T, MalformedEvent> {
        T::deserialize(&self.data)
            .map_err(|error| MalformedEvent(format!("the data of {}: {error}", self.id)))
    }
}

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A payment matched a watch and passed its rules.
pub const PAYMENT_RECEIVED: &str = "payment.received";
/// A payment to a watched wallet failed the rules.
pub const PAYMENT_REJECTED: &str = "payment.rejected";
/// A test that the account requested.
pub const TEST_PING: &str = "test.ping";
/// Another endpoint, which sends its notices to this one, is failing.
pub const ENDPOINT_FAILING: &str = "endpoint.failing";
/// Another endpoint, which sends its notices to this one, was disabled.
pub const ENDPOINT_DISABLED: &str = "endpoint.disabled";

/// The body of a webhook (`schemas/events`). The type of `data` depends on `kind`. Ignore unknown
/// types and fields, because new ones may be added.
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

/// The watch id in sample events. No watch has it.
const SAMPLE_WATCH: &str = "wat_00000000000000000000000000";

impl PaymentData {
    /// Whether the payment is a sample (lumenhook endpoints test --type payment.received). A sample
    /// is not a real payment, so don't credit it.
    pub fn is_sample(&self) -> bool {
        self.watch.id == SAMPLE_WATCH
    }
}

/// A payment on the Stellar network.
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
    /// The same as an integer. Use [`Payment::stroops`] for arithmetic.
    pub amount_stroops: String,
}

impl Payment {
    /// The amount as an integer. One unit is 10,000,000 stroops.
    pub fn stroops(&self) -> Result<u64, MalformedEvent> {
        self.amount_stroops
            .parse()
            .map_err(|_| MalformedEvent(format!("payment {} has no amount", self.id)))
    }
}

/// The asset of a payment. The issuer is None for XLM, the native asset.
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

/// The result of checking the payment against the watch's rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// VERIFIED or REJECTED.
    pub outcome: String,
    /// Why it was rejected, for example AMOUNT_MISMATCH.
    pub reasons: Vec<String>,
}

/// The data of test.ping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingData {
    pub endpoint: Endpoint,
}

/// The data of endpoint.failing: the endpoint has accepted nothing for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingData {
    pub endpoint: Endpoint,
    /// ISO 8601, UTC.
    pub failing_since: String,
    pub failed_attempts: u64,
    pub last_attempt: LastAttempt,
}

/// The data of endpoint.disabled: the service no longer sends to the endpoint.
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

/// The result of the last attempt at the endpoint. It has either a status or an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastAttempt {
    pub event_id: String,
    pub status_code: Option<u16>,
    pub error: Option<String>,
}

/// The endpoint that an event is about, as of the event's creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    pub id: String,
    pub url: String,
    pub description: String,
}

/// A body or an event's data is malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedEvent(String);

impl fmt::Display for MalformedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedEvent {}

impl Event {
    /// Parses a body, which must be one JSON object in UTF-8 with the fields of every event.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedEvent> {
        let malformed = |why: String| MalformedEvent(format!("the body is not an event: {why}"));
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

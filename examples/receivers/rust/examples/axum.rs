//! A shop that credits the payments it receives, with axum:
//!
//!     PORT=8081 DATABASE=shop.db LUMENHOOK_SECRET_FILE=secret cargo run --example axum
//!
//! With WORKER=off it only receives, and another process does the work.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use lumenhook_receiver::rusqlite::{self, params, Connection, Transaction};
use lumenhook_receiver::{
    Event, HandleError, Inbox, Receiver, Secrets, MAX_BODY_BYTES, PAYMENT_RECEIVED,
};
use serde_json::{json, Map, Value};
use std::env::var;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

// If two watches match a payment, there are two events. The payment's id prevents crediting it
// twice.
const CREATE: &str = "
CREATE TABLE IF NOT EXISTS credits (
  payment_id TEXT PRIMARY KEY, wallet TEXT, asset TEXT, stroops TEXT);
CREATE TABLE IF NOT EXISTS processed (event_id TEXT);";

#[tokio::main]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn run() -> Result<(), Box<dyn Error>> {
    let file = var("LUMENHOOK_SECRET_FILE").unwrap_or_default();
    let secrets = Arc::new(Secrets::from_file(file).map_err(|error| {
        format!(
            "LUMENHOOK_SECRET_FILE must name the file that \
             lumenhook endpoints create --secret-out wrote: {error}"
        )
    })?);
    let inbox = Arc::new(Inbox::open(database())?);
    let mut db = open()?;
    db.execute_batch(CREATE)?;
    if var("WORKER").as_deref() != Ok("off") {
        let inbox = inbox.clone();
        std::thread::spawn(move || inbox.work(&mut db, credit));
    }
    let app = Router::new()
        .route("/webhooks", post(webhook).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
        .route("/processed", get(processed))
        .with_state(Receiver { secrets, inbox });
    let port = var("PORT").unwrap_or_else(|_| "8081".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    Ok(axum::serve(listener, app).await?)
}

/// `Bytes` is the raw body. Bodies that are too large get a 413.
async fn webhook(
    State(receiver): State<Receiver>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, String), StatusCode> {
    let answer = tokio::task::spawn_blocking(move || receiver.receive(&headers, &body))
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, answer.text))
}

/// Handles an event in this shop.
fn credit(tx: &Transaction, event: &Event) -> Result<(), HandleError> {
    if event.kind == PAYMENT_RECEIVED {
        let data = event.payment()?;
        if !data.is_sample() {
            let payment = data.payment;
            tx.execute(
                "INSERT INTO credits VALUES (?, ?, ?, ?) ON CONFLICT (payment_id) DO NOTHING",
                params![payment.id, payment.to, payment.asset.code, payment.stroops()?.to_string()],
            )?;
        }
    }
    tx.execute("INSERT INTO processed VALUES (?)", [&event.id])?;
    Ok(())
}

/// What was processed so far.
async fn processed() -> Result<Json<Value>, (StatusCode, String)> {
    let read = || -> rusqlite::Result<Value> {
        let db = open()?;
        let mut events = db.prepare("SELECT event_id FROM processed ORDER BY rowid")?;
        let events = events.query_map([], |row| row.get(0))?;
        let events = events.collect::<rusqlite::Result<Vec<String>>>()?;
        let mut credits = db.prepare("SELECT payment_id, stroops FROM credits")?;
        let credits =
            credits.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?.into())))?;
        let credits = credits.collect::<rusqlite::Result<Map<String, Value>>>()?;
        Ok(json!({ "events": events, "credits": credits }))
    };
    match read() {
        Ok(done) => Ok(Json(done)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn open() -> rusqlite::Result<Connection> {
    let db = Connection::open(database())?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    Ok(db)
}

fn database() -> String {
    var("DATABASE").unwrap_or_else(|_| "shop.db".into())
}

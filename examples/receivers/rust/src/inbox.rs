use crate::event::Event;
use rusqlite::{params, Connection, OptionalExtension, Transaction, TransactionBehavior};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

// How often an event is tried before it is set aside, and the longest wait between two tries: ten
// hours in total. A try that has not finished when the next one is due counts as killed.
const MAX_TRIES: i64 = 20;
const MAX_WAIT_MILLIS: i64 = 3_600_000;

// With synchronous = FULL, an event that was answered with 200 survives a power loss.
const OPEN: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS inbox (
  webhook_id  TEXT PRIMARY KEY,
  body        BLOB NOT NULL,
  received_at INTEGER NOT NULL, -- Unix milliseconds, as all times here
  tries       INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  done_at     INTEGER,
  error       TEXT
);
CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (received_at) WHERE done_at IS NULL;";

const RECORD: &str = "
INSERT INTO inbox (webhook_id, body, received_at, next_try_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (webhook_id) DO NOTHING";

const CLAIM: &str = "
UPDATE inbox SET tries = tries + 1, next_try_at = ?1 + min(1000 << (tries + 1), ?2)
WHERE webhook_id = (
  SELECT webhook_id FROM inbox WHERE done_at IS NULL AND next_try_at <= ?1 AND tries < ?3
  ORDER BY received_at LIMIT 1)
RETURNING webhook_id, body";

const FINISH: &str = "
UPDATE inbox SET done_at = ?1, error = NULL WHERE webhook_id = ?2 AND done_at IS NULL";
const FAIL: &str = "UPDATE inbox SET error = ?1 WHERE webhook_id = ?2";

/// Any error while handling an event.
pub type HandleError = Box<dyn std::error::Error>;

/// The table of received events. A row is stored before the service receives a 200. It is never
/// deleted, because it identifies duplicates.
pub struct Inbox {
    db: Mutex<Connection>,
    worker: OnceLock<Thread>,
}

impl Inbox {
    /// Creates the table if it doesn't exist.
    pub fn open(path: impl AsRef<Path>) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.execute_batch(OPEN)?;
        Ok(Self { db: Mutex::new(db), worker: OnceLock::new() })
    }

    /// Stores an event. Returns false if it was stored before.
    pub fn record(&self, webhook_id: &str, body: &[u8]) -> rusqlite::Result<bool> {
        // A connection is still usable if its user panicked, because each statement is a
        // transaction.
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = db.execute(RECORD, params![webhook_id, body, now_millis()])? > 0;
        if let (true, Some(worker)) = (is_new, self.worker.get()) {
            worker.unpark();
        }
        Ok(is_new)
    }

    /// Handles new events, and those that a previous process left behind, on its own connection. It
    /// never returns. What `handle` writes through the transaction is written once per event.
    /// Several workers in several processes may share a table.
    pub fn work(
        &self,
        db: &mut Connection,
        handle: impl Fn(&Transaction, &Event) -> Result<(), HandleError>,
    ) {
        let _ = self.worker.set(thread::current()); // a second worker checks every second
        loop {
            match work_one(db, &handle) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => eprintln!("the inbox failed and is retried: {error}"),
            }
            // Check every second for events that others recorded, and for retries.
            thread::park_timeout(Duration::from_secs(1));
        }
    }
}

/// Claims and handles the oldest event that is due. It commits the claim first, so that an event
/// that kills the process is retried less and less often and doesn't block others.
fn work_one(
    db: &mut Connection,
    handle: &impl Fn(&Transaction, &Event) -> Result<(), HandleError>,
) -> rusqlite::Result<bool> {
    let claimed: Option<(String, Vec<u8>)> = db
        .query_row(CLAIM, params![now_millis(), MAX_WAIT_MILLIS, MAX_TRIES], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((id, body)) = claimed else {
        return Ok(false);
    };
    // A panic counts as a failure of this event. Unwinding rolls back its transaction.
    let outcome = catch_unwind(AssertUnwindSafe(|| finish(db, handle, &id, &body)))
        .unwrap_or_else(|_| Err("the handler panicked".into()));
    if let Err(error) = outcome {
        eprintln!("{id} failed and is retried later: {error}");
        db.execute(FAIL, params![error.to_string(), id])?;
    }
    Ok(true)
}

/// Handles the event and marks it as done, in one transaction.
fn finish(
    db: &mut Connection,
    handle: &impl Fn(&Transaction, &Event) -> Result<(), HandleError>,
    id: &str,
    body: &[u8],
) -> Result<(), HandleError> {
    let event = Event::parse(body)?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    handle(&tx, &event)?;
    if tx.execute(FINISH, params![now_millis(), id])? > 0 {
        tx.commit()?;
    } // otherwise another worker was faster, and this transaction is rolled back
    Ok(())
}

fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

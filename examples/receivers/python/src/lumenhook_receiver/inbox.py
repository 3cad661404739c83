"""The table of received events."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing

from .events import Event, parse_event

LOG = logging.getLogger(__name__)

# How often an event is tried before it is set aside, and the longest wait between two tries: ten
# hours in total. A try that has not finished when the next one is due counts as killed.
MAX_TRIES = 20
MAX_WAIT_MILLIS = 3_600_000

_CREATE = """
CREATE TABLE IF NOT EXISTS inbox (
  webhook_id  TEXT PRIMARY KEY,
  body        BLOB NOT NULL,
  received_at INTEGER NOT NULL, -- Unix milliseconds, as all times here
  tries       INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  done_at     INTEGER,
  error       TEXT
);
CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (received_at) WHERE done_at IS NULL;
"""
_RECORD = """
INSERT INTO inbox (webhook_id, body, received_at, next_try_at) VALUES (?, ?, ?, ?)
ON CONFLICT (webhook_id) DO NOTHING
"""
_CLAIM = """
UPDATE inbox SET tries = tries + 1, next_try_at = ? + min(1000 << (tries + 1), ?)
WHERE webhook_id = (
  SELECT webhook_id FROM inbox WHERE done_at IS NULL AND next_try_at <= ? AND tries < ?
  ORDER BY received_at LIMIT 1)
RETURNING webhook_id, body
"""
_FINISH = "UPDATE inbox SET done_at = ?, error = NULL WHERE webhook_id = ? AND done_at IS NULL"
_FAIL = "UPDATE inbox SET error = ? WHERE webhook_id = ?"

Handle = Callable[[sqlite3.Connection, Event], None]
"""Handles an event. What it writes through the connection is written once per event."""


class Inbox:
    """A row is stored before the service receives a 200. It is never deleted, because it identifies
    duplicates."""

    def __init__(self, path: str):
        self._path = path
        self._wake = threading.Event()
        with closing(self.connect()) as db:
            # With synchronous = FULL, an event that was answered with 200 survives a power loss.
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(_CREATE)

    def connect(self) -> sqlite3.Connection:
        """A connection for one thread. The caller begins and ends transactions."""
        db = sqlite3.connect(self._path, timeout=5, isolation_level=None)
        db.execute("PRAGMA synchronous = FULL")
        return db

    def record(self, webhook_id: str, body: bytes) -> bool:
        """Store an event. Return False if it was stored before."""
        now = _now_millis()
        with closing(self.connect()) as db:
            is_new = db.execute(_RECORD, (webhook_id, body, now, now)).rowcount > 0
        if is_new:
            self._wake.set()
        return is_new

    def start(self, handle: Handle) -> None:
        """Handle new events, and those that a previous process left behind, in a thread.

        Several workers in several processes may share a table.
        """
        threading.Thread(target=self._work, args=(handle,), daemon=True, name="inbox").start()

    def _work(self, handle: Handle) -> None:
        while True:
            try:
                with closing(self.connect()) as db:
                    while True:
                        self._wake.clear()
                        if not self._work_one(db, handle):
                            # Check every second for events that others recorded, and for retries.
                            self._wake.wait(timeout=1)
            except sqlite3.Error:
                LOG.exception("the inbox failed and is opened again")
                time.sleep(1)

    def _work_one(self, db: sqlite3.Connection, handle: Handle) -> bool:
        """Claim and handle the oldest event that is due.

        It commits the claim first, so that an event that kills the process is retried less and less
        often and doesn't block others.
        """
        now = _now_millis()
        row = db.execute(_CLAIM, (now, MAX_WAIT_MILLIS, now, MAX_TRIES)).fetchall()
        if not row:
            return False
        webhook_id, body = row[0]
        try:
            db.execute("BEGIN IMMEDIATE")
            handle(db, parse_event(body))
            if db.execute(_FINISH, (_now_millis(), webhook_id)).rowcount:
                db.execute("COMMIT")
            else:
                db.execute("ROLLBACK")  # another worker was faster
        except Exception as error:  # whatever it is, this event caused it
            if db.in_transaction:
                db.execute("ROLLBACK")
            LOG.exception("%s failed and will be retried", webhook_id)
            db.execute(_FAIL, (str(error), webhook_id))
        return True


def _now_millis() -> int:
    return time.time_ns() // 1_000_000

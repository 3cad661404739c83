"""Shared by the three examples: a shop that credits the payments it receives."""

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing

import waitress

from lumenhook_receiver import Event, Inbox, Payment, Receiver, Secrets, secrets_from_file
from lumenhook_receiver.events import PAYMENT_RECEIVED

PORT = int(os.environ.get("PORT", "8081"))

# If two watches match a payment, there are two events. The payment's id prevents crediting it
# twice.
_CREATE = """
CREATE TABLE IF NOT EXISTS credits (
  payment_id TEXT PRIMARY KEY, wallet TEXT, asset TEXT, stroops TEXT);
CREATE TABLE IF NOT EXISTS processed (event_id TEXT);
"""


def open_shop() -> tuple[Receiver, Inbox]:
    """The shop's receiver. With WORKER=off it only receives, and another process does the work."""
    secrets = _read_secrets()
    inbox = Inbox(os.environ.get("DATABASE", "shop.db"))
    with closing(inbox.connect()) as db:
        db.executescript(_CREATE)
    if os.environ.get("WORKER") != "off":
        inbox.start(credit)
    return Receiver(secrets, inbox), inbox


def _read_secrets() -> Secrets:
    file = os.environ.get("LUMENHOOK_SECRET_FILE", "(not set)")
    try:
        return secrets_from_file(file)
    except (OSError, ValueError) as error:
        sys.exit(f"LUMENHOOK_SECRET_FILE must name a file with the endpoint's secret: {error}")


def serve(app: Callable) -> None:
    """Serve a WSGI application, such as a Flask or Django one."""
    try:
        server = waitress.create_server(app, host="127.0.0.1", port=PORT)
    except OSError as error:
        sys.exit(f"PORT must be a free port, and {PORT} is not: {error}")
    print(f"listening at http://127.0.0.1:{PORT}/webhooks", flush=True)
    server.run()


def credit(db: sqlite3.Connection, event: Event) -> None:
    """Handles an event in this shop."""
    if event.type == PAYMENT_RECEIVED:
        data = event.payment()
        if not data.is_sample:
            credit_payment(db, data.payment)
    db.execute("INSERT INTO processed VALUES (?)", (event.id,))


def credit_payment(db: sqlite3.Connection, payment: Payment) -> None:
    db.execute(
        "INSERT INTO credits VALUES (?, ?, ?, ?) ON CONFLICT (payment_id) DO NOTHING",
        (payment.id, payment.to, payment.asset.code, str(payment.stroops)),
    )


def processed(inbox: Inbox) -> dict:
    """What was processed so far."""
    with closing(inbox.connect()) as db:
        events = db.execute("SELECT event_id FROM processed ORDER BY rowid").fetchall()
        credits = db.execute("SELECT payment_id, stroops FROM credits").fetchall()
    return {"events": [row[0] for row in events], "credits": dict(credits)}

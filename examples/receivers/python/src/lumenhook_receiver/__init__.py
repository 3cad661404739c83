"""Receives Lumenhook's webhooks: verifies each one, records it once, responds, and then passes it
to your code.

secrets    the endpoint's secrets, which a rotation changes: secrets_from_file
signature  the signature: verify
events     the typed payloads: Event, PaymentData, PingData, FailingData, DisabledData
inbox      the table of received events: Inbox
receiver   the handler for any framework: Receiver

For code that handles events, it guarantees:

1. The body was signed with one of your secrets within the last five minutes, byte for byte.
2. The event is in the database before the service receives a 200, so a crash loses no event.
3. Whatever the code writes through its connection is written once per event, however often the
   event arrives and wherever the process is killed. Other effects (an email, a call) may be
   repeated. Use the event's id to make them idempotent.
"""

from .events import (
    DisabledData,
    Event,
    FailingData,
    Payment,
    PaymentData,
    PingData,
    parse_event,
)
from .inbox import Inbox
from .receiver import MAX_BODY_BYTES, Answer, Receiver
from .secrets import Secrets, check_secrets, secrets_from_file
from .signature import SignatureError, verify

__all__ = [
    "MAX_BODY_BYTES",
    "Answer",
    "DisabledData",
    "Event",
    "FailingData",
    "Inbox",
    "Payment",
    "PaymentData",
    "PingData",
    "Receiver",
    "Secrets",
    "SignatureError",
    "check_secrets",
    "parse_event",
    "secrets_from_file",
    "verify",
]

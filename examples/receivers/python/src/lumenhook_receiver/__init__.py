"""Takes webhooks of Lumenhook: checks each, records it once, answers, and hands it on afterwards.

secrets    the endpoint's secrets, which a rotation changes: secrets_from_file
signature  the signature: verify
events     the payloads, typed: Event, PaymentData, PingData, FailingData, DisabledData
inbox      the table of events that were received: Inbox
receiver   what to answer: Receiver, whatever the framework

What it guarantees to the code that handles an event:

1. Its body was signed with a secret of yours within the last five minutes, byte for byte.
2. It is in the database before the service is told 200: no event is lost by a crash.
3. What the code writes through the connection that it is given is written once for each event,
   however often the event arrives and wherever the process is killed. What it does elsewhere
   (a mail, a call) may be done again, and has to be told apart by the event's id.
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

"""The handler for webhooks. It works with any framework."""

import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message

from .events import parse_event
from .inbox import Inbox
from .secrets import Secrets, check_secrets
from .signature import PARSED_BEFORE, SignatureError, verify

LOG = logging.getLogger(__name__)

MAX_BODY_BYTES = 65_536
"""Events are smaller than 4 KB. Read at most one byte more than this, and pass on what you read."""


@dataclass(frozen=True)
class Answer:
    """A status, and a line of text with the reason."""

    status: int
    text: str


@dataclass(frozen=True)
class Receiver:
    """Checks and records webhooks.

    It responds with 200 if the event is recorded now or was recorded before, with 503 if it could
    not be recorded, so that the service retries, and with 4xx if the request is not a webhook of
    the service.
    """

    secrets: Secrets  # the endpoint's complete secrets (whsec_…); several after a rotation
    inbox: Inbox

    def __post_init__(self) -> None:
        check_secrets(self._current())

    def receive(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Headers are a framework's headers or a dict. Case doesn't matter."""
        answer = self._receive(_lower(headers), body)
        if answer.status != 200:
            LOG.warning("rejected a webhook: %d, %s", answer.status, answer.text)
        return answer

    def _current(self) -> Sequence[str]:
        return self.secrets() if callable(self.secrets) else self.secrets

    def _receive(self, headers: Mapping[str, str], body: bytes) -> Answer:
        if not isinstance(body, bytes | bytearray):
            return Answer(500, PARSED_BEFORE)
        if not _is_plain_json(headers):
            return Answer(415, "a webhook is application/json in UTF-8, not compressed")
        if len(body) > MAX_BODY_BYTES:
            return Answer(413, "the body is too large")
        try:
            secrets = self._current()
            check_secrets(secrets)
        except Exception:  # whatever it is, the service retries the event
            LOG.exception("cannot read the secrets")
            return Answer(503, "the secrets could not be read; send it again")
        timestamp = headers.get("webhook-timestamp", "")
        signature = headers.get("webhook-signature", "")
        try:
            verify(timestamp, signature, body, secrets, time.time())
        except SignatureError as error:
            return Answer(401, str(error))
        try:
            event = parse_event(body)
        except ValueError as error:
            return Answer(400, str(error))
        # The body is signed, but this header is not. Anyone with a recorded webhook could send it
        # again under other ids.
        if headers.get("webhook-id") != event.id:
            return Answer(400, "Webhook-Id differs from the id in the body")
        try:
            is_new = self.inbox.record(event.id, body)
        except sqlite3.Error:
            LOG.exception("cannot record %s", event.id)
            return Answer(503, "the event could not be recorded; send it again")
        return Answer(200, "recorded" if is_new else "recorded before")


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers by lower-case name. Repeated headers are joined with a comma."""
    found: dict[str, str] = {}
    for given, value in headers.items():
        name = given.lower()
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _is_plain_json(headers: Mapping[str, str]) -> bool:
    """Whether the body is uncompressed JSON in UTF-8."""
    kind = Message()
    kind["Content-Type"] = headers.get("content-type") or "none/none"
    encoding = headers.get("content-encoding") or "identity"
    return (
        kind.get_content_type() == "application/json"
        and (kind.get_content_charset() or "utf-8") == "utf-8"
        and encoding.lower() == "identity"
    )

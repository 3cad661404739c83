"""The signature of a webhook."""

import hashlib
import hmac
import re
from collections.abc import Sequence

from .secrets import check_secrets

TOLERANCE_SECONDS = 300

# int() and bytes.fromhex() also accept other digits, spaces and underscores.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v1=([0-9a-fA-F]{64})")

# The error for a body that isn't bytes. Serializing parsed JSON again gives other bytes.
PARSED_BEFORE = "the body must be the raw bytes of the request; something has parsed it already"


class SignatureError(Exception):
    """The signature is missing, wrong, or too old."""


def verify(
    timestamp: str, signature: str, body: bytes, secrets: Sequence[str], now_seconds: float
) -> None:
    """Check that one of the complete secrets (whsec_…) signed the body within 300 seconds of now.

    timestamp and signature are the values of Webhook-Timestamp and Webhook-Signature. The body must
    be the received bytes, unchanged. Pass several secrets after a rotation.
    """
    check_secrets(secrets)
    if not isinstance(body, bytes | bytearray):
        raise TypeError(PARSED_BEFORE)
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureError("Webhook-Timestamp is missing or malformed")
    if abs(int(now_seconds) - int(timestamp)) > TOLERANCE_SECONDS:
        raise SignatureError("Webhook-Timestamp is more than 300 seconds from the clock")
    # Skip signatures of other kinds.
    found = (_SIGNATURE.fullmatch(entry.strip()) for entry in signature.split(","))
    given = [bytes.fromhex(match[1]) for match in found if match]
    for secret in secrets:
        message = timestamp.encode() + b"." + body
        expected = hmac.digest(secret.encode(), message, hashlib.sha256)
        if any(hmac.compare_digest(each, expected) for each in given):
            return
    raise SignatureError("no signature in Webhook-Signature matches the body and a secret")

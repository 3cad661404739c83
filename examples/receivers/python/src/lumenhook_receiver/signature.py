"""The signature of a webhook."""

import hashlib
import hmac
import re
from collections.abc import Sequence

from .secrets import check_secrets

TOLERANCE_SECONDS = 300

# Written out, because int() and bytes.fromhex() take more: other digits, spaces, underscores.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v1=([0-9a-fA-F]{64})")

# What is said of a body that is no bytes: text that is made of it again has other bytes.
PARSED_BEFORE = "the body must be the raw bytes of the request; something has parsed it before"


class SignatureError(Exception):
    """The webhook was not signed by a secret of yours, or not now."""


def verify(
    timestamp: str, signature: str, body: bytes, secrets: Sequence[str], now_seconds: float
) -> None:
    """Check that one of the secrets (whsec_…, whole) signed the body within 300 seconds of now.

    timestamp and signature are the values of Webhook-Timestamp and Webhook-Signature; the body
    is what was received, byte for byte. Several secrets are for the time after a rotation.
    """
    check_secrets(secrets)
    if not isinstance(body, bytes | bytearray):
        raise TypeError(PARSED_BEFORE)
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureError("Webhook-Timestamp is missing or malformed")
    if abs(int(now_seconds) - int(timestamp)) > TOLERANCE_SECONDS:
        raise SignatureError("Webhook-Timestamp is more than 300 seconds from the clock")
    # Entries of other kinds may stand beside: they are passed over.
    found = (_SIGNATURE.fullmatch(entry.strip()) for entry in signature.split(","))
    given = [bytes.fromhex(match[1]) for match in found if match]
    for secret in secrets:
        message = timestamp.encode() + b"." + body
        expected = hmac.digest(secret.encode(), message, hashlib.sha256)
        if any(hmac.compare_digest(each, expected) for each in given):
            return
    raise SignatureError("no signature in Webhook-Signature matches the body and a secret")

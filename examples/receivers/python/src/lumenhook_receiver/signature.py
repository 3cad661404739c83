"""The signature of a webhook."""

import hashlib
import hmac
import re
from collections.abc import Sequence

TOLERANCE_SECONDS = 300

# Written out, because int() and bytes.fromhex() take more: other digits, spaces, underscores.
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v1=([0-9a-fA-F]{64})")
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]+")


class SignatureError(Exception):
    """The webhook was not signed by a secret of yours, or not now."""


def check_secrets(secrets: Sequence[str]) -> None:
    """Raise a ValueError unless they are secrets of an endpoint, and one at least.

    Who has the secret of a receiver can forge: one that is empty, or a letter, is everybody's.
    """
    if not isinstance(secrets, Sequence) or isinstance(secrets, str | bytes):
        raise ValueError("the secrets must be a list of strings")
    if not secrets:
        raise ValueError("there is no secret")
    if not all(isinstance(secret, str) and _SECRET.fullmatch(secret) for secret in secrets):
        raise ValueError("a secret must be the endpoint's whole secret, which starts with whsec_")


def verify(
    timestamp: str, signature: str, body: bytes, secrets: Sequence[str], now_seconds: float
) -> None:
    """Check that one of the secrets (whsec_…, whole) signed the body within 300 seconds of now.

    timestamp and signature are the values of Webhook-Timestamp and Webhook-Signature; the body
    is what was received, byte for byte. Several secrets are for the time after a rotation.
    """
    check_secrets(secrets)
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

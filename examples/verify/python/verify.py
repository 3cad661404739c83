import base64
import time

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook


def verify(secret: str, body: bytes, headers: dict[str, str]) -> None:
    """Check v1 with the endpoint's secret, whsec_…."""
    Webhook(secret).verify(body, headers)


def verify_publicly(keys: list[str], body: bytes, headers: dict[str, str]) -> None:
    """Check v1a with the x of each key of your endpoint. Names are in lower case.

    The keys are at /.well-known/endpoints/ENDPOINT_ID/jwks.json.
    """
    sent = headers["webhook-timestamp"]
    if abs(time.time() - int(sent)) > 300:
        raise ValueError("the timestamp is too far from the clock")
    message = f"{headers['webhook-id']}.{sent}.".encode() + body
    for entry in headers["webhook-signature"].split(" "):
        if not entry.startswith("v1a,"):
            continue
        signature = base64.b64decode(entry.removeprefix("v1a,"))
        for x in keys:
            key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(x + "="))
            try:
                return key.verify(signature, message)
            except InvalidSignature:
                pass
    raise ValueError("no signature matches")

"""The typed payloads. The JSON Schemas are in schemas/events.

Field names use underscores: txHash is tx_hash, and from is from_, because "from" is a Python
keyword. Unknown fields are ignored, because new ones may be added.
"""

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_type_hints

PAYMENT_RECEIVED = "payment.received"
PAYMENT_REJECTED = "payment.rejected"
TEST_PING = "test.ping"

# About another endpoint of the account that sends its notices to this one.
ENDPOINT_FAILING = "endpoint.failing"
ENDPOINT_DISABLED = "endpoint.disabled"


@dataclass(frozen=True)
class Asset:
    """The asset of a payment. The issuer is None for XLM, the native asset."""

    code: str
    issuer: str | None


@dataclass(frozen=True)
class Payment:
    """A payment on the Stellar network."""

    id: str
    tx_hash: str
    ledger: int
    ledger_closed_at: str
    from_: str
    to: str
    to_muxed_id: str | None
    memo: str | None
    memo_type: Literal["text", "id", "hash", "return"] | None
    asset: Asset
    amount: str
    amount_stroops: str

    @property
    def stroops(self) -> int:
        """The amount as an integer. One unit is 10,000,000 stroops. Use this for arithmetic."""
        if not (self.amount_stroops.isascii() and self.amount_stroops.isdigit()):
            raise ValueError(f"payment {self.id}: {self.amount_stroops!r} is not an amount")
        return int(self.amount_stroops)


@dataclass(frozen=True)
class Watch:
    """The watch that the payment matched."""

    id: str
    label: str
    wallet_address: str


@dataclass(frozen=True)
class Verification:
    """The result of checking the payment against the watch's rules, with every reason for a
    rejection."""

    outcome: Literal["VERIFIED", "REJECTED"]
    reasons: list[str]


@dataclass(frozen=True)
class PaymentData:
    """The data of payment.received and payment.rejected."""

    payment: Payment
    watch: Watch
    verification: Verification

    @property
    def is_sample(self) -> bool:
        """Whether this is a sample (lumenhook endpoints test --type payment.received). A sample is
        not a real payment, so don't credit it."""
        return self.watch.id == "wat_00000000000000000000000000"  # no watch has this id


@dataclass(frozen=True)
class Endpoint:
    """The endpoint that an event is about, as of the event's creation."""

    id: str
    url: str
    description: str


@dataclass(frozen=True)
class PingData:
    """The data of test.ping."""

    endpoint: Endpoint


@dataclass(frozen=True)
class LastAttempt:
    """The result of the last attempt at the endpoint. It has either a status or an error."""

    event_id: str
    status_code: int | None
    error: str | None


@dataclass(frozen=True)
class FailingData:
    """The data of endpoint.failing: the endpoint has accepted nothing for a while."""

    endpoint: Endpoint
    failing_since: str
    failed_attempts: int
    last_attempt: LastAttempt


@dataclass(frozen=True)
class DisabledData:
    """The data of endpoint.disabled: the service no longer sends to the endpoint."""

    endpoint: Endpoint
    reason: Literal["gone", "consecutive_failures"]
    disabled_at: str
    last_attempt: LastAttempt


@dataclass(frozen=True)
class Event:
    """The body of a webhook. The type of data depends on type. Use payment(), ping(), failing() or
    disabled() to read it."""

    id: str
    type: str
    api_version: str
    created_at: str
    data: dict[str, Any]

    def payment(self) -> PaymentData:
        """The data of payment.received or payment.rejected."""
        return _read(PaymentData, self.data, self.id)

    def ping(self) -> PingData:
        """The data of test.ping."""
        return _read(PingData, self.data, self.id)

    def failing(self) -> FailingData:
        """The data of endpoint.failing."""
        return _read(FailingData, self.data, self.id)

    def disabled(self) -> DisabledData:
        """The data of endpoint.disabled."""
        return _read(DisabledData, self.data, self.id)


def parse_event(body: bytes) -> Event:
    """Parse a body, which must be one JSON object in UTF-8 with the fields of every event."""
    try:
        # Decode it here, because json.loads would detect UTF-16.
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is not JSON in UTF-8") from error
    if not isinstance(value, dict) or not value.get("id") or not value.get("type"):
        raise ValueError("the body is not an event: it has no id or type")
    return _read(Event, value, "the body")


def json_name(name: str) -> str:
    """The name of a field in JSON."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


T = TypeVar("T")


def _read(kind: type[T], value: Any, of: str) -> T:
    if not isinstance(value, dict):
        raise ValueError(f"{of}: {kind.__name__} is not a JSON object")
    hints = get_type_hints(kind)
    found = {}
    for field in fields(kind):  # type: ignore[arg-type]
        name = json_name(field.name)
        if name not in value:
            raise ValueError(f"{of}: {kind.__name__} has no {name}")
        hint, given = hints[field.name], value[name]
        if is_dataclass(hint):
            given = _read(hint, given, of)
        elif not isinstance(given, _plain(hint)):
            raise ValueError(f"{of}: {name} of {kind.__name__} has another type")
        found[field.name] = given
    return kind(**found)


def _plain(hint: Any) -> tuple[type, ...]:
    """The classes that a hint allows, if it isn't a dataclass."""
    if isinstance(hint, type) and not get_args(hint):
        return (hint,)
    if getattr(hint, "__origin__", None) in (list, dict):
        return (hint.__origin__,)
    if getattr(hint, "__origin__", None) is Literal:
        return (str,)
    return tuple(kind for part in get_args(hint) for kind in _plain(part))

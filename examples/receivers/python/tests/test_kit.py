"""The published vectors, and events in the kit's types."""

import dataclasses
import json
import pathlib
import unittest

from lumenhook_receiver import SignatureError, parse_event, verify
from lumenhook_receiver.events import (
    ENDPOINT_DISABLED,
    ENDPOINT_FAILING,
    PAYMENT_RECEIVED,
    PAYMENT_REJECTED,
    TEST_PING,
    Event,
    json_name,
)

VECTORS = pathlib.Path(__file__).parents[4] / "schemas" / "vectors"

TYPED = {
    PAYMENT_RECEIVED: Event.payment,
    PAYMENT_REJECTED: Event.payment,
    TEST_PING: Event.ping,
    ENDPOINT_FAILING: Event.failing,
    ENDPOINT_DISABLED: Event.disabled,
}


def published(name):
    return json.loads((VECTORS / name).read_text("utf-8"))


def to_json(value):
    """A value of the kit's types as it was in JSON."""
    if dataclasses.is_dataclass(value):
        return {
            json_name(field.name): to_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    return value


class Published(unittest.TestCase):
    def test_verify_does_as_the_vectors_say(self):
        checks = published("signature.json")["checks"]
        self.assertTrue(checks)
        for check in checks:
            try:
                verify(
                    check["timestamp"],
                    check["signature"],
                    check["body"].encode(),
                    ["whsec_another", check["secret"]],
                    check["clock"],
                )
                accepted = True
            except SignatureError:
                accepted = False
            self.assertEqual(accepted, check["accepted"], check["name"])

    def test_types_hold_every_field(self):
        events = published("events.json") + published("notices.json")
        self.assertEqual({given["type"] for given in events}, TYPED.keys())
        for given in events:
            event = parse_event(json.dumps(given).encode())
            again = to_json(dataclasses.replace(event, data=TYPED[event.type](event)))
            self.assertEqual(again, given)

    def test_a_type_of_later_is_readable_and_no_type_of_today(self):
        later = published("notices.json")[0]
        later["type"] = "endpoint.moved"
        later["data"]["failingFrom"] = later["data"].pop("failingSince")
        event = parse_event(json.dumps(later).encode())
        self.assertEqual(to_json(event), later)
        for read in (Event.payment, Event.failing, Event.disabled):
            self.assertRaises(ValueError, read, event)


if __name__ == "__main__":
    unittest.main()

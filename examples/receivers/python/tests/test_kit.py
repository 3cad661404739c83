"""The published vectors, and events in the kit's types."""

import dataclasses
import json
import pathlib
import unittest

from lumenhook_receiver import SignatureError, parse_event, verify
from lumenhook_receiver.events import TEST_PING, json_name

VECTORS = pathlib.Path(__file__).parents[4] / "schemas" / "vectors"


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
        checks = json.loads((VECTORS / "signature.json").read_text("utf-8"))["checks"]
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
        events = json.loads((VECTORS / "events.json").read_text("utf-8"))
        self.assertTrue(events)
        for given in events:
            event = parse_event(json.dumps(given).encode())
            data = event.ping() if event.type == TEST_PING else event.payment()
            again = to_json(dataclasses.replace(event, data=data))
            self.assertEqual(again, given)


if __name__ == "__main__":
    unittest.main()

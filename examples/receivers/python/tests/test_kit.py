"""Tests the kit with the published vectors and events."""

import dataclasses
import hashlib
import hmac
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from lumenhook_receiver import (
    Inbox,
    Receiver,
    SignatureError,
    check_secrets,
    parse_event,
    secrets_from_file,
    verify,
)
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
    """Converts a value of the kit's types back to JSON."""
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

    def test_a_sample_is_told_from_a_payment(self):
        given = published("events.json")[0]
        self.assertFalse(parse_event(json.dumps(given).encode()).payment().is_sample)
        given["data"]["watch"]["id"] = "wat_" + "0" * 26
        self.assertTrue(parse_event(json.dumps(given).encode()).payment().is_sample)

    def test_a_type_of_later_is_readable_and_no_type_of_today(self):
        later = published("notices.json")[0]
        later["type"] = "endpoint.moved"
        later["data"]["failingFrom"] = later["data"].pop("failingSince")
        event = parse_event(json.dumps(later).encode())
        self.assertEqual(to_json(event), later)
        for read in (Event.payment, Event.failing, Event.disabled):
            self.assertRaises(ValueError, read, event)


# Anyone can sign with these secrets, or they are not secrets at all.
NO_SECRETS = {
    "no secret": [],
    "an empty one": [""],
    "one that is empty": ["whsec_another", ""],
    "the prefix": ["whsec_"],
    "a string in place of a list": "whsec_abc",
    "its letters": list("whsec_abc"),
    "without its prefix": ["abc"],
    "with the end of its line": ["whsec_abc\n"],
    "a placeholder": ["whsec_…"],
    "nothing": None,
    "no string": [None],
    "bytes": [b"whsec_abc"],
}


def webhook(secret):
    """Returns the headers and the body of a webhook that is sent now."""
    event = published("events.json")[0]
    body = json.dumps(event).encode()
    timestamp = str(int(time.time()))
    signed = hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": event["id"],
        "Webhook-Timestamp": timestamp,
        "Webhook-Signature": "v1=" + signed.hex(),
    }
    return headers, body


class Secrets(unittest.TestCase):
    def test_what_is_no_secret_is_refused_when_a_receiver_is_made_and_by_verify(self):
        timestamp = str(int(time.time()))
        forged = "v1=" + hmac.digest(b"", f"{timestamp}.{{}}".encode(), hashlib.sha256).hex()
        inbox = Inbox(":memory:")
        for name, secrets in NO_SECRETS.items():
            with self.subTest(name):
                self.assertRaisesRegex(ValueError, "secret", Receiver, secrets, inbox)
                with self.assertRaisesRegex(ValueError, "secret"):
                    verify(timestamp, forged, b"{}", secrets, time.time())
        with self.assertRaises(ValueError) as raised:
            check_secrets(["abc"])
        self.assertEqual(
            str(raised.exception),
            "a secret must be the endpoint's complete secret, starting with whsec_",
        )

    def test_a_file_of_secrets_is_read_again_once_a_second_at_most(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "secrets")
            file.write_text("whsec_old\n")
            now = 1000.0
            secrets = secrets_from_file(file, lambda: now)
            for text, held in (
                ("whsec_old\nwhsec_new\n", ["whsec_old", "whsec_new"]),
                ("whsec_new\n", ["whsec_new"]),
                ("", ["whsec_new"]),
            ):
                now += 1
                file.write_text(text)
                self.assertEqual(secrets(), held)
                file.write_text("whsec_of_the_same_second")
                self.assertEqual(secrets(), held)

    def test_a_receiver_asks_for_its_secrets_at_each_webhook(self):
        with tempfile.TemporaryDirectory() as folder:
            inbox = Inbox(str(pathlib.Path(folder, "inbox.db")))
            headers, body = webhook("whsec_new")
            secrets = ["whsec_old"]
            receiver = Receiver(lambda: secrets, inbox)
            self.assertEqual(receiver.receive(headers, body).status, 401)
            secrets = ["whsec_old", "whsec_new"]
            self.assertEqual(receiver.receive(headers, body).status, 200)
            secrets = [""]
            self.assertEqual(receiver.receive(headers, body).status, 503)

    def test_headers_are_taken_whatever_the_case_of_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            receiver = Receiver(["whsec_1"], Inbox(str(pathlib.Path(folder, "inbox.db"))))
            headers, body = webhook("whsec_1")
            for of in (str.title, str.lower, str.upper):
                given = {of(name): value for name, value in headers.items()}
                self.assertEqual(receiver.receive(given, body).status, 200)
            self.assertEqual(receiver.receive({}, body).status, 415)

    def test_a_body_that_was_parsed_before_is_said_to_be(self):
        receiver = Receiver(["whsec_1"], Inbox(":memory:"))
        headers, body = webhook("whsec_1")
        text = "the body must be the raw bytes of the request; something has parsed it already"
        for parsed in (json.loads(body), body.decode(), None):
            answer = receiver.receive(headers, parsed)
            self.assertEqual((answer.status, answer.text), (500, text))
            with self.assertRaisesRegex(TypeError, text):
                verify("1", "", parsed, ["whsec_1"], 1)

    def test_the_examples_say_in_a_line_that_their_port_is_taken(self):
        examples = pathlib.Path(__file__).parents[1] / "examples"
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
            secret = pathlib.Path(folder, "secret")
            secret.write_text("whsec_1\n")
            for name in ("flask_app.py", "django_app.py"):
                with self.subTest(name):
                    ended = subprocess.run(
                        [sys.executable, examples / name],
                        env=dict(
                            os.environ,
                            PORT=str(taken.getsockname()[1]),
                            DATABASE=str(pathlib.Path(folder, "shop.db")),
                            LUMENHOOK_SECRET_FILE=str(secret),
                        ),
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    self.assertRegex(ended.stderr, r"\APORT must be a free port.*\n\Z")
                    self.assertEqual(ended.returncode, 1)

    def test_the_examples_do_not_start_without_a_secret_and_say_so_in_a_line(self):
        examples = pathlib.Path(__file__).parents[1] / "examples"
        with tempfile.TemporaryDirectory() as folder:
            empty = pathlib.Path(folder, "empty")
            empty.write_text("\n")
            for file in (None, empty, pathlib.Path(folder, "missing")):
                env = dict(os.environ, DATABASE=str(pathlib.Path(folder, "shop.db")))
                env.pop("LUMENHOOK_SECRET_FILE", None)
                if file:
                    env["LUMENHOOK_SECRET_FILE"] = str(file)
                for example in examples.glob("*_app.py"):
                    with self.subTest(example=example.name, file=file):
                        ended = subprocess.run(
                            [sys.executable, example],
                            env=env,
                            capture_output=True,
                            text=True,
                            check=False,
                        )
                        self.assertRegex(
                            ended.stderr, r"\ALUMENHOOK_SECRET_FILE must name .*\n\Z"
                        )
                        self.assertEqual(ended.returncode, 1)


class LoggingTest(unittest.TestCase):
    """The kit must not change the shop's logging configuration."""

    def test_no_root_handler_is_installed(self):
        script = (
            "import logging, tempfile, lumenhook_receiver as kit\n"
            "receiver = kit.Receiver(['whsec_' + 'a' * 40], kit.Inbox(tempfile.mkdtemp() + '/inbox'))\n"
            "receiver.receive({}, b'{}')\n"
            "assert not logging.getLogger().handlers, logging.getLogger().handlers\n"
        )
        subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | {"PYTHONPATH": "src"})


if __name__ == "__main__":
    unittest.main()

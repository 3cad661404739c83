"""The secrets of an endpoint."""

import logging
import pathlib
import re
import time
from collections.abc import Callable, Sequence

LOG = logging.getLogger(__name__)

_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]+")

Secrets = Sequence[str] | Callable[[], Sequence[str]]
"""The secrets of an endpoint, or a function that returns them. It is called for each webhook."""


def check_secrets(secrets: Sequence[str]) -> None:
    """Raise a ValueError unless there is at least one secret and all are valid.

    Anyone can sign with an empty secret or guess a short one.
    """
    if not isinstance(secrets, Sequence) or isinstance(secrets, str | bytes):
        raise ValueError("the secrets must be a list of strings")
    if not secrets:
        raise ValueError("there is no secret")
    if not all(isinstance(secret, str) and _SECRET.fullmatch(secret) for secret in secrets):
        raise ValueError("a secret must be the endpoint's complete secret, starting with whsec_")


def secrets_from_file(
    path: str | pathlib.Path, now_seconds: Callable[[], float] = time.monotonic
) -> Callable[[], list[str]]:
    """Returns the secrets in a file, one per line, as `lumenhook endpoints create --secret-out`
    writes it.

    It picks up changes of the file when webhooks arrive, at most once per second, so a rotation
    needs no restart. If the file can't be read or has no secret, the previous secrets stay in use.
    """

    def read() -> list[str]:
        secrets = pathlib.Path(path).read_text("utf-8").split()
        check_secrets(secrets)
        return secrets

    secrets, read_at = read(), now_seconds()

    def current() -> list[str]:
        nonlocal secrets, read_at
        now = now_seconds()
        if now - read_at >= 1:
            read_at = now
            try:
                secrets = read()
            except (OSError, ValueError) as error:
                LOG.error("cannot use %s; keeping the previous secrets: %s", path, error)
        return secrets

    return current

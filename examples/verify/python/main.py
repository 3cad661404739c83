"""Check requests that were kept as files: python main.py SECRET KEYS FILE…"""

import sys

from verify import verify, verify_publicly


def say(file, version, check, *args):
    try:
        check(*args)
        print(file, version, "verified")
    except Exception as refused:
        print(file, version, "refused:", refused)


secret, keys = sys.argv[1:3]
for file in sys.argv[3:]:
    with open(file, "rb") as f:
        head, _, body = f.read().partition(b"\r\n\r\n")
    lines = (line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    headers = {name.lower(): value for name, value in lines}
    say(file, "v1", verify, secret, body, headers)
    say(file, "v1a", verify_publicly, keys.split(","), body, headers)

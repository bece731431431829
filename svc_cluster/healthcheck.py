"""The call `python3 -m svc_cluster.healthcheck URL` exits with status 0 for an answer of 200. It
exits with 1 for any other and for none within five seconds. For health checks of containers that
hold no curl; imports nothing of ours, because it runs every few seconds."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 5.0


def main(arguments: list[str]) -> int:
    """`arguments`: the address."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python3 -m svc_cluster.healthcheck URL\n")
        return 2
    try:
        with urllib.request.urlopen(arguments[0], timeout=TIMEOUT_SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except (OSError, ValueError, urllib.error.URLError) as cause:
        sys.stderr.write(f"{arguments[0]}: {cause}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

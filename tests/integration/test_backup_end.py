"""A backup's command ends with its own status, whatever the threads of its bucket still do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.integration.bucket_server import environment

ANSWER = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>"
LATE = """
import asyncio.selector_events, sys, threading, time

told = asyncio.selector_events.BaseSelectorEventLoop._write_to_self

def late(self):
    # whoever has told the loop of an answer needs the interpreter again and again
    told(self)
    if threading.current_thread() is not threading.main_thread():
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.0005)

asyncio.selector_events.BaseSelectorEventLoop._write_to_self = late
from svc_cluster.__main__ import main
main()
"""
ENDS = """
import atexit, sys
from svc_cluster.cli.backup.backup_end import end_at_once
atexit.register(lambda: sys.stderr.write("last\\n"))
def command():
    sys.stdout.write("said\\n")
    {how}
end_at_once(command)
"""


class Nothing(BaseHTTPRequestHandler):
    """A store that has no bucket."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Nobody reads it."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
    thread = Thread(target=server.serve_forever)
    thread.start()
    for name, value in environment(f"http://127.0.0.1:{server.server_address[1]}").items():
        monkeypatch.setenv(name, value)
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("verb", ["list", "verify"])
def test_a_refusal_is_the_end_of_a_command_whose_bucket_is_slow_to_let_go(verb: str) -> None:
    """The thread that brought the answer is still at it when the command has come to its end: the
    interpreter would be taken apart around it, and the process be aborted (status -6)."""
    done = subprocess.run(
        [sys.executable, "-c", LATE, "backup", verb, "--at", "s3://kept/place"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "s3://kept/place" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    ("how", "status", "last"),
    [
        ("sys.exit(3)", 3, "last"),
        ("sys.exit()", 0, "last"),
        ("pass", 0, "last"),
        ("sys.exit('a sentence')", 1, "a sentence\nlast"),
        ("raise ValueError('bad')", 1, "ValueError: bad\nlast"),
    ],
)
def test_it_ends_as_the_interpreter_would(how: str, status: int, last: str) -> None:
    """With the same status; what it said is out, and what was to be done at its end is done."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS.format(how=how)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (status, "said\n")
    assert done.stderr.endswith(f"{last}\n")


def test_what_could_not_be_said_is_no_success() -> None:
    """Standard output is a file on a full disk."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", ENDS.format(how="pass")],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 120, done.stderr

"""Records as JSON by the command, and what JSON cannot hold of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import Server

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60.0
BINARY = "records-basin/binary"
SPOILT = (
    "svc-cluster: 2 records are not UTF-8, and what is not was printed as U+FFFD: --format "
    "json-base64 keeps every byte\n"
)


class Terminal:
    """Runs commands against one server."""

    def __init__(self, home: Path, port: int) -> None:
        self.environment = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "S2_ACCOUNT_ENDPOINT": f"http://127.0.0.1:{port}",
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "svc_cluster", *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ask(self, *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
        """Status, standard output and standard error."""
        process = self.start(*arguments)
        out, err = process.communicate(given, timeout=SECONDS_MAX)
        return process.returncode, out.decode(errors="surrogateescape"), err.decode()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """Its server has a stream of four records, of which two are not UTF-8: by the body, and by a
    header."""
    server = Server(tmp_path_factory.mktemp("records"), 10.0)
    made = Terminal(server.directory, server.port)
    assert made.ask("basin", "create", "records-basin", "--create-stream-on-append")[0] == 0
    lines = (
        b'{"body":"YQ=="}\n{"body":"/w=="}\n{"headers":[["aA==","/w=="]],"body":"Yg=="}\n'
        b'{"body":"w6k="}\n'
    )
    asked = ("stream", "append", BINARY, "--format", "json-base64")
    assert made.ask(*asked, given=lines)[0] == 0
    yield made
    server.stop()


READINGS = (
    ("read", BINARY),
    ("tail", BINARY),
    ("follow", BINARY, "--seq-num", "0", "--count", "4"),
)


@pytest.mark.parametrize("asked", READINGS, ids=["read", "tail", "follow"])
def test_json_is_a_record_a_line(terminal: Terminal, asked: tuple[str, ...]) -> None:
    """By `-o json` what `--format json` prints, and `json-base64` where that is said too; text
    beside it is refused."""
    status, out, err = terminal.ask("stream", *asked, "-o", "json")
    assert (status, err) == (0, SPOILT)
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["seq_num"] for record in records] == [0, 1, 2, 3]
    assert [record["body"] for record in records] == ["a", "\ufffd", "b", "\u00e9"]
    assert terminal.ask("stream", *asked, "--format", "json") == (0, out, SPOILT)
    based = terminal.ask("stream", *asked, "--format", "json-base64")
    assert terminal.ask("stream", *asked, "--format", "json-base64", "-o", "json") == based
    assert (based[0], based[2]) == (0, "")
    refused = terminal.ask("stream", *asked, "--format", "text", "-o", "json")
    told = "svc-cluster: -o json prints each record as JSON: leave out --format text\n"
    assert refused == (2, "", told)


@pytest.mark.parametrize("asked", READINGS, ids=["read", "tail", "follow"])
def test_text_has_every_byte_and_nothing_is_said(
    terminal: Terminal, asked: tuple[str, ...]
) -> None:
    """Without a format, and with it."""
    expected = (0, "a\n\udcff\nb\n\u00e9\n", "")
    assert terminal.ask("stream", *asked) == expected
    assert terminal.ask("stream", *asked, "--format", "text") == expected


def test_what_can_be_held_is_printed_without_a_word(terminal: Terminal) -> None:
    """UTF-8 beyond ASCII is whole."""
    status, out, err = terminal.ask("stream", "read", BINARY, "--seq-num", "3", "-f", "json")
    assert (status, json.loads(out)["body"], err) == (0, "\u00e9", "")
    status, _, err = terminal.ask("stream", "read", BINARY, "--count", "2", "-f", "json")
    assert (status, err) == (0, SPOILT.replace("2 records are", "1 record is"))


def test_a_follower_says_it_when_it_is_interrupted(terminal: Terminal) -> None:
    """Once, with the number of all of them; the status stays."""
    follower = terminal.start("stream", "follow", BINARY, "--seq-num", "0", "-f", "json")
    assert follower.stdout is not None
    for _ in range(4):
        assert follower.stdout.readline().startswith(b'{"seq_num":')
    os.kill(follower.pid, signal.SIGINT)
    _, err = follower.communicate(timeout=SECONDS_MAX)
    assert (follower.returncode, err.decode()) == (130, SPOILT)

"""Encrypted streams by the command: with their key, with another one, and without."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import Server

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60.0
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(range(32, 64))).decode()
ADVICE = (
    "; name the file that holds the stream's key with --key-file or in "
    "SVC_CLUSTER_ENCRYPTION_KEY_FILE"
)


class Terminal:
    """A home with key files, and a server that keeps encrypted streams."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{port}"
        for name, text in (("key", KEY), ("other", OTHER)):
            (home / name).write_text(f"  {text}\n")

    def ask(self, *arguments: str, given: bytes = b"", **more: str) -> tuple[int, str, str]:
        """Status, standard output and standard error."""
        done = subprocess.run(
            [sys.executable, "-m", "svc_cluster", *arguments],
            env={
                "HOME": str(self.home),
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(ROOT),
                "S2_ACCOUNT_ENDPOINT": self.url,
                **more,
            },
            cwd=self.home,
            input=given,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        told = done.stdout.decode(), done.stderr.decode()
        assert all(key not in text for key in (KEY, OTHER) for text in told)
        return done.returncode, *told

    def done(self, *arguments: str, given: bytes = b"") -> str:
        status, out, err = self.ask(*arguments, given=given)
        assert (status, err) == (0, ""), (out[-400:], err[-400:])
        return out


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    server = Server(tmp_path_factory.mktemp("keys"), 10.0)
    terminal = Terminal(server.directory, server.port)
    terminal.done("basin", "create", "sealed-basin", "--cipher", "aes-256-gcm")
    terminal.done("basin", "create", "plain-basin")
    yield server.port
    server.stop()


@pytest.fixture
def terminal(port: int, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, port)


def test_an_encrypted_stream_is_used_with_its_key(terminal: Terminal) -> None:
    """By every verb that touches records; the file is named by the option or the environment, and
    the option goes first."""
    key = ("--key-file", "key")
    name = "sealed-basin/with"
    terminal.done("stream", "create", name)
    told = terminal.done("stream", "append", name, *key, given=b"one\ntwo\n")
    assert told == f"2 records of 22 B appended to {name}, numbers 0 to 1\n"
    for verb in (("read",), ("tail",), ("follow", "--seq-num", "0", "--count", "2")):
        assert terminal.done("stream", *verb[:1], name, *verb[1:], *key) == "one\ntwo\n"
        by_environment = terminal.ask(
            *("stream", *verb[:1], name, *verb[1:]), SVC_CLUSTER_ENCRYPTION_KEY_FILE="key"
        )
        assert by_environment == (0, "one\ntwo\n", "")
    both = terminal.ask("stream", "read", name, *key, SVC_CLUSTER_ENCRYPTION_KEY_FILE="absent")
    assert both == (0, "one\ntwo\n", "")
    terminal.done("stream", "fence", name, "writer", *key)
    terminal.done("stream", "trim", name, "1", "--fencing-token", "writer", *key)
    assert terminal.done("stream", "read", name, *key) == "two\n"


def test_without_its_key_an_encrypted_stream_is_refused_with_the_option(
    terminal: Terminal,
) -> None:
    """Without a key, and with another one; nothing of it is shown."""
    name = "sealed-basin/without"
    terminal.done("stream", "create", name)
    needs = "the records of this stream are encrypted with aes-256-gcm: send the key, base64 of "
    for verb, given in (("append", "-"), ("fence", "token"), ("trim", "1")):
        status, out, err = terminal.ask("stream", verb, name, given, given=b"a\n")
        assert (status, out) == (1, "")
        assert err.startswith(f"svc-cluster: 400 bad_header: {needs}")
        assert ADVICE in err
    terminal.done("stream", "append", name, "--key-file", "key", given=b"one\n")
    for reading in (("read",), ("tail",), ("follow", "--seq-num", "0", "--count", "1")):
        asked = ("stream", reading[0], name, *reading[1:])
        status, out, err = terminal.ask(*asked)
        assert (status, out) == (1, "")
        assert err.startswith(f"svc-cluster: 400 bad_header: {needs}")
        assert err.endswith(f"{ADVICE}\n")
        status, out, err = terminal.ask(*asked, "--key-file", "other")
        assert (status, out) == (1, "")
        assert "decryption_failed: a record cannot be opened with the key in" in err
        assert err.endswith(f"{ADVICE}\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (base64.b64encode(bytes(31)), "holds no key (it is base64 of 31 bytes)"),
        (base64.b64encode(bytes(33)), "holds no key (it is base64 of 33 bytes)"),
        (b"secret words", "holds no key (it is not base64)"),
        (b"", "holds no key (it is base64 of 0 bytes)"),
        (bytes(range(32)), "holds no key (it is not base64)"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_key_is_refused_before_anything_is_sent(
    tmp_path: Path, text: bytes | None, told: str
) -> None:
    """No server is there: it would be told first. What is in the file is not shown."""
    if text is not None:
        (tmp_path / "bad").write_bytes(text)
    nowhere = Terminal(tmp_path, 9)
    for asked in (
        ("stream", "append", "sealed-basin/s"),
        ("stream", "read", "sealed-basin/s"),
        ("stream", "fence", "sealed-basin/s", "t"),
    ):
        status, out, err = nowhere.ask(*asked, "--key-file", "bad", given=b"a\n")
        assert (status, out) == (1, "")
        assert err.startswith(f"svc-cluster: the key file bad {told}")
        assert err.count("\n") == 1
        assert "secret" not in err


def test_a_copy_of_an_encrypted_stream_is_encrypted(terminal: Terminal, tmp_path: Path) -> None:
    """It is opened with the one key and sealed with the other. Without a key it is told which
    option is missing; a copy that everybody could read is refused, and nothing is made of it."""
    terminal.done("stream", "create", "sealed-basin/copied")
    terminal.done("stream", "append", "sealed-basin/copied", "--key-file", "key", given=b"a\nb\n")
    servers = ("--from", terminal.url, "--to", terminal.url)
    asked = ("copy", "sealed-basin/copied", *servers, "-o", "json")

    def failure(*more: str) -> str:
        status, out, err = terminal.ask(*asked, *more)
        told = "svc-cluster: 1 streams were not copied: ask for the same again to go on\n"
        assert (status, err) == (1, told)
        return str(json.loads(out)["failed"])

    target = ("--basin", "copied-basin")
    assert failure(*target).endswith("with --from-key-file")
    assert failure(*target, "--from-key-file", "key").endswith("with --to-key-file")
    keys = ("--from-key-file", "key", "--to-key-file", "other")
    assert failure("--basin", "plain-basin", *keys).startswith(
        "its records are encrypted, and those in plain-basin of the destination are not"
    )
    assert terminal.done("stream", "list", "plain-basin", "-o", "json") == "[]\n"
    told = json.loads(terminal.done(*asked, *target, *keys))
    assert (told["copied"], told["compared"]) == (2, 2)
    again = terminal.done("stream", "read", "copied-basin/copied", "--key-file", "other")
    assert again == "a\nb\n"
    assert terminal.ask("stream", "read", "copied-basin/copied", "--key-file", "key")[0] == 1


@pytest.mark.parametrize("held", [b"", b"a\n"])
def test_a_cipher_that_came_later_encrypts_no_stream(terminal: Terminal, held: bytes) -> None:
    """What the destination holds unencrypted is not appended to, although its basin was given a
    cipher since, as a refusal advises. Into another basin the copy is made, encrypted."""
    name, basin = f"sealed-basin/later-{len(held)}", f"older-basin-{len(held)}"
    stream = f"{basin}/later-{len(held)}"
    terminal.done("stream", "create", name)
    terminal.done("stream", "append", name, "--key-file", "key", given=b"a\nb\n")
    terminal.done("basin", "create", basin)
    terminal.done("stream", "create", stream)
    if held:
        terminal.done("stream", "append", stream, given=held)
    terminal.done("basin", "update", basin, "--cipher", "aes-256-gcm")
    asked = [
        *("copy", name, "--from", terminal.url, "--to", terminal.url),
        *("--from-key-file", "key", "--to-key-file", "other", "-o", "json", "--basin"),
    ]
    status, out, _ = terminal.ask(*asked, basin)
    assert (status, json.loads(out)) == (
        1,
        {
            "stream": name,
            "failed": f"its records are encrypted, and those in {stream} of the destination are "
            "not, whatever cipher its basin has now: delete that stream, or copy to another",
        },
    )
    assert terminal.done("stream", "read", stream) == held.decode()
    other = f"newer-basin-{len(held)}"
    terminal.done("basin", "create", other, "--cipher", "aes-256-gcm")
    told = json.loads(terminal.done(*asked, other))
    assert (told["copied"], told["compared"]) == (2, 2)
    copied = f"{other}/later-{len(held)}"
    assert terminal.done("stream", "read", copied, "--key-file", "other") == "a\nb\n"
    assert terminal.ask("stream", "read", copied)[0] == 1
    assert terminal.done(*asked, other).count('"copied":0') == 1, "it is gone on with"

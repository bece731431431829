"""Copies of encrypted streams with tokens that may not list streams: nothing becomes readable."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.access import EVERY_OP, EVERYWHERE, ROOT_SECRET, Account
from tests.contract.conftest import Server

KEY = base64.b64encode(bytes(range(32))).decode()
SECONDS_MAX = 60.0


class Copier:
    """A server that asks for tokens, and the command with one that may do all but list streams."""

    def __init__(self, account: Account, home: Path) -> None:
        self.account = account
        self.home = home
        _, blind = account.issue(
            EVERYWHERE | {"ops": [each for each in EVERY_OP if each != "list-streams"]}
        )
        for name, text in (("root", ROOT_SECRET), ("blind", blind), ("key", KEY)):
            (home / name).write_text(text)
            (home / name).chmod(0o600)

    def make(self, basin: str, stream: str = "", cipher: str | None = None) -> None:
        config = {} if cipher is None else {"stream_cipher": cipher}
        self.account.ask("PUT", f"/v1/basins/{basin}", {"config": config})
        if stream:
            answer = self.account.ask("PUT", f"/v1/streams/{stream}", {}, s2_basin=basin)
            assert answer.status in {200, 201}, answer

    def append(self, basin: str, stream: str, **headers: str) -> None:
        body = {"records": [{"body": "hidden"}]}
        path = f"/v1/streams/{stream}/records"
        answer = self.account.ask("POST", path, body, s2_basin=basin, **headers)
        assert answer.status == 200, answer

    def is_readable(self, basin: str, stream: str) -> bool:
        """Whether it holds anything that is read without a key."""
        path = f"/v1/streams/{stream}/records?seq_num=0&count=1&clamp=true"
        answer = self.account.ask("GET", path, s2_basin=basin)
        return answer.status == 200

    def copy(self, name: str, basin: str, *more: str, source: str, target: str) -> tuple[int, str]:
        """Status and standard output. `source`, `target`: who asks there."""
        url = self.account.endpoint
        done = subprocess.run(
            [
                *(sys.executable, "-m", "svc_cluster", "copy", name, "--basin", basin),
                *("--from", url, "--from-token-file", source),
                *("--to", url, "--to-token-file", target, *more),
            ],
            env={**os.environ, "HOME": str(self.home), "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=self.home,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        return done.returncode, done.stdout.decode()


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copier]:
    server = Server(tmp_path_factory.mktemp("guarded"), 10.0, ROOT_SECRET)
    with Account(f"http://127.0.0.1:{server.port}", server.directory) as account:
        copier = Copier(account, tmp_path_factory.mktemp("home"))
        copier.make("sealed-basin", "sealed", "aes-256-gcm")
        copier.append("sealed-basin", "sealed", s2_encryption_key=KEY)
        yield copier
    server.stop()


def test_a_source_that_is_not_listed_is_encrypted_where_its_key_is_given(copier: Copier) -> None:
    """It is refused where the destination would not encrypt it, and copied where it would."""
    copier.make("plain-basin")
    asked = ("sealed-basin/sealed", "plain-basin", "--from-key-file", "key")
    status, said = copier.copy(*asked, source="blind", target="root")
    assert status == 1
    assert said == (
        "sealed-basin/sealed: not copied: its records are taken for encrypted (there is "
        "--from-key-file, and its token may not list streams), and those in plain-basin of the "
        "destination are not: give that a cipher (`svc-cluster basin update --cipher`), or name "
        "another with --basin\n"
    )
    found = copier.account.ask("GET", "/v1/streams", s2_basin="plain-basin")
    assert found.json["streams"] == []
    keys = ("--from-key-file", "key", "--to-key-file", "key")
    told = copier.copy("sealed-basin/sealed", "made-basin", *keys, source="blind", target="root")
    assert told == (0, "sealed-basin/sealed: 1 records copied, 1 compared\n")
    assert not copier.is_readable("made-basin", "sealed")


def test_a_source_that_is_not_listed_is_copied_without_a_key(copier: Copier) -> None:
    """Its records are read without one: they are not encrypted."""
    copier.make("open-basin", "open")
    copier.append("open-basin", "open")
    told = copier.copy("open-basin/open", "open-copy", source="blind", target="blind")
    assert told == (0, "open-basin/open: 1 records copied, 1 compared\n")


def test_a_destination_that_is_not_listed_is_not_taken_for_encrypted(copier: Copier) -> None:
    """Its basin has a cipher by now, and the stream has none: what cannot be seen is refused. A
    stream that is not there is made, encrypted."""
    copier.make("later-basin", "sealed")
    config = {"stream_cipher": "aes-256-gcm"}
    answer = copier.account.ask("PATCH", "/v1/basins/later-basin", config)
    assert answer.status == 200, answer
    keys = ("--from-key-file", "key", "--to-key-file", "key")
    asked = ("sealed-basin/sealed", "later-basin", *keys)
    status, said = copier.copy(*asked, source="root", target="blind")
    assert status == 1
    assert said == (
        "sealed-basin/sealed: not copied: its records are encrypted, and whether those in "
        "later-basin/sealed of the destination are cannot be seen: use a token there that may "
        "list streams, or copy to another stream\n"
    )
    assert not copier.is_readable("later-basin", "sealed")
    copier.make("ready-basin", cipher="aes-256-gcm")
    told = copier.copy("sealed-basin/sealed", "ready-basin", *keys, source="root", target="blind")
    assert told == (0, "sealed-basin/sealed: 1 records copied, 1 compared\n")
    assert not copier.is_readable("ready-basin", "sealed")

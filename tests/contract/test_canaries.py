"""Secrets that were planted are searched for in all that a server writes and says.

Rules: contract 10.4 and 11.3.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
from pathlib import Path

import pytest

from svc_cluster.model.access_secret import secret_hash
from svc_cluster.storage.rocks_store import RocksStore
from tests.contract.access import EVERY_OP, EVERYWHERE, ROOT_SECRET, Account, bearer
from tests.contract.client import Answer
from tests.contract.conftest import Server

BASIN = "canaries-1"
OWN_FILE = "root-token"
"""The operator's: the one place where a secret is meant to be."""


def forms(secret: bytes) -> set[bytes]:
    """How a secret could stand somewhere: as it is, its base64 at each of the three offsets in a
    longer text, hexadecimal, escaped, and hashed by anything but the one hash that may be kept."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode(), repr(secret).encode()}
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            text = encode(b"\0" * offset + secret)
            found.add(text[4 if offset else 0 : len(text) // 4 * 4 - 4])
    found |= {hashlib.md5(secret).digest(), hashlib.sha1(secret).digest()}
    found |= {hashlib.md5(secret).hexdigest().encode(), hashlib.sha1(secret).hexdigest().encode()}
    return {form for form in found if len(form) >= 12}


def of_token(secret: str) -> set[bytes]:
    """The text, its random part in characters and in bytes, in every form."""
    bits = secret.removeprefix("svct_")[:43]
    raw = base64.urlsafe_b64decode(bits + "=")
    return forms(secret.encode()) | forms(bits.encode()) | forms(raw)


class Planted:
    """What is hidden, by what it is, and all answers and metrics so far."""

    def __init__(self) -> None:
        self.hidden: dict[str, set[bytes]] = {}
        self.said = bytearray()

    def hear(self, answer: Answer) -> Answer:
        self.said += answer.body + json.dumps(answer.headers).encode()
        return answer

    def found_in(self, data: bytes) -> list[str]:
        return [what for what, each in self.hidden.items() if any(form in data for form in each)]


def plant(account: Account) -> Planted:
    """Tokens issued in every way, used well and badly, and revoked; a key, a plain text under it,
    a request token."""
    planted = Planted()
    everything = {**EVERYWHERE, "ops": EVERY_OP}

    def issue(token_id: str, by: str, request_token: str | None = None) -> str:
        headers = {} if request_token is None else {"svc_request_token": request_token}
        body = {"id": token_id, "scope": everything}
        answer = account.ask("POST", "/v1/access-tokens", body, by, **headers)
        assert answer.status == 201, answer
        secret: str = answer.json["access_token"]
        planted.hidden[token_id] = of_token(secret)
        if request_token is not None:
            again = account.ask("POST", "/v1/access-tokens", body, by, **headers)
            assert (again.status, again.json) == (201, answer.json), "it is told again"
            # with the same request token, but not by the one to whom it was told
            other = planted.hear(account.ask("POST", "/v1/access-tokens", body, secret, **headers))
            assert other.status == 409, other
        return secret

    planted.hidden["root"] = of_token(ROOT_SECRET)
    plain = issue("canary-plain", ROOT_SECRET)
    child = issue("canary-child", plain)
    tokened = issue("canary-tokened", ROOT_SECRET, f"request-{os.urandom(8).hex()}")
    grandchild = issue("canary-below-tokened", tokened, f"request-{os.urandom(8).hex()}")
    assert account.revoke("canary-plain").status == 204
    key = os.urandom(32)
    body = b"plain-text-" + os.urandom(12).hex().encode()
    planted.hidden["key"] = forms(key)
    planted.hidden["plain text"] = forms(body)
    config = {"stream_cipher": "aegis-256", "create_stream_on_append": True}
    assert account.ask("POST", "/v1/basins", {"basin": BASIN, "config": config}).status == 201
    record = {"records": [{"body": base64.b64encode(body).decode()}]}
    keyed = {"svc_basin": BASIN, "svc_encryption_key": base64.b64encode(key).decode()}
    path = "/v1/streams/sealed/records"
    for by, headers in ((tokened, keyed), (grandchild, keyed), (tokened, {"svc_basin": BASIN})):
        planted.hear(account.ask("POST", path, record, by, **headers))
    for secret in (plain, child, tokened, grandchild, ROOT_SECRET):
        for attempt in (secret, secret[:-1] + ("0" if secret[-1] != "0" else "1"), secret.upper()):
            for method, target in (
                ("GET", "/v1/basins"),
                ("GET", f"/v1/nothing/{attempt}"),
                ("GET", "/v1/streams?limit=x"),
                ("DELETE", "/v1/access-tokens/nobody"),
            ):
                answer = account.ask(method, target, None, attempt)
                assert answer.status != 500
                planted.hear(answer)
        planted.hear(account.ask("GET", "/v1/basins", None, None, authorization=f"Basic {secret}"))
        planted.hear(account.ask("PUT", "/v1/locations/default", {"x": secret}))
        planted.hear(account.ask("POST", "/v1/access-tokens", {"id": secret * 2, "scope": {}}))
    wanted = {"basin": BASIN, "streams": {"prefix": ""}}
    ticket = account.ask("POST", "/v1/read-tickets", wanted, tokened).json["read_ticket"]
    planted.hidden["ticket"] = forms(ticket.encode())
    for shown in (ticket, ticket[:-1], ticket + "&ticket=" + ticket, ticket + "%zz"):
        for target in ("streams/sealed/records", "streams/sealed/records/tail", "basins", "none"):
            for headers in ({"svc_basin": BASIN}, {"svc_basin": BASIN, "svc_strict": "true"}):
                query = f"count=x&format={shown}&ticket={shown}"
                answer = account.ask("GET", f"/v1/{target}?{query}", None, None, **headers)
                assert answer.status != 500
                answer = account.ask("GET", f"/v1/{target}?ticket={shown}", None, None, **headers)
                planted.hear(answer)
    planted.hear(account.ask("GET", "/metrics", None, None))
    planted.hear(account.ask("GET", "/v1/access-tokens"))
    return planted


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Planted]:
    """A server's directory after it has ended, with its log beside its store."""
    server = Server(tmp_path_factory.mktemp("canaries"), 10.0, ROOT_SECRET)
    with Account(f"http://127.0.0.1:{server.port}", server.directory) as account:
        planted = plant(account)
    server.stop()
    return server.directory, planted


def test_no_answer_and_no_metric_tells_a_secret(told: tuple[Path, Planted]) -> None:
    """0 hits in what was answered, refusals most of it. (What issues a token tells its secret.)"""
    _, planted = told
    assert len(planted.said) > 10_000
    assert planted.found_in(bytes(planted.said)) == []


def test_no_file_has_a_secret(told: tuple[Path, Planted]) -> None:
    """0 hits in any byte of any file: write-ahead log, state store, logs, audit log."""
    directory, planted = told
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != OWN_FILE]
    hits = {str(path): planted.found_in(path.read_bytes()) for path in files}
    assert {path: found for path, found in hits.items() if found} == {}
    kinds = {path.name if path.suffix == ".log" else path.parent.name for path in files}
    assert kinds >= {"wal", "state", "audit.log", "server.log"}


def test_no_stored_pair_has_a_secret(told: tuple[Path, Planted]) -> None:
    """0 hits in what the store holds, read as a snapshot reads it: its files may be compressed. The
    hashes by which tokens are known are there, so the search finds what there is."""
    directory, planted = told
    pairs = bytearray()

    async def read() -> None:
        store = RocksStore(directory / "node-1" / "state", asyncio.get_running_loop())
        try:
            for key, value in store.scan(b"", b"\xff" * 9):
                pairs.extend(key + b"\0" + value + b"\0")
        finally:
            store.close()

    asyncio.run(read())
    assert planted.found_in(bytes(pairs)) == []
    assert secret_hash(ROOT_SECRET) in pairs
    assert b"canary-tokened" in pairs
    assert b"canary-plain" not in pairs, "it is revoked"


def test_the_search_finds_what_is_there() -> None:
    """Each form is found in the middle of something else; what is left out is not."""
    secret = "svct_" + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=") + "00112233"
    planted = Planted()
    planted.hidden["x"] = of_token(secret)
    raw = base64.urlsafe_b64decode(secret[5:48] + "=")
    for shown in (
        secret.encode(),
        json.dumps(bearer(secret)).encode(),
        raw,
        raw.hex().encode(),
        *(base64.b64encode(b"x" * n + secret.encode() + b"yyy") for n in range(3)),
        *(base64.b64encode(b"x" * n + raw + b"yyy") for n in range(3)),
    ):
        assert planted.found_in(b"before " + shown + b" behind") == ["x"]
    assert planted.found_in(secret_hash(secret)) == []

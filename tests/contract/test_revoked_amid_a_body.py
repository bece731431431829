"""A request whose access token is revoked while its body is on the way changes nothing (contract
12.6): the revocation was answered before, and a body may take a minute and a half."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.contract.access import EVERYWHERE, SECONDS, Account

BASIN = "revoked-amid"
GROUPS = {
    "account": {"read": True, "write": True},
    "basin": {"read": True, "write": True},
    "stream": {"read": True, "write": True},
}
REQUESTS = {
    "create a basin": ("POST", "/v1/basins", {"basin": "revoked-new"}, 201),
    "ensure a new basin": ("PUT", "/v1/basins/revoked-put", {}, 201),
    "ensure a basin": ("PUT", f"/v1/basins/{BASIN}", {"config": {}}, 200),
    "reconfigure a basin": (
        *("PATCH", f"/v1/basins/{BASIN}"),
        {"create_stream_on_append": True},
        200,
    ),
    "create a stream": ("POST", "/v1/streams", {"stream": "made"}, 201),
    "ensure a stream": ("PUT", "/v1/streams/put", {}, 201),
    "reconfigure a stream": ("PATCH", "/v1/streams/there", {"delete_on_empty": {}}, 200),
    "choose a location": ("PUT", "/v1/locations/default", "local", 200),
    "issue a token": (
        *("POST", "/v1/access-tokens"),
        {"id": "child", "scope": {"ops": ["read"]}},
        201,
    ),
    "ask for a ticket": (
        "POST",
        "/v1/read-tickets",
        {"basin": BASIN, "streams": {"exact": "there"}},
        201,
    ),
    "append": ("POST", "/v1/streams/there/records", {"records": [{"body": "x"}]}, 200),
}


def begin(account: Account, method: str, path: str, body: bytes, secret: str) -> socket.socket:
    """Send the head and one byte, and return when the server waits for the rest of the body."""
    place = urlsplit(account.endpoint)
    assert place.hostname is not None
    sock = socket.create_connection((place.hostname, place.port or 80), timeout=SECONDS)
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: {place.netloc}\r\nauthorization: Bearer {secret}\r\n"
        f"svc-format: utf8\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
    )
    named = "" if path.startswith("/v1/basins/") else f"svc-basin: {BASIN}\r\n"
    sock.sendall(head.replace("expect:", f"{named}expect:").encode())
    told = b""
    while b"\r\n\r\n" not in told:
        piece = sock.recv(4096)
        assert piece, told
        told += piece
    assert told.startswith(b"HTTP/1.1 100 "), told
    sock.sendall(body[:1])
    return sock


def rest(sock: socket.socket, body: bytes) -> tuple[int, bytes]:
    """Send what is left; status and body of the answer."""
    with sock:
        sock.sendall(body[1:])
        received = b""
        while piece := sock.recv(65536):
            received += piece
    head, _, answer = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), answer


def seen(account: Account) -> list[object]:
    """What others see of everything that the requests would change."""
    told: list[object] = [
        account.ask("GET", path, svc_basin=BASIN).json
        for path in (
            *("/v1/basins", f"/v1/basins/{BASIN}", "/v1/streams", "/v1/streams/there"),
            *("/v1/streams/there/records/tail", "/v1/locations/default"),
        )
    ]
    told.append(account.ask("GET", "/v1/access-tokens?prefix=child").json)
    return told


@pytest.fixture(scope="module")
def account(guarded: Account) -> Account:
    assert guarded.ask("POST", "/v1/basins", {"basin": BASIN}).status == 201
    made = guarded.ask("POST", "/v1/streams", {"stream": "there"}, svc_basin=BASIN)
    assert made.status == 201
    return guarded


@pytest.mark.parametrize("name", REQUESTS)
def test_what_comes_behind_the_revocation_changes_nothing(account: Account, name: str) -> None:
    """It is 401, and everybody sees what was there before; the same request of a token that is
    good is done."""
    method, path, content, _ = REQUESTS[name]
    body = json.dumps(content).encode()
    token_id, secret = account.issue({**EVERYWHERE, "op_groups": GROUPS})
    before = seen(account)
    sock = begin(account, method, path, body, secret)
    assert account.revoke(token_id).status == 204
    status, answer = rest(sock, body)
    assert (status, json.loads(answer)["code"]) == (401, "authn"), answer
    assert seen(account) == before


@pytest.mark.parametrize("name", REQUESTS)
def test_a_token_that_is_good_may_take_its_time(account: Account, name: str) -> None:
    """Each request is one that is served, so that the refusals above are of the revocation."""
    method, path, content, expected = REQUESTS[name]
    body = json.dumps(content).encode()
    _, secret = account.issue({**EVERYWHERE, "op_groups": GROUPS})
    status, answer = rest(begin(account, method, path, body, secret), body)
    assert status == expected, answer

"""What 401 and 403 say: expired or unknown, which operation on what. What 404 of a path hints at.

A refusal names what the caller named, never what is behind its prefix. Rules: contract 12.1, 12.3
and 3.9.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.access import ALL, ROOT_SECRET, Account, bearer
from tests.contract.client import Answer, Client, b64

REALM = 'Bearer realm="svc-cluster"'
BASIN = "told-basin"


@pytest.fixture(scope="module")
def stocked(guarded: Account) -> Account:
    """With a basin and a stream in it."""
    assert guarded.ask("POST", "/v1/basins", {"basin": BASIN}).status == 201
    made = guarded.ask("POST", "/v1/streams", {"stream": "t/s"}, svc_basin=BASIN)
    assert made.status == 201, made
    return guarded


@pytest.fixture(params=["http", "h2c"])
def asking(stocked: Account, request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(stocked.endpoint.replace("http", request.param, 1)) as client:
        yield client


def assert_unauthenticated(answer: Answer, told: str) -> None:
    assert (answer.status, answer.json["code"], answer.json["error"]) == (
        401,
        "authn",
        "unauthorized",
    ), answer
    assert answer.json["message"] == told
    described = f'{REALM}, error="invalid_token", error_description="{told}"'
    assert answer.headers["www-authenticate"] == described


@pytest.mark.parametrize("dialect", ["svc", "s2"])
def test_401_asks_for_a_token_and_tells_expired_from_unknown(
    stocked: Account, asking: Client, dialect: str
) -> None:
    """Expired is told to who shows the secret; unknown and revoked are told alike."""
    named = {f"{dialect}-basin": BASIN}
    missing = asking.get("/v1/streams", named)
    assert missing.status == 401
    assert missing.headers["www-authenticate"] == REALM
    unknown = "the access token is unknown or revoked"
    made_up = ROOT_SECRET[:-6] + "AAAAAA"
    for secret in ("nonsense", made_up, 'q"uote'):
        assert_unauthenticated(asking.get("/v1/streams", {**named, **bearer(secret)}), unknown)
    scope = {"basins": ALL, "ops": ["list-streams"]}
    token_id, secret = stocked.issue(scope)
    with_token = {**named, **bearer(secret)}
    assert asking.get("/v1/streams", with_token).status == 200
    stocked.revoke(token_id)
    assert_unauthenticated(asking.get("/v1/streams", with_token), unknown)
    until = datetime.now(UTC) + timedelta(seconds=1.5)
    secret = stocked.issue(scope, expires_at=until.isoformat())[1]
    with_token = {**named, **bearer(secret)}
    deadline = time.monotonic() + 20
    while (answer := asking.get("/v1/streams", with_token)).status == 200:
        assert time.monotonic() < deadline
    assert_unauthenticated(answer, "the access token has expired")


def test_what_is_refused_for_its_credentials_is_counted_by_reason(stocked: Account) -> None:
    """In `svc_auth_failures_total`: none shown, and an unknown one; what is let in is not."""

    def counts() -> dict[str, float]:
        text = stocked.ask("GET", "/metrics").body.decode()
        rows = re.findall(r'^svc_auth_failures_total\{reason="(\w+)"\} (\S+)$', text, re.MULTILINE)
        return {reason: float(count) for reason, count in rows}

    before = counts()
    with Client(stocked.endpoint) as client:
        assert client.get("/v1/basins", {}).status == 401
        assert client.get("/v1/basins", bearer("nonsense")).status == 401
        assert client.get("/v1/basins", bearer(ROOT_SECRET)).status == 200
    told = counts()
    more = {reason: count - before.get(reason, 0.0) for reason, count in told.items()}
    assert {reason: count for reason, count in more.items() if count} == {"unauthenticated": 2.0}


@pytest.mark.parametrize("dialect", ["svc", "s2"])
def test_403_names_the_operation_and_what_was_named(
    stocked: Account, asking: Client, dialect: str
) -> None:
    """An operation that is missing, and a name outside the set, wherever it stands."""
    scope = {
        "basins": {"exact": BASIN},
        "streams": {"prefix": "t/"},
        "ops": ["read", "append", "create-stream", "create-basin", "delete-basin"],
    }
    secret = bearer(stocked.issue(scope)[1])
    named = {f"{dialect}-basin": BASIN, **secret}
    stream = f"the stream `t/s` of the basin `{BASIN}`"
    trim = {"records": [{"headers": [["", "trim"]], "body": "\0" * 8}]}
    asked: list[tuple[str, str, Any, str]] = [
        ("DELETE", "/v1/streams/t%2Fs", None, f"`delete-stream` on {stream}"),
        ("PUT", "/v1/streams/t%2Fs", {}, f"`reconfigure-stream` on {stream}"),
        (
            "GET",
            "/v1/streams/other/records",
            None,
            f"`read` on the stream `other` of the basin `{BASIN}`",
        ),
        ("POST", "/v1/streams/t%2Fs/records", trim, "`trim` on the stream `t/s`"),
        ("POST", "/v1/streams", {"stream": "u"}, "`create-stream` on the stream `u`"),
        (
            "POST",
            "/v1/basins",
            {"basin": "other-basin"},
            "`create-basin` on the basin `other-basin`",
        ),
        ("GET", "/v1/basins", None, "`list-basins`"),
    ]
    for method, path, body, told in asked:
        headers = {**named, f"{dialect}-format": "utf8"}
        if body is not None:
            answer = send(asking, method, path, body, headers)
        else:
            answer = asking.request(method, path, None, headers)
        assert (answer.status, answer.json["code"]) == (403, "permission_denied"), (path, answer)
        assert answer.json["message"] == f"the access token does not allow {told}"
    answer = asking.delete("/v1/basins/other-basin", secret)
    told = "the access token does not allow `delete-basin` on the basin `other-basin`"
    assert (answer.status, answer.json["message"]) == (403, told)


def send(client: Client, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
    sent = {"content-type": "application/json", **headers}
    return client.request(method, path, json.dumps(body).encode(), sent)


def test_403_does_not_tell_the_prefix_of_the_token(stocked: Account, asking: Client) -> None:
    """The caller's own name for the stream stands there."""
    scope = {"basins": ALL, "streams": {"prefix": "hidden/"}, "ops": ["read", "append"]}
    secret = stocked.issue(scope, auto_prefix_streams=True)[1]
    named = {"svc-basin": BASIN, **bearer(secret)}
    fence = {"records": [{"headers": [["", b64("fence")]]}]}
    answers = [
        asking.delete("/v1/streams/mine", named),
        asking.post("/v1/streams/mine/records", fence, named),
    ]
    for answer in answers:
        assert answer.status == 403
        assert "`mine`" in answer.json["message"]
        assert "hidden" not in answer.json["message"]


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/streams/a/b/records", "; a slash within a name is sent as %2F"),
        ("/v1/streams/a/b", "; a slash within a name is sent as %2F"),
        ("/v1/streams/a/b/c/records/tail", "; a slash within a name is sent as %2F"),
        ("/v1/basins/abcdefgh/streams/a/b/read", "; a slash within a name is sent as %2F"),
        ("/v1/access-tokens/a/b", "; a slash within a name is sent as %2F"),
        ("/v1/streams/s/records/", "; without the slash at its end there is"),
        ("/v1/basins/", "; without the slash at its end there is"),
        ("/v1/basins/told-basin/streams/", "; without the slash at its end there is"),
        ("/v1/streams/", "; without the slash at its end there is"),
        ("/v1/access-tokens/", "; without the slash at its end there is"),
        ("/v1/metrics/told-basin/", "; without the slash at its end there is"),
        ("/v1/basins//", ""),
        ("/health/", "; without the slash at its end there is"),
        ("/nowhere", ""),
        ("/", ""),
        ("/nowhere/", ""),
        ("/v2/streams/a/b/records", ""),
        ("/" * 4000, ""),
    ],
)
def test_404_of_a_path_hints_at_what_was_meant(
    stocked: Account, asking: Client, path: str, told: str, dialect: str
) -> None:
    """A slash in a name, and one at the end; what is like nothing gets no hint."""
    marked = {f"{dialect}-strict": "false"}
    answer = asking.get(path, {**bearer(ROOT_SECRET), **marked})
    assert (answer.status, answer.json["code"]) == (404, "not_found"), answer
    assert answer.json["message"] == f"there is nothing at this path{told}"


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize(
    "path", ["/v1/streams//records", "/v1/basins//streams/s", f"/v1/basins/{BASIN}/streams//read"]
)
def test_two_slashes_behind_each_other_are_told_as_such(
    stocked: Account, asking: Client, path: str, dialect: str
) -> None:
    """Not how long a name is to be: there is none."""
    answer = asking.get(path, {**bearer(ROOT_SECRET), f"{dialect}-basin": BASIN})
    assert (answer.status, answer.json["code"]) == (400, "bad_path")
    told = "the path has two slashes behind each other, where a name belongs"
    assert answer.json["message"] == told


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_a_path_that_ends_with_a_slash_is_nothing_for_any_method(
    stocked: Account, asking: Client, method: str
) -> None:
    """Whatever the method can do with a name, or without one."""
    for path in ("/v1/basins/", "/v1/streams/", "/v1/access-tokens/"):
        answer = asking.request(method, path, b"{}", {**bearer(ROOT_SECRET), "svc-basin": BASIN})
        assert (answer.status, answer.json["code"]) == (404, "not_found")
        assert answer.json["message"].endswith("; without the slash at its end there is")


def test_options_of_the_server_as_a_whole(stocked: Account, asking: Client) -> None:
    """204 with the methods there are, without a token; `*` is nothing for other methods."""
    methods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
    for marked in ({}, {"svc-strict": "false"}, {"s2-strict": "false"}):
        answer = asking.request("OPTIONS", "*", None, marked)
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["allow"] == methods
    assert asking.request("GET", "*").status == 400

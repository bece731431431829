"""The audit log of a server that asks for access tokens: who did what, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.cli.admin.audit_verify import verify
from svc_cluster.codec.session_frame import encode_frame
from svc_cluster.model.access_secret import secret_text
from tests.contract.access import EVERYWHERE, ROOT_SECRET, Account, bearer
from tests.contract.client import b64
from tests.contract.session_client import append_session
from tests.log_lines import json_lines

BASIN = "audited-01"


class Log:
    """The lines that have been added since the last look."""

    def __init__(self, account: Account) -> None:
        self._path = account.directory / "audit.log"
        self._seen = 0

    def peek(self) -> list[dict[str, Any]]:
        seen = self._seen
        found = self.new()
        self._seen = seen
        return found

    def new(self) -> list[dict[str, Any]]:
        lines = json_lines(self._path)
        fresh, self._seen = lines[self._seen :], len(lines)
        return fresh


@pytest.fixture(scope="module")
def log(guarded: Account) -> Log:
    assert guarded.ask("POST", "/v1/basins", {"basin": BASIN}).status == 201
    return Log(guarded)


def short(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        event[name] for name in ("operation", "token", "basin", "stream", "token_id", "status")
    )


def test_the_operators_root_token_is_the_first_line(guarded: Account, log: Log) -> None:
    """Brought by the node, from a file: nobody's token stands behind it."""
    first = log.new()[0]
    assert (first["operation"], first["token"], first["token_id"]) == (
        "set-root-token",
        "-",
        "root",
    )
    assert (first["effect"], first["node"]) == ("done", 1)


def test_who_did_what_and_what_came_of_it(guarded: Account, log: Log) -> None:
    """A tenant behind a prefix does, tries and is refused; the lines are there before the answers,
    in order, with full names, and at the moment it happened."""
    began = datetime.now(UTC) - timedelta(seconds=1)
    log.new()
    scope = {
        **EVERYWHERE,
        "streams": {"prefix": "t7/"},
        "ops": ["create-stream", "delete-stream", "issue-access-token"],
    }
    _, tenant = guarded.issue(scope, id="tenant-7", auto_prefix_streams=True)
    here = {"svc_basin": BASIN}
    steps = [
        guarded.ask("POST", "/v1/streams", {"stream": "new"}, tenant, **here),
        guarded.ask("POST", "/v1/streams", {"stream": "new"}, tenant, **here),
        guarded.ask("PATCH", "/v1/streams/new", {}, tenant, **here),
        guarded.ask("DELETE", f"/v1/basins/{BASIN}", None, tenant),
        guarded.ask("DELETE", "/v1/streams/new", None, tenant, **here),
        guarded.ask("PUT", "/v1/locations/default", "nowhere"),
        guarded.revoke("tenant-7"),
        guarded.revoke("tenant-7"),
        guarded.ask("POST", "/v1/streams", {"stream": "late"}, tenant, **here),
    ]
    told = log.new()
    assert [short(event) for event in told] == [
        ("issue-access-token", "root", None, None, "tenant-7", 201),
        ("create-stream", "tenant-7", BASIN, "t7/new", None, 201),
        ("create-stream", "tenant-7", BASIN, "t7/new", None, 409),
        ("reconfigure-stream", "tenant-7", BASIN, "new", None, 403),
        ("delete-basin", "tenant-7", BASIN, None, None, 403),
        ("delete-stream", "tenant-7", BASIN, "t7/new", None, 202),
        ("set-default-location", "root", None, None, None, 400),
        ("revoke-access-token", "root", None, None, "tenant-7", 204),
        ("revoke-access-token", "root", None, None, "tenant-7", 404),
        ("create-stream", "-", BASIN, None, None, 401),
    ]
    assert [event["status"] for event in told[1:]] == [step.status for step in steps]
    assert [event["code"] for event in told] == [
        None,
        None,
        "resource_already_exists",
        "permission_denied",
        "permission_denied",
        None,
        "invalid",
        None,
        "access_token_not_found",
        "authn",
    ]
    effects = ["done" if event["status"] < 300 else "none" for event in told]
    assert [event["effect"] for event in told] == effects
    assert told[6]["location"] == "nowhere"
    for event in told:
        assert event["address"] == "127.0.0.1"
        assert began < datetime.fromisoformat(event["time"]) < datetime.now(UTC)


def test_reads_lists_and_appends_are_not_told(guarded: Account, log: Log) -> None:
    """But a stream that an append makes is."""
    patch = {"create_stream_on_append": True}
    assert guarded.ask("PATCH", f"/v1/basins/{BASIN}", patch).status == 200
    log.new()
    for _ in range(2):
        record = {"records": [{"body": "eA=="}]}
        path = "/v1/streams/by-append/records"
        assert guarded.ask("POST", path, record, svc_basin=BASIN).status == 200
        assert guarded.ask("GET", path + "?seq_num=0", svc_basin=BASIN).status == 200
    for path in ("/v1/basins", "/v1/access-tokens", "/v1/locations", "/metrics"):
        assert guarded.ask("GET", path).status == 200
    (event,) = log.new()
    assert (event["operation"], event["token"]) == ("auto-create-stream", "root")
    assert (event["basin"], event["stream"]) == (BASIN, "by-append")


def test_trims_and_fences_are_told(guarded: Account, log: Log) -> None:
    """Done and refused, by the token that asked, of requests and of sessions; those that a token
    may not send too. The log is a whole chain."""
    path, stream = "/v1/streams/commands/records", {"stream": "commands"}
    assert guarded.ask("POST", "/v1/streams", stream, svc_basin=BASIN).status == 201
    token_id, secret = guarded.issue({**EVERYWHERE, "ops": ["append", "trim"]})
    log.new()

    def command(kind: str, body: str) -> dict[str, Any]:
        return {"records": [{"headers": [["", b64(kind)]], "body": b64(body)}]}

    def ask(body: dict[str, Any], who: str) -> int:
        return guarded.ask("POST", path, body, who, svc_basin=BASIN, x_request_id="r-1").status

    assert ask({"records": [{"body": b64("x")}]}, secret) == 200
    assert ask(command("trim", "\0" * 7 + "\1"), secret) == 200
    assert ask(command("fence", "fence-mark-72"), secret) == 403
    assert ask(command("fence", "fence-mark-72"), ROOT_SECRET) == 200
    assert ask({**command("fence", ""), "fencing_token": "other"}, ROOT_SECRET) == 412
    with append_session(guarded.endpoint, BASIN, "commands", **bearer(secret)) as session:
        message = pb.AppendInput(fencing_token="fence-mark-72")
        message.records.add(body=bytes(8)).headers.add(name=b"", value=b"trim")
        session.send(*[encode_frame(message.SerializeToString())] * 200)
        session.half_close()
        assert len(session.rest()) == 200
    guarded.until(lambda: sum(e["count"] for e in log.peek() if e["operation"] == "trim") == 201)
    told = log.new()
    assert len(told) < 10
    short = [(e["operation"], e["token"], e["effect"], e["code"], e["count"]) for e in told]
    assert short[:4] == [
        ("trim", token_id, "done", None, 1),
        ("fence", token_id, "none", "permission_denied", 1),
        ("fence", "root", "done", None, 1),
        ("fence", "root", "none", "append_condition_failed", 1),
    ]
    assert (told[0]["trim_point"], told[0]["request_id"], told[0]["stream"]) == (
        1,
        "r-1",
        "commands",
    )
    text = (guarded.directory / "audit.log").read_text()
    assert "mark-72" not in text
    assert verify([guarded.directory / "audit.log"]).findings == []


def test_nothing_but_names_is_told(guarded: Account, log: Log) -> None:
    """Of a request with every kind of secret in it, none is there, in whatever header or member it
    came; the request's id is, as long as it does not look like one itself."""
    log.new()
    other = secret_text(b"\x21" * 32)
    body = {
        "id": "quiet",
        "scope": {**EVERYWHERE, "streams": {"prefix": "scope-mark-71"}, "ops": ["read"]},
        "unknown": "member-mark-71",
    }
    answer = guarded.ask(
        "POST",
        "/v1/access-tokens?mark=query-mark-71",
        body,
        svc_request_token="request-token-71",
        svc_encryption_key="a2V5LW1hcmsta2V5LW1hcmsta2V5LW1hcmsta2V5LW0=",
        cookie="cookie-mark-71",
        user_agent="agent-mark-71",
        x_request_id=other,
    )
    assert answer.status == 201, answer
    (event,) = log.new()
    assert event["token_id"] == "quiet"
    text = (guarded.directory / "audit.log").read_text()
    assert "-71" not in text
    assert "a2V5" not in text
    assert other[:20] not in text
    assert answer.json["access_token"] not in text
    assert "svct_" not in text


def test_a_stranger_is_told_without_a_name(guarded: Account, log: Log) -> None:
    """None, garbage, and a token that never was: all alike, none of it in the log."""
    log.new()
    for headers in ({}, {"authorization": "Bearer garbage-71"}, bearer(secret_text(b"\x22" * 32))):
        answer = guarded.ask("DELETE", f"/v1/basins/{BASIN}", None, None, **headers)
        assert answer.status == 401
    told = log.new()
    assert [(e["token"], e["code"], e["basin"]) for e in told] == [("-", "authn", BASIN)] * 3
    assert "garbage" not in (guarded.directory / "audit.log").read_text()

"""`svc-request-token`: a write that is repeated is answered as it was, and not done again.

Rules: contract 10.1, 10.2 and 10.3.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.gateway.endpoints.table import ROUTER
from tests.contract.access import EVERYWHERE, ROOT_SECRET, SECONDS, Account
from tests.contract.client import Answer, Client, b64
from tests.contract.conftest import Server

SHARES_A_BASIN = True
JSON = {"content-type": "application/json"}
_NUMBERS = itertools.count()


def token() -> dict[str, str]:
    return {"svc-request-token": f"retry-{next(_NUMBERS)}"}


def told(answer: Answer) -> tuple[int, bytes, str | None, str | None]:
    """What a client sees of an answer."""
    headers = answer.headers
    return (
        answer.status,
        answer.body,
        headers.get("content-type"),
        headers.get("s2-provision-result"),
    )


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def send(
    client: Client, method: str, path: str, body: Any, headers: dict[str, str], **more: str
) -> Answer:
    data = None if body is None else json.dumps(body).encode()
    return client.request(method, path, data, {**(JSON if data else {}), **headers, **more})


RECORDS = {"records": [{"body": b64("r")}]}
SCOPE = {"ops": ["read"], "streams": {"prefix": ""}, "basins": {"prefix": ""}}

WRITES: dict[str, tuple[str, str, Any, int]] = {
    "create basin": ("POST", "/v1/basins", {"basin": "{new_basin}"}, 201),
    "ensure a new basin": ("PUT", "/v1/basins/{new_basin}", None, 201),
    "ensure a basin": (
        "PUT",
        "/v1/basins/{own_basin}",
        {"config": {"create_stream_on_read": True}},
        200,
    ),
    "reconfigure basin": ("PATCH", "/v1/basins/{own_basin}", {"create_stream_on_read": True}, 200),
    "delete basin": ("DELETE", "/v1/basins/{own_basin}", None, 202),
    "create stream": ("POST", "/v1/streams", {"stream": "{new_stream}"}, 201),
    "ensure a new stream": ("PUT", "/v1/streams/{new_stream}", None, 201),
    "ensure a stream": ("PUT", "/v1/streams/{stream}", {"storage_class": "express"}, 200),
    "reconfigure stream": ("PATCH", "/v1/streams/{stream}", {"storage_class": "express"}, 200),
    "delete stream": ("DELETE", "/v1/streams/{stream}", None, 202),
    "append": ("POST", "/v1/streams/{stream}/records", RECORDS, 200),
    "append by the other path": (
        "POST",
        "/v1/basins/{basin}/streams/{stream}/append",
        RECORDS,
        200,
    ),
    "create stream by the other path": (
        "POST",
        "/v1/basins/{basin}/streams",
        {"stream": "{new_stream}"},
        201,
    ),
    "ensure a stream by the other path": (
        "PUT",
        "/v1/basins/{basin}/streams/{stream}",
        {"storage_class": "express"},
        200,
    ),
    "reconfigure stream by the other path": (
        "PATCH",
        "/v1/basins/{basin}/streams/{stream}",
        {"storage_class": "express"},
        200,
    ),
    "delete stream by the other path": (
        "DELETE",
        "/v1/basins/{basin}/streams/{stream}",
        None,
        202,
    ),
    "choose a location": ("PUT", "/v1/locations/default", "local", 200),
    "revoke token": ("DELETE", "/v1/access-tokens/{token}", None, 204),
}
"""Every write that its client can repeat but the issuing of tokens, which needs a secret. A read
ticket is written nowhere."""


def test_every_route_that_writes_is_here() -> None:
    """The list is that of the router."""
    routes = {
        (method, re.sub(r"\{[a-z_]+\}", "{}", resource.template))
        for resource in ROUTER.resources
        for method in resource.methods
        if method != "GET"
    }
    tried = {(method, re.sub(r"\{[a-z_]+\}", "{}", path)) for method, path, *_ in WRITES.values()}
    assert routes == tried | {("POST", "/v1/access-tokens"), ("POST", "/v1/read-tickets")}


class Scene:
    """What the writes of one test are about."""

    def __init__(self, client: Client, basin: str, stream: str) -> None:
        self.client, self.basin, self.stream = client, basin, stream
        number = next(_NUMBERS)
        self.names = {
            "new_basin": f"once-new-{number:05}",
            "own_basin": f"once-own-{number:05}",
            "new_stream": f"new-{number}",
            "token": f"token-{number}",
            "basin": basin,
            "stream": stream,
        }

    def prepare(self, path: str) -> None:
        if "{own_basin}" in path:
            answer = self.client.post("/v1/basins", {"basin": self.names["own_basin"]})
            assert answer.status == 201
        if "{token}" in path:
            body = {"id": self.names["token"], "scope": SCOPE}
            assert self.client.post("/v1/access-tokens", body).status == 201

    def ask(self, what: str, headers: dict[str, str]) -> Answer:
        method, path, body, _ = WRITES[what]
        text = json.dumps(body)
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", value)
            text = text.replace(f"{{{name}}}", value)
        named = {} if "/v1/streams" not in path else {"svc-basin": self.basin}
        return send(self.client, method, path, json.loads(text), {**named, **headers})


@pytest.fixture
def scene(client: Client, basin: str, stream: str) -> Scene:
    return Scene(client, basin, stream)


@pytest.mark.parametrize("what", WRITES)
def test_every_write_is_answered_twice_and_done_once(scene: Scene, what: str) -> None:
    """Status, body and result are those of the first answer. The same request under another token
    is another one: what it finds shows that the first has happened."""
    _, path, _, status = WRITES[what]
    scene.prepare(path)
    once = token()
    first = scene.ask(what, once)
    assert first.status == status, first
    for _ in range(2):
        assert told(scene.ask(what, once)) == told(first)
    other = scene.ask(what, token())
    if what.startswith("append"):
        assert other.json["start"]["seq_num"] == 1
    elif what in ("create basin", "create stream", "delete stream"):
        assert told(other) != told(first) or what == "delete stream"
    elif what.startswith("ensure"):
        assert other.headers["s2-provision-result"] == "noop"
        assert first.headers["s2-provision-result"] in ("created", "updated")


def test_a_token_has_1_to_36_bytes_on_every_write(scene: Scene) -> None:
    """Otherwise nothing is done."""
    for what, value in itertools.product(WRITES, ("", "x" * 37)):
        answer = scene.ask(what, {"svc-request-token": value})
        assert (answer.status, answer.json["code"]) == (400, "bad_header")
        assert answer.headers["svc-side-effects"] == "none"


def test_two_tokens_that_differ_are_refused(endpoint: str, scene: Scene) -> None:
    """One request is one request."""
    if endpoint.startswith("h2c"):
        pytest.skip("the client takes one value for a name")
    connection = scene.client.connection
    connection.putrequest("DELETE", f"/v1/streams/{scene.stream}")  # type: ignore[union-attr]
    for name, value in [
        ("svc-basin", scene.basin),
        ("svc-request-token", "a"),
        ("svc-request-token", "b"),
    ]:
        connection.putheader(name, value)  # type: ignore[union-attr]
    connection.endheaders()  # type: ignore[union-attr]
    response = connection.getresponse()
    assert response.status == 400
    response.read()


@pytest.mark.parametrize("value", ["", "x" * 36, "x" * 37])
def test_reads_take_no_notice_of_a_token(scene: Scene, value: str) -> None:
    """Be it legal or not: they have no effect to repeat."""
    headers = {"svc-basin": scene.basin, "svc-request-token": value}
    for path in (
        f"/v1/streams/{scene.stream}/records",
        f"/v1/streams/{scene.stream}/records/tail",
        f"/v1/streams/{scene.stream}",
        "/v1/streams",
        "/v1/basins",
    ):
        assert scene.client.get(path, headers).status == 200


# -- what is one request


def proto(*bodies: bytes) -> bytes:
    message = pb.AppendInput(records=[pb.AppendRecord(body=body) for body in bodies])
    return message.SerializeToString()


def test_one_append_in_all_its_forms(scene: Scene) -> None:
    """Both paths, any format, media type and Content-Encoding: one batch, one answer."""
    client, basin, stream = scene.client, scene.basin, scene.stream
    path, other = f"/v1/streams/{stream}/records", f"/v1/basins/{basin}/streams/{stream}/append"
    once = {**token(), "svc-basin": basin}
    binary = {"content-type": "application/protobuf"}
    as_text = json.dumps({"records": [{"body": "text"}]}).encode()
    as_base64 = json.dumps({"records": [{"headers": [], "body": b64("text")}]}).encode()
    first = client.request("POST", path, as_base64, {**JSON, **once})
    assert first.status == 200
    for answer in (
        client.request("POST", other, as_base64, {**JSON, **once}),
        client.request("POST", path, as_text, {**JSON, **once, "svc-format": "utf8"}),
        client.request("POST", other, proto(b"text"), {**binary, **once}),
        client.request(
            "POST", path, gzip.compress(as_base64), {**JSON, **once, "content-encoding": "gzip"}
        ),
    ):
        assert told(answer) == told(first)
    ack = client.request(
        "POST", path, proto(b"text"), {**binary, **once, "accept": "application/protobuf"}
    )
    assert pb.AppendAck.FromString(ack.body).end.seq_num == 1
    assert client.tail(basin, stream) == 1


def test_a_different_request_with_a_used_token_is_carried_out(scene: Scene) -> None:
    """Another body, condition, stream or operation."""
    client, basin, stream = scene.client, scene.basin, scene.stream
    once = token()
    other = client.create_stream(basin, f"{stream}-other")
    assert client.append(basin, stream, "a", headers=once).json["end"]["seq_num"] == 1
    assert client.append(basin, stream, "b", headers=once).json["end"]["seq_num"] == 2
    assert client.append(basin, stream, "a", "a", headers=once).json["end"]["seq_num"] == 4
    conditional = client.append(basin, stream, "a", headers=once, match_seq_num=4)
    assert conditional.json["end"]["seq_num"] == 5
    assert client.append(basin, other, "a", headers=once).json["end"]["seq_num"] == 1
    assert scene.ask("delete stream", once).status == 202


def test_a_token_holds_in_one_basin(client: Client, scene: Scene) -> None:
    """The same stream name, body and token elsewhere is another request."""
    second = f"once-two-{next(_NUMBERS):05}"
    client.post("/v1/basins", {"basin": second})
    client.create_stream(second, scene.stream)
    once = token()
    for basin in (scene.basin, second):
        assert client.append(basin, scene.stream, "a", headers=once).json["start"]["seq_num"] == 0


# -- refusals


def test_definite_refusals_stand(scene: Scene) -> None:
    """412 and 409 of the log are given again when they would not come any more."""
    client, basin, stream = scene.client, scene.basin, scene.stream
    once = token()
    refused = client.append(basin, stream, "a", headers=once, match_seq_num=1)
    assert refused.json["seq_num_mismatch"] == 0
    fenced = client.append(basin, stream, "a", headers=once, fencing_token="x")
    assert fenced.json["fencing_token_mismatch"] == ""
    taken = send(client, "POST", "/v1/streams", {"stream": stream}, once, **{"svc-basin": basin})
    assert taken.status == 409
    client.append(basin, stream, "b")
    again = client.append(basin, stream, "a", headers=once, match_seq_num=1)
    assert told(again) == told(refused)
    assert again.headers["svc-side-effects"] == "none"
    client.delete(f"/v1/streams/{stream}", {"svc-basin": basin})
    assert told(client.append(basin, stream, "a", headers=once, fencing_token="x")) == told(fenced)
    repeated = send(client, "POST", "/v1/streams", {"stream": stream}, once, **{"svc-basin": basin})
    assert told(repeated) == told(taken)


def test_refusals_from_before_the_log_are_worked_out_anew(scene: Scene) -> None:
    """404 and 400 say nothing of the next attempt."""
    client, basin = scene.client, scene.basin
    name = scene.names["new_stream"]
    once = token()
    assert client.append(basin, name, "a", headers=once).status == 404
    client.create_stream(basin, name)
    assert client.append(basin, name, "a", headers=once).status == 200
    headers = {"svc-basin": basin, **once}
    assert client.post(f"/v1/streams/{name}/records", {"records": []}, headers).status == 400
    assert client.append(basin, name, "a", headers=once).json["end"]["seq_num"] == 1


# -- what follows upon a write


def test_an_outcome_outlives_its_stream(client: Client, scene: Scene) -> None:
    """Where an append makes missing streams, a repetition makes none."""
    basin = scene.names["own_basin"]
    config = {"create_stream_on_append": True}
    client.post("/v1/basins", {"basin": basin, "config": config})
    once = token()
    first = client.append(basin, "made", "a", headers=once)
    assert first.status == 200
    assert client.delete("/v1/streams/made", {"svc-basin": basin}).status == 202
    until(lambda: not client.get("/v1/streams", {"svc-basin": basin}).json["streams"])
    assert told(client.append(basin, "made", "a", headers=once)) == told(first)
    assert client.get("/v1/streams", {"svc-basin": basin}).json["streams"] == []


def test_an_outcome_outlives_its_basin(client: Client, scene: Scene) -> None:
    """What the catalog did is known when the basin is gone and another one has its name, and a
    repeated deletion does not delete that."""
    name = scene.names["new_basin"]
    made, gone = token(), token()
    created = client.post("/v1/basins", {"basin": name}, made)
    deleted = client.delete(f"/v1/basins/{name}", gone)
    assert (created.status, deleted.status) == (201, 202)
    until(lambda: client.post("/v1/basins", {"basin": name}).status == 201)
    assert told(client.post("/v1/basins", {"basin": name}, made)) == told(created)
    assert told(client.delete(f"/v1/basins/{name}", gone)) == told(deleted)
    assert client.get(f"/v1/basins/{name}").status == 200


def test_encrypted_appends_are_repeated_too(client: Client, scene: Scene) -> None:
    """Each attempt seals anew, under nonces of its own; a stream that is gone is no obstacle."""
    basin = scene.names["own_basin"]
    client.post("/v1/basins", {"basin": basin, "config": {"stream_cipher": "aegis-256"}})
    client.create_stream(basin, "sealed")
    key = {"svc-encryption-key": base64.b64encode(bytes(32)).decode()}
    once = {**token(), **key}
    first = client.append(basin, "sealed", "a", headers=once)
    assert first.status == 200
    assert told(client.append(basin, "sealed", "a", headers=once)) == told(first)
    assert client.tail(basin, "sealed") == 1
    client.delete("/v1/streams/sealed", {"svc-basin": basin})
    assert told(client.append(basin, "sealed", "a", headers=once)) == told(first)
    assert client.append(basin, "sealed", "a", headers={**token(), **key}).status == 409


def test_attempts_at_one_time_are_one(endpoint: str, scene: Scene) -> None:
    """Later ones wait for the first, which is still on its way."""
    once = token()
    answers: list[Answer] = []

    def attempt() -> None:
        with Client(endpoint) as client:
            answers.append(client.append(scene.basin, scene.stream, "a", headers=once))

    threads = [threading.Thread(target=attempt) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {told(answer) for answer in answers} == {told(answers[0])}
    assert answers[0].status == 200
    assert scene.client.tail(scene.basin, scene.stream) == 1


# -- who asks


def issue(account: Account, once: dict[str, str], secret: str, **body: Any) -> Answer:
    data = json.dumps({"scope": SCOPE, **body}).encode()
    headers = {**JSON, **once, "authorization": f"Bearer {secret}"}
    return account.client.request("POST", "/v1/access-tokens", data, headers)


def test_a_new_tokens_secret_is_told_again_to_its_issuer_alone(guarded: Account) -> None:
    """Whoever sends the same request with another access token learns that it has been issued."""
    once, token_id = token(), f"issued-{next(_NUMBERS)}"
    first = issue(guarded, once, ROOT_SECRET, id=token_id)
    assert first.status == 201
    assert told(issue(guarded, once, ROOT_SECRET, id=token_id)) == told(first)
    secret = first.json["access_token"]
    assert guarded.ask("GET", "/v1/basins", None, secret).status == 403
    _, other = guarded.issue(
        {**EVERYWHERE, "op_groups": {"account": {"read": True, "write": True}}}
    )
    refused = issue(guarded, once, other, id=token_id, scope={**EVERYWHERE, "ops": ["list-basins"]})
    assert (refused.status, refused.json["code"]) == (409, "resource_already_exists")
    again = issue(guarded, token(), ROOT_SECRET, id=token_id)
    assert (again.status, again.json["code"]) == (409, "resource_already_exists")
    gone = guarded.ask("DELETE", f"/v1/access-tokens/{token_id}", **once)
    assert gone.status == 204
    assert guarded.ask("DELETE", f"/v1/access-tokens/{token_id}", **once).status == 204
    assert guarded.ask("DELETE", f"/v1/access-tokens/{token_id}").status == 404
    assert told(issue(guarded, once, ROOT_SECRET, id=token_id)) == told(first)
    assert guarded.ask("GET", "/v1/basins", None, secret).status == 401


def test_the_same_request_of_another_caller_gets_no_secret(guarded: Account) -> None:
    """Same token, same body, same rights: 409, and the text says no secret."""
    rights = {**EVERYWHERE, "ops": ["issue-access-token", "read"]}
    _, one = guarded.issue(rights)
    _, two = guarded.issue(rights)
    once, token_id = token(), f"issued-{next(_NUMBERS)}"
    first = issue(guarded, once, one, id=token_id)
    assert first.status == 201, first
    refused = issue(guarded, once, two, id=token_id)
    assert refused.status == 409
    assert first.json["access_token"].encode() not in refused.body
    assert told(issue(guarded, once, one, id=token_id)) == told(first)


def test_a_retry_under_another_access_token_finds_its_outcome(guarded: Account) -> None:
    """Rights are checked anew, before; a prefix makes full names."""
    basin = f"once-auth-{next(_NUMBERS):05}"
    guarded.ask("POST", "/v1/basins", {"basin": basin})
    guarded.ask("POST", "/v1/streams", {"stream": "mine/s"}, svc_basin=basin)
    everything = {**EVERYWHERE, "ops": ["append", "check-tail"]}
    _, whole = guarded.issue(everything)
    _, reader = guarded.issue({**EVERYWHERE, "ops": ["check-tail"]})
    scope = {**everything, "streams": {"prefix": "mine/"}}
    _, prefixed = guarded.issue(scope, auto_prefix_streams=True)
    once = token()

    def append(stream: str, secret: str) -> Answer:
        path = f"/v1/streams/{stream}/records"
        return guarded.ask("POST", path, RECORDS, secret, svc_basin=basin, **once)

    first = append("mine%2Fs", whole)
    assert first.status == 200
    assert told(append("s", prefixed)) == told(first)
    assert append("mine%2Fs", reader).status == 403
    assert append("mine%2Fs", "svct_no").status == 401
    assert told(append("mine%2Fs", ROOT_SECRET)) == told(first)


# -- how long and how many


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Server]:
    """A server that remembers few outcomes."""
    server = Server(tmp_path, 10.0, node={"request_outcomes_max": 2})
    yield server
    server.stop()


def test_when_there_is_no_room_tokened_writes_wait(small: Server) -> None:
    """429 with the time until there is room, without effect; nothing is forgotten for it, other
    writes go on, and a restart changes nothing."""
    with Client(f"http://127.0.0.1:{small.port}") as client:
        client.post("/v1/basins", {"basin": "few-outcomes"})
        client.create_stream("few-outcomes", "s")
        first, second = token(), token()
        answers = [client.append("few-outcomes", "s", "a", headers=t) for t in (first, second)]
        full = client.append("few-outcomes", "s", "a", headers=token())
        assert (full.status, full.json["code"]) == (429, "rate_limited")
        assert full.headers["svc-side-effects"] == "none"
        assert 86_000_000 < int(full.headers["retry-after-ms"]) <= 86_400_000
        assert client.append("few-outcomes", "s", "a").status == 200
    small.restart()
    with Client(f"http://127.0.0.1:{small.port}") as client:
        for once, answer in zip((first, second), answers, strict=True):
            assert told(client.append("few-outcomes", "s", "a", headers=once)) == told(answer)
        assert client.append("few-outcomes", "s", "a", headers=token()).status == 429
        assert client.tail("few-outcomes", "s") == 3

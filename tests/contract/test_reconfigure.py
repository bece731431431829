"""Ensure and reconfigure basins and streams, and creates that are repeated.

Rules: contract 9.2, 9.4, 9.5, 9.6 and 9.10.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.client import Answer, Client
from tests.contract.session_client import append_session, input_frame

JSON = {"content-type": "application/json"}
FUTURE_MS = 4_000_000_000_000
SEED, S2 = "svc-basin", "s2-basin"
DEFAULTS: dict[str, Any] = {
    "storage_class": "standard",
    "retention_policy": {"age": 604800},
    "timestamping": {"mode": "client-prefer", "uncapped": False},
    "delete_on_empty": {"min_age_secs": 0},
}
FULL: dict[str, Any] = {
    "storage_class": "express",
    "retention_policy": {"infinite": {}},
    "timestamping": {"mode": "arrival", "uncapped": True},
    "delete_on_empty": {"min_age_secs": 7},
}


def send(client: Client, method: str, path: str, body: Any, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.request(method, path, data, {**JSON, **headers})


def outcome(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.headers["s2-provision-result"]


# -- ensure


def test_a_basin_is_ensured(client: Client, basin: str) -> None:
    """Created, unchanged, updated; described as a create describes it, always with the same time
    of creation."""
    path, config = f"/v1/basins/{basin}-e", {"create_stream_on_read": True}
    made = send(client, "PUT", path, {"config": config})
    assert outcome(made) == (201, "created")
    assert made.json["name"] == f"{basin}-e"
    again = send(client, "PUT", path, {"config": config})
    assert outcome(again) == (200, "noop")
    changed = send(client, "PUT", path, {})
    assert outcome(changed) == (200, "updated")
    listed = client.get(f"/v1/basins?prefix={basin}-e").json["basins"]
    assert made.json == again.json == changed.json == listed[0]
    assert client.get(path).json["create_stream_on_read"] is False


def test_a_stream_is_ensured(client: Client, basin: str) -> None:
    """By its configuration, bare or wrapped; what is not said goes back to the defaults."""
    head = {SEED: basin}
    made = send(client, "PUT", "/v1/streams/a%2Fb", FULL, **head)
    assert outcome(made) == (201, "created")
    assert made.json["name"] == "a/b"
    again = send(client, "PUT", "/v1/streams/a%2Fb", {"config": FULL}, **head)
    assert outcome(again) == (200, "noop")
    assert client.get("/v1/streams/a%2Fb", head).json == FULL
    part = {"timestamping": {"uncapped": True}}
    changed = send(client, "PUT", "/v1/streams/a%2Fb", part, **head)
    assert outcome(changed) == (200, "updated")
    assert client.get("/v1/streams/a%2Fb", head).json == {
        **DEFAULTS,
        "timestamping": {"mode": "client-prefer", "uncapped": True},
    }
    listed = client.get("/v1/streams", head).json["streams"]
    assert [made.json] == listed == [again.json] == [changed.json]


@pytest.mark.parametrize(
    ("body", "headers"), [(None, {}), (b"", JSON), (b"null", JSON), (b"{}", JSON)]
)
def test_the_body_of_an_ensure_is_optional(
    client: Client, basin: str, body: bytes | None, headers: dict[str, str]
) -> None:
    """Nothing, null and an empty object are the default configuration."""
    name = f"/v1/basins/{basin}-o"
    assert outcome(client.request("PUT", name, body, headers)) == (201, "created")
    assert outcome(client.request("PUT", name, body, headers)) == (200, "noop")
    client.delete(name)
    headers = {**headers, SEED: basin}
    assert outcome(client.request("PUT", "/v1/streams/s", body, headers)) == (201, "created")
    assert outcome(client.request("PUT", "/v1/streams/s", body, headers)) == (200, "noop")
    assert client.get("/v1/streams/s", headers).json == DEFAULTS


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_said_to_be_something_else_is_refused(
    client: Client, basin: str, kind: str
) -> None:
    """To take it for no configuration would undo the one there is."""
    headers = {SEED: basin, "content-type": kind}
    for path in ("/v1/streams/s", f"/v1/basins/{basin}"):
        answer = client.request("PUT", path, b"{}", headers)
        assert (answer.status, answer.json["code"]) == (400, "bad_json")
        assert answer.headers["svc-side-effects"] == "none"


@pytest.mark.parametrize("header", [SEED, S2])
def test_a_body_that_says_nothing_of_its_type_is_json(
    client: Client, basin: str, header: str
) -> None:
    """On every operation that takes a body: the configuration counts, and what is no JSON is
    refused as that."""
    here = {header: basin}
    name = f"{basin}-n"
    infinite: dict[str, object] = {"retention_policy": {"infinite": {}}}
    config = {"default_stream_config": infinite}
    token = f"token-{header}-{basin}-{type(client.connection).__name__}"
    asked: list[tuple[str, str, object, int]] = [
        ("POST", "/v1/basins", {"basin": name, "config": config}, 201),
        ("PUT", f"/v1/basins/{name}", {"config": config}, 200),
        ("PATCH", f"/v1/basins/{name}", {"create_stream_on_read": True}, 200),
        ("POST", "/v1/streams", {"stream": "s", "config": infinite}, 201),
        ("PUT", "/v1/streams/s", infinite, 200),
        ("PATCH", "/v1/streams/s", {"timestamping": {"uncapped": True}}, 200),
        ("POST", "/v1/streams/s/records", {"records": [{}]}, 200),
        ("POST", "/v1/access-tokens", {"id": token, "scope": {"ops": ["read"]}}, 201),
        ("PUT", "/v1/locations/default", "local", 200),
    ]
    for method, path, body, status in asked:
        headers = {} if "basins" in path else here
        answer = client.request(method, path, b"{", headers)
        assert (answer.status, answer.json["code"]) == (400, "bad_json"), (method, path)
        answer = client.request(method, path, json.dumps(body).encode(), headers)
        assert answer.status == status, (method, path, answer)
    told = client.get("/v1/streams/s", here).json
    assert told["retention_policy"] == {"infinite": {}}
    assert told["timestamping"]["uncapped"] is True
    told = client.get(f"/v1/basins/{name}").json
    assert told["default_stream_config"]["retention_policy"] == {"infinite": {}}
    assert told["create_stream_on_read"] is True
    client.delete(f"/v1/basins/{name}")


@pytest.mark.parametrize("header", [SEED, S2])
def test_what_is_told_of_a_basin_ensures_nothing_new(
    client: Client, basin: str, header: str
) -> None:
    """In either dialect; its streams too."""
    configs: list[dict[str, Any]] = [
        {},
        {"default_stream_config": {"timestamping": {"uncapped": False}}},
        {"default_stream_config": FULL, "create_stream_on_append": True},
    ]
    for config in configs:
        name = f"/v1/basins/{basin}"
        assert send(client, "PUT", name, {"config": config}, **{header: basin}).status == 200
        told = client.get(name, {header: basin}).json
        again = send(client, "PUT", name, {"config": told}, **{header: basin})
        assert outcome(again) == (200, "noop"), told
    send(client, "PUT", "/v1/streams/s", b"", **{header: basin})
    told = client.get("/v1/streams/s", {header: basin}).json
    assert outcome(send(client, "PUT", "/v1/streams/s", told, **{header: basin})) == (200, "noop")


@pytest.mark.parametrize(("header", "status"), [(SEED, 400), (S2, 422)])
def test_a_location_that_there_is_not_is_refused(
    client: Client, basin: str, header: str, status: int
) -> None:
    """Of a new basin and of one that exists, whose location never changes."""
    for name in (basin, f"{basin}-l"):
        body = {"location": "elsewhere"}
        answer = send(client, "PUT", f"/v1/basins/{name}", body, **{header: name})
        assert (answer.status, answer.json["code"]) == (status, "invalid")
    assert client.get(f"/v1/basins/{basin}-l").status == 404


@pytest.mark.parametrize(("header", "word"), [(SEED, "standard"), (S2, "express")])
def test_the_storage_class_nobody_names_is_the_dialect_s(
    client: Client, basin: str, header: str, word: str
) -> None:
    """Of a stream that is created, ensured, or made by an append or a read; the basin's default
    goes before it."""
    on = {"create_stream_on_append": True, "create_stream_on_read": True}
    send(client, "PATCH", f"/v1/basins/{basin}", on)
    head = {header: basin}

    def make(prefix: str) -> list[str]:
        names = [f"{prefix}{number}" for number in range(4)]
        assert client.post("/v1/streams", {"stream": names[0]}, head).status == 201
        assert send(client, "PUT", f"/v1/streams/{names[1]}", b"", **head).status == 201
        records = {"records": [{"body": ""}]}
        assert client.post(f"/v1/streams/{names[2]}/records", records, head).status == 200
        assert client.get(f"/v1/streams/{names[3]}/records/tail", head).status == 200
        return [client.get(f"/v1/streams/{n}", head).json["storage_class"] for n in names]

    assert make("a") == [word] * 4
    other = "express" if word == "standard" else "standard"
    change = {"default_stream_config": {"storage_class": other}}
    send(client, "PATCH", f"/v1/basins/{basin}", change)
    assert make("b") == [other] * 4


# -- reconfigure


def test_a_stream_is_reconfigured_member_by_member(client: Client, basin: str) -> None:
    """Absent stays, null falls back to the basin's default of now and then to the system's; the
    whole new configuration is the answer."""
    head = {SEED: basin}
    send(client, "PUT", "/v1/streams/s", FULL, **head)
    default = {"default_stream_config": {"retention_policy": {"age": 60}}}
    assert send(client, "PATCH", f"/v1/basins/{basin}", default).status == 200
    expected = dict(FULL)
    for change, becomes in (
        ({}, {}),
        ({"storage_class": "standard"}, {"storage_class": "standard"}),
        ({"retention_policy": None}, {"retention_policy": {"age": 60}}),
        (
            {"timestamping": {"mode": "client-require"}},
            {"timestamping": {"mode": "client-require", "uncapped": True}},
        ),
        (
            {"timestamping": {"mode": None}},
            {"timestamping": {"mode": "client-prefer", "uncapped": True}},
        ),
        ({"timestamping": None}, {"timestamping": DEFAULTS["timestamping"]}),
        ({"delete_on_empty": {}}, {}),
        ({"delete_on_empty": {"min_age_secs": None}}, {"delete_on_empty": {"min_age_secs": 0}}),
        ({"unknown": 1}, {}),
    ):
        expected.update(becomes)
        answer = send(client, "PATCH", "/v1/streams/s", change, **head)
        assert (answer.status, answer.json) == (200, expected), change
        assert client.get("/v1/streams/s", head).json == expected


def test_a_basin_is_reconfigured_member_by_member(client: Client, basin: str) -> None:
    """Its booleans are left alone by null; a default that says nothing is none."""
    path = f"/v1/basins/{basin}"

    def change(value: Any) -> Any:
        answer = send(client, "PATCH", path, value, **{S2: basin})
        assert answer.status == 200, answer
        assert client.get(path, {S2: basin}).json == answer.json
        return answer.json

    assert change({"create_stream_on_append": True})["create_stream_on_append"] is True
    told = change({"create_stream_on_append": None, "default_stream_config": FULL})
    assert (told["create_stream_on_append"], told["default_stream_config"]) == (True, FULL)
    told = change({"default_stream_config": {"storage_class": None, "timestamping": None}})
    assert told["default_stream_config"] == {
        **FULL,
        "storage_class": None,
        "timestamping": None,
    }
    cleared = {"retention_policy": None, "delete_on_empty": None}
    assert change({"default_stream_config": cleared})["default_stream_config"] is None
    change({"default_stream_config": FULL})
    assert change({"default_stream_config": None})["default_stream_config"] is None


def test_a_basin_s_default_is_for_new_streams_alone(client: Client, basin: str) -> None:
    """A stream has its own copy from its creation on."""
    head = {SEED: basin}
    client.post("/v1/streams", {"stream": "old"}, head)
    send(client, "PATCH", f"/v1/basins/{basin}", {"default_stream_config": FULL})
    client.post("/v1/streams", {"stream": "new"}, head)
    assert client.get("/v1/streams/old", head).json == DEFAULTS
    assert client.get("/v1/streams/new", head).json == FULL


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"retention_policy": {"age": 0}}, "invalid"),
        ({"retention_policy": {"age": -1}}, "bad_json"),
        ({"retention_policy": {}}, "bad_json"),
        ({"storage_class": "glacier"}, "invalid"),
        ({"timestamping": {"mode": "server"}}, "bad_json"),
        ({"delete_on_empty": {"min_age_secs": "1"}}, "bad_json"),
        ([], "bad_json"),
        (b"{", "bad_json"),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(
    client: Client, basin: str, stream: str, method: str, body: Any, code: str
) -> None:
    """Types are bad_json; meanings are invalid, 422 in the S2 dialect; of a basin's default too."""
    for header, status in ((SEED, 400), (S2, 422 if code == "invalid" else 400)):
        answer = send(client, method, "/v1/streams/s", body, **{header: basin})
        assert (answer.status, answer.json["code"]) == (status, code)
        assert answer.headers["svc-side-effects"] == "none"
        if not isinstance(body, bytes):
            config: dict[str, Any] = {"default_stream_config": body}
            whole = {"config": config} if method == "PUT" else config
            answer = send(client, method, f"/v1/basins/{basin}", whole, **{header: basin})
            assert (answer.status, answer.json["code"]) == (status, code)
    assert client.get("/v1/streams/s", {SEED: basin}).json == DEFAULTS
    assert client.get(f"/v1/basins/{basin}", {S2: basin}).json["default_stream_config"] is None


def test_what_is_missing_is_not_reconfigured(client: Client, basin: str) -> None:
    """404, and still missing."""
    answer = send(client, "PATCH", "/v1/streams/s", {}, **{SEED: basin})
    assert (answer.status, answer.json["code"]) == (404, "stream_not_found")
    for head, path in (
        ({}, "/v1/basins/no-such-basin"),
        ({SEED: "no-such-basin"}, "/v1/streams/s"),
    ):
        answer = send(client, "PATCH", path, {}, **head)
        assert (answer.status, answer.json["code"]) == (404, "basin_not_found")
    answer = send(client, "PUT", "/v1/streams/s", {}, **{SEED: "no-such-basin"})
    assert (answer.status, answer.json["code"]) == (404, "basin_not_found")


def test_a_change_holds_for_the_next_append(client: Client, basin: str, stream: str) -> None:
    """Also of a session that was open before."""
    opened = append_session(_endpoint(client), basin, stream)

    def unary(timestamp: int | None) -> int:
        record = {"body": ""} if timestamp is None else {"body": "", "timestamp": timestamp}
        answer = client.post("/v1/streams/s/records", {"records": [record]}, {SEED: basin})
        if answer.status != 200:
            assert (answer.status, answer.json["code"]) == (400, "invalid")
            return -1
        last: int = answer.json["end"]["timestamp"]
        return last

    def change(mode: str, *, uncapped: bool) -> None:
        wanted = {"timestamping": {"mode": mode, "uncapped": uncapped}}
        assert send(client, "PATCH", "/v1/streams/s", wanted, **{SEED: basin}).status == 200

    with opened as session:
        session.send(input_frame(b"x"))
        assert session.ack()[0] == 0
        assert unary(FUTURE_MS) < FUTURE_MS
        change("client-require", uncapped=False)
        assert unary(None) == -1
        change("client-prefer", uncapped=True)
        assert unary(FUTURE_MS) == FUTURE_MS
        change("arrival", uncapped=False)
        assert unary(FUTURE_MS + 9) == FUTURE_MS, "it never goes back"
        change("client-require", uncapped=False)
        session.send(input_frame(b"x"))
        frame = session.frame()
        assert frame is not None
        assert frame.is_terminal
        assert frame.failure()[0] == 400


def _endpoint(client: Client) -> str:
    scheme = "http" if type(client.connection).__name__ == "HTTPConnection" else "h2c"
    return f"{scheme}://{client.address[0]}:{client.address[1]}"


# -- creates that are repeated


def test_a_create_with_a_token_can_be_repeated(client: Client, basin: str) -> None:
    """Same token and configuration, however written: 201 and what there is. Anything else is a
    conflict, and so is the lack of a token."""
    name = f"{basin}-t"
    places: tuple[tuple[str, dict[str, str], dict[str, Any]], ...] = (
        ("/v1/basins", {}, {"basin": name}),
        ("/v1/streams", {S2: basin}, {"stream": "s"}),
    )
    for path, head, names in places:
        key = "create_stream_on_read" if path == "/v1/basins" else "storage_class"
        value = True if path == "/v1/basins" else "express"
        token = {"s2-request-token": "t-1", **head}
        config = {key: value}
        first = client.post(path, {**names, "config": config}, token)
        assert outcome(first) == (201, "created")
        again = client.post(path, {"config": {**config, "unknown": 1}, **names}, token)
        assert outcome(again) == (201, "noop")
        assert again.json == first.json
        for body, headers in (
            ({**names, "config": config}, head),
            ({**names, "config": config}, {**token, "s2-request-token": "t-2"}),
            ({**names, "config": config}, {**token, "s2-request-token": ""}),
            (names, token),
        ):
            answer = client.post(path, body, headers)
            assert (answer.status, answer.json["code"]) == (409, "resource_already_exists")


def test_a_create_is_repeated_after_a_change(client: Client, basin: str) -> None:
    """Ensure and reconfigure leave the creation as it was; what they made has none."""
    token = {"s2-request-token": "t", S2: basin}
    client.post("/v1/streams", {"stream": "s"}, token)
    send(client, "PUT", "/v1/streams/s", FULL, **{S2: basin})
    assert outcome(client.post("/v1/streams", {"stream": "s"}, token)) == (201, "noop")
    assert client.get("/v1/streams/s", {S2: basin}).json == FULL
    send(client, "PUT", "/v1/streams/e", b"", **{S2: basin})
    assert client.post("/v1/streams", {"stream": "e"}, token).status == 409
    name = f"{basin}-c"
    body = {"basin": name, "config": {"create_stream_on_read": True}}
    client.post("/v1/basins", body, {"s2-request-token": "t"})
    send(client, "PATCH", f"/v1/basins/{name}", {"create_stream_on_read": False})
    assert outcome(client.post("/v1/basins", body, {"s2-request-token": "t"})) == (201, "noop")
    assert client.get(f"/v1/basins/{name}").json["create_stream_on_read"] is False


def test_a_request_token_has_at_most_36_bytes(client: Client, basin: str) -> None:
    """On creates; the others do not look at it."""
    head = {S2: basin, "s2-request-token": "x" * 37}
    answer = client.post("/v1/streams", {"stream": "s"}, head)
    assert (answer.status, answer.json["code"]) == (400, "bad_header")
    assert send(client, "PUT", "/v1/streams/s", b"", **head).status == 201

"""Streams that come by themselves, go by themselves, and come again.

Rules: contract 5.9, 9.7 and 9.8.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.client import Answer, Client

DEADLINE_SECONDS = 60.0
ALL = {"create_stream_on_append": True, "create_stream_on_read": True}


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that the server does in its own time."""
    pause = threading.Event()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        pause.wait(0.1)


def patch(client: Client, path: str, change: Any, **headers: str) -> Answer:
    body = json.dumps(change).encode()
    return client.request("PATCH", path, body, {"content-type": "application/json", **headers})


def listed(client: Client, basin: str) -> dict[str, Any]:
    answer = client.get("/v1/streams", {"svc-basin": basin})
    assert answer.status == 200, answer
    return {info["name"]: info for info in answer.json["streams"]}


# -- streams that come by themselves


def test_a_read_makes_the_stream_where_the_basin_says_so(client: Client, basin: str) -> None:
    """Unary, its tail, and server-sent events; an append does not by that switch."""
    assert client.read(basin, "s").status == 404
    patch(client, f"/v1/basins/{basin}", {"create_stream_on_read": True})
    assert client.append(basin, "a", b"x").status == 404
    unary = client.read(basin, "r", "seq_num=0")
    assert (unary.status, unary.json["records"]) == (200, [])
    assert client.tail(basin, "t") == 0
    events = client.read(basin, "e", "wait=0", accept="text/event-stream")
    assert (events.status, events.body) == (200, b"data: [DONE]\n\n")
    at_tail = client.get("/v1/streams/s2/records", {"s2-basin": basin})
    assert at_tail.status == 416, "made, and read at its tail"
    assert set(listed(client, basin)) == {"e", "r", "s2", "t"}


def test_a_request_that_is_refused_makes_nothing(client: Client, basin: str) -> None:
    """Whatever can be said against it is said first."""
    patch(client, f"/v1/basins/{basin}", ALL)
    for query in ("timestamp=5&until=5", "seq_num=0&tail_offset=0", "count=x"):
        assert client.read(basin, "s", query).status == 400
    assert client.append(basin, "s").status == 400
    bad = {"s2-stream-config": "{"}
    answer = client.append(basin, "s", b"x", headers=bad)
    assert (answer.status, answer.json["code"]) == (400, "bad_header")
    assert listed(client, basin) == {}


def test_a_stream_is_made_as_the_request_s_header_says(client: Client, basin: str) -> None:
    """Over the basin's default; the header means nothing where the stream exists."""
    default = {"retention_policy": {"age": 60}, "storage_class": "express"}
    patch(client, f"/v1/basins/{basin}", {**ALL, "default_stream_config": default})
    config = json.dumps({"retention_policy": {"age": 5}, "timestamping": {"uncapped": True}})
    head = {"s2-stream-config": config}
    asks: dict[str, Callable[[], Answer]] = {
        "a": lambda: client.append(basin, "a", b"x", headers=head),
        "r": lambda: client.read(basin, "r", **head),
    }
    for name, ask in asks.items():
        assert ask().status == 200
        told = client.get(f"/v1/streams/{name}", {"svc-basin": basin}).json
        assert told == {
            "storage_class": "express",
            "retention_policy": {"age": 5},
            "timestamping": {"mode": "client-prefer", "uncapped": True},
            "delete_on_empty": {"min_age_secs": 0},
        }
    other = {"s2-stream-config": '{"storage_class":"standard"}'}
    assert client.append(basin, "a", b"y", headers=other).status == 200
    told = client.get("/v1/streams/a", {"svc-basin": basin}).json
    assert told["storage_class"] == "express"


def test_all_of_many_first_appends_succeed(endpoint: str, client: Client, basin: str) -> None:
    """Or are told to try again; none is lost and none is refused for the others' sake."""
    patch(client, f"/v1/basins/{basin}", ALL)

    def append(number: int) -> int:
        with Client(endpoint) as own:
            for _ in range(20):
                answer = own.append(basin, "s", f"{number}")
                if answer.status == 200:
                    return 1
                assert (answer.status, answer.json["code"]) == (409, "transaction_conflict")
        return 0

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(append, range(24))) == 24
    records = client.read(basin, "s", "seq_num=0", **{"svc-format": "utf8"}).json["records"]
    assert sorted(int(record["body"]) for record in records) == list(range(24))


# -- and go


def test_a_stream_that_is_being_deleted_refuses_everything(client: Client, basin: str) -> None:
    """409 each time but for another DELETE, as long as the list shows it; by what would make it
    too."""
    patch(client, f"/v1/basins/{basin}", ALL)
    head = {"svc-basin": basin}
    for attempt in range(20):
        name = f"s{attempt}"
        client.post("/v1/streams", {"stream": name}, head)
        assert client.delete(f"/v1/streams/{name}", head).status == 202
        config = client.get(f"/v1/streams/{name}", head)
        answers = [
            config,
            client.append(basin, name, b"x"),
            client.read(basin, name),
            client.get(f"/v1/streams/{name}/records/tail", head),
            client.post("/v1/streams", {"stream": name}, {**head, "s2-request-token": "t"}),
            client.request("PUT", f"/v1/streams/{name}", None, head),
            patch(client, f"/v1/streams/{name}", {}, **head),
        ]
        again = client.delete(f"/v1/streams/{name}", head)
        info = listed(client, basin).get(name)
        if info is None or info["deleted_at"] is None:
            continue  # it was purged meanwhile, which is soon on a slow machine
        assert info["cipher"] is None
        for answer in answers:
            assert (answer.status, answer.json["code"]) == (409, "stream_deletion_pending")
        assert (again.status, again.headers["content-length"]) == (202, "0")
        return
    pytest.fail("every stream was purged before it could be asked")


def test_a_name_that_is_used_again_begins_anew(client: Client, basin: str) -> None:
    """Nothing of the first stream is left: records, fencing token, tail, configuration."""
    head = {"svc-basin": basin}
    client.post("/v1/streams", {"stream": "s", "config": {"storage_class": "express"}}, head)
    fence = {"headers": [["", "ZmVuY2U="]], "body": "dG9rZW4="}
    records = [fence, *[{"body": "b2xk"}] * 20]
    assert client.post("/v1/streams/s/records", {"records": records}, head).status == 200
    first = listed(client, basin)["s"]
    assert client.delete("/v1/streams/s", head).status == 202
    until(lambda: "s" not in listed(client, basin))
    assert client.get("/v1/streams/s", head).json["code"] == "stream_not_found"
    assert client.delete("/v1/streams/s", head).status == 404
    second = client.post("/v1/streams", {"stream": "s"}, head)
    assert second.status == 201
    assert second.json["created_at"] > first["created_at"]
    assert client.get("/v1/streams/s", head).json["storage_class"] == "standard"
    assert client.read(basin, "s", "seq_num=0").json["records"] == []
    appended = client.append(basin, "s", b"new", fencing_token="", match_seq_num=0)
    assert appended.status == 200
    assert [r["body"] for r in client.read(basin, "s").json["records"]] == ["bmV3"]


def test_a_basin_s_name_is_free_again(client: Client, basin: str) -> None:
    """After DELETE, also twice, everything in it is refused or gone, and then the name is free."""
    path, head = f"/v1/basins/{basin}", {"svc-basin": basin}
    client.post("/v1/streams", {"stream": "s"}, head)
    patch(client, path, ALL)
    assert client.delete(path).status == 202
    assert client.delete(path).status in (202, 404)
    for answer in (
        client.append(basin, "s", b"x"),
        client.append(basin, "made", b"x"),
        client.post("/v1/streams", {"stream": "n"}, head),
        client.request("PUT", "/v1/streams/n", None, head),
        patch(client, "/v1/streams/s", {}, **head),
        patch(client, path, {}),
    ):
        code = {404: "basin_not_found", 409: "basin_deletion_pending"}
        assert answer.json["code"] == code[answer.status]
    until(lambda: client.get(path).status == 404)
    until(lambda: client.request("PUT", path).status == 201)
    assert client.get(path).json["create_stream_on_append"] is False
    assert listed(client, basin) == {}
    assert client.read(basin, "s").status == 404


def test_an_empty_stream_is_deleted_at_its_age(client: Client, basin: str) -> None:
    """One that was never appended to, and one whose records were trimmed; not one that has a
    record, and not one whose age is 0."""
    head = {"svc-basin": basin}
    short = {"delete_on_empty": {"min_age_secs": 1}}
    for name, config in (("never", short), ("trimmed", short), ("full", short), ("off", {})):
        client.post("/v1/streams", {"stream": name, "config": config}, head)
    assert client.append(basin, "full", b"x").status == 200
    trim = {"headers": [["", "dHJpbQ=="]], "body": "//////////8="}
    records = {"records": [{"body": "eA=="}, trim]}
    assert client.post("/v1/streams/trimmed/records", records, head).status == 200
    until(lambda: set(listed(client, basin)) == {"full", "off"})
    infos = listed(client, basin)
    assert [infos[name]["deleted_at"] for name in ("full", "off")] == [None, None]
    assert patch(client, "/v1/streams/off", short, **head).status == 200
    until(lambda: set(listed(client, basin)) == {"full"})
    assert client.append(basin, "full", b"y").status == 200

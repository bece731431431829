"""Unary reads: starts, limits, long polls.

Rules: contract 6.1, 6.2, 6.3, 6.4, 6.5, 6.6, 6.7 and 3.4.
"""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from tests.contract.client import Client, b64
from tests.contract.conftest import ALSO_BY_LIBRARY

SHARES_A_BASIN = True
pytestmark = ALSO_BY_LIBRARY


def fill(client: Client, basin: str, stream: str) -> str:
    """Ten records of 10 metered bytes in three batches, timestamps 1000, 1010, ... 1090."""
    for numbers in ((0, 1, 2), (3,), (4, 5, 6, 7, 8, 9)):
        records = [{"timestamp": 1000 + 10 * n, "body": b64(f"{n:02}")} for n in numbers]
        sent = client.post(records_of(stream), {"records": records}, {"svc-basin": basin})
        assert sent.status == 200, sent
    return stream


def records_of(stream: str) -> str:
    return f"/v1/streams/{stream}/records"


@pytest.fixture(scope="module")
def filled(endpoint: str, shared_basin: str) -> str:
    """A stream with these, for tests that only read."""
    with Client(endpoint) as opened:
        return fill(opened, shared_basin, opened.create_stream(shared_basin, "filled"))


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", range(10)),
        ("seq_num=0", range(10)),
        ("seq_num=2", range(2, 10)),
        ("seq_num=5&count=2", range(5, 7)),
        ("seq_num=10", []),
        ("tail_offset=0", []),
        ("tail_offset=3", range(7, 10)),
        ("tail_offset=99", range(10)),
        ("timestamp=0", range(10)),
        ("timestamp=1031", range(4, 10)),
        ("timestamp=1090", [9]),
        ("seq_num=99&clamp=true", []),
        ("timestamp=99999&clamp=true", []),
        ("count=0", []),
        ("count=1", [0]),
        ("count=4", range(4)),
        ("bytes=0", []),
        ("bytes=9", []),
        ("bytes=10", [0]),
        ("bytes=39", range(3)),
        ("bytes=40", range(4)),
        ("count=3&bytes=20", range(2)),
        ("until=1000", []),
        ("until=1001", [0]),
        ("until=1050", range(5)),
        ("until=99999", range(10)),
        ("timestamp=1020&until=1040", [2, 3]),
        ("seq_num=1&count=18446744073709551615", range(1, 10)),
        ("count=2&unknown=x", [0, 1]),
        ("seq%5Fnum=8", [8, 9]),
    ],
)
def test_a_read_returns_exactly_what_its_bounds_allow(
    client: Client, basin: str, filled: str, query: str, numbers: list[int]
) -> None:
    """Starts and limits cut at records, inside batches, and the tail always comes along."""
    answer = client.read(basin, filled, query)
    assert answer.status == 200, answer
    assert [r["seq_num"] for r in answer.json["records"]] == list(numbers)
    assert [r["body"] for r in answer.json["records"]] == [b64(f"{n:02}") for n in numbers]
    assert answer.json["tail"] == {"seq_num": 10, "timestamp": 1090}


@pytest.mark.parametrize("query", ["seq_num=11", "seq_num=18446744073709551615", "timestamp=1091"])
def test_a_start_beyond_the_tail_is_416_with_the_tail(
    client: Client, basin: str, filled: str, query: str
) -> None:
    """The body carries the tail beside the usual members."""
    answer = client.read(basin, filled, query)
    assert answer.status == 416
    assert answer.json["tail"] == {"seq_num": 10, "timestamp": 1090}
    assert answer.json["code"] == answer.json["error"] == "range_not_satisfiable"
    assert answer.json["message"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("seq_num=0&seq_num=0", "bad_query"),
        ("seq_num=-1", "bad_query"),
        ("seq_num=1.0", "bad_query"),
        ("seq_num=", "bad_query"),
        ("seq_num=0x1", "bad_query"),
        ("seq_num=1_000", "bad_query"),
        ("seq_num=%D9%A1", "bad_query"),
        ("seq_num=18446744073709551616", "bad_query"),
        ("seq_num=" + "9" * 5000, "bad_query"),
        ("count=many", "bad_query"),
        ("bytes=1e3", "bad_query"),
        ("until=soon", "bad_query"),
        ("clamp=yes", "bad_query"),
        ("clamp=TRUE", "bad_query"),
        ("wait=4294967296", "bad_query"),
        ("wait=1.5", "bad_query"),
        ("count=%zz", "bad_query"),
        ("seq_num=0&timestamp=0", "invalid"),
        ("seq_num=0&tail_offset=0", "invalid"),
        ("timestamp=5&until=5", "invalid"),
    ],
)
def test_a_bad_query_is_refused(
    client: Client, basin: str, filled: str, query: str, code: str
) -> None:
    """Every value is parsed strictly; a refusal is 400 in this dialect."""
    answer = client.read(basin, filled, query)
    assert answer.status == 400, answer
    assert answer.json["code"] == code
    assert answer.json["error"] == "validation_error"


def test_a_unary_read_is_clamped_to_a_thousand_records(
    client: Client, basin: str, stream: str
) -> None:
    """Asking for more is not an error; reading on continues behind."""
    for _ in range(2):
        client.append(basin, stream, *[b"x"] * 600)
    answer = client.read(basin, stream, "count=5000")
    assert [r["seq_num"] for r in answer.json["records"]] == list(range(1000))
    assert len(client.read(basin, stream, "seq_num=1000").json["records"]) == 200


def test_a_unary_read_is_clamped_to_a_mebibyte(client: Client, basin: str, stream: str) -> None:
    """The record that would exceed 1 MiB metered is left for the next read."""
    for _ in range(4):
        client.append(basin, stream, b"x" * (300 * 1024))
    answer = client.read(basin, stream, "bytes=99999999")
    assert [r["seq_num"] for r in answer.json["records"]] == [0, 1, 2]


def test_a_long_poll_is_answered_by_the_append_it_waited_for(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """The answer comes with the record, long before the wait is over."""

    def append_soon() -> None:
        with Client(endpoint) as other:
            # The poll below is very probably waiting by now; if not, it finds the record at once.
            other.append(basin, stream, b"live")

    timer = threading.Timer(0.2, append_soon)
    timer.start()
    begun = monotonic()
    answer = client.read(basin, stream, "seq_num=0&wait=60")
    timer.join()
    assert [r["body"] for r in answer.json["records"]] == [b64("live")]
    assert answer.json["tail"]["seq_num"] == 1
    assert monotonic() - begun < 30


def test_a_long_poll_without_records_ends_empty(client: Client, basin: str, stream: str) -> None:
    """After `wait` seconds: 200, no records, the tail."""
    begun = monotonic()
    answer = client.read(basin, stream, "wait=1")
    assert answer.status == 200
    assert answer.json == {"records": [], "tail": {"seq_num": 0, "timestamp": 0}}
    assert 0.9 < monotonic() - begun < 15


def test_a_long_poll_does_not_wait_when_there_is_something(
    client: Client, basin: str, filled: str
) -> None:
    """Stored records, a count of 0 and a bound that stops at once are answered immediately."""
    begun = monotonic()
    for query in ("wait=60", "wait=60&count=0", "wait=60&bytes=1", "wait=60&until=5"):
        assert client.read(basin, filled, query).status == 200
    assert monotonic() - begun < 30


def test_a_long_poll_beyond_the_tail_is_still_416(client: Client, basin: str, filled: str) -> None:
    """Waiting does not make a start beyond the tail legal, unless it is clamped."""
    assert client.read(basin, filled, "seq_num=11&wait=1").status == 416
    assert client.read(basin, filled, "seq_num=11&wait=1&clamp=true").status == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 416),
        ("count=5", 416),
        ("seq_num=10", 416),
        ("seq_num=10&wait=0", 416),
        ("seq_num=10&count=0", 416),
        ("tail_offset=0", 416),
        ("seq_num=99", 416),
        ("seq_num=99&clamp=true", 416),
        ("timestamp=99999&clamp=true", 416),
        ("timestamp=1091", 416),
        ("wait=1", 200),
        ("seq_num=10&wait=1", 200),
        ("seq_num=99&clamp=true&wait=1", 200),
        ("seq_num=9", 200),
        ("tail_offset=1", 200),
        ("seq_num=9&count=0", 200),
        ("timestamp=1090", 200),
    ],
)
def test_in_the_s2_dialect_a_start_at_the_tail_is_416_unless_it_waits(
    client: Client, basin: str, filled: str, query: str, status: int
) -> None:
    """The default start, too, which is the tail."""
    answer = client.get(f"{records_of(filled)}?{query}", {"s2-basin": basin})
    assert answer.status == status, answer
    if status == 416:
        assert answer.json["tail"] == {"seq_num": 10, "timestamp": 1090}


@pytest.mark.parametrize("form", ["application/json", "application/protobuf"])
def test_a_start_by_time_that_nothing_matches_is_one_at_the_tail(
    client: Client, basin: str, stream: str, form: str
) -> None:
    """An empty stream from its beginning, and one that is trimmed to its end: by time as by number
    416 in the S2 dialect, unless it waits, and never in the other."""
    accept = {"accept": form}
    path = records_of(stream)
    for start in ("timestamp=0", "seq_num=0"):
        refused = client.get(f"{path}?{start}", {"s2-basin": basin, **accept})
        assert (refused.status, refused.json["tail"]["seq_num"]) == (416, 0)
        waited = client.get(f"{path}?{start}&wait=1", {"s2-basin": basin, **accept})
        found = client.get(f"{path}?{start}", {"svc-basin": basin, **accept})
        assert (waited.status, found.status) == (200, 200)
    trim = {"headers": [["", b64("trim")]], "body": b64((9).to_bytes(8, "big"))}
    client.append(basin, stream, b"x")
    assert client.post(path, {"records": [trim]}, {"svc-basin": basin}).status == 200
    refused = client.get(f"{path}?timestamp=0", {"s2-basin": basin, **accept})
    assert (refused.status, refused.json["tail"]["seq_num"]) == (416, 2)
    assert client.get(f"{path}?timestamp=0", {"svc-basin": basin, **accept}).status == 200


def test_in_the_s2_dialect_only_live_records_come_with_a_tail(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Stored ones, and none, have no `tail`; those that a long poll waited for have it."""
    fill(client, basin, stream)
    headers = {"s2-basin": basin}
    for query, found in (
        ("seq_num=8", [8, 9]),
        ("seq_num=8&wait=9", [8, 9]),
        ("seq_num=8&count=0", []),
    ):
        body = client.get(f"{records_of(stream)}?{query}", headers).json
        assert set(body) == {"records"}
        assert [r["seq_num"] for r in body["records"]] == found

    def append_soon() -> None:
        with Client(endpoint) as other:
            # The poll below is very probably waiting by now; if not, its first read finds nothing
            # or the record, and the record is then a stored one.
            other.append(basin, stream, b"live")

    timer = threading.Timer(1.0, append_soon)
    timer.start()
    body = client.get(f"{records_of(stream)}?seq_num=10&wait=15", headers).json
    timer.join()
    assert [r["body"] for r in body["records"]] == ["live"]
    assert body.get("tail", {"seq_num": 11})["seq_num"] == 11
    empty = client.get(f"{records_of(stream)}?seq_num=11&wait=1", headers)
    assert (empty.status, empty.json) == (200, {"records": []})


def test_the_data_format_is_raw_by_default_in_the_s2_dialect(
    client: Client, basin: str, filled: str
) -> None:
    """base64 where a header of either family asks for it."""
    for headers, body in (
        ({}, "09"),
        ({"s2-format": "base64"}, b64("09")),
        ({"s2-format": "json-binsafe"}, b64("09")),
        ({"s2-format": "raw"}, "09"),
    ):
        answer = client.get(f"{records_of(filled)}?seq_num=9", {"s2-basin": basin, **headers})
        assert answer.json["records"][0]["body"] == body


@pytest.mark.parametrize("query", ["seq_num=0&timestamp=0", "timestamp=5&until=5"])
def test_a_read_without_sense_is_422_in_the_s2_dialect(
    client: Client, basin: str, filled: str, query: str
) -> None:
    """Values of a wrong type stay 400."""
    headers = {"s2-basin": basin}
    refused = client.get(f"{records_of(filled)}?{query}", headers)
    assert (refused.status, refused.json["code"]) == (422, "invalid")
    assert client.get(f"{records_of(filled)}?seq_num=x", headers).status == 400

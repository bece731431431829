"""Reads as server-sent events. Rules: contract 6.8, 6.9 and 6.10."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.contract.client import Client, EventStream, b64

SHARES_A_BASIN = True
OWN_SERVER = True


def append_three(client: Client, basin: str, stream: str) -> str:
    """Three records of 10 metered bytes in two batches."""
    client.append(basin, stream, b"00", b"01")
    client.append(basin, stream, b"02")
    return stream


@pytest.fixture(scope="module")
def three(endpoint: str, shared_basin: str) -> str:
    """A stream with these, for tests that only read."""
    with Client(endpoint) as opened:
        return append_three(opened, shared_basin, opened.create_stream(shared_basin, "three"))


def records_of(stream: str) -> str:
    return f"/v1/streams/{stream}/records"


def numbers(events: list[Any]) -> list[int]:
    return [
        r["seq_num"] for event in events if event.name == "batch" for r in event.json["records"]
    ]


def test_the_answer_is_an_unbuffered_event_stream(endpoint: str, basin: str, three: str) -> None:
    """The headers that keep proxies from holding events back."""
    with EventStream(endpoint, basin, f"{records_of(three)}?count=1") as events:
        response = events.response
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["content-encoding"] is None


def test_stored_records_come_first_then_a_ping_then_live_ones(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Ids are cumulative; the ping comes at once on reaching the tail and carries it."""
    append_three(client, basin, stream)
    with EventStream(endpoint, basin, records_of(stream)) as events:
        going = iter(events)
        caught_up = [next(going)]
        while caught_up[-1].name == "batch":
            caught_up.append(next(going))
        assert numbers(caught_up) == [0, 1, 2]
        assert caught_up[-2].id == "2,3,30"
        ping = caught_up[-1]
        assert (ping.name, ping.id) == ("ping", None)
        assert ping.json["tail"]["seq_num"] == 3
        assert ping.json["timestamp"] > 1_600_000_000_000
        client.append(basin, stream, b"03", b"04")
        assert caught_up[-2].json["tail"]["seq_num"] == 3, "the batch that ends there"
        assert all("tail" not in event.json for event in caught_up[:-2])
        live = events.next("batch")
        assert live.id == "4,5,50"
        assert live.json["tail"]["seq_num"] == 5
        assert [r["body"] for r in live.json["records"]] == [b64("03"), b64("04")]


def test_a_follower_of_an_empty_stream_is_pinged_at_once(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Before there is any record at all."""
    with EventStream(endpoint, basin, records_of(stream)) as events:
        assert next(iter(events)).name == "ping"
        client.append(basin, stream, b"x")
        assert events.next("batch").id == "0,1,9"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("count=2", [0, 1]),
        ("count=0", []),
        ("bytes=25", [0, 1]),
        ("bytes=5", []),
        ("count=100", [0, 1, 2]),
        ("until=1", []),
        ("wait=0", [0, 1, 2]),
        ("seq_num=3&wait=0", []),
        ("tail_offset=2&count=2", [1, 2]),
        ("tail_offset=2&count=9&clamp=true", [1, 2]),
    ],
)
def test_a_bounded_stream_ends_with_a_mark(
    endpoint: str, basin: str, three: str, query: str, found: list[int]
) -> None:
    """What exists within the bounds, no ping, then [DONE] without an event name."""
    with EventStream(endpoint, basin, f"{records_of(three)}?{query}") as events:
        got = list(events)
    assert numbers(got) == found
    assert all(event.json["records"] for event in got[:-1])
    assert (got[-1].name, got[-1].id, got[-1].data) == (None, None, "[DONE]")


def test_wait_ends_a_stream_that_stays_idle(endpoint: str, basin: str, three: str) -> None:
    """Records, the ping of the tail, and after `wait` seconds the end."""
    with EventStream(endpoint, basin, f"{records_of(three)}?wait=1") as events:
        got = list(events)
    assert numbers(got) == [0, 1, 2]
    assert [event.name for event in got[-2:]] == ["ping", None]


@pytest.mark.parametrize("separator", [",", ":"])
def test_a_stream_resumes_behind_the_last_event(
    endpoint: str, basin: str, three: str, separator: str
) -> None:
    """The id overrides the start, and what it counts is taken off the limits."""
    last = separator.join(("0", "1", "10"))
    with EventStream(
        endpoint, basin, f"{records_of(three)}?seq_num=0&count=2", {"last-event-id": last}
    ) as events:
        got = list(events)
    assert numbers(got) == [1]
    assert got[0].id == "1,2,20"


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize("limit", ["count=10", "bytes=150", "count=10&bytes=10000"])
def test_limits_hold_over_any_number_of_reconnections(
    client: Client, endpoint: str, basin: str, stream: str, dialect: str, limit: str
) -> None:
    """A browser connects again by itself after every loss, with the last id and the same query:
    ids count on, so that the whole read ends after ten records, and not each connection."""
    headers = {f"{dialect}-basin": basin}
    ids: list[str | None] = []
    seen: list[int] = []
    last: str | None = None
    for size in (4, 3, 3, 8):
        assert client.append(basin, stream, *[b"7 bytes"] * size).status == 200
        path = f"{records_of(stream)}?seq_num=0&{limit}"
        with EventStream(endpoint, basin, path, headers) as events:
            event = next(iter(events))
        last = event.data
        if event.name is not None:
            ids.append(event.id)
            seen += numbers([event])
            headers["last-event-id"] = event.id or ""
    assert seen == list(range(10))
    assert ids == ["3,4,60", "6,7,105", "9,10,150"]
    assert last == "[DONE]"


def test_counts_that_a_client_made_up_stop_at_the_largest_number(
    endpoint: str, basin: str, three: str
) -> None:
    """What is sent back of them is an id again: no sum goes beyond 64 bits."""
    top = 2**64 - 1
    path = f"{records_of(three)}?wait=0"
    with EventStream(endpoint, basin, path, {"last-event-id": f"0,{top},{top}"}) as events:
        assert next(iter(events)).id == f"2,{top},{top}"


def test_an_id_overrides_a_start_by_time_too(endpoint: str, basin: str, three: str) -> None:
    """What the start passed over by its timestamp is not passed over by the resumed stream."""
    path = f"{records_of(three)}?timestamp=9999999999999&wait=0"
    with EventStream(endpoint, basin, path, {"last-event-id": "0,1,10"}) as events:
        assert numbers(list(events)) == [1, 2]


@pytest.mark.parametrize("query", ["count=3", "bytes=30", "count=2&bytes=99"])
def test_a_stream_that_had_everything_ends_at_once(
    endpoint: str, basin: str, three: str, query: str
) -> None:
    """A reconnect after the last event gets only the end mark."""
    with EventStream(
        endpoint, basin, f"{records_of(three)}?{query}", {"last-event-id": "2,3,30"}
    ) as events:
        assert [event.data for event in events] == ["[DONE]"]


def test_each_event_can_be_resumed_without_gap_or_repetition(
    endpoint: str, basin: str, three: str
) -> None:
    """Reconnecting after every single event yields each record once."""
    seen: list[int] = []
    last: dict[str, str] = {}
    for _ in range(10):
        with EventStream(endpoint, basin, f"{records_of(three)}?wait=0", last) as events:
            event = next(iter(events))
        if event.name is None:
            break
        seen += numbers([event])
        assert event.id is not None
        last = {"last-event-id": event.id}
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    "last",
    [
        "",
        "1",
        "1,2",
        "1,2,3,4",
        "a,b,c",
        "1,2:3",
        "-1,2,3",
        "1;2;3",
        f"{2**64},1,1",
        f"{2**64 - 1},1,1",
    ],
)
def test_a_bad_last_event_id_is_a_bad_header(
    client: Client, basin: str, three: str, last: str
) -> None:
    """A plain answer, before any stream begins."""
    headers = {"svc-basin": basin, "accept": "text/event-stream", "last-event-id": last}
    answer = client.get(records_of(three), headers)
    assert (answer.status, answer.json["code"]) == (400, "bad_header")


@pytest.mark.parametrize(
    ("query", "status"),
    [("seq_num=4", 416), ("seq_num=x", 400), ("seq_num=0&timestamp=0", 400)],
)
def test_refusals_before_the_stream_are_plain_answers(
    client: Client, basin: str, three: str, query: str, status: int
) -> None:
    """JSON with a status, not an event."""
    answer = client.read(basin, three, query, accept="text/event-stream")
    assert answer.status == status
    assert answer.json["message"]
    if status == 416:
        assert answer.json["tail"]["seq_num"] == 3


def test_a_resume_behind_the_tail_is_416(client: Client, basin: str, three: str) -> None:
    """An id from another life of the stream is not silently followed."""
    headers = {"svc-basin": basin, "accept": "text/event-stream", "last-event-id": "9,1,1"}
    assert client.get(records_of(three), headers).status == 416
    with EventStream(
        f"http://{client.address[0]}:{client.address[1]}",
        basin,
        f"{records_of(three)}?clamp=true&wait=0",
        {"last-event-id": "9,1,1"},
    ) as events:
        assert [event.data for event in events] == ["[DONE]"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("count=1", 416),
        ("seq_num=3&count=1", 416),
        ("seq_num=3&count=1&wait=0", 416),
        ("seq_num=9&clamp=true&bytes=9", 416),
        ("seq_num=3&count=1&wait=1", 200),
        ("seq_num=3&wait=0", 200),
        ("wait=0", 200),
        ("tail_offset=1&count=9", 200),
    ],
)
def test_in_the_s2_dialect_a_bounded_stream_at_the_tail_is_416(
    client: Client, basin: str, three: str, query: str, status: int
) -> None:
    """Unless it may wait; without a bound it may follow, and is never refused. The default start
    is the tail."""
    headers = {"s2-basin": basin, "accept": "text/event-stream"}
    answer = client.get(f"{records_of(three)}?{query}", headers)
    assert answer.status == status, answer
    if status == 416:
        assert answer.json["tail"]["seq_num"] == 3
    else:
        assert answer.body.endswith(b"data: [DONE]\n\n")


def test_whoever_resumes_at_the_tail_has_had_everything(
    client: Client, basin: str, three: str
) -> None:
    """An end, not a refusal, in the S2 dialect too."""
    headers = {"s2-basin": basin, "accept": "text/event-stream", "last-event-id": "2,3,30"}
    answer = client.get(f"{records_of(three)}?count=9", headers)
    assert (answer.status, answer.body) == (200, b"data: [DONE]\n\n")


def test_large_batches_are_cut_into_events_of_at_most_a_thousand_records(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Nothing is lost or repeated at the cuts."""
    for _ in range(3):
        client.append(basin, stream, *[b"x"] * 700)
    with EventStream(endpoint, basin, f"{records_of(stream)}?wait=0") as events:
        got = list(events)
    assert numbers(got) == list(range(2100))
    assert max(len(event.json["records"]) for event in got[:-1]) <= 1000
    assert got[-2].id == f"2099,2100,{2100 * 9}"


def test_events_carry_the_format_that_was_asked_for(endpoint: str, basin: str, three: str) -> None:
    """Text where the format header says so."""
    with EventStream(
        endpoint, basin, f"{records_of(three)}?count=1", {"svc-format": "utf8"}
    ) as events:
        assert next(iter(events)).json["records"][0]["body"] == "00"


def test_the_seed_path_streams_too(endpoint: str, basin: str, three: str) -> None:
    """Both path shapes reach the same handler."""
    path = f"/v1/basins/{basin}/streams/{three}/read?count=3"
    with EventStream(endpoint, basin, path) as events:
        assert numbers(list(events)) == [0, 1, 2]


def test_a_reader_that_leaves_ends_its_session(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """The gauge of open sessions falls back; the append makes the server notice at once."""

    def sessions() -> float:
        text = client.get("/metrics").body.decode()
        (line,) = [line for line in text.splitlines() if line.startswith("svc_read_sessions ")]
        return float(line.split()[1])

    before = sessions()
    with EventStream(endpoint, basin, records_of(stream)) as events:
        next(iter(events))
        assert sessions() == before + 1
    for _ in range(200):
        client.append(basin, stream, b"x")
        if sessions() == before:
            break
    assert sessions() == before


def test_a_slow_reader_never_reads_on_in_a_new_stream_of_the_same_name(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """It stalls in the middle of a stream that is deleted and made anew, longer than before: what
    it gets when it goes on is the rest of what was sent, then an error."""
    for _ in range(10):
        assert client.append(basin, stream, b"a" * 1_000_000).status == 200
    head = (
        f"GET {records_of(stream)}?seq_num=0 HTTP/1.1\r\nhost: localhost\r\nsvc-basin: {basin}\r\n"
    )
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.connect(client.address)
        sock.sendall(f"{head}accept: text/event-stream\r\nconnection: close\r\n\r\n".encode())
        received = sock.recv(1000)
        assert client.delete(f"/v1/streams/{stream}", {"svc-basin": basin}).status == 202
        while client.post("/v1/streams", {"stream": stream}, {"svc-basin": basin}).status != 201:
            pass
        assert client.append(basin, stream, *[b"new"] * 32).status == 200
        sock.settimeout(60)
        while piece := sock.recv(1 << 20):
            received += piece
    assert b64("new").encode() not in received
    assert received.count(b"event: batch") < 10
    assert b"event: error" in received[-1000:]

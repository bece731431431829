"""A follower gives each record once, whatever its connections do."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

import pytest

from svc_cluster.client.client_errors import AnswerRefusedError, ClientError
from svc_cluster.client.service_client import ServiceClient
from svc_cluster.client.stream_reading import (
    EVENT_BYTES_MAX,
    EventParser,
    StreamBounds,
    StreamFollowing,
    StreamStart,
    read_pages,
)
from tests.unit.client.scripted_server import Answer, Asked, against, patience


def batch(*seq_nums: int) -> dict[str, object]:
    return {
        "records": [
            {"seq_num": n, "timestamp": n, "body": base64.b64encode(b"%d" % n).decode()}
            for n in seq_nums
        ]
    }


def event(name: str, data: object) -> bytes:
    return b"event: %b\nid: x\ndata: %b\n\n" % (name.encode(), json.dumps(data).encode())


def tail(seq_num: int) -> dict[str, object]:
    return {"tail": {"seq_num": seq_num, "timestamp": 0}}


def followed(
    bodies: Iterable[Answer],
    start: StreamStart,
    bounds: StreamBounds,
    tails: int = 0,
) -> tuple[list[int], list[str]]:
    """The numbers that a follower gives of connections with these answers, and their queries."""
    left = list(bodies)
    given: list[int] = []

    def answer(asked: Asked) -> Answer:
        if "/tail" in asked.line:
            return 200, json.dumps(tail(tails)).encode()
        return left.pop(0) if left else (404, b'{"code":"over"}')

    async def use(client: ServiceClient) -> None:
        following = StreamFollowing(client, "basin", "s", start, bounds, patience())
        async for records in following.batches():
            given.extend(record.seq_num for record in records)
            assert [record.body for record in records] == [b"%d" % r.seq_num for r in records]

    asked = against(answer, use)
    return given, [each.line.partition("?")[2] for each in asked if "/tail" not in each.line]


def test_it_goes_on_behind_the_last_record_when_a_connection_ends() -> None:
    """In the middle of an event, behind one, without any, and with an answer that passes; what
    comes again is not given again."""
    cut = event("batch", batch(0, 1)) + event("batch", batch(2))[:-9]
    bodies: list[Answer] = [
        (200, cut),
        (503, b'{"code":"unavailable"}'),
        (200, event("batch", batch(2, 3))),
        (200, event("error", {"code": "server_draining", "message": "x"})),
        None,
        (200, event("batch", batch(3, 4)) + event("batch", batch(7))),
    ]
    given, queries = followed(bodies, StreamStart("seq_num", 0), StreamBounds(count=6))
    assert given == [0, 1, 2, 3, 4, 7]
    assert [query.split("&")[0] for query in queries] == [
        "seq_num=0",
        "seq_num=2",
        "seq_num=2",
        "seq_num=4",
        "seq_num=4",
        "seq_num=4",
    ]
    assert [query.split("&")[1] for query in queries] == [
        f"count={left}" for left in (6, 4, 4, 2, 2, 2)
    ]


def test_an_offset_and_a_time_become_numbers() -> None:
    """An offset before anything is followed, a time once the tail has been seen: both would mean
    another place a moment later."""
    given, queries = followed(
        [(200, b""), (200, event("batch", batch(8)))],
        StreamStart("tail_offset", 3),
        StreamBounds(count=1),
        tails=11,
    )
    assert given == [8]
    assert [query.split("&")[0] for query in queries] == ["seq_num=8", "seq_num=8"]
    given, queries = followed(
        [(200, b""), (200, event("ping", tail(11))), (200, event("batch", batch(11)))],
        StreamStart("timestamp", 99),
        StreamBounds(count=1),
    )
    assert given == [11]
    assert [query.split("&")[0] for query in queries] == [
        "timestamp=99",
        "timestamp=99",
        "seq_num=11",
    ]


def test_an_end_for_want_of_records_is_not_the_end_of_the_bounds() -> None:
    """`[DONE]` with the tail reached means that nothing came; with more there, that the bounds
    are reached."""
    done = b"data: [DONE]\n\n"
    start = StreamStart("seq_num", 0)
    bounds = StreamBounds(until=50)
    bodies: list[Answer] = [(200, event("batch", batch(0)) + done), (200, done)]
    given, queries = followed(bodies, start, bounds, tails=2)
    assert (given, len(queries)) == ([0], 1)
    bodies = [(200, done), (200, event("batch", batch(0)) + done)]
    given, queries = followed(bodies, start, StreamBounds(count=1), tails=0)
    assert (given, len(queries)) == ([0], 2)


def test_what_does_not_pass_ends_it() -> None:
    """A refusal, and an error event of a stream that is deleted meanwhile."""
    start, bounds = StreamStart("seq_num", 0), StreamBounds()
    with pytest.raises(AnswerRefusedError, match="404 stream_not_found"):
        followed([(404, b'{"code":"stream_not_found","message":"m"}')], start, bounds)
    gone = event("error", {"code": "stream_deletion_pending", "message": "m"})
    with pytest.raises(ClientError, match="stream_deletion_pending"):
        followed([(200, event("batch", batch(0)) + gone)], start, bounds)
    with pytest.raises(ClientError, match="cannot be understood"):
        followed([(200, b"event: batch\ndata: {\n\n")], start, bounds)


def test_events_are_found_whatever_the_pieces_and_one_without_end_is_refused() -> None:
    """Byte by byte as in one piece; what is held is bounded."""
    data = event("batch", batch(1)) + b": comment\n\n" + b"data: [DONE]\n\n"
    whole = list(EventParser().feed(data))
    parser = EventParser()
    assert [e for i in range(len(data)) for e in parser.feed(data[i : i + 1])] == whole
    assert [(e.name, e.data[:6]) for e in whole] == [("batch", b'{"reco'), ("", b"[DONE]")]
    with pytest.raises(ClientError, match="without an end"):
        list(EventParser().feed(b"x" * (EVENT_BYTES_MAX + 1)))


def test_pages_are_read_to_the_tail_and_no_further() -> None:
    """A start at the tail has nothing, one behind it is refused, the bounds go down."""
    pages = [(200, json.dumps(batch(0, 1)).encode()), (200, json.dumps(batch(2)).encode())]

    def read(answers: list[Answer], start: int, bounds: StreamBounds) -> tuple[list[int], int]:
        given: list[int] = []

        async def use(client: ServiceClient) -> None:
            found = read_pages(
                client, "basin", "s", StreamStart("seq_num", start), bounds, patience()
            )
            async for records in found:
                given.extend(record.seq_num for record in records)

        return given, len(against(lambda _: answers.pop(0), use))

    at_tail: Answer = (416, json.dumps(tail(3)).encode())
    assert read([*pages, at_tail], 0, StreamBounds()) == ([0, 1, 2], 3)
    assert read([*pages], 0, StreamBounds(count=3)) == ([0, 1, 2], 2)
    assert read([at_tail], 3, StreamBounds()) == ([], 1)
    with pytest.raises(AnswerRefusedError, match="416"):
        read([at_tail], 4, StreamBounds())
    passing: list[Answer] = [pages[0], (503, b"{}"), None, pages[1], at_tail]
    assert read(passing, 0, StreamBounds()) == ([0, 1, 2], 5)

"""Append and read sessions over sockets, in HTTP/1.1 and in HTTP/2.

Rules: contract 8.1, 8.2, 8.3, 8.4 and 8.5.
"""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from svc_cluster.codec.session_frame import Compression, SessionFrame, encode_frame, encode_terminal
from tests.contract.client import Client
from tests.contract.session_client import (
    Session,
    ack_of,
    append_session,
    batch_of,
    input_frame,
    read_session,
)

SHARES_A_BASIN = True
OWN_SERVER = True
TYPES = ["svcs/proto", "s2s/proto"]


def failure_of(frame: SessionFrame) -> tuple[int, Any]:
    status, body = frame.failure()
    return status, json.loads(body)


def bodies(client: Client, basin: str, stream: str) -> list[str]:
    records = client.read(basin, stream, **{"svc-format": "utf8"}).json["records"]
    return [record.get("body", "") for record in records]


# -- appending


@pytest.mark.parametrize("kind", TYPES)
def test_an_append_session_answers_before_it_is_sent_anything(
    endpoint: str, basin: str, stream: str, kind: str
) -> None:
    """The head with the request's media type; then each ack before the next input is sent; the
    client's end ends the answer, without a terminal frame."""
    with append_session(endpoint, basin, stream, content_type=kind) as session:
        assert session.status == 200
        assert session.headers["content-type"] == kind
        assert session.headers["cache-control"] == "no-cache, no-transform"
        assert session.headers["x-accel-buffering"] == "no"
        assert session.headers.get("content-encoding") is None
        for number in range(20):
            session.send(input_frame(b"a", b"b"))
            assert session.ack() == (2 * number, 2 * number + 2)
        session.half_close()
        assert session.frame() is None


def test_an_empty_session_ends_empty(endpoint: str, basin: str, stream: str) -> None:
    """Nothing in, nothing out."""
    with append_session(endpoint, basin, stream) as session:
        session.half_close()
        assert session.rest() == []


def test_pipelined_inputs_are_acknowledged_in_order(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Five hundred inputs sent at once, of every compression, and half-closed behind them."""
    sizes = [1 + number % 7 for number in range(500)]
    frames = [
        input_frame(
            *[b"%d" % number + bytes(number % 5 * 100)] * size,
            compression=list(Compression)[number % 3],
        )
        for number, size in enumerate(sizes)
    ]
    with append_session(endpoint, basin, stream) as session:
        # The acks have room in the buffers between, so that sending never waits for receiving.
        session.send(*frames)
        session.half_close()
        acks = [ack_of(frame) for frame in session.rest()]
    ends = [sum(sizes[: number + 1]) for number in range(500)]
    assert acks == list(zip([0, *ends[:-1]], ends, strict=True))
    assert client.tail(basin, stream) == sum(sizes)


def test_megabytes_pass_through_a_session(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Forty times the largest batch: reading ahead is bounded and never stops."""
    frame = input_frame(b"x" * 1_048_568)
    with append_session(endpoint, basin, stream) as session:
        for number in range(20):
            session.send(frame)
            session.send(frame)
            assert session.ack() == (2 * number, 2 * number + 1)
            assert session.ack() == (2 * number + 1, 2 * number + 2)
        session.half_close()
        assert session.frame() is None
    assert client.tail(basin, stream) == 40


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\x00\x00\x00", "bad_frame"),
        (b"\x20\x00\x01", "bad_frame"),
        (b"\x00\x00\x01\x60", "bad_frame"),
        (encode_terminal(500, b"{}"), "bad_frame"),
        (b"\x00\x00\x04\x20abc", "bad_frame"),
        (encode_frame(b"\x0a\x7f"), "bad_proto"),
        (encode_frame(b""), "invalid"),
        (input_frame(b"x" * 1_048_569, compression=Compression.ZSTD), "invalid"),
    ],
)
def test_the_first_bad_input_ends_the_session_behind_the_acks(
    client: Client, endpoint: str, basin: str, stream: str, kind: str, bad: bytes, code: str
) -> None:
    """One terminal frame with the body of a plain refusal; nothing behind it is applied, though it
    was sent before."""
    with append_session(endpoint, basin, stream, content_type=kind) as session:
        session.send(input_frame(b"a"), input_frame(b"b"), bad, input_frame(b"c"))
        one, two, last = session.rest()
    assert (ack_of(one), ack_of(two)) == ((0, 1), (1, 2))
    status, body = failure_of(last)
    assert (status, body["code"]) == (422 if code == "invalid" and kind == TYPES[1] else 400, code)
    assert body["message"]
    assert body["may_have_taken_effect"] is False
    assert bodies(client, basin, stream) == ["a", "b"]


@pytest.mark.parametrize("kind", TYPES)
def test_a_condition_that_fails_ends_the_session(
    client: Client, endpoint: str, basin: str, stream: str, kind: str
) -> None:
    """412 with the body of a unary append: one key, more in the seed dialect. Conditions are of
    each input: 0 and the empty token are some."""
    with append_session(endpoint, basin, stream, content_type=kind) as session:
        session.send(
            input_frame(b"a", match_seq_num=0, fencing_token=""),
            input_frame(b"b", match_seq_num=1),
            input_frame(b"c", match_seq_num=0),
            input_frame(b"d"),
        )
        *acks, last = session.rest()
    assert [ack_of(frame) for frame in acks] == [(0, 1), (1, 2)]
    status, body = failure_of(last)
    assert (status, body["seq_num_mismatch"]) == (412, 2)
    assert (set(body) == {"seq_num_mismatch"}) == (kind == "s2s/proto")
    assert bodies(client, basin, stream) == ["a", "b"]


def test_a_session_that_ends_in_a_frame_is_refused_there(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """What came whole is appended."""
    with append_session(endpoint, basin, stream) as session:
        session.send(input_frame(b"a"), input_frame(b"b")[:-1])
        session.half_close()
        first, last = session.rest()
    assert ack_of(first) == (0, 1)
    assert failure_of(last)[1]["code"] == "bad_frame"
    assert client.tail(basin, stream) == 1


def test_the_connection_carries_on_behind_a_session(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """A session that ended well, and one that failed, leave the server answering."""
    for bad in (b"", b"\x00\x00\x00"):
        with append_session(endpoint, basin, stream) as session:
            session.send(input_frame(b"a") + bad)
            if not bad:
                session.half_close()
            session.rest()
        assert client.get("/livez").status == 200
    assert client.tail(basin, stream) == 2


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"svc-request-token": "once"}, 400, "bad_header"),
        ({"content-encoding": "gzip"}, 415, "unsupported_media_type"),
    ],
)
def test_headers_that_a_session_cannot_have_are_refused(
    endpoint: str, basin: str, stream: str, headers: dict[str, str], status: int, code: str
) -> None:
    """A plain answer, at once."""
    path = f"/v1/streams/{stream}/records"
    with Session(endpoint, "POST", basin, path, dict(headers)) as session:
        assert session.status == status
        assert json.loads(session.text())["code"] == code


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_session_into_nothing_is_a_plain_404(endpoint: str, basin: str, method: str) -> None:
    """No such stream; no such basin."""
    for named, code in ((basin, "stream_not_found"), ("no-such-basin", "basin_not_found")):
        with Session(endpoint, method, named, "/v1/streams/none/records", {}) as session:
            assert session.status == 404
            assert session.headers["content-type"] == "application/json"
            assert json.loads(session.text())["code"] == code


def test_both_path_shapes_carry_sessions(endpoint: str, basin: str, stream: str) -> None:
    """The seed's shape, too."""
    path = f"/v1/basins/{basin}/streams/{stream}"
    with Session(endpoint, "POST", basin, f"{path}/append", {}) as session:
        session.send(input_frame(b"x"))
        assert session.ack() == (0, 1)
        session.half_close()
    with Session(endpoint, "GET", basin, f"{path}/read?count=1", {}) as session:
        assert session.batch() == ([0], 1)
        assert session.frame() is None


# -- reading


@pytest.fixture
def three(client: Client, basin: str, stream: str) -> str:
    """Three records of 10 metered bytes in two batches."""
    client.append(basin, stream, b"00", b"01")
    client.append(basin, stream, b"02")
    return stream


def numbers(frames: list[SessionFrame]) -> list[int]:
    return [number for frame in frames for number in batch_of(frame)[0]]


@pytest.mark.parametrize("kind", TYPES)
def test_stored_records_then_a_heartbeat_then_live_ones(
    client: Client, endpoint: str, basin: str, three: str, kind: str
) -> None:
    """The heartbeat comes at once on reaching the tail. The batch that ends there carries it, and
    no other does; with live ones it is the appender's."""
    with read_session(endpoint, basin, three, "seq_num=0", content_type=kind) as session:
        assert session.status == 200
        assert session.headers["content-type"] == kind
        assert session.headers["cache-control"] == "no-cache, no-transform"
        found: list[int] = []
        while found != [0, 1, 2]:
            batch, tail = session.batch()
            found += batch
            assert tail == (3 if found == [0, 1, 2] else None)
        assert session.batch() == ([], 3)
        for number in (3, 4):
            ack = client.append(basin, three, b"live").json
            batch, tail = session.batch()
            while not batch:
                batch, tail = session.batch()
            assert batch == [number]
            assert tail == ack["tail"]["seq_num"]


def test_a_reader_of_an_empty_stream_is_told_the_tail_at_once(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """A heartbeat with the tail 0, before there is any record."""
    with read_session(endpoint, basin, stream) as session:
        assert session.batch() == ([], 0)
        client.append(basin, stream, b"x")
        assert session.batch() == ([0], 1)


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
        ("seq_num=1&wait=0", [1, 2]),
        ("tail_offset=2&count=2", [1, 2]),
        ("tail_offset=2&count=9&clamp=true", [1, 2]),
    ],
)
def test_a_bounded_session_delivers_what_there_is_and_ends(
    endpoint: str, basin: str, three: str, query: str, found: list[int]
) -> None:
    """No heartbeat, no terminal frame. The batch that ends at the tail says so, and no other."""
    with read_session(endpoint, basin, three, query) as session:
        assert session.status == 200
        frames = session.rest()
    assert numbers(frames) == found
    for batch, tail in map(batch_of, frames):
        assert tail == (3 if batch[-1] == 2 else None)


@pytest.mark.parametrize("kind", TYPES)
def test_a_session_that_ends_with_the_tail_has_told_it(
    client: Client, endpoint: str, basin: str, three: str, kind: str
) -> None:
    """A client that waits for the tail has it with the records, from the log and from what the
    gateway shares among followers, though others appended meanwhile."""
    with read_session(endpoint, basin, three, "seq_num=0", content_type=kind) as other:
        assert other.batch()[0]
        for number in (3, 4):
            client.append(basin, three, b"x")
            query = f"seq_num=0&count={number + 1}"
            with read_session(endpoint, basin, three, query, content_type=kind) as session:
                frames = session.rest()
            assert numbers(frames) == list(range(number + 1))
            assert batch_of(frames[-1])[1] == number + 1


def test_wait_ends_a_session_that_stays_idle(endpoint: str, basin: str, three: str) -> None:
    """Records, the heartbeat of the tail, and after `wait` seconds the end."""
    begun = monotonic()
    with read_session(endpoint, basin, three, "wait=1") as session:
        frames = session.rest()
    assert monotonic() - begun > 0.9
    assert numbers(frames) == [0, 1, 2]
    assert batch_of(frames[-1]) == ([], 3)


@pytest.mark.parametrize(
    ("query", "kind", "status"),
    [
        ("seq_num=4", "svcs/proto", 416),
        ("seq_num=4", "s2s/proto", 416),
        ("seq_num=3&count=1", "s2s/proto", 416),
        ("seq_num=3&count=1", "svcs/proto", 200),
        ("seq_num=3&count=1&wait=1", "s2s/proto", 200),
        ("seq_num=3&wait=0", "s2s/proto", 200),
        ("seq_num=9&clamp=true&wait=0", "s2s/proto", 200),
        ("count=1", "s2s/proto", 416),
        ("seq_num=x", "svcs/proto", 400),
        ("seq_num=0&timestamp=0", "svcs/proto", 400),
        ("seq_num=0&timestamp=0", "s2s/proto", 422),
    ],
)
def test_refusals_before_the_session_are_plain_answers(
    endpoint: str, basin: str, three: str, query: str, kind: str, status: int
) -> None:
    """JSON with a status; a bounded start at the tail is one in the S2 dialect alone, whose default
    start is the tail."""
    with read_session(endpoint, basin, three, query, content_type=kind) as session:
        assert session.status == status
        if status != 200:
            body = json.loads(session.text())
            assert body["message"]
            if status == 416:
                assert body["tail"]["seq_num"] == 3


def test_frames_are_compressed_as_the_reader_accepts(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """Each by itself, from 1024 bytes on; never the body as a whole, nor what has the weight 0."""
    client.append(basin, stream, b"x" * 5000)
    for accept, compression in (
        ("gzip", Compression.GZIP),
        ("gzip, zstd", Compression.ZSTD),
        ("br", Compression.NONE),
        ("gzip;q=0", Compression.NONE),
        ("zstd;q=0.000, gzip", Compression.GZIP),
        ("zstd ; Q=0.0 ; x=1,gzip;q=0", Compression.NONE),
        ("zstd; x=1; q=0", Compression.NONE),
        ("zstd;q=0.001", Compression.ZSTD),
    ):
        with read_session(endpoint, basin, stream, accept_encoding=accept) as session:
            assert session.headers.get("content-encoding") is None
            stored = session.frame()
            assert stored is not None
            assert stored.compression is compression
            assert batch_of(stored) == ([0], 1)
            heartbeat = session.frame()
            assert heartbeat is not None
            assert heartbeat.compression is Compression.NONE


def test_large_streams_come_in_frames_of_bounded_size(
    client: Client, endpoint: str, basin: str, stream: str
) -> None:
    """At most 1000 records and 1 MiB metered a frame; nothing lost or repeated at the cuts."""
    for _ in range(3):
        client.append(basin, stream, *[b"x"] * 700)
    for _ in range(4):
        client.append(basin, stream, b"y" * 700_000)
    with read_session(endpoint, basin, stream, "wait=0") as session:
        frames = session.rest()
    assert numbers(frames) == list(range(2104))
    assert max(len(batch_of(frame)[0]) for frame in frames) <= 1000
    assert max(len(frame.payload) for frame in frames) < 1_100_000


def test_a_deleted_stream_ends_its_readers_and_its_writers(
    client: Client, endpoint: str, basin: str, three: str
) -> None:
    """A terminal frame, 404 or 409 by how far the deletion has come."""
    with (
        read_session(endpoint, basin, three) as reader,
        append_session(endpoint, basin, three) as writer,
    ):
        found: list[int] = []
        while found != [0, 1, 2]:
            found += reader.batch()[0]
        assert client.delete(f"/v1/streams/{three}", {"svc-basin": basin}).status == 202
        writer.send(input_frame(b"x"))
        last = [frame for frame in reader.rest() if frame.is_terminal]
        assert [failure_of(frame)[0] for frame in last] in ([404], [409])
        (refusal,) = writer.rest()
        assert failure_of(refusal)[0] in (404, 409)
        assert failure_of(refusal)[1]["may_have_taken_effect"] is False


@pytest.mark.parametrize("kind", ["append", "read"])
def test_a_client_that_leaves_ends_its_session(
    client: Client, endpoint: str, basin: str, stream: str, kind: str
) -> None:
    """The gauge of open sessions falls back."""

    def sessions() -> float:
        text = client.get("/metrics").body.decode()
        name = f"svc_{kind}_sessions "
        (line,) = [line for line in text.splitlines() if line.startswith(name)]
        return float(line.split()[1])

    before = sessions()
    if kind == "append":
        with append_session(endpoint, basin, stream) as session:
            session.send(input_frame(b"x"))
            session.ack()
            assert sessions() == before + 1
    else:
        with read_session(endpoint, basin, stream) as session:
            session.batch()
            assert sessions() == before + 1
    for _ in range(200):
        client.append(basin, stream, b"x")
        if sessions() == before:
            break
    assert sessions() == before


def test_one_session_feeds_another(endpoint: str, basin: str, stream: str) -> None:
    """Every record of a pipelined writer reaches a reader that follows, once and in order."""
    with (
        read_session(endpoint, basin, stream) as reader,
        append_session(endpoint, basin, stream) as writer,
    ):
        writer.send(*[input_frame(b"a", b"b", b"c")] * 200)
        writer.half_close()
        found: list[int] = []
        while len(found) < 600:
            found += reader.batch()[0]
        assert found == list(range(600))
        assert len(writer.rest()) == 200

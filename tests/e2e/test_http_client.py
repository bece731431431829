"""The load generator's own HTTP client, against a server that answers byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from svc_cluster.http import client as http_client
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import AppendRecord, append_body, decode_batch
from svc_cluster.lab.load.requests import protobuf_append

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
)
REFUSED = b"HTTP/1.1 503 no\r\nsvc-side-effects: none\r\ncontent-length: 2\r\n\r\n{}"


def against(answers: list[bytes | None], test: Callable[[HttpClient], Awaitable[None]]) -> None:
    """Run `test` against a server that gives `answers` in turn, a byte at a time; None: it closes
    the connection instead."""

    async def main() -> None:
        left = list(answers)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while left:
                try:
                    await reader.readuntil(b"\r\n\r\n")
                except asyncio.IncompleteReadError:
                    break
                answer = left.pop(0)
                if answer is None:
                    break
                for i in range(len(answer)):
                    writer.write(answer[i : i + 1])
                    await writer.drain()
                    await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, HttpClient(f"http://127.0.0.1:{port}") as client:
            await test(client)

    asyncio.run(main())


def test_answers_are_parsed_whatever_the_pieces() -> None:
    """Both body codings give the same body, on one kept-alive connection."""

    async def test(client: HttpClient) -> None:
        for _ in range(2):
            answer = await client.request("GET", "/")
            assert (answer.status, answer.body) == (200, b"hello")
        refused = await client.request("POST", "/")
        assert refused.status == 503
        assert not refused.may_have_taken_effect

    against([LENGTH, CHUNKED, REFUSED], test)


@pytest.mark.parametrize(
    "answer",
    [
        LENGTH,
        CHUNKED,
        LENGTH.replace(b"Content-Length: 5\r\n", b""),
        CHUNKED[: CHUNKED.index(b"3\r\n")] + b"0" * 2_000,
        b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 2_000,
    ],
    ids=["length", "chunks", "until the end", "a chunk's line", "head"],
)
def test_an_answer_that_is_too_long_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """Whatever it is that does not end; nothing of it is kept, and the next request has another
    connection."""
    monkeypatch.setattr(http_client, "ANSWER_BYTES_MAX", 4)
    monkeypatch.setattr(http_client, "_HEAD_BYTES_MAX", 1_000)

    async def test(client: HttpClient) -> None:
        with pytest.raises(ConnectionLostError, match="too long") as lost:
            await client.request("GET", "/")
        assert lost.value.sent
        protocol = client._protocol
        assert protocol is not None
        assert len(protocol._body) <= 4
        assert (await client.request("POST", "/")).status == 503

    against([answer, REFUSED], test)


def test_a_lost_connection_is_told_and_the_next_request_connects_again() -> None:
    """A request that was sent and not answered is ambiguous."""

    async def test(client: HttpClient) -> None:
        with pytest.raises(ConnectionLostError) as lost:
            await client.request("POST", "/")
        assert lost.value.sent
        assert (await client.request("GET", "/")).body == b"hello"

    against([None, LENGTH], test)


def test_no_answer_in_time_is_a_lost_connection() -> None:
    """The deadline closes the connection, so that a late answer meets no other request."""

    async def test(client: HttpClient) -> None:
        with pytest.raises(ConnectionLostError):
            await client.request("GET", "/", timeout_s=0.05)
        assert (await client.request("GET", "/")).body == b"hello"

    against([b"HTTP/1.1 200", LENGTH], test)


def test_nothing_listening_is_known_not_to_have_been_sent() -> None:
    """A refused connection had no effect."""

    async def main() -> None:
        with pytest.raises(ConnectionLostError) as lost:
            await HttpClient("http://127.0.0.1:9").request("POST", "/")
        assert not lost.value.sent

    asyncio.run(main())


def test_a_stream_gives_its_pieces_and_ends() -> None:
    """Streamed bodies arrive as they come, without the chunked coding."""

    async def test(client: HttpClient) -> None:
        assert b"".join([piece async for piece in client.stream("/", {})]) == b"hello"

    against([CHUNKED], test)


def test_a_refused_stream_says_why() -> None:
    """An error answer to a stream request is raised with its text."""

    async def test(client: HttpClient) -> None:
        with pytest.raises(ConnectionLostError, match="503"):
            _ = [piece async for piece in client.stream("/", {})]

    against([REFUSED], test)


def test_record_encodings_are_what_the_wire_says() -> None:
    """The hand-made bodies are the documented JSON and protobuf."""
    records = [AppendRecord(b"\x00\xff", ((b"path", b"a"),)), AppendRecord(b"")]
    assert append_body(records, 7) == (
        b'{"records":[{"body":"AP8=","headers":[["cGF0aA==","YQ=="]]},{"body":""}]'
        b',"match_seq_num":7}'
    )
    assert records[0].metered_bytes() == 8 + 2 + 2 + 5
    assert protobuf_append([AppendRecord(b"x" * 200)]) == (b"\x0a\xcb\x01\x1a\xc8\x01" + b"x" * 200)
    batch = b'{"records":[{"seq_num":3,"timestamp":9,"headers":[["cGF0aA==","YQ=="]]}],"tail":{}}'
    (record,) = decode_batch(batch)
    assert (record.seq_num, record.headers, record.body) == (3, [(b"path", b"a")], b"")

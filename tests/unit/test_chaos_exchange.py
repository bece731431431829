"""The HTTP/2 client of the live histories, before servers that go away."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hyperframe.frame import DataFrame, GoAwayFrame

from tests.chaos.exchange import LostError, open_http2


async def _asked(rest: bytes) -> bytes:
    """What is received of an answer that goes on with `rest` behind its head."""
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = H2Connection(H2Configuration(client_side=False))
        server.initiate_connection()
        while not server.highest_inbound_stream_id:
            server.receive_data(await reader.read(65536))
        server.send_headers(1, [(":status", "200")])
        writer.write(server.data_to_send() + rest)
        with contextlib.suppress(ConnectionError):
            await reader.read()  # until the client has closed
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        try:
            exchange = await open_http2(f"http://127.0.0.1:{port}", "GET", "/", {})
            try:
                return await exchange.receive()
            finally:
                exchange.close()
        finally:
            await served.wait()


def _data(stream: int) -> bytes:
    frame = DataFrame(stream, b"some")
    return frame.serialize()


def test_what_stands_behind_a_goaway_is_lost() -> None:
    """Its library does not read what belongs to the stream that was open already."""
    with pytest.raises(LostError, match="going away"):
        asyncio.run(_asked(GoAwayFrame(last_stream_id=1).serialize() + _data(1)))


def test_what_no_server_may_send_is_its_fault() -> None:
    with pytest.raises(ProtocolError):
        asyncio.run(_asked(_data(3)))


def test_an_answer_is_received() -> None:
    assert asyncio.run(_asked(_data(1))) == b"some"

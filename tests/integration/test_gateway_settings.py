"""What a gateway's settings say is what its answers show."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from svc_cluster.base.tasks import start_task
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes import gateway_process
from svc_cluster.cli.processes.gateway_process import start_gateway
from svc_cluster.settings import GatewaySettings
from tests.contract.client import Answer, Client

MIB = 1 << 20
PUBLIC = [
    "b.example",
    "example",
    "other",
    "my-basin.b.example",
    "my-basin.b.other",
    "my-basin.streams.example",
]


@contextlib.asynccontextmanager
async def gateway(**changes: Any) -> AsyncIterator[int]:
    """The port of one that knows no node: what it refuses by itself is all that is looked at."""
    held = HeldPorts(1)
    port = held.numbers[0]
    settings = GatewaySettings(
        cluster_id="c", nodes={"1": "127.0.0.1:1"}, secret_file="-", port=port, **changes
    )
    settings.check()
    running = await start_gateway(settings, {})
    try:
        yield port
    finally:
        await running.close()


def get(port: int, path: str, headers: dict[str, str]) -> Answer:
    with Client(f"http://127.0.0.1:{port}") as client:
        return client.get(path, headers)


@pytest.mark.parametrize(
    ("suffixes", "naming"),
    [
        (None, {"my-basin.b.example", "my-basin.b.other:80"}),
        (["Streams.Example", "b.example"], {"my-basin.streams.example:80", "my-basin.b.example"}),
        ([], set()),
    ],
)
def test_host_names_select_a_basin_by_the_suffixes_that_are_set(
    suffixes: list[str] | None, naming: set[str]
) -> None:
    """A listing with a bad `limit` is refused for that where its host names a basin, and for the
    missing basin where it does not."""
    hosts = {
        "my-basin.b.example",
        "my-basin.b.other:80",
        "my-basin.streams.example:80",
        "b.example",
    }

    async def main() -> set[str]:
        async with gateway(basin_host_suffixes=suffixes, public_hosts=PUBLIC) as port:
            found = set()
            for host in hosts:
                answer = await asyncio.to_thread(get, port, "/v1/streams?limit=x", {"host": host})
                assert answer.status == 400
                if b"bad_query" in answer.body:
                    found.add(host)
                else:
                    assert b"bad_header" in answer.body
            return found

    assert asyncio.run(main()) == naming


@pytest.mark.parametrize("on", [True, False])
def test_cors_and_compression_are_switches(on: bool) -> None:
    """The OpenAPI document is long enough to be compressed, and is asked for by a page."""

    async def main() -> Mapping[str, str]:
        async with gateway(cors=on, compression=on) as port:
            wanted = {"origin": "http://localhost:3000", "accept-encoding": "gzip"}
            answer = await asyncio.to_thread(get, port, "/openapi.json", wanted)
            assert answer.status == 200
            return answer.headers

    headers = asyncio.run(main())
    assert headers.get("access-control-allow-origin") == ("http://localhost:3000" if on else None)
    assert headers.get("content-encoding") == ("gzip" if on else None)


def test_a_gateway_that_asks_for_tokens_listens_once_it_has_waited_for_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It knows no node, and says that the tokens are not known: connections are refused until
    then."""
    monkeypatch.setattr(gateway_process, "FIRST_LEASE_SECONDS", 0.5)
    caplog.set_level("WARNING")

    def is_said() -> bool:
        return "access_tokens_unknown" in [record.getMessage() for record in caplog.records]

    async def main() -> bool:
        ports = HeldPorts(1)
        port = ports.numbers[0]
        settings = GatewaySettings(
            cluster_id="c",
            nodes={"1": "127.0.0.1:1"},
            secret_file="-",
            port=port,
            authentication=True,
        )
        settings.check()
        starting = start_task(start_gateway(settings, {}), "start a gateway")
        was_said = False
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0)
                else:
                    was_said = is_said()
                    writer.close()
                    break
        await (await starting).close()
        return was_said

    assert asyncio.run(main())


def test_no_more_bodies_are_held_than_the_setting_allows() -> None:
    """Of six bodies that come fast and do not end, together three times as long as the setting,
    some find no room and are refused; those that did hold no more than it at any time."""
    path = "/v1/basins/some-basin/streams/s/append"
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    length = 8 * MIB

    async def main() -> list[bytes]:
        async with gateway(body_mib_in_flight=16) as port, contextlib.AsyncExitStack() as ending:
            answers = []
            for _ in range(6):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                ending.callback(writer.close)
                writer.write(f"{head}content-length: {length}\r\n\r\n".encode())
                writer.write(b" " * (length - 1))
                answers.append(asyncio.create_task(answer_of(reader)))
            async with asyncio.timeout(60):
                while not any(answer.done() for answer in answers):
                    assert await held(port) <= 16 * MIB
                    await asyncio.sleep(0.02)
            done = [answer.result() for answer in answers if answer.done()]
            for answer in answers:
                answer.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
            return done

    async def answer_of(reader: asyncio.StreamReader) -> bytes:
        return await reader.readuntil(b"\r\n\r\n") + await reader.read(1000)

    answers = asyncio.run(main())
    assert len(answers) < 6, "what fits is not refused"
    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"hot_server" in answer and b"svc-side-effects: none" in answer


async def held(port: int) -> float:
    text = (await asyncio.to_thread(get, port, "/metrics", {})).body
    found = re.search(rb"^svc_http_body_bytes_in_flight (\S+)", text, re.MULTILINE)
    assert found is not None
    return float(found[1])

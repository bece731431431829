"""A server that is given hostile names: `python -m tests.integration.names_and_paths DIRECTORY`.

Starts a node and a gateway in DIRECTORY, uses names that would lead elsewhere if any of them ever
became a path, as basins, streams, tokens and locations, and ends. What it opens on the way is for
whoever watches its system calls.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from svc_cluster.cli.local.embedded import EmbeddedNode, embedded_settings
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.process import run

MARK: Final = "path-mark-6b2d"
"""In every name, so that none can be taken for something else."""
ELSEWHERE: Final = "/tmp/" + MARK
PIECES: Final = (
    *("../", "..\\", "/", "//", "/etc/", "/proc/self/", "~/", "./", "%2e%2e/", "%2f", "\0", "\n"),
    *(
        "C:\\",
        "file://",
        "$HOME/",
        "`id`",
        ";",
        "|",
        "*",
        "?",
        "é",
        "\u202e",
        "-rf ",
        "con.",
        ".lock",
    ),
)
STREAMS: Final = 40
BASIN: Final = "paths-basin"


def hostile_names() -> list[str]:
    rng = random.Random(3)
    made = [
        ELSEWHERE,
        f"../../../../../../..{ELSEWHERE}",
        f"..%2f..%2f{MARK}",
        f"{MARK}\0/../../x",
        "/" * 100 + MARK,
        MARK + "a" * (512 - len(MARK)),
        "../" * 160 + MARK,
    ]
    while len(made) < STREAMS:
        name = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6))) + MARK
        if name not in made:
            made.append(name)
    return made


Ask = Callable[..., Awaitable[int]]


async def used(ask: Ask, number: int, name: str, raw: str, record: object) -> None:
    if number % 2:
        assert await ask("POST", "/v1/streams", {"stream": name}) == 201, name
    assert await ask("POST", f"/v1/streams/{raw}/records", record) == 200, name
    assert await ask("GET", f"/v1/streams/{raw}/records?seq_num=0") == 200, name
    assert await ask("PATCH", f"/v1/streams/{raw}", {}) == 200, name
    assert await ask("GET", f"/v1/streams?prefix={raw}") == 200, name
    if number % 3 == 0:
        assert await ask("DELETE", f"/v1/streams/{raw}") == 202, name
    token = {"id": name[:60], "scope": {"ops": ["read"], "streams": {"prefix": name}}}
    assert await ask("POST", "/v1/access-tokens", token) in (201, 409), name


async def refused(ask: Ask, name: str, raw: str, record: object) -> None:
    """It has NUL: nothing is made by it, be it by reading."""
    assert await ask("POST", "/v1/streams", {"stream": name}) == 400, name
    assert await ask("POST", f"/v1/streams/{raw}/records", record) == 400, name
    assert await ask("GET", f"/v1/streams/{raw}/records?seq_num=0") == 404, name
    assert await ask("DELETE", f"/v1/streams/{raw}") == 404, name
    assert await ask("GET", f"/v1/streams?prefix={raw}") == 400, name
    token = {"id": name[:60], "scope": {"ops": ["read"], "streams": {"prefix": name}}}
    assert await ask("POST", "/v1/access-tokens", token) == 400, name


async def use(url: str) -> None:
    """Each name in every place where a name can stand."""
    async with aiohttp.ClientSession(url) as session:

        async def ask(method: str, path: str, body: object = None) -> int:
            target = URL(url + path, encoded=True)
            async with session.request(
                method, target, json=body, headers={"svc-basin": BASIN, "svc-format": "utf8"}
            ) as answer:
                await answer.read()
                return answer.status

        config = {"create_stream_on_append": True, "create_stream_on_read": True}
        assert await ask("POST", "/v1/basins", {"basin": BASIN, "config": config}) == 201
        record = {"records": [{"body": "x"}]}
        for number, name in enumerate(hostile_names()):
            raw = quote(name, safe="")
            if "\0" in name:
                await refused(ask, name, raw, record)
            else:
                await used(ask, number, name, raw, record)
            for method, path, body in (
                ("PUT", f"/v1/basins/{raw}", {}),
                ("POST", "/v1/basins", {"basin": name}),
                ("PUT", "/v1/locations/default", name),
                ("GET", f"/{raw}", None),
                ("GET", f"/v1/{name.replace(chr(0), '').replace(chr(10), '')[:40]}", None),
                ("GET", f"/openapi.json/{raw}", None),
            ):
                assert 400 <= await ask(method, path, body) < 500, (method, path)


async def serve(directory: Path) -> None:
    secret = directory / "secret"
    secret.write_text("s" * 64)
    held = HeldPorts(3)
    node, gateway = embedded_settings(
        directory, "paths", secret, held.numbers, {"flush_seconds": 0.1}
    )
    embedded = EmbeddedNode(node, gateway)
    await embedded.start()
    print("started", flush=True)
    await use(f"http://127.0.0.1:{held.numbers[2]}")
    await embedded.stop()


if __name__ == "__main__":
    run(lambda stop: serve(Path(sys.argv[1])), "warning", "json")

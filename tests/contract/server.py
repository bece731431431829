"""A node and a gateway in a process of their own, for tests that speak to them over a socket.

`python -m tests.contract.server DIRECTORY PORT HEADER_SECONDS [ROOT_TOKEN_FILE [NODE [GATEWAY
[PATIENCE]]]]` runs until its standard input ends; with a root token (not empty), requests need a
token. NODE and GATEWAY are JSON objects of settings, PATIENCE is one of how long bodies are borne
with. Its log goes to standard error, a JSON object a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from svc_cluster.cli.local.embedded import EmbeddedNode, embedded_settings
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.process import run
from svc_cluster.gateway.api import shared_page
from svc_cluster.gateway.limits.body_budget import BodyPatience


async def serve(
    directory: Path,
    port: int,
    header_seconds: float,
    root_token: str,
    overrides: dict[str, Any],
    gateway_overrides: dict[str, Any],
    patience: dict[str, float],
    stop: asyncio.Event,
) -> None:
    secret = directory / "secret"
    secret.write_text("s" * 64)
    held = HeldPorts(2)
    rpc, admin = held.numbers
    node, gateway = embedded_settings(directory, "contract", secret, [rpc, admin, port], overrides)
    if root_token:
        node = msgspec.structs.replace(node, root_token_file=root_token)
        gateway = msgspec.structs.replace(gateway, authentication=True)
    gateway = msgspec.structs.replace(gateway, **gateway_overrides)
    embedded = EmbeddedNode(
        node, gateway, header_seconds=header_seconds, body_patience=BodyPatience(**patience)
    )
    await embedded.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: _UntilEnd(stop), sys.stdin)
    await stop.wait()
    await embedded.stop()


class _UntilEnd(asyncio.Protocol):
    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def eof_received(self) -> None:
        self._stop.set()


def main(
    directory: str,
    port: str,
    header_seconds: str,
    root_token: str = "",
    node: str = "{}",
    gateway: str = "{}",
    patience: str = "{}",
) -> None:
    overrides = json.loads(node)
    # tests ask for metrics all the time, of now; this bound has tests of its own
    shared_page.ANEW_BURST = float("inf")  # type: ignore[misc]
    run(
        lambda stop: serve(
            Path(directory),
            int(port),
            float(header_seconds),
            root_token,
            overrides,
            json.loads(gateway),
            json.loads(patience),
            stop,
        ),
        "info",
        "json",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

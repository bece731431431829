"""The ports that `svc-cluster local` chooses are its own from then on, whoever else takes one."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.local.command import LocalCluster
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient

IP_LOCAL_PORT_RANGE: Final = 51
"""Of Linux since 6.3: what the system chooses a socket's port from."""


def ports_of(directory: Path) -> list[int]:
    """All that the processes of a cluster of one node are to listen on."""
    node = yaml.safe_load((directory / "node-1.yaml").read_text())
    gateway = yaml.safe_load((directory / "gateway.yaml").read_text())
    addresses = [node["nodes"]["1"], node["admin_address"], node["admin_rpc_address"]]
    return [int(address.rpartition(":")[2]) for address in addresses] + [gateway["port"]]


def is_for_others(port: int) -> bool:
    """Whether a connection that the system looks a port for can have this one."""
    both = (port << 16 | port).to_bytes(4, sys.byteorder)  # the last, and the first
    with socket.create_server(("127.0.0.1", 0)) as far, socket.socket() as near:
        try:
            near.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, both)
        except OSError:  # an older system: whoever names the number is the only thief there is
            return can_be_bound(port)
        try:
            near.connect(far.getsockname())
        except OSError as cause:
            return refused_with(cause, errno.EADDRNOTAVAIL)
        return bool(near.getsockname()[1] == port)


def can_be_bound(port: int) -> bool:
    with socket.socket() as thief:
        try:
            thief.bind(("127.0.0.1", port))
        except OSError as cause:
            return refused_with(cause, errno.EADDRINUSE)
        return True


def refused_with(cause: OSError, number: int) -> bool:
    """False, for the reason that is meant."""
    assert cause.errno == number, cause
    return False


async def gateway_is_down(directory: Path) -> None:
    row: dict[str, Any] = read_cluster_file(directory)["gateway"]
    os.kill(row["pid"], signal.SIGKILL)
    async with asyncio.timeout(30):
        while read_cluster_file(directory)["gateway"]["pid"] != 0:
            await asyncio.sleep(0.02)


def test_nobody_gets_a_chosen_port_before_its_process_has_it_or_after_that_died(
    tmp_path: Path,
) -> None:
    """Somebody tries to take each port between the choice and the start, and the gateway's once
    that was killed and stays down. The cluster starts as if nobody had, and a client of the gateway
    that is down is refused at once, as with a port that is nobody's."""
    directory = tmp_path / "cluster"
    directory.mkdir(mode=0o700)

    async def main() -> None:
        cluster = LocalCluster(directory, 1, 0, restart=False)
        try:
            cluster.prepare()
            ports = ports_of(directory)
            assert len(set(ports)) == 4
            assert [is_for_others(port) or can_be_bound(port) for port in ports] == [False] * 4
            await cluster.start()
            await cluster.wait_ready()
            await gateway_is_down(directory)
            assert not is_for_others(cluster.port)
            async with HttpClient(cluster.url) as client:
                with pytest.raises(ConnectionLostError, match="cannot connect") as lost:
                    await client.request("GET", "/readyz")
            assert not lost.value.sent
        finally:
            await cluster.stop()
        assert is_for_others(cluster.port)

    asyncio.run(main())


def test_held_ports_are_different_and_are_let_go_at_their_owners_end() -> None:
    """Neither a second choice nor the system gives them out again; an owner that is forgotten
    keeps nothing, and one may be closed twice."""
    first, second = HeldPorts(50), HeldPorts(50)
    numbers = [*first.numbers, *second.numbers]
    assert len(set(numbers)) == 100
    assert not any(is_for_others(port) or can_be_bound(port) for port in numbers)
    del second
    first.close()
    first.close()
    # whoever else is on this machine may have taken some in the meantime
    assert sum(is_for_others(port) for port in numbers) >= 90


def test_a_held_port_has_one_listener() -> None:
    """A second server is refused, as on any port; the first may end and listen again."""
    held = HeldPorts(1)
    (port,) = held.numbers
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))
    socket.create_server(("127.0.0.1", port)).close()

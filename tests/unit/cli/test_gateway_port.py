"""What a gateway's processes listen on is theirs together, and nobody else's."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from svc_cluster.cli.processes.gateway_port import TURN, hold_port
from svc_cluster.settings_errors import EXIT_ADDRESS, AddressError

HOST: Final = "127.0.0.1"
SECONDS: Final = 30.0
LOOKS: Final = 3
"""Who has tried to bind so often has either taken its port or has to wait."""


class Meeting:
    """A second one comes when the first has seen that the port is free, and has not taken it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.first_has_looked = threading.Event()
        self.second_has_come = threading.Event()
        self._binds = {"first": 0, "second": 0}

    def hear(self, event: str, args: tuple[object, ...]) -> None:
        """A socket of this process is about to be bound. Hooks of audits stay for ever: to other
        threads than the two this one does nothing."""
        if event != "socket.bind":
            return
        who = threading.current_thread().name.partition("_")[0]
        if who == "first" and args[1] == (HOST, self.port):
            self._binds[who] += 1
            if self._binds[who] == 2:
                self.first_has_looked.set()
                assert self.second_has_come.wait(SECONDS), "the second one has not come"
        elif who == "second":
            self._binds[who] += 1
            if self._binds[who] == LOOKS:
                self.second_has_come.set()

    def first(self) -> list[socket.socket]:
        return hold(HOST, self.port)

    def second(self) -> list[socket.socket]:
        assert self.first_has_looked.wait(SECONDS), "the first one has not looked"
        try:
            return hold(HOST, self.port)
        finally:
            self.second_has_come.set()


@pytest.fixture
def held() -> Iterator[list[socket.socket]]:
    """What is put here is closed at the end."""
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


def hold(host: str, port: int) -> list[socket.socket]:
    return asyncio.run(hold_port(host, port))


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
    return port


def shared(port: int) -> socket.socket:
    """Return a socket that lets others of this user have its port as well."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((HOST, port))
    return sock


def test_a_port_is_held_for_the_group_and_shared_with_nobody_else(
    held: list[socket.socket],
) -> None:
    """A free one is found for 0. Another group, which would share it in silence, is refused, and so
    is the group where somebody listens, be it with the same option."""
    holding = hold(HOST, 0)
    held += holding
    port = holding[0].getsockname()[1]
    with pytest.raises(AddressError, match=f"port {port}"):
        hold(HOST, port)
    with shared(port) as one:
        one.listen()
        with socket.create_connection((HOST, port)):
            pass  # it is taken by whoever listens, not by the one that holds
    for sock in holding:
        sock.close()
    with shared(port) as other:
        other.listen()
        with pytest.raises(AddressError) as refused:
            hold(HOST, port)
    assert refused.value.exit_status == EXIT_ADDRESS


def test_of_two_groups_that_start_at_one_moment_one_has_the_port(
    held: list[socket.socket],
) -> None:
    """The second one looks while the first has looked and has not taken it yet, which is what two
    starts come to now and then."""
    meeting = Meeting()
    sys.addaudithook(meeting.hear)
    with ThreadPoolExecutor(1, "first") as one, ThreadPoolExecutor(1, "second") as other:
        first, second = one.submit(meeting.first), other.submit(meeting.second)
        held += first.result(SECONDS)
        refusal = second.exception(SECONDS)
        if refusal is None:
            held += second.result()
    assert isinstance(refusal, AddressError), "both have the port"
    assert refusal.exit_status == EXIT_ADDRESS


def test_a_turn_that_does_not_end_is_a_refusal(
    held: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped while it took its port keeps nobody waiting for ever."""
    monkeypatch.setattr("svc_cluster.cli.processes.gateway_port.TURN_TRIES_MAX", 3)
    taking = socket.socket(socket.AF_UNIX)
    held.append(taking)
    taking.bind(TURN)
    with pytest.raises(AddressError) as refused:
        hold(HOST, free_port())
    assert refused.value.exit_status == EXIT_ADDRESS

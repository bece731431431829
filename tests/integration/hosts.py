"""Hosts of our own: network namespaces with an address each, and a switch between them.

The switch is a bridge in a namespace of its own, because a bridge of this machine's would be under
this machine's packet filter, which container engines set to drop what is forwarded.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from tests.service_process import SERVICE, ServiceProcess

NETWORK: Final = "10.231.7"
"""Of the range for private use; only our own namespaces are on it."""


class Hosts:
    """`count` hosts, numbered from 1, at `address(n)`; this one sees them too."""

    def __init__(self, count: int) -> None:
        self._ip = shutil.which("ip") or "/usr/sbin/ip"
        self._tag = f"{os.getpid() % 100_000}"
        self._switch = f"svcw{self._tag}"
        self._cable = f"svcc{self._tag}"
        self._made: list[str] = []
        self._processes: list[ServiceProcess] = []
        self._count = count

    def make(self) -> None:
        """Raises subprocess.CalledProcessError where the kernel refuses."""
        switch = self._switch
        self._run("netns", "add", switch)
        self._made.append(switch)
        self._run("-n", switch, "link", "add", "br0", "type", "bridge")
        self._run("-n", switch, "link", "set", "br0", "up")
        self._plug(0, self._cable)
        self._run("addr", "add", f"{NETWORK}.254/24", "dev", self._cable)
        self._run("link", "set", self._cable, "up")
        for number in range(1, self._count + 1):
            name = self.name(number)
            self._run("netns", "add", name)
            self._made.append(name)
            self._plug(number, "eth0", "netns", name)
            self._run("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            self._run("-n", name, "link", "set", "eth0", "up")
            self._run("-n", name, "link", "set", "lo", "up")

    def _plug(self, number: int, *inner: str) -> None:
        """A cable from the switch's port of that number to a device called as `inner` says."""
        port = f"port{number}"
        self._run(
            *("link", "add", "name", inner[0], *inner[1:]),
            *("type", "veth", "peer", "name", port, "netns", self._switch),
        )
        self._run("-n", self._switch, "link", "set", port, "master", "br0", "up")

    def name(self, number: int) -> str:
        return f"svch{self._tag}-{number}"

    @staticmethod
    def address(number: int) -> str:
        return f"{NETWORK}.{number}"

    def start(self, number: int, arguments: list[str], log: Path) -> ServiceProcess:
        """`svc-cluster` with these arguments on a host; `ip` becomes the program."""
        inside = (self._ip, "netns", "exec", self.name(number))
        process = ServiceProcess([*inside, *SERVICE, *arguments], log)
        process.start()
        self._processes.append(process)
        return process

    def close(self) -> None:
        """End what was started, and take the network away."""
        for process in self._processes:
            if process.is_running:
                process.tell(signal.SIGTERM)
        for process in self._processes:
            process.end()
        for name in self._made:
            subprocess.run([self._ip, "netns", "del", name], check=False)
        subprocess.run([self._ip, "link", "del", self._cable], check=False, capture_output=True)

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._ip, *arguments], check=True, capture_output=True)

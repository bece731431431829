"""One network namespace for each node: loopback inside and no way out but our proxy's sockets.

A socket belongs to the namespace in which it was made, whoever uses it. So the proxy makes each
listening socket in the namespace of the node that will dial it, and each outgoing one in that of
the node it dials, and no cable between the namespaces is needed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_OWN: Final = Path("/proc/thread-self/ns/net")


def unavailable() -> str | None:
    """Why namespaces cannot be made here; None where they can."""
    if os.geteuid() != 0:
        return "not root"
    ip = shutil.which("ip") or "/usr/sbin/ip"
    if not Path(ip).exists():
        return "no `ip` command"
    probe = f"svc-probe-{os.getpid()}"
    made = subprocess.run([ip, "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return made.stderr.strip() or "`ip netns add` failed"
    subprocess.run([ip, "netns", "del", probe], check=True)
    return None


class Namespace:
    """A network namespace with loopback up. The host's own, where `name` is None."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self._ip = shutil.which("ip") or "/usr/sbin/ip"
        if name is not None:
            subprocess.run([self._ip, "netns", "add", name], check=True)
            subprocess.run([self._ip, "-n", name, "link", "set", "lo", "up"], check=True)

    def command(self, arguments: list[str]) -> list[str]:
        """The same command, run inside; `ip` becomes the program, so the process id stays."""
        if self.name is None:
            return arguments
        return [self._ip, "netns", "exec", self.name, *arguments]

    def make_socket(self) -> socket.socket:
        """A non-blocking TCP socket that lives in this namespace."""
        if self.name is None:
            made = socket.socket()
        else:
            with _OWN.open("rb") as back, Path(f"/run/netns/{self.name}").open("rb") as there:
                _enter(there.fileno())
                try:
                    made = socket.socket()
                finally:
                    _enter(back.fileno())
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def listen(self, port: int = 0) -> socket.socket:
        """A listening socket on this namespace's loopback."""
        made = self.make_socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(128)
        return made

    def close(self) -> None:
        if self.name is not None:
            subprocess.run([self._ip, "netns", "del", self.name], check=False)


def _enter(handle: int) -> None:
    """Move this thread only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(handle, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")

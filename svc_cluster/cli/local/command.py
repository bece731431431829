"""`svc-cluster local`: a whole cluster on loopback, with everything it needs generated.

The supervisor starts every process by exec, starts one again that dies, and writes where they are
into `cluster.json`. Its children notice its end by a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from svc_cluster.base.tasks import start_task
from svc_cluster.cli.admin.authority import AuthorityError
from svc_cluster.cli.cluster_file import ClusterFile
from svc_cluster.cli.local.certificates import LocalCertificates
from svc_cluster.cli.local.introduction import Access, introduction
from svc_cluster.cli.local.local_directory import LocalDirectory, LocalError, overrides
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.process import (
    MALLOC_ENVIRONMENT,
    SUPERVISOR_FD,
    last_sentence,
)
from svc_cluster.cli.terminal import say
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.settings_checks import is_loopback
from svc_cluster.settings_errors import (
    EXIT_DIRECTORY,
    REFUSED_START,
)
from svc_cluster.storage.damage import EXIT_STORE_DAMAGED
from svc_cluster.storage.disk_trouble import remedy, room
from svc_cluster.storage.worker import EXIT_STORAGE

STOP_SECONDS: Final = 15.0
"""A process that is told to end gets so long. A node gives its leads away first
(`replica.handover.LIMIT_SECONDS`), and closes."""

RESTART_SECONDS_MIN: Final = 0.2
RESTART_SECONDS_MAX: Final = 10.0
STABLE_SECONDS: Final = 10.0
"""A process that lived this long starts again without back-off."""

RETRIED: Final = frozenset({EXIT_DIRECTORY, EXIT_STORAGE, EXIT_STORE_DAMAGED})
"""A start may go well later, when there is room again, or at once, with the store set aside."""

TOLD_AGAIN_SECONDS: Final = 60.0
WORDS_BYTES_MAX: Final = 64 * 1024
"""How much of the end of a log is looked at for a process's last words."""


@dataclass(slots=True)
class Member:
    """One process of the cluster."""

    name: str
    arguments: list[str]
    row: dict[str, Any]
    process: asyncio.subprocess.Process | None = None
    told: tuple[int, float] = (0, 0.0)
    """The last status of `RETRIED` that was said, and when."""


class LocalCluster:
    """Nodes and a gateway under one directory."""

    def __init__(
        self,
        directory: Path,
        nodes: int,
        port: int,
        *,
        restart: bool,
        host: str = "127.0.0.1",
        tls: bool = False,
        auth: bool | None = None,
        root_token_file: Path | None = None,
        init_file: Path | None = None,
    ) -> None:
        """`host`: where the gateway listens; the nodes stay on loopback. `tls`: between the
        processes and for clients, with certificates made in `directory`. `auth`: requests need an
        access token; None: as soon as `host` is not on loopback. `root_token_file`: the root token
        is taken from there, or written there where this makes it. `init_file`: what the gateway
        declares."""
        self.directory = directory.resolve()
        self.files = LocalDirectory(self.directory, nodes)
        self.host = host
        self.port = port
        self._certificates = LocalCertificates(self.directory, host) if tls else None
        self.auth = auth if auth is not None else not is_loopback(f"{host}:0")
        self._root_token_file = root_token_file
        self._init_file = init_file
        self.root_secret: str | None = None
        """The secret of the root token, where this start made it."""
        self._restart = restart
        self._members: list[Member] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._pipe = os.pipe()
        self._ports = HeldPorts(0)
        self.nodes = nodes
        self._ready = False
        self._file = ClusterFile(self.directory, self._places)
        self._retried_at = float("-inf")
        """When a process last ended with a status of `RETRIED`."""
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when a process refuses its configuration before the cluster was ready."""

    @property
    def url(self) -> str:
        """Where clients find the gateway."""
        scheme = "http" if self._certificates is None else "https"
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def trust(self) -> ssl.SSLContext | None:
        """What the gateway's certificate is trusted by."""
        return None if self._certificates is None else self._certificates.trust()

    # -- files

    def prepare(self) -> None:
        """Write what the processes read; what an earlier run made stays as it is.

        Raises LocalError for a directory that cannot be used.
        """
        facts, secret = self.files.identity()
        try:
            if self._certificates is not None:
                self._certificates.make(self.nodes)
            self._write_settings(facts, secret)
        except AuthorityError as cause:
            raise LocalError(str(cause)) from cause
        except OSError as cause:
            raise self.files.unusable(cause) from cause

    def _write_settings(self, facts: dict[str, Any], secret: Path) -> None:
        ports = self.take_ports(3 * self.nodes)
        addresses = {str(i + 1): f"127.0.0.1:{ports[i]}" for i in range(self.nodes)}
        common = {
            "cluster_id": facts["cluster_id"],
            "nodes": addresses,
            "secret_file": str(secret),
            "log_format": "text",
            "audit_log": str(self.directory / "audit.log"),
        }
        for i in range(self.nodes):
            admin_port, admin_rpc_port = ports[self.nodes + i], ports[2 * self.nodes + i]
            data_dir = self.directory / f"node-{i + 1}"
            config = {
                **common,
                "node_id": i + 1,
                "data_dir": str(data_dir),
                "admin_address": f"127.0.0.1:{admin_port}",
                "admin_rpc_address": f"127.0.0.1:{admin_rpc_port}",
                "replication_factor": min(self.nodes, 3),
                **self._tls_settings(f"node-{i + 1}"),
                **overrides(),
            }
            row = {
                "id": i + 1,
                "pid": 0,
                "rpc_port": ports[i],
                "admin_port": admin_port,
                "admin_rpc_port": admin_rpc_port,
                "admin_rpc_tls": self._certificates is not None,
                "data_dir": str(data_dir),
            }
            self._add(f"node-{i + 1}", "node", config, row)
        gateway = {
            **common,
            "host": self.host,
            "port": self.port,
            **self.gateway_settings(),
            **self._tls_settings("gateway"),
        }
        self._add("gateway", "gateway", gateway, {"port": self.port, "pid": 0})

    def take_ports(self, count: int) -> list[int]:
        """Choose so many ports for the processes, and one more for a gateway that has none. They
        are nobody else's until `stop`. Raises OSError."""
        self._ports = HeldPorts(count + 1)
        *chosen, spare = self._ports.numbers
        self.port = self.port or spare
        return chosen

    def public_settings(self) -> dict[str, str]:
        """What the settings of a gateway in one process with its node have besides. Raises
        LocalError."""
        if self._certificates is None:
            return {}
        try:
            self._certificates.make(self.nodes)
        except AuthorityError as cause:
            raise LocalError(str(cause)) from cause
        return self._certificates.public_settings()

    def gateway_settings(self) -> dict[str, Any]:
        """Return what the options say of the gateway: whether it asks for access tokens, and what
        it declares. Makes the root token the first time. Raises LocalError."""
        if self.auth:
            self.root_secret = self.files.root_secret(self._root_token_file)
        settings: dict[str, Any] = {"authentication": self.auth}
        if self._init_file is not None:
            settings["init_file"] = str(self._init_file.resolve())
        return settings

    def introduction(self) -> str:
        """What a newcomer needs to go on by hand."""
        given = self._root_token_file
        file = given.resolve() if given is not None and given.is_file() else None
        access = Access(self.auth, self.root_secret, file)
        trust = None if self._certificates is None else self._certificates.authority
        return introduction(self.directory, self.url, self.nodes, access, trust)

    async def wait_token(self) -> None:
        """Return once the gateway takes the root token, where this start made one. The token
        becomes valid a moment after the nodes are ready. Raises LocalError."""
        if self.root_secret is None:
            return
        headers = {"authorization": f"Bearer {self.root_secret}"}
        try:
            async with (
                asyncio.timeout(self.files.patience),
                HttpClient(self.url, self.trust) as client,
            ):
                await _poll(client, "/v1/basins", headers)
        except TimeoutError:
            raise LocalError(
                f"the root token is not valid after {self.files.patience:.0f} s: the nodes' logs "
                f"in {self.directory} say why"
            ) from None

    def _tls_settings(self, name: str) -> dict[str, str]:
        return {} if self._certificates is None else self._certificates.settings(name)

    def _add(self, name: str, role: str, config: dict[str, Any], row: dict[str, Any]) -> None:
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        arguments = [sys.executable, "-m", "svc_cluster", role, "--config", str(path)]
        self._members.append(Member(name, arguments, row))

    def _places(self) -> dict[str, Any]:
        rows = [member.row for member in self._members]
        return {"supervisor_pid": os.getpid(), "gateway": rows[-1], "nodes": rows[:-1]}

    def write_cluster_file(self, node: dict[str, Any], gateway: dict[str, Any]) -> None:
        """For a node and a gateway in this process. Raises LocalError."""
        self._members = [Member("node-1", [], node), Member("gateway", [], gateway)]
        try:
            self._file.write()
        except OSError as cause:
            raise self.files.unusable(cause) from cause

    # -- processes

    async def start(self) -> None:
        """Start every process; returns at once, see `wait_ready`. Raises LocalError: `stop` then
        ends what was started."""
        try:
            self._file.write()  # nodes that are started may take the last room on the disk
            for member in self._members:
                await self._spawn(member)
        except OSError as cause:
            raise self.files.unusable(cause) from cause
        for member in self._members:
            self._look_after(self._watch(member), f"watch {member.name}")
        self._look_after(self._file.run(), "write cluster.json")
        self._file.changed()

    def _look_after(self, watching: Coroutine[Any, Any, None], name: str) -> None:
        task = start_task(watching, name)
        task.add_done_callback(_say_failure)
        self._watchers.append(task)

    async def _spawn(self, member: Member) -> None:
        with self._log_of(member).open("ab") as output:
            member.process = await asyncio.create_subprocess_exec(
                *member.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**MALLOC_ENVIRONMENT, **os.environ, SUPERVISOR_FD: str(self._pipe[0])},
                pass_fds=(self._pipe[0],),
                # Ctrl-C is the supervisor's business
                start_new_session=True,
            )
        member.row["pid"] = member.process.pid

    def _log_of(self, member: Member) -> Path:
        return self.directory / f"{member.name}.log"

    async def _watch(self, member: Member) -> None:
        delay = RESTART_SECONDS_MIN
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            assert member.process is not None, "started before it is watched"
            code = await member.process.wait()
            if self._stopping.is_set():
                return
            if code in RETRIED:
                self._retried_at = loop.time()
            elif code in REFUSED_START and not self._ready:
                # starting it again would end the same way
                if not self._refused.done():
                    self._refused.set_exception(LocalError(self._last_words(member), code))
                return
            if not self._restart:
                say(f"{member.name} ended with status {code}; it stays down (--no-restart)")
                member.row["pid"] = 0
                self._file.changed()
                return
            if loop.time() - started > STABLE_SECONDS:
                delay = RESTART_SECONDS_MIN
            self._say_end(member, code, delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, RESTART_SECONDS_MAX)
            while not await self._spawned(member):
                await asyncio.sleep(delay)
                delay = min(delay * 2, RESTART_SECONDS_MAX)
            if self._stopping.is_set():
                return
            self._file.changed()

    async def _spawned(self, member: Member) -> bool:
        """Start it again, unless everything is being ended; False where the system refuses."""
        if self._stopping.is_set():
            return True
        try:
            await self._spawn(member)
        except OSError as cause:
            what_to_do = remedy(cause, self.directory) or str(cause)
            say(f"{member.name} cannot be started: {what_to_do}; it is tried again")
            return False
        return True

    def _say_end(self, member: Member, code: int, delay: float) -> None:
        """One line a minute of a process that ends for one reason again and again."""
        now = asyncio.get_running_loop().time()
        if code in RETRIED:
            last, at = member.told
            if code == last and now - at < TOLD_AGAIN_SECONDS:
                return
            member.told = (code, now)
        why = f": {self._words(member)}" if code in RETRIED else ""
        say(
            f"{member.name} ended with status {code}; starting it again in {delay:.1f} s "
            f"(its log: {self._log_of(member)}){why}"
        )

    def _words(self, member: Member) -> str:
        """What a process wrote last: the sentence that says why it ended. A file on a full disk
        does not have it."""
        if os.statvfs(self.directory).f_bavail == 0:
            return f"the disk is full, {room(self.directory)}: make room on it"
        with contextlib.suppress(OSError), self._log_of(member).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - WORDS_BYTES_MAX))
            if lines := log.read().decode(errors="replace").splitlines():
                return last_sentence(lines[-1])
        return "it said nothing"

    def _last_words(self, member: Member) -> str:
        return f"{member.name} does not start: {self._words(member)}"

    async def wait_ready(self) -> None:
        """Return once every node and the gateway say that they are ready. Raises LocalError."""
        places = [(m.name, f"http://127.0.0.1:{m.row['admin_port']}") for m in self._members[:-1]]
        polling = start_task(self.wait_urls([*places, ("gateway", self.url)]), "poll")
        try:
            await asyncio.wait({polling, self._refused}, return_when=asyncio.FIRST_COMPLETED)
            if self._refused.done():
                self._refused.result()
            await polling
            self._ready = True
        finally:
            polling.cancel()

    async def wait_urls(self, places: list[tuple[str, str]]) -> None:
        """The same for given names and addresses."""
        for name, url in places:
            while not await self._is_ready(url):
                if self._is_retrying():
                    continue  # for as long as it takes somebody to make room
                log = self.directory / f"{name}.log"
                raise LocalError(
                    f"{name} is not ready after {self.files.patience:.0f} s: its log is {log}"
                )

    async def _is_ready(self, url: str) -> bool:
        try:
            async with asyncio.timeout(self.files.patience), HttpClient(url, self.trust) as client:
                await _poll(client, "/readyz", {})
        except TimeoutError:
            return False
        return True

    def _is_retrying(self) -> bool:
        """Whether a process was refused its directory or lost its disk a moment ago."""
        now = asyncio.get_running_loop().time()
        return now - self._retried_at < self.files.patience

    async def stop(self) -> None:
        """End every process: gateway first, then the nodes, by SIGTERM."""
        self._stopping.set()
        if self._refused.done():
            self._refused.exception()  # it has been told, or nobody waits for it any more
        for member in reversed(self._members):
            if member.process is not None and member.process.returncode is None:
                member.process.terminate()
        for member in reversed(self._members):
            if member.process is None:
                continue
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await member.process.wait()
            except TimeoutError:
                member.process.kill()
                await member.process.wait()
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        os.close(self._pipe[0])
        os.close(self._pipe[1])
        self._ports.close()


def _say_failure(task: asyncio.Task[None]) -> None:
    """A process that nobody looks after any more must not go unnoticed."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        say(f"fault: to {task.get_name()} failed, start the cluster again: {failure!r}")


async def _poll(client: HttpClient, path: str, headers: dict[str, str]) -> None:
    """Return once `path` is answered with 200."""
    while True:
        with contextlib.suppress(ConnectionLostError):
            if (await client.request("GET", path, headers)).status == 200:
                return
        await asyncio.sleep(0.05)

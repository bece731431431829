"""`svc-cluster local`: a whole cluster on loopback, with everything it needs generated.

The supervisor starts every process by exec, starts one again that dies, and writes where they are
into `cluster.json`. Its children notice its end by a pipe.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from svc_cluster.cli.authority import AuthorityError
from svc_cluster.cli.local_certificates import LocalCertificates
from svc_cluster.cli.process import MALLOC_ENVIRONMENT, SUPERVISOR_FD
from svc_cluster.cli.root_token import leave_change, new_secret, read_secret_text
from svc_cluster.settings import (
    EXIT_CONFIGURATION,
    EXIT_DIRECTORY,
    EXIT_MISSING_FILE,
    REFUSED_START,
    SettingsError,
    is_loopback,
)
from svc_cluster.storage.disk import DirectoryInUseError, lock_directory

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 8.0
RESTART_SECONDS_MIN: Final = 0.2
RESTART_SECONDS_MAX: Final = 10.0
STABLE_SECONDS: Final = 10.0
"""A process that lived this long starts again without back-off."""


@dataclass(slots=True)
class Member:
    """One process of the cluster."""

    name: str
    arguments: list[str]
    row: dict[str, Any]
    process: asyncio.subprocess.Process | None = None


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
    ) -> None:
        """`host`: where the gateway listens; the nodes stay on loopback. `tls`: between the
        processes and for clients, with certificates made in `directory`. `auth`: requests need an
        access token; None: as soon as `host` is not on loopback. `root_token_file`: the root token
        is taken from there, or written there where this makes it."""
        self.directory = directory.resolve()
        self.host = host
        self.port = port
        self._certificates = LocalCertificates(self.directory, host) if tls else None
        self.auth = auth if auth is not None else not is_loopback(f"{host}:0")
        self._root_token_file = root_token_file
        self.root_secret: str | None = None
        """Of the root token, where this start made it."""
        self._restart = restart
        self._members: list[Member] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._pipe = os.pipe()
        self.nodes = nodes
        self._ready = False
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
        facts, secret = self.identity()
        try:
            if self._certificates is not None:
                self._certificates.make(self.nodes)
            self._write_settings(facts, secret)
        except AuthorityError as cause:
            raise LocalError(str(cause)) from cause
        except OSError as cause:
            raise self._unusable(cause) from cause

    def _write_settings(self, facts: dict[str, Any], secret: Path) -> None:
        ports = free_ports(2 * self.nodes)
        if self.port == 0:
            self.port = free_ports(1)[0]
        addresses = {str(i + 1): f"127.0.0.1:{ports[i]}" for i in range(self.nodes)}
        common = {
            "cluster_id": facts["cluster_id"],
            "nodes": addresses,
            "secret_file": str(secret),
            "log_format": "text",
            "audit_log": str(self.directory / "audit.log"),
        }
        for i in range(self.nodes):
            admin_port = ports[self.nodes + i]
            data_dir = self.directory / f"node-{i + 1}"
            config = {
                **common,
                "node_id": i + 1,
                "data_dir": str(data_dir),
                "admin_address": f"127.0.0.1:{admin_port}",
                "replication_factor": min(self.nodes, 3),
                **self._tls_settings(f"node-{i + 1}"),
                **overrides(),
            }
            row = {
                "id": i + 1,
                "pid": 0,
                "rpc_port": ports[i],
                "admin_port": admin_port,
                "data_dir": str(data_dir),
            }
            self._add(f"node-{i + 1}", "node", config, row)
        gateway = {
            **common,
            "host": self.host,
            "port": self.port,
            **self.access_settings(),
            **self._tls_settings("gateway"),
        }
        self._add("gateway", "gateway", gateway, {"port": self.port, "pid": 0})

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

    def access_settings(self) -> dict[str, bool]:
        """Of the gateway. Makes the root token the first time. Raises LocalError."""
        made = self.directory / "root-token.made"
        if self.auth and not made.exists():
            try:
                self.root_secret = self._first_secret()
                leave_change(self.directory / "node-1", self.root_secret, only_if_absent=True)
                made.touch()
            except SettingsError as cause:
                raise LocalError(str(cause), cause.exit_status) from cause
            except OSError as cause:
                raise self._unusable(cause) from cause
        return {"authentication": self.auth}

    def _first_secret(self) -> str:
        """The root token's: from the file for it, or a new one, which goes there."""
        path = self._root_token_file
        if path is None:
            return new_secret()
        try:
            return read_secret_text(path)
        except FileNotFoundError:
            secret = new_secret()
        except OSError as cause:
            raise _unusable_token_file(path, cause) from cause
        # whole or not at all: somebody may wait for it
        temporary = path.with_name(path.name + ".new")
        try:
            temporary.unlink(missing_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as out:
                out.write(secret + "\n")
            temporary.replace(path)
        except OSError as cause:
            raise _unusable_token_file(path, cause) from cause
        return secret

    def access_notice(self) -> str:
        """Whether requests need a token, and where to get one."""
        if not self.auth:
            return "Access tokens: not asked for (--auth: they are)."
        if self._root_token_file is not None:
            return f"Access tokens: asked for. The first root token is in {self._root_token_file}."
        if self.root_secret is None:
            return (
                "Access tokens: asked for. The root token was shown at the first start with --auth;"
                f"\n  svc-cluster admin root-token {self.directory}/node-1   makes another."
            )
        return (
            "Access tokens: asked for. The root token, shown this once:\n"
            f"  export S2_ACCESS_TOKEN={self.root_secret}\n"
            'Give curl -H "authorization: Bearer $S2_ACCESS_TOKEN" besides.'
        )

    def _tls_settings(self, name: str) -> dict[str, str]:
        return {} if self._certificates is None else self._certificates.settings(name)

    def identity(self) -> tuple[dict[str, Any], Path]:
        """Cluster id and size, and the secret's file; made once, in the directory. Holds the
        directory until the process ends. Raises LocalError when another process has it, or it
        cannot be used."""
        secret = self.directory / "cluster.secret"
        try:
            self._lock = lock_directory(self.directory)
            return self._facts(secret), secret
        except DirectoryInUseError as cause:
            raise LocalError(str(cause), EXIT_DIRECTORY) from cause
        except OSError as cause:
            raise self._unusable(cause) from cause

    def _unusable(self, cause: OSError) -> LocalError:
        return LocalError(
            f"{self.directory} cannot be used ({cause.strerror}): choose another --data-dir",
            EXIT_DIRECTORY,
        )

    def _facts(self, secret: Path) -> dict[str, Any]:
        path = self.directory / "local.json"
        if path.exists():
            facts = _read_facts(path)
            if facts["nodes"] != self.nodes:
                raise LocalError(
                    f"{self.directory} holds a cluster of {facts['nodes']} nodes, not "
                    f"{self.nodes}: use --nodes {facts['nodes']}, or another --data-dir"
                )
            if not secret.is_file():
                raise LocalError(
                    f"{secret} is missing: put the secret of this cluster back, or choose another "
                    "--data-dir"
                )
            return facts
        facts = {"cluster_id": secrets.token_hex(16), "nodes": self.nodes}
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32) + "\n")
        _sync(secret)
        _write_atomically(path, facts)
        _sync(self.directory)
        return facts

    def _add(self, name: str, role: str, config: dict[str, Any], row: dict[str, Any]) -> None:
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        arguments = [sys.executable, "-m", "svc_cluster", role, "--config", str(path)]
        self._members.append(Member(name, arguments, row))

    def _write_cluster_file(self) -> None:
        rows = [member.row for member in self._members]
        self.write_cluster_file(rows[:-1], rows[-1])

    def write_cluster_file(self, nodes: list[dict[str, Any]], gateway: dict[str, Any]) -> None:
        """Say where every process is, for tools and tests."""
        _write_atomically(
            self.directory / "cluster.json",
            {"supervisor_pid": os.getpid(), "gateway": gateway, "nodes": nodes},
        )

    # -- processes

    async def start(self) -> None:
        """Start every process; returns at once, see `wait_ready`."""
        for member in self._members:
            await self._spawn(member)
        self._write_cluster_file()
        for member in self._members:
            self._watchers.append(
                asyncio.get_running_loop().create_task(
                    self._watch(member), name=f"watch {member.name}"
                )
            )

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
            if code in REFUSED_START and not self._ready:
                # starting it again would end the same way
                if not self._refused.done():
                    self._refused.set_exception(LocalError(self._last_words(member), code))
                return
            if not self._restart:
                say(f"{member.name} ended with status {code}; it stays down (--no-restart)")
                member.row["pid"] = 0
                self._write_cluster_file()
                return
            if loop.time() - started > STABLE_SECONDS:
                delay = RESTART_SECONDS_MIN
            say(
                f"{member.name} ended with status {code}; starting it again in {delay:.1f} s "
                f"(its log: {self._log_of(member)})"
            )
            await asyncio.sleep(delay)
            delay = min(delay * 2, RESTART_SECONDS_MAX)
            if self._stopping.is_set():
                return
            await self._spawn(member)
            self._write_cluster_file()

    def _last_words(self, member: Member) -> str:
        """What a process wrote last: the sentence that says why it ended."""
        lines = self._log_of(member).read_text(errors="replace").splitlines()
        words = lines[-1].removeprefix("svc-cluster: ") if lines else "it said nothing"
        return f"{member.name} does not start: {words}"

    async def wait_ready(self) -> None:
        """Return once every node and the gateway say that they are ready. Raises LocalError."""
        places = [(m.name, f"http://127.0.0.1:{m.row['admin_port']}") for m in self._members[:-1]]
        loop = asyncio.get_running_loop()
        polling = loop.create_task(self.wait_urls([*places, ("gateway", self.url)]))
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
        connector = aiohttp.TCPConnector(ssl=self.trust or True)
        async with aiohttp.ClientSession(connector=connector) as session:
            for name, url in places:
                try:
                    async with asyncio.timeout(READY_SECONDS):
                        await _poll(session, f"{url}/readyz")
                except TimeoutError:
                    log = self.directory / f"{name}.log"
                    raise LocalError(
                        f"{name} is not ready after {READY_SECONDS:.0f} s: its log is {log}"
                    ) from None

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


class LocalError(Exception):
    """One sentence for the person at the terminal."""

    def __init__(self, text: str, exit_status: int = EXIT_CONFIGURATION) -> None:
        super().__init__(text)
        self.exit_status = exit_status


def _unusable_token_file(path: Path, cause: OSError) -> LocalError:
    return LocalError(
        f"--root-token-file {path} cannot be used ({cause.strerror}): name a file that this user "
        "may read, or one to be made in a directory that is there",
        EXIT_MISSING_FILE,
    )


async def _poll(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        try:
            async with session.get(url) as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.05)


def overrides() -> dict[str, Any]:
    """Settings for tests and experiments: `SVC_CLUSTER_LOCAL_OVERRIDES` as a JSON object."""
    try:
        overrides: dict[str, Any] = json.loads(os.environ.get("SVC_CLUSTER_LOCAL_OVERRIDES", "{}"))
    except ValueError as cause:
        raise LocalError("SVC_CLUSTER_LOCAL_OVERRIDES is not a JSON object") from cause
    return overrides


def _read_facts(path: Path) -> dict[str, Any]:
    """Raises LocalError for a file that this program did not write like that."""
    try:
        facts = json.loads(path.read_text())
    except ValueError:
        facts = None
    match facts:
        case {"cluster_id": str(), "nodes": int()}:
            return dict(facts)
        case _:
            raise LocalError(f"{path} is damaged: put it back, or choose another --data-dir")


def _write_atomically(path: Path, value: Any) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    _sync(temporary)
    temporary.replace(path)


def _sync(path: Path) -> None:
    """A cluster id that a power cut takes back would make every node refuse its directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on at this moment, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def say(line: str) -> None:
    """A line for the person at the terminal."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def introduction(directory: Path, url: str, nodes: int) -> str:
    """What a newcomer needs to go on by hand."""
    trust = ""
    if url.startswith("https:"):
        trust = f"""
  export S2_SSL_NO_VERIFY=true
For curl:
  export CURL_CA_BUNDLE={directory}/ca/ca.pem"""
    return f"""
svc-cluster is running: {nodes} node{"s" if nodes != 1 else ""} and a gateway
  address         {url}
  data directory  {directory}

For clients:
  export S2_ACCOUNT_ENDPOINT={url}
  export S2_BASIN_ENDPOINT={url}
  export S2_ACCESS_TOKEN=ignored{trust}

Try:
  curl -s {url}/v1/basins -H 'content-type: application/json' -d '{{"basin":"my-basin"}}'
  curl -s {url}/v1/streams -H 'svc-basin: my-basin' -H 'content-type: application/json' \\
       -d '{{"stream":"my-stream"}}'
  curl -s {url}/v1/streams/my-stream/records -H 'svc-basin: my-basin' -H 'svc-format: utf8' \\
       -H 'content-type: application/json' -d '{{"records":[{{"body":"hello"}}]}}'
  curl -s '{url}/v1/streams/my-stream/records?seq_num=0' -H 'svc-basin: my-basin' \\
       -H 'svc-format: utf8'
  curl -sN {url}/v1/streams/my-stream/records -H 'svc-basin: my-basin' \\
       -H 'svc-format: utf8' -H 'accept: text/event-stream'
"""

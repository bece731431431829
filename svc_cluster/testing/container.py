"""`SvcClusterContainer`: a whole cluster in one container.

What is left behind is taken away three times over: by `stop`, by a finalizer when the object or the
process ends, and, for processes that were killed, by the next start on the same host, which knows
the containers by their labels. So no second container is needed that watches, and testcontainers'
own (Ryuk) is not started.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import ssl
import threading
import urllib.error
import urllib.request
import uuid
import weakref
from importlib.metadata import version
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from svc_cluster.base.clock import SystemClock
from svc_cluster.testing.owner import Owner

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

IMAGE: Final = "svc-cluster"
IMAGE_VARIABLE: Final = "SVC_CLUSTER_IMAGE"
"""Environment variable: another image than `svc-cluster` of this package's version."""
PORT: Final = 8080
"""The port of the gateway, inside the container."""
LABEL: Final = "svc-cluster.testing"
OWNER_LABEL: Final = "svc-cluster.testing.owner"
ID_LABEL: Final = "svc-cluster.testing.id"
START_SECONDS: Final = 60.0
ABANDONED_SECONDS: Final = 86_400.0
"""A container this old is taken away whoever started it: other hosts cannot be asked."""
_TOKEN_FILE: Final = "/data/root-token"
_AUTHORITY_FILE: Final = "/data/ca/ca.pem"
_POLL_SECONDS: Final = 0.1
_ASK_SECONDS: Final = 5.0


class StartError(Exception):
    """The cluster did not become ready; the text has the end of the container's log."""


def unavailable() -> str | None:
    """None where containers can be started; otherwise what is missing, for a skipped test."""
    if find_spec("testcontainers") is None or find_spec("docker") is None:
        return "testcontainers is not installed (pip install 'svc-cluster[testing]')"
    import docker

    try:
        with contextlib.closing(docker.from_env()) as client:
            client.ping()
    except Exception as cause:  # whatever the engine's client raises, there is no engine
        return f"no container engine answers ({type(cause).__name__})"
    return None


class SvcClusterContainer:
    """Nodes and a gateway in a container of their own, empty at each start.

    >>> with SvcClusterContainer() as cluster:  # doctest: +SKIP
    ...     print(cluster.url, cluster.token)
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        nodes: int = 1,
        auth: bool = True,
        tls: bool = False,
        start_seconds: float = START_SECONDS,
        docker_client_kw: dict[str, Any] | None = None,
    ) -> None:
        """The container has as many nodes as `nodes` says, 1, 3 or 5. `auth`: whether requests
        need an access token. `tls`: whether clients, and the nodes among each other, speak TLS,
        under a CA that is made at the start. Raises ImportError without the extra `testing`,
        ValueError."""
        if nodes not in (1, 3, 5):
            raise ValueError(f"nodes is {nodes}: use 1, 3 or 5")
        try:
            from testcontainers.core.container import DockerContainer
        except ImportError as cause:
            raise ImportError(
                "SvcClusterContainer needs testcontainers: pip install 'svc-cluster[testing]'"
            ) from cause
        self.token: str | None = None
        """The root access token, once started; None without `auth`."""
        self.authority: str | None = None
        """The certificate of the CA in PEM, once started; None without `tls`."""
        self._auth = auth
        self._tls = tls
        self._start_seconds = start_seconds
        self._id = uuid.uuid4().hex
        self._owner = Owner.this_process()
        image = image or os.environ.get(IMAGE_VARIABLE) or f"{IMAGE}:{version('svc-cluster')}"
        command = ["local", "--nodes", str(nodes), "--host", "0.0.0.0", "--port", str(PORT)]
        command += ["--data-dir", "/data"]
        command += ["--root-token-file", _TOKEN_FILE] if auth else ["--no-auth"]
        command += ["--tls"] if tls else []
        self.container: DockerContainer = (
            DockerContainer(image, docker_client_kw=docker_client_kw)
            .with_command(command)
            .with_exposed_ports(PORT)
            .with_env("READY_SECONDS", str(start_seconds))
            .with_kwargs(
                init=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                labels={LABEL: "true", OWNER_LABEL: self._owner.text(), ID_LABEL: self._id},
            )
        )
        """What is underneath, for settings of testcontainers before `start`."""
        self._finalizer: weakref.finalize[..., Any] | None = None

    def start(self) -> Self:
        """Returns once a request is answered. Takes away first what processes of this host that
        were killed have left. Raises StartError."""
        client = self.container.get_docker_client().client
        sweep(client, self._owner)
        if not self._auth:  # the gateway answers for names that it knows to be its own
            name = json.dumps([self.container.get_docker_client().host()])
            self.container.env.setdefault("SVC_CLUSTER_PUBLIC_HOSTS", name)
        self._finalizer = weakref.finalize(self, _remove_all, client, f"{ID_LABEL}={self._id}")
        try:
            with _without_ryuk():
                self.container.start()
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take the container and its data away. May be repeated."""
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        cause: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the gateway answers, such as `http://127.0.0.1:32768`, `https://` with `tls`."""
        host = self.container.get_container_host_ip()
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host}:{self.container.get_exposed_port(PORT)}"

    @property
    def trust(self) -> ssl.SSLContext | None:
        """What a client trusts this cluster by; None without `tls`, and before the start.

        Names are not compared: an engine may be reached by any, the certificate is for localhost,
        and the CA was made by this start and signs for nobody else.
        """
        if self.authority is None:
            return None
        context = ssl.create_default_context(cadata=self.authority)
        context.check_hostname = False
        return context

    def get_endpoint(self) -> str:
        """The same as `url`."""
        return self.url

    @property
    def headers(self) -> dict[str, str]:
        """What a request has to carry."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that S2's clients and tools take their addresses and token from."""
        return {
            "S2_ACCOUNT_ENDPOINT": self.url,
            "S2_BASIN_ENDPOINT": self.url,
            "S2_ACCESS_TOKEN": self.token or "ignored",
        }

    def logs(self) -> str:
        """What the container has printed so far."""
        parts: tuple[bytes, bytes] = self.container.get_logs()
        return b"".join(parts).decode(errors="replace")

    def _wait(self) -> None:
        clock, pause = SystemClock(), threading.Event()
        end = clock.monotonic() + self._start_seconds
        wrapped = self.container.get_wrapped_container()
        last = "nothing was asked"
        while clock.monotonic() < end:
            wrapped.reload()
            if wrapped.status in ("exited", "dead"):
                raise StartError(f"the container has ended:\n{self.logs()[-3000:]}")
            answered, last = self._ask()
            if answered:
                return
            pause.wait(_POLL_SECONDS)
        raise StartError(
            f"not ready after {self._start_seconds:.0f} s ({last}):\n{self.logs()[-3000:]}"
        )

    def _ask(self) -> tuple[bool, str]:
        """Whether a request of the kind that the suite will send is answered, and what came."""
        import docker.errors

        try:
            if self._auth and self.token is None:
                self.token = self._read(_TOKEN_FILE)
                if self.token is None:
                    return False, "no root token yet"
            if self._tls and self.authority is None:
                self.authority = self._read(_AUTHORITY_FILE)
                if self.authority is None:
                    return False, "no CA yet"
            url = self.url
        except (docker.errors.APIError, RuntimeError, TimeoutError) as cause:
            return False, str(cause)  # it may have ended meanwhile
        request = urllib.request.Request(f"{url}/v1/basins", headers=self.headers)
        try:
            with urllib.request.urlopen(
                request, timeout=_ASK_SECONDS, context=self.trust
            ) as answer:
                return answer.status == 200, str(answer.status)
        except (OSError, urllib.error.URLError) as cause:
            return False, str(cause)

    def _read(self, path: str) -> str | None:
        """None: the file is not there yet, or is empty."""
        found = self.container.exec(["cat", path])
        return (found.output.decode().strip() or None) if found.exit_code == 0 else None


def sweep(client: Any, seen_by: Owner) -> list[str]:
    """Take away containers whose owners are gone, or that are a day old; returns their ids."""
    now = datetime.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, datetime.UTC)
    removed = []
    for found in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        owner = Owner.parse(found.labels.get(OWNER_LABEL, ""))
        # the engine writes nanoseconds, which Python does not read
        made = datetime.datetime.fromisoformat(found.attrs["Created"][:19] + "+00:00")
        is_old = (now - made).total_seconds() > ABANDONED_SECONDS
        if is_old or (owner is not None and owner.is_gone(seen_by)):
            _remove(found)
            removed.append(str(found.id))
    return removed


def _remove_all(client: Any, label: str) -> None:
    """Every container with this label; then nothing more is asked of the engine."""
    for found in client.containers.list(all=True, filters={"label": label}, ignore_removed=True):
        _remove(found)
    client.close()


def _remove(found: Any) -> None:
    """Unless somebody else was first."""
    import docker.errors

    try:
        found.remove(force=True, v=True)
    except docker.errors.NotFound:
        return
    except docker.errors.APIError as cause:
        if cause.status_code != 409:  # its removal is under way
            raise


@contextlib.contextmanager
def _without_ryuk() -> Any:
    from testcontainers.core.config import testcontainers_config as config

    before = config.ryuk_disabled
    config.ryuk_disabled = True
    try:
        yield
    finally:
        config.ryuk_disabled = before

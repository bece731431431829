"""What a process says once, when it listens: what it is, where, how it is protected, and with which
settings."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Final

import msgspec

from svc_cluster.administration.masking import shown
from svc_cluster.base.log import get_logger
from svc_cluster.cli.processes.native_core import core_state
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import AddressError, LimitError, SettingsError

CLEAR: Final = "none"
MUTUAL: Final = "1.3, both sides show certificates"
SERVER: Final = "1.2 or 1.3"
CERTIFIED: Final = "1.3, clients may show certificates"

log = get_logger("process")


@dataclass(frozen=True, slots=True)
class Port:
    """One listener. `tls` is its versions, `authentication` what callers are asked for."""

    name: str
    address: str
    tls: str
    authentication: str


def announce(role: str, settings: NodeSettings | GatewaySettings, ports: Sequence[Port]) -> None:
    """One line; what leads to a secret is masked in it."""
    log.info(
        "process_started",
        role=role,
        version=version("svc-cluster"),
        revision=os.environ.get("SVC_CLUSTER_REVISION", ""),
        python=platform.python_version(),
        native_core=core_state(),
        pid=os.getpid(),
        listeners=[asdict(port) for port in ports],
        settings={
            row.key: msgspec.json.decode(row.value) for row in shown(msgspec.to_builtins(settings))
        },
    )


def node_ports(
    settings: NodeSettings, *, peers: int = 0, admin: int = 0, administration: int = 0
) -> list[Port]:
    """Return the listeners of a node, with the ports that it has where the settings leave them
    open."""
    secured = settings.peer_tls_cert is not None
    tls = MUTUAL if secured else CLEAR
    callers = "certificate for administration" if secured else "none"
    out = [
        Port("peers", _bound(settings.rpc_address, peers), tls, "cluster secret"),
        Port("health and metrics", _bound(settings.admin_address, admin), CLEAR, "none"),
        Port("administration", _bound(settings.admin_rpc_address, administration), tls, callers),
    ]
    if settings.health_rpc_address is not None:
        out.append(Port("health", settings.health_rpc_address, CLEAR, "none"))
    return out


def gateway_ports(settings: GatewaySettings, port: int) -> list[Port]:
    """Return the one listener of a gateway."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    tls = CLEAR if settings.tls_cert is None else SERVER
    asked = "access tokens" if settings.asks_for_tokens else "none"
    if settings.tls_client_ca is not None:
        tls = CERTIFIED
        asked = f"access tokens, client certificates {settings.tls_client_certificate}"
    return [Port("clients", f"{host}:{port}", tls, asked)]


def _bound(address: str, port: int) -> str:
    host, _, given = address.rpartition(":")
    return f"{host}:{port or given}"


def unlistenable(what: str, cause: OSError | RuntimeError) -> SettingsError:
    """Return the refusal for an address that a listener did not get. `what` names key and value. A
    port that this user may not have is a limit of the system, which no later try mends; of gRPC's
    causes that cannot be told."""
    number = cause.errno if isinstance(cause, OSError) else None
    if number in (errno.EACCES, errno.EPERM):
        return LimitError(
            f"{what} cannot be listened on (this user may not use that port): give the process the "
            "capability CAP_NET_BIND_SERVICE (AmbientCapabilities= of a systemd unit, cap_add of a "
            "container), or choose a port that needs none, from 1024 on"
        )
    if number == errno.EADDRNOTAVAIL:
        return AddressError(
            f"{what} cannot be listened on (no interface of this host has that address): correct "
            "the address, or wait until the interface has it"
        )
    why = f" ({cause.strerror})" if isinstance(cause, OSError) and cause.strerror else ""
    return AddressError(
        f"{what} cannot be listened on{why}: end the process that uses it, or choose another port"
    )

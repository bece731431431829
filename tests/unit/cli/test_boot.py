"""What a process says of itself at its start, and of ports that it does not get."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from svc_cluster.base.log import configure
from svc_cluster.cli.processes.boot import Port, announce, gateway_ports, node_ports, unlistenable
from svc_cluster.cli.processes.process import last_sentence
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import EXIT_ADDRESS, EXIT_LIMIT

TLS: dict[str, Any] = {
    "peer_tls_cert": "/etc/tls.crt",
    "peer_tls_key": "/etc/tls.key",
    "peer_tls_ca": "/etc/ca.crt",
}
NODE = NodeSettings(
    cluster_id="c",
    node_id=1,
    data_dir="/data",
    nodes={"1": "10.0.0.1:7000"},
    secret_file="/etc/cluster.secret",
    admin_rpc_address="10.0.0.1:9095",
    **TLS,
)
GATEWAY = GatewaySettings(
    cluster_id="c", nodes=NODE.nodes, secret_file="/etc/cluster.secret", host="::", **TLS
)


def test_one_line_has_everything_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """Role, version, listeners as given, and every setting; what leads to a secret is masked."""
    configure()
    announce("node", NODE, [Port("peers", "a:1", "none", "cluster secret")])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    said = json.loads(lines[0])
    assert (said["event"], said["role"], said["pid"]) == ("process_started", "node", os.getpid())
    assert said["version"]
    assert said["native_core"] in ("in use", "not built", "turned off")
    assert said["listeners"] == [
        {"name": "peers", "address": "a:1", "tls": "none", "authentication": "cluster secret"}
    ]
    assert list(said["settings"]) == list(msgspec.to_builtins(NODE))
    assert said["settings"]["nodes"] == NODE.nodes
    assert "cluster.secret" not in lines[0]
    assert "tls.key" not in lines[0]


def test_listeners_are_said_as_they_are() -> None:
    """Ports that the system chose, TLS and what callers are asked for, on and off."""
    assert [(p.name, p.address, p.tls) for p in node_ports(NODE, admin=9)] == [
        ("peers", "10.0.0.1:7000", "1.3, both sides show certificates"),
        ("health and metrics", "127.0.0.1:9", "none"),
        ("administration", "10.0.0.1:9095", "1.3, both sides show certificates"),
    ]
    (clients,) = gateway_ports(GATEWAY, 443)
    assert clients == Port("clients", "[::]:443", "none", "access tokens")
    (clients,) = gateway_ports(
        msgspec.structs.replace(GATEWAY, host="127.0.0.1", tls_cert="/c", tls_key="/k"), 80
    )
    assert clients == Port("clients", "127.0.0.1:80", "1.2 or 1.3", "none")


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [
        (errno.EACCES, EXIT_LIMIT, "CAP_NET_BIND_SERVICE"),
        (errno.EADDRINUSE, EXIT_ADDRESS, "end the process that uses it"),
        (errno.EADDRNOTAVAIL, EXIT_ADDRESS, "no interface of this host"),
    ],
)
def test_a_refused_port_has_the_advice_that_helps(number: int, status: int, says: str) -> None:
    """A right that is missing is no address in use, and no later try mends it."""
    refusal = unlistenable("port 443", OSError(number, os.strerror(number)))
    assert (refusal.exit_status, says in str(refusal)) == (status, True)
    assert ("end the process" in str(refusal)) == (number == errno.EADDRINUSE)


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_fault_that_nobody_catches_is_said_in_the_form_of_the_log(form: str) -> None:
    """Of the start itself and of a thread: with JSON every line on standard error is JSON, and the
    process ends with 70."""
    program = (
        "import asyncio, threading\n"
        "from svc_cluster.cli.processes.process import run\n"
        "async def main(stop):\n"
        "    thread = threading.Thread(target=lambda: 1 / 0)\n"
        "    thread.start(); thread.join()\n"
        "    raise KeyError('broken')\n"
        f"run(main, 'info', {form!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 70
    lines = done.stderr.splitlines()
    assert last_sentence(lines[-1]) == "fatal: KeyError: 'broken'"
    if form == "json":
        events = [(line["event"], "exception" in line) for line in map(json.loads, lines)]
        assert events == [("uncaught_fault", True), ("process_ended_by_fault", True)]
    else:
        assert "ZeroDivisionError" in done.stderr

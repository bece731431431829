"""Each command loads what it uses and no more: a process that runs for years keeps what it loaded,
and whoever types a command waits for what it loads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = """
import json, sys
from svc_cluster import __main__
sys.argv = ["svc-cluster", *{arguments!r}]
try:
    __main__.main()
except SystemExit:
    pass
for part in {parts!r}:
    __import__(part)
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""
CLUSTER = ("svc_cluster.replica", "svc_cluster.raft", "svc_cluster.storage.wal", "rocksdict")
OTHER_COMMANDS = (
    "svc_cluster.backup",
    "svc_cluster.cli.admin",
    "svc_cluster.cli.data",
    "svc_cluster.cli.local",
    "svc_cluster.client",
    "svc_cluster.lab",
)


def loaded(arguments: list[str], *parts: str) -> set[str]:
    """Return the modules of a process that was given `arguments` and goes on to load `parts`."""
    script = LOADED.format(arguments=arguments, parts=parts)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "part", "strange"),
    [
        (
            ["gateway", "--help"],
            "cli.processes.gateway_process",
            (*OTHER_COMMANDS, *CLUSTER, "grpc"),
        ),
        (["node", "--help"], "cli.processes.node_process", OTHER_COMMANDS),
        (["stream", "--help"], "cli.data.data_app", (*CLUSTER, "svc_cluster.gateway", "grpc")),
        (
            ["admin", "--help"],
            "cli.admin.admin_client",
            ("svc_cluster.replica", "svc_cluster.raft"),
        ),
    ],
)
def test_a_command_loads_nothing_of_the_others(
    arguments: list[str], part: str, strange: tuple[str, ...]
) -> None:
    """A gateway that loads all commands is larger by a third, and takes twice as long to be up."""
    modules = loaded(arguments, f"svc_cluster.{part}")
    assert f"svc_cluster.{part}" in modules
    assert {name for name in modules if name in strange} == set()

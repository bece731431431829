"""`member add --wait`, as a service that makes join tokens beside a cluster that just starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.admin_node import AdminNode
from tests.integration.processes import in_loop
from tests.own_nodes import OwnNodes, until
from tests.service_process import END_S

WAIT = "60"


def command(port: int, token: Path, node: int) -> list[str]:
    words = ["member", "add", str(node), "--token-file", str(token), "--wait", WAIT]
    return [*_ADMIN, *words, "--address", f"127.0.0.1:{port}"]


_ADMIN = (sys.executable, "-m", "svc_cluster", "admin")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=END_S + float(WAIT))
    return process.returncode, said


@pytest.fixture
def run() -> Callable[[list[str]], subprocess.Popen[str]]:
    return lambda words: subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.timeout(200)
def test_a_token_is_made_once_the_cluster_answers(
    tmp_path: Path, run: Callable[[list[str]], subprocess.Popen[str]]
) -> None:
    """The command is there before the node is. Once more it finds its file, and does nothing. What
    is final it says at once: a second token for a node that has an open one. A file whose token was
    withdrawn is replaced."""
    node = AdminNode(tmp_path)
    token = tmp_path / "token"
    early = run(command(node.admin_rpc, token, 2))
    node.start()
    try:
        status, said = ended(early)
        assert (status, "its join token is in" in said) == (0, True), said
        kept = token.read_text()
        status, said = ended(run(command(node.admin_rpc, token, 2)))
        assert (status, f"is in {token} already" in said) == (0, True), said
        assert token.read_text() == kept
        status, said = ended(run(command(node.admin_rpc, tmp_path / "other", 2)))
        assert (status, "a join token for node 2 is open" in said) == (1, True), said
        assert not (tmp_path / "other").exists()
        withdrawn = [*_ADMIN, "member", "remove", "2", "--address", f"127.0.0.1:{node.admin_rpc}"]
        assert ended(run(withdrawn))[0] == 0
        status, said = ended(run(command(node.admin_rpc, token, 2)))
        assert (status, "its join token is in" in said) == (0, True), said
        assert token.read_text() != kept, "nobody is let in with that one"
    finally:
        node.stop()


@pytest.mark.timeout(200)
@in_loop
async def test_nothing_is_made_for_a_node_that_belongs_to_the_cluster(tmp_path: Path) -> None:
    """It may have lost its token meanwhile, which is spent anyway."""
    own = OwnNodes(tmp_path)
    own.start("node-1", "node-2", "node-3")
    try:

        async def says_so() -> str:
            status, said = await own.admin(
                "member", "add", "2", "--token-file", str(tmp_path / "token"), "--wait", WAIT
            )
            return said if status == 0 else ""

        assert "node 2 belongs to the cluster already" in await until(says_so)
        assert not (tmp_path / "token").exists()
    finally:
        own.end()

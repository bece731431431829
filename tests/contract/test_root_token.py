"""A root token that is lost can be replaced on a node, without any token."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract.access import EVERYWHERE, ROOT_SECRET, Account


def admin(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "svc_cluster", "admin", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_new_root_token_ends_the_old_one(guarded: Account) -> None:
    """`admin root-token` on the node's data directory: its secret is shown once and works, the old
    one is refused from then on, what came from the old one lives on, and the file is gone."""
    _, child = guarded.issue({**EVERYWHERE, "ops": ["list-basins"]})
    done = admin("root-token", str(guarded.directory / "node-1"))
    assert done.returncode == 0, done.stderr
    secret = done.stdout.splitlines()[0]
    guarded.until(lambda: guarded.ask("GET", "/v1/basins", None, secret).status == 200)
    guarded.until(lambda: guarded.ask("GET", "/v1/basins", None, ROOT_SECRET).status == 401)
    assert guarded.ask("GET", "/v1/basins", None, child).status == 200
    change = guarded.directory / "node-1" / "root-token.json"
    guarded.until(lambda: not change.exists())
    listed = guarded.ask("GET", "/v1/access-tokens?prefix=root", None, secret).json
    assert [token["id"] for token in listed["access_tokens"]] == ["root"]


def test_a_wrong_directory_is_told(tmp_path: object) -> None:
    """Nothing is written where no node keeps its data."""
    done = admin("root-token", str(tmp_path))
    assert done.returncode == 2
    assert "not the data directory of a node" in done.stderr


@pytest.mark.parametrize("count", [2])
def test_new_tokens_differ(count: int) -> None:
    """`admin new-token` makes one for `root_token_file`."""
    secrets = {admin("new-token").stdout.strip() for _ in range(count)}
    assert len(secrets) == count
    assert all(secret.startswith("svct_") for secret in secrets)

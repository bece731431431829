"""`svc-cluster admin root-token` is run by root where a node runs as somebody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from svc_cluster.cli.processes.root_token import leave_change, new_secret

NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("owner", [0, NOBODY])
def test_the_change_is_the_directorys_owners(tmp_path: Path, owner: int) -> None:
    """Else the node could not read it, and the token that was shown would never be valid."""
    os.chown(tmp_path, owner, owner)
    path = leave_change(tmp_path, new_secret(), only_if_absent=False)
    facts = path.stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o777) == (owner, owner, 0o600)

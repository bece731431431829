"""Which program this is, for people."""

from __future__ import annotations

from importlib.metadata import version

from svc_cluster.model.versions import NEWEST, OLDEST, release_of


def own_version() -> str:
    """The version of what is installed, the release of what it speaks, and the versions of those
    clusters that it works in."""
    return (
        f"svc-cluster {version('svc-cluster')}, release {release_of(NEWEST)}, speaks versions "
        f"{OLDEST} to {NEWEST}"
    )

"""Releases that a simulated node may be of: what they know, and what they cannot apply."""

from __future__ import annotations

from typing import Final

from svc_cluster.codec.entry_version import BASIN_KINDS, CATALOG_KINDS, Known

OLD: Final = Known(basin=BASIN_KINDS - {"keyed_write"}, catalog=CATALOG_KINDS - {"keyed_write"})
"""A release from before writes could be repeated with a request token."""

NEW: Final = Known()

PARKED: Final = ("replica_parked",)
"""What a node of the older one says as an error, once of each replica that it stops."""

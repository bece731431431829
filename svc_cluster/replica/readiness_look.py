"""What a look at all groups has to do with, that finds out whether a node is ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from svc_cluster.replica.host import Replica


class ReadinessLook(Protocol):
    """It is told of every replica, and then asked."""

    def look_at(self, replica: Replica) -> None:
        """Takes one replica into account."""

    def checks(self) -> Mapping[str, bool]:
        """The checks behind /readyz by name."""

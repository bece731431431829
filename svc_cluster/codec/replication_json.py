"""How many replicas a basin is to have, as a request says it."""

from __future__ import annotations

from svc_cluster.base.errors import InvalidError
from svc_cluster.model.replication import REPLICATION_FACTORS


def checked_factor(factor: int | None) -> int | None:
    """The factor itself; None: the cluster's. Raises InvalidError for one that no basin has."""
    if factor is not None and factor not in REPLICATION_FACTORS:
        raise InvalidError("replication_factor is 1, 3 or 5")
    return factor

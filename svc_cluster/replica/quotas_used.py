"""How much of each quota is used: for metrics, so that whoever runs the cluster is warned before
anybody is refused. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.token_table import TOKENS_MAX
from svc_cluster.model.quotas import Quotas


class QuotaReading(Protocol):
    """What one basin holds."""

    @property
    def streams(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...


def quotas_used(
    quotas: Quotas, state: CatalogState, readings: Iterable[QuotaReading]
) -> dict[str, float]:
    """Share by quota, from 0 up; of those that are set, and of access tokens, which always have a
    bound. `readings`: of the basins that are held here."""
    basins = list(readings)
    owned = Counter(record.owner for record in state.basins.values() if record.owner)
    used = {
        "basins": (len(state.basins), quotas.account_basins),
        "chain_basins": (max(owned.values(), default=0), quotas.basins_of_chain),
        "access_tokens": (len(state.tokens), min(TOKENS_MAX, quotas.tokens or TOKENS_MAX)),
        "streams": (max((one.streams for one in basins), default=0), quotas.streams),
        "stored_bytes": (max((one.stored_bytes for one in basins), default=0), quotas.stored_bytes),
    }
    return {name: count / most for name, (count, most) in used.items() if most}

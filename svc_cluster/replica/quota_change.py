"""Other quotas for a node that runs."""

from __future__ import annotations

from dataclasses import replace

from svc_cluster.model.quotas import Quotas
from svc_cluster.replica.host import Host


def change_quotas(host: Host, quotas: Quotas) -> None:
    """Let what is made from now on be within these, by groups that are here or come. What there is
    stays, also above a lower quota."""
    host.settings = replace(host.settings, quotas=quotas)
    if host.catalog is not None:
        host.catalog.quotas = quotas
    for basin in host.basins.values():
        basin.sequencer.change_quotas(quotas.streams, quotas.stored_bytes)

"""What a node says of itself, in a request and in an entry of the catalog: equal members."""

from __future__ import annotations

from typing import Any

from svc_cluster.catalog.node_facts import AnnouncedFacts


def put_facts(out: Any, facts: AnnouncedFacts) -> None:
    """Write them to a message NodeFacts of either file."""
    out.link_address = facts.link_address
    out.admin_address = facts.admin_address
    out.host = facts.host
    out.zone = facts.zone


def get_facts(message: Any) -> AnnouncedFacts:
    return AnnouncedFacts(message.link_address, message.admin_address, message.host, message.zone)

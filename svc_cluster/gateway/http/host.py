"""The basin that a host name names. Source: wire contract sections 0.1 and 11."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svc_cluster.model import names

_DEFAULT_LABEL: Final = ".b."


def basin_of_host(host: str | None, suffixes: Sequence[str] | None = None) -> str | None:
    """The basin in the value of a Host header (or `:authority`), a port behind it or not.

    Without `suffixes` it is the label in front of `.b.` (`{basin}.b.example.com`); with some, the
    one label in front of one of them (`b.example.com`), and the default shape means nothing. With
    an empty sequence no host names a basin. None too where that label is not a basin's name: such
    a host was not meant as a selector.
    """
    if host is None:
        return None
    host = host.lower()
    if suffixes is None:
        if _DEFAULT_LABEL not in host:  # all that a usual request costs
            return None
        label, _, domain = host.partition(".")
        if not domain.startswith("b.") or domain == "b.":
            return None
    else:
        host = host.partition(":")[0].rstrip(".")
        label = next(
            (
                host[: -len(suffix) - 1]
                for suffix in (s.strip(".").lower() for s in suffixes)
                if suffix and host.endswith("." + suffix)
            ),
            "",
        )
    return label if names.is_basin_name(label) else None

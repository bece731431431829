"""Whose fault an exception is: one group's, which then stops alone, or the whole node's.

What only one group's entries, rows or messages can bring about is that group's. What the groups
share, the log, the store, the disk and the memory, is the node's: nothing that goes on beside such
a fault could be relied on, so that it ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from svc_cluster.storage.state_store import StoreStalledError


class NodeFaultError(Exception):
    """The node's log or store failed in the hands of a group."""


@contextmanager
def of_the_node(what: str) -> Iterator[None]:
    """What is raised inside is the node's fault, but that the store is stalled, which passes."""
    try:
        yield
    except StoreStalledError:
        raise
    except Exception as fault:
        raise NodeFaultError(f"{what}: {fault}") from fault


def ends_the_process(fault: BaseException) -> bool:
    """Whether `fault`, or what it was raised from, is the node's and not one group's."""
    seen: BaseException | None = fault
    while seen is not None:
        if isinstance(seen, NodeFaultError | OSError | MemoryError):
            return True
        seen = seen.__cause__
    return False

"""Whose fault an exception is: one group's, which then stops alone, or the whole node's.

What only one group's entries, rows or messages can bring about is that group's. What the groups
share, the log, the store, the disk and the memory, is the node's: nothing that goes on beside such
a fault could be relied on, so that it ends the process.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from svc_cluster.storage.state_store import StoreStalledError


class NodeFaultError(Exception):
    """The node's log or store failed in the hands of a group."""


class OfTheNode:
    """What is raised inside is the node's fault, but that the store is stalled, which passes."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if isinstance(fault, Exception) and not isinstance(fault, StoreStalledError):
            raise NodeFaultError(f"{self._what}: {fault}") from fault


OF_THE_LOG: Final = OfTheNode("the write-ahead log")
OF_THE_STORE: Final = OfTheNode("the state store")


def ends_the_process(fault: BaseException) -> bool:
    """Whether `fault`, or what it was raised from, is the node's and not one group's."""
    seen: BaseException | None = fault
    while seen is not None:
        if isinstance(seen, NodeFaultError | OSError | MemoryError):
            return True
        seen = seen.__cause__
    return False

"""Calls into the state store: one that fails ends the process, or does what its opener said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from svc_cluster.storage.damage import exit_damaged, is_damage
from svc_cluster.storage.worker import exit_storage

_T = TypeVar("_T")
OnFailure = Callable[[Path, BaseException], NoReturn]
"""It is called with the store's directory, in the thread whose call failed."""


def end_process(directory: Path, failure: BaseException) -> NoReturn:
    """When it was damage, the next start knows."""
    if is_damage(failure):
        exit_damaged(directory, failure)
    exit_storage(failure, directory)


class Guard:
    """Runs calls into a store."""

    def __init__(self, directory: Path, on_failure: OnFailure) -> None:
        self._directory = directory
        self._on_failure = on_failure

    def run(self, job: Callable[[], _T]) -> _T:
        try:
            return job()
        except Exception as failure:
            self.fail(failure)

    def fail(self, failure: BaseException) -> NoReturn:
        self._on_failure(self._directory, failure)

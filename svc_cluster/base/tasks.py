"""Ownership of background tasks: each has a name and an owner that sees it fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from svc_cluster.base.log import get_logger

log = get_logger("tasks")


Result = TypeVar("Result")


def start_task(coroutine: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
    """A task whose result the caller waits for, or looks at when it has ended. Whoever does
    neither wants `Tasks`: the failure of a task that nobody holds is silent."""
    return asyncio.get_running_loop().create_task(coroutine, name=name)


class Tasks:
    """The tasks of one owner. An unexpected exception is logged as an error and given to
    `on_failure`; cancellation is not a failure."""

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        task = start_task(coroutine, name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def spawn_one(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Does what `spawn` does; the task is for an owner that may want to end it before the
        others."""
        task = start_task(coroutine, name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            log.error("task_failed", task=task.get_name(), exc_info=failure)
            if self._on_failure is not None:
                self._on_failure(failure)

    async def cancel_all(self) -> None:
        """Cancel every task and wait until all of them have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)

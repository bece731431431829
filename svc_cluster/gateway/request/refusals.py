"""Errors that are kept to be told."""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """The error itself, without the frames that it came through, nor those of what caused it.

    Frames hold what was in them: a body of MiB, and the very object that keeps the error, so that
    their memory would stay until the collector looks.
    """
    waiting: list[BaseException | None] = [error]
    seen: list[BaseException] = []
    while waiting:
        one = waiting.pop()
        if one is None or any(one is known for known in seen):
            continue
        seen.append(one)
        one.__traceback__ = None
        waiting += [one.__cause__, one.__context__]
    return error

"""Callbacks of the event loop whose failure somebody must hear of.

The loop only logs what escapes a timer, and a timer that sets itself again is then not set again:
what it did has stopped, and nobody knows. A handler for everything that escapes any callback would
hear the libraries' too, such as a connection that broke, which must end nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

Given = ParamSpec("Given")


def guarded(
    callback: Callable[Given, object], on_fault: Callable[[BaseException], None]
) -> Callable[Given, None]:
    """`callback`, but that an exception goes to `on_fault` instead of the loop."""

    def call(*args: Given.args, **named: Given.kwargs) -> None:
        try:
            callback(*args, **named)
        except Exception as fault:
            on_fault(fault)

    return call

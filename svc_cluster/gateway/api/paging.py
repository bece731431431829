"""Pages of names: a client asks for the next page behind the last name of this one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from svc_cluster.model.names import NUL

PAGE_MAX: Final = 1000
ROW_BYTES: Final = 128
"""About what a row of a page takes to make."""
BEYOND_MAX: Final = 10
"""Pages that may be read on top of one to find where it can end."""

T = TypeVar("T")


async def with_usable_end(
    found: list[T],
    has_more: bool,
    name_of: Callable[[T], str],
    behind: Callable[[str], Awaitable[tuple[list[T], bool]]],
) -> tuple[list[T], bool]:
    """A page whose last name can be given back as `start_after`, which takes no NUL.

    Names with NUL may have been made before they were refused. A page that would end at one goes on
    to the next name without, beyond the limit that was asked for. `behind` gives the page of at
    most PAGE_MAX behind a name. Where more than BEYOND_MAX pages hold nothing else, the page ends
    all the same, and what follows is reached by another prefix.
    """
    for _ in range(BEYOND_MAX):
        if not (has_more and found and NUL in name_of(found[-1])):
            break
        more, more_follow = await behind(name_of(found[-1]))
        ends = (place for place, one in enumerate(more, 1) if NUL not in name_of(one))
        end = next(ends, len(more))
        found = [*found, *more[:end]]
        has_more = more_follow or end < len(more)
    return found, has_more

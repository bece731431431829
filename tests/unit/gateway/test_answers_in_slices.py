"""Large answers over HTTP/1.1 leave in slices."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.http.http1_answer import SLICE_BYTES, send_whole

BODY = bytes(range(256)) * 300


@pytest.mark.parametrize("is_shared", [True, False])
def test_slices_of_what_others_hold_are_views_and_of_what_is_counted_are_copies(
    is_shared: bool,
) -> None:
    """A view holds on to the whole body, of which the place is given back before its last slice has
    left; a copy of a page would be held for each client that does not read it."""
    sent: list[bytes | memoryview] = []
    waits = 0

    async def drained() -> None:
        nonlocal waits
        waits += 1

    asyncio.run(send_whole(b"head", BODY, sent.append, drained, is_shared=is_shared))
    assert b"".join(sent) == b"head" + BODY
    slices = sent[1:]
    assert max(map(len, slices)) == SLICE_BYTES and waits == len(slices) == 5
    views = [part.obj for part in slices if isinstance(part, memoryview)]
    assert views == [BODY] * (5 * is_shared)


def test_a_small_answer_leaves_with_its_head() -> None:
    sent: list[bytes | memoryview] = []

    async def drained() -> None:
        pass

    asyncio.run(send_whole(b"head", bytes(SLICE_BYTES), sent.append, drained, is_shared=True))
    assert sent == [b"head" + bytes(SLICE_BYTES)]

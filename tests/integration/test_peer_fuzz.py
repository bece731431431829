"""Random bytes for everything that decodes what peers and gateways send."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.fuzz import NoUnpickling, fuzz

INPUTS = 20_000


def test_nothing_a_peer_sends_raises_or_is_unpickled(tmp_path: Path) -> None:
    """Envelopes, requests and snapshot chunks, well-formed and not: each is taken or refused, no
    other exception comes out, the node lives, and nothing is unpickled."""
    with NoUnpickling() as guard:
        target = asyncio.run(fuzz(INPUTS, 1, tmp_path))
    assert not target.faults, target.faults
    assert not guard.seen
    assert target.answers["envelope taken"] > INPUTS / 20
    assert target.answers["chunk taken"] > INPUTS / 50
    assert target.answers["envelope refused"] > INPUTS / 50
    assert target.answers["words refused"] > INPUTS / 50
    assert target.answers["form answered"] > 0


def test_nothing_a_gateway_sends_raises_or_is_unpickled(tmp_path: Path) -> None:
    """The same for a node that leads a basin, so that requests get further."""
    with NoUnpickling() as guard:
        target = asyncio.run(fuzz(INPUTS // 2, 2, tmp_path, size=1))
    assert not target.faults, target.faults
    assert not guard.seen
    assert target.answers["tail"] > 0
    assert target.answers["number refused"] > 0
    assert target.answers["permission_denied"] > 0
    assert target.answers["stream_config"] > 0

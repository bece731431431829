"""The server that modules share is given to each of them once, and only while it has few basins."""

from __future__ import annotations

import pytest

from tests.contract.client import Client
from tests.contract.conftest import Shared, new_basin


def test_no_module_has_a_server_twice_and_none_has_a_full_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Modules that come one after another have the same; it is replaced, and ended, where one comes
    again, and where it has as many basins as it may."""
    shared = Shared(tmp_path_factory.mktemp, basins_max=2)
    try:
        first = shared.taken("a")
        assert shared.taken("b") is first
        second = shared.taken("a")
        assert (first.running, second.running) == (False, True)
        with Client(f"http://127.0.0.1:{second.port}") as client:
            new_basin(client)
            assert shared.taken("b") is second
            new_basin(client)
        third = shared.taken("c")
        assert (second.running, third.running) == (False, True)
    finally:
        shared.end()
    assert not third.running

"""What tests of the codec share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from svc_cluster import _native


@pytest.fixture(scope="module")
def python_alone() -> Iterator[None]:
    """For what is said of Python's steps: the native core takes no part."""
    before = _native.is_in_use()
    _native.use(wanted=False)
    yield
    _native.use(wanted=before)

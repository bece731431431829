"""The native core is there wherever it can be."""

from __future__ import annotations

import hashlib

import pytest

from svc_cluster import _native
from tests.native_build import PLACE, compiler


@pytest.mark.skipif(compiler() is None, reason="no compiler with Python's headers")
def test_the_native_core_is_built_of_these_sources() -> None:
    """Where there is a compiler it was not left out, and what is loaded is not of older sources."""
    names = sorted([*PLACE.glob("*.c"), *PLACE.glob("*.h")])
    digest = hashlib.sha256(b"".join([name.read_bytes() for name in names])).hexdigest()
    found = _native.source_digest()
    assert found is not None, "the native core was not built: run `make setup`"
    assert found == digest, "the native core is of other sources: run `make setup`"

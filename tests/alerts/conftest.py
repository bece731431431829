"""Prometheus for every scene."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.prometheus import fetched


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The directory of prometheus."""
    return fetched()

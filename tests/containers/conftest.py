"""One cluster of docker-compose.yml for all that is tried with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.containers.compose import Compose, engine


@pytest.fixture(scope="session")
def cluster() -> Iterator[Compose]:
    """With the profile `observability`, which starts with the images that are built here."""
    missing = engine()
    if missing is not None:
        pytest.skip(f"{missing}: the service is not tried in containers")
    compose = Compose()
    compose.remove()
    try:
        compose.run("--profile", "observability", "up", "--detach", "--no-build")
        asyncio.run(compose.wait_ready())
        yield compose
    finally:
        compose.remove()
        compose.declared.cleanup()

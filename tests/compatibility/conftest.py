"""The program of the release before, built once."""

from __future__ import annotations

import pytest

from tests.compatibility.programs import NoHistoryError, Program, build


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Program:
    try:
        return build("0.2", tmp_path_factory.mktemp("release-before"))
    except NoHistoryError as reason:
        pytest.skip(f"no program of the release before: {reason}")

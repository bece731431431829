"""What one test does with the service's lines is over with it."""

from __future__ import annotations

import logging

import pytest

from svc_cluster.base.log import configure, get_logger


@pytest.mark.parametrize("turn", ["first", "again"])
def test_what_a_command_does_with_lines_ends_with_its_test(
    turn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A test that runs a command leaves the next one in this process its lines, at the level that
    they had and where pytest collects them."""
    log = get_logger("test")
    log.info("told", turn=turn)
    assert caplog.records == []
    logging.getLogger("svc_cluster").setLevel("INFO")
    log.info("told", turn=turn)
    assert [record.getMessage() for record in caplog.records] == ["told"]
    configure("debug")
    assert not logging.getLogger("svc_cluster").propagate

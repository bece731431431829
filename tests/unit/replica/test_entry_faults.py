"""A fault while an entry is made, or behind its place in the log: what those are told who asked."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import ServiceError
from tests.unit.replica.leading import Rig, played


def _broken(*_: object) -> bytes:
    raise ZeroDivisionError("planted")


async def _settled(rig: Rig) -> None:
    for _ in range(4):
        await rig.settle()
        await rig.answer()


def _may_have_happened(error: ServiceError | None) -> bool:
    assert error is not None
    return error.may_have_taken_effect


def test_an_entry_that_cannot_be_made_is_refused_without_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has nothing of it, and what is asked for next gets the same place."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        with monkeypatch.context() as patch:
            patch.setattr(rig.replica.proposer, "_join", _broken)
            harmed = rig.submit()
            await _settled(rig)
        assert [(ack, _may_have_happened(error)) for ack, error in harmed] == [(None, False)]
        assert rig.group.engine.last_index == before
        next_one = rig.submit()
        await _settled(rig)
        [(ack, error)] = next_one
        assert ack is not None and error is None and ack.start.seq_num == 0
        assert rig.group.is_serving and not rig.group.fault

    played(body)


def test_a_fault_behind_the_place_in_the_log_is_no_promise_that_nothing_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The entry is in the log and may be decided. The group stops, and nobody is told otherwise."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        monkeypatch.setattr(rig.group.times, "proposed", _broken)
        harmed = rig.submit()
        await _settled(rig)
        assert rig.group.engine.last_index == before + 1
        assert [repr(fault) for fault in rig.faults] == ["ZeroDivisionError('planted')"]
        rig.faults.clear()
        assert [(ack, _may_have_happened(error)) for ack, error in harmed] == [(None, True)]

    played(body)

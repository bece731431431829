"""Appends that wait behind each other in a leader's queue share a command."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from svc_cluster.base.errors import InternalError
from svc_cluster.stream.append_run import AppendRun
from svc_cluster.stream.commands import AppendCommand, BasinCommand
from svc_cluster.stream.sequencer import Sequencer
from tests.at_once import decode_entry
from tests.unit.replica.leading import Rig, played
from tests.unit.stream.support import batch


def _last_entry(rig: Rig) -> list[BasinCommand]:
    commands = decode_entry(rig.group.engine._log.entries[-1].payload)  # type: ignore[attr-defined]
    assert commands is not None
    return commands


def test_three_appends_of_one_turn_are_one_command() -> None:
    """The entry has one command of three records, each client its own place, and three batches are
    counted."""

    async def body(rig: Rig) -> None:
        before = rig.replica.counts()
        answers = [rig.submit() for _ in range(3)]
        await rig.settle()
        [command] = _last_entry(rig)
        assert isinstance(command, AppendCommand)
        assert command.placement.record_count == 3
        await rig.answer()
        told = [ack for [(ack, _)] in answers if ack is not None]
        assert [(ack.start.seq_num, ack.tail.seq_num) for ack in told] == [(0, 1), (1, 2), (2, 3)]
        after = rig.replica.counts()
        assert after.appends - before.appends == 3
        assert after.appended_records - before.appended_records == 3

    played(body)


def test_what_a_gateway_has_joined_is_counted_as_what_its_clients_have_asked() -> None:
    """Three appends in one request, beside one by itself: four are counted, of four records."""

    async def body(rig: Rig) -> None:
        before = rig.replica.counts()
        answers = [rig.submit(), rig.submit(of=batch(3), requests=3)]
        await rig.settle()
        assert len(_last_entry(rig)) == 1
        await rig.answer()
        told = [ack for [(ack, _)] in answers if ack is not None]
        assert [(ack.start.seq_num, ack.tail.seq_num) for ack in told] == [(0, 1), (1, 4)]
        after = rig.replica.counts()
        assert after.appends - before.appends == 4
        assert after.appended_records - before.appended_records == 4

    played(body)


def test_a_condition_begins_a_command() -> None:
    """Of four appends the first and the third have a condition; the others follow upon them:
    two commands."""

    async def body(rig: Rig) -> None:
        answers = [rig.submit(0), rig.submit(), rig.submit(2), rig.submit()]
        await rig.settle()
        commands = _last_entry(rig)
        assert [c.match_seq_num for c in commands if isinstance(c, AppendCommand)] == [0, 2]
        await rig.answer()
        assert [error for [(_, error)] in answers] == [None] * 4

    played(body)


def test_a_fault_in_joining_harms_those_that_joined(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first append is acknowledged, those that joined it are refused without effect, and the
    next one of the same turn stands behind the first."""

    async def body(rig: Rig) -> None:
        def broken(_: AppendRun) -> AppendCommand:
            raise RuntimeError("planted")

        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
            patched.setattr(AppendRun, "whole", broken)
            first, second, third, last = rig.submit(), rig.submit(), rig.submit(), rig.submit(1)
            await rig.settle()
            await rig.answer()
        assert [error for _, error in first] == [None]
        for [(ack, error)] in (second, third):
            assert ack is None
            assert isinstance(error, InternalError)
            assert not error.may_have_taken_effect
        [(ack, error)] = last
        assert error is None
        assert ack is not None
        assert ack.start.seq_num == 1

    played(body)


@pytest.mark.parametrize("joined_before", [0, 1])
def test_a_fault_while_one_joins_harms_those_that_joined_before(
    joined_before: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who was about to join is decided alone, behind the first; the replica serves on."""
    join = AppendRun.join
    calls = []

    def breaks(run: AppendRun, *of: Any) -> bool:
        calls.append(run)
        if len(calls) > joined_before:
            raise RuntimeError("planted")
        return join(run, *of)

    async def body(rig: Rig) -> None:
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
            patched.setattr(AppendRun, "join", breaks)
            answers = [rig.submit() for _ in range(2 + joined_before)]
            await rig.settle()
            await rig.answer()
        [(first, _)], *harmed, [(last, _)] = answers
        assert first is not None
        assert first.start.seq_num == 0
        assert len(harmed) == joined_before
        for [(ack, error)] in harmed:
            assert ack is None
            assert isinstance(error, InternalError)
            assert not error.may_have_taken_effect
        assert last is not None
        assert last.start.seq_num == 1
        later = rig.submit()
        await rig.settle()
        await rig.answer()
        assert [ack.start.seq_num for ack, _ in later if ack is not None] == [2]
        assert not rig.group.stopped

    played(body)


def test_a_fault_where_a_command_begins_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What it was to begin is a command alone, and so is each behind it."""

    def breaks(*_: object) -> AppendRun | None:
        raise RuntimeError("planted")

    async def body(rig: Rig) -> None:
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
            patched.setattr(Sequencer, "begin_run", breaks)
            answers = [rig.submit() for _ in range(3)]
            await rig.settle()
            assert len(_last_entry(rig)) == 3
            await rig.answer()
        told = [ack.start.seq_num for [(ack, _)] in answers if ack is not None]
        assert told == [0, 1, 2]
        assert not rig.group.stopped

    played(body)

"""Holes in files of the machine's disk: they give room back, in steps, and hurt nothing beside."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.storage import holes as holes_module
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.holes import STEP_BYTES, STEP_HOLES_MAX, dig, makes_holes, steps

KIB = 1024
SIZE = 1024 * KIB


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_a_hole_gives_room_back_and_the_rest_stays(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """The file has its length, what is beside the hole is there, and a renewal fills it again."""
    if not makes_holes(tmp_path):
        pytest.skip("the file system makes no holes")
    disk = RealDisk(tmp_path, loop)
    content = os.urandom(SIZE)

    async def main() -> None:
        file = disk.create("f", SIZE)
        disk.write_sync([(file, 0, content)])
        before = file.held_bytes()
        dug: asyncio.Future[bool] = loop.create_future()
        disk.submit_holes(file, [(64 * KIB, 512 * KIB)], dug.set_result)
        assert await dug
        assert before - file.held_bytes() == 512 * KIB
        assert file.size() == SIZE
        wanted = content[: 64 * KIB] + bytes(512 * KIB) + content[576 * KIB :]
        assert file.pread(SIZE, 0) == wanted
        renewed: asyncio.Future[bool] = loop.create_future()
        disk.submit_renew(file, "g", b"head", renewed.set_result)
        assert await renewed
        assert file.held_bytes() >= SIZE
        assert file.pread(SIZE, 0) == b"head" + wanted[4:]

    loop.run_until_complete(main())
    assert sorted(os.listdir(tmp_path)) == ["g"]
    disk.close()


def test_a_file_system_without_holes_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try tells it, and leaves no file."""

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(holes_module, "_punch", refuse)
    assert not makes_holes(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_reason_to_make_no_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is known as on a disk with room, and leaves no file; without holes it is known, too."""
    can = makes_holes(tmp_path)

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert makes_holes(tmp_path) == can
    monkeypatch.setattr(holes_module, "_punch", full)
    assert not makes_holes(tmp_path)
    assert os.listdir(tmp_path) == []


def test_others_get_the_disk_between_two_steps(tmp_path: Path) -> None:
    """Behind each step there is a pause; one that says so ends it."""
    (tmp_path / "f").write_bytes(bytes(4 * STEP_BYTES))
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 2

    dig(tmp_path / "f", [(0, 3 * STEP_BYTES)], lambda: 0.0, pause)
    assert len(pauses) == 2


@given(st.lists(st.integers(1, 3 * STEP_BYTES), max_size=200))
def test_steps_are_bounded_and_lose_nothing(sizes: list[int]) -> None:
    """Together they are the holes; none has more bytes or holes than one may have."""
    holes, at = [], 0
    for size in sizes:
        holes.append((at, size))
        at += size + 4096
    found = steps(holes)
    for step in found:
        assert 0 < sum(size for _, size in step) <= STEP_BYTES
        assert len(step) <= STEP_HOLES_MAX
    joined: list[tuple[int, int]] = []
    for offset, size in (hole for step in found for hole in step):
        if joined and sum(joined[-1]) == offset:
            joined[-1] = joined[-1][0], joined[-1][1] + size
        else:
            joined.append((offset, size))
    assert joined == holes

"""The configuration of a copy's destination: it is put back, or it is said that it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from svc_cluster.base.tasks import start_task
from svc_cluster.client.client_errors import AnswerRefusedError, AwayError, ClientError
from svc_cluster.client.copy_end import CopyError
from svc_cluster.client.wire_records import stream_path
from tests.e2e.copy_scene import BASIN, Both, Scene, nothing, numbered, two_servers
from tests.integration.processes import in_loop

OWN = b'{"retention_policy":{"age":86400},"delete_on_empty":{"min_age_secs":77}}'
LEFT = r"the configuration of .*, which is that of a copy under way, could not be put back \({}\): "
ADVICE = "ask for the same copy again, or reconfigure the stream"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with two_servers(lambda: tmp_path_factory.mktemp("copy")) as servers:
        yield servers


def fail_changes(scene: Scene, faults: list[ClientError]) -> None:
    """Have changes of the destination's configuration fail so, one after the other."""

    async def fail(method: str, _path: str) -> None:
        if method == "PATCH" and faults:
            raise faults.pop(0)

    scene.target.before = fail


@in_loop
async def test_the_final_configuration_waits_for_what_passes(both: Both) -> None:
    """The last request of a copy fails for a while, as while a leader changes: it is made again."""
    async with Scene(both, "waits") as scene:
        await scene.append(scene.source, *numbered(10))
        faults: list[ClientError] = [
            AnswerRefusedError(503, "unavailable", "no leader"),
            AwayError("it went away", sent=True),
            AwayError("it does not answer", sent=False),
        ]
        fail_changes(scene, faults)
        result = await scene.copy()
        assert (faults, result.compared) == ([], 10)
        assert await scene.config(scene.target) == await scene.config(scene.source)


@in_loop
async def test_a_copy_that_is_ended_at_its_end_has_its_configuration(both: Both) -> None:
    """Interrupted in the last request, or refused there: the configuration is the source's."""
    for name, fault in (("interrupted", None), ("refused", CopyError("refused"))):
        async with Scene(both, name) as scene:
            await scene.append(scene.source, *numbered(10))
            changes = asyncio.Event()

            async def end_here(
                method: str,
                _path: str,
                scene: Scene = scene,
                fault: ClientError | None = fault,
                changes: asyncio.Event = changes,
            ) -> None:
                if method == "PATCH":
                    scene.target.before = nothing
                    changes.set()
                    if fault is not None:
                        raise fault
                    await asyncio.Event().wait()

            scene.target.before = end_here
            left: list[str] = []
            copying = start_task(scene.copy(left=left.append), "copy")
            await changes.wait()
            if fault is None:
                copying.cancel()
            with pytest.raises(asyncio.CancelledError if fault is None else CopyError):
                await copying
            assert left == []
            assert await scene.config(scene.target) == await scene.config(scene.source)


@pytest.mark.parametrize("status", [400, 401, 403])
@in_loop
async def test_a_final_configuration_that_is_refused_is_said(both: Both, status: int) -> None:
    """Also to whose token may make streams, and not change them: it has made this one."""
    async with Scene(both, f"final-{status}") as scene:
        await scene.append(scene.source, *numbered(10))
        refused = AnswerRefusedError(status, "code", "told")
        fail_changes(scene, [refused, refused])
        with pytest.raises(CopyError, match=f"^{status} .*; and {LEFT.format('.*')}{ADVICE}$"):
            await scene.copy()


@in_loop
async def test_what_was_not_changed_is_not_said_to_be(both: Both) -> None:
    """Who may neither make the stream nor change it reads that alone."""
    async with Scene(both, "unchanged") as scene:
        await scene.append(scene.source, *numbered(10))
        await scene.target.call("PUT", stream_path(scene.stream), basin=BASIN, body=OWN)
        before = await scene.config(scene.target)

        async def refuse(method: str, _path: str) -> None:
            if method != "GET":
                raise AnswerRefusedError(403, "permission_denied", "told")

        scene.target.before = refuse
        with pytest.raises(AnswerRefusedError, match=r"^403 permission_denied: told; use "):
            await scene.copy()
        assert await scene.config(scene.target) == before


async def interrupted(
    scene: Scene, fail: Callable[[], None], *, is_interrupted_again: bool
) -> list[str]:
    """Interrupt a copy in an append, and let changes fail from then on. Return what is said."""
    appends, again, left = asyncio.Event(), asyncio.Event(), list[str]()

    async def end_here(method: str, _path: str) -> None:
        if method == "POST":
            appends.set()
            await asyncio.Event().wait()
        if method == "PATCH":
            again.set()
            fail()
            await asyncio.Event().wait()

    scene.target.before = end_here
    copying = start_task(scene.copy(left=left.append), "copy")
    await appends.wait()
    copying.cancel()
    await again.wait()
    if is_interrupted_again:
        copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    return left


@in_loop
async def test_an_interrupted_copy_says_what_is_left(both: Both) -> None:
    """The configuration is refused, nobody answers for some seconds, or a second interruption ends
    that too: one line is said."""

    def refuse() -> None:
        raise CopyError("refused")

    def hold() -> None:
        pass

    async with Scene(both, "left") as scene:
        await scene.append(scene.source, *numbered(10))
        for fail, is_again, why in (
            (refuse, False, "refused"),
            (hold, False, "no answer in time"),
            (hold, True, "interrupted"),
        ):
            (said,) = await interrupted(scene, fail, is_interrupted_again=is_again)
            assert said == (
                f"the configuration of {scene.ends[1].name}, which is that of a copy under way, "
                f"could not be put back ({why}): {ADVICE}"
            )

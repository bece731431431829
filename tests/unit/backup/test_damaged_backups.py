"""One damaged object, and what all commands do about the others."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.backup_manifest import Manifest, encode
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.prune import CLAIM_SECONDS_MAX, BackupRetention, Pruned, doomed, prune
from svc_cluster.backup.restore import Wishes
from svc_cluster.backup.vault import manifest_name
from svc_cluster.base.ids import StreamId
from svc_cluster.cli.backup import backup_commands
from svc_cluster.cli.backup.backup_app import app
from svc_cluster.cli.output_form import Teller
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_errors import SettingsError
from tests.unit.backup.scene import Scene

DAY_MS = 24 * 3600 * 1000
BACKUPS = tuple((number, number * DAY_MS) for number in range(1, 11))
NOW_MS = 11 * DAY_MS


@pytest.mark.parametrize(
    ("damaged", "keep", "older_than_days", "going"),
    [
        ({10}, 1, None, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({9}, 2, None, [1, 2, 3, 4, 5, 6, 7]),
        ({3}, 2, None, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({3}, None, 9, [1]),
        ({1, 2}, None, 9, [1]),
        ({10}, None, 0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (set(range(1, 11)), 1, None, []),
        ({3}, None, None, []),
    ],
)
def test_a_damaged_backup_takes_no_whole_ones_place(
    damaged: set[int], keep: int | None, older_than_days: int | None, going: list[int]
) -> None:
    """So many whole ones stay as was said, the last whole one in any case; a damaged one goes by
    the same rules."""
    older_than_ms = None if older_than_days is None else older_than_days * DAY_MS
    rules = BackupRetention(keep, older_than_ms)
    assert list(doomed(BACKUPS, rules, NOW_MS, damaged)) == going


def flip(scene: Scene, name: str) -> None:
    stored = bytearray(scene.objects.objects[name])
    stored[-1] ^= 1
    scene.objects.objects[name] = bytes(stored)


def three(scene: Scene) -> None:
    """Each has a part of its own, and records that it shares."""
    basin = scene.filled()
    for number in range(3):
        basin.append(StreamId(1), b"%d" % number * 200, count=1, at_ms=30_000 + number)
        basin.trim(StreamId(2), 9 * number)
        scene.backup()


def pruned(scene: Scene, retention: BackupRetention) -> Pruned:
    async def work() -> Pruned:
        return await prune(await scene.vault(), scene.clock, retention, 0)

    return asyncio.run(work())


def whole(scene: Scene, numbers: list[int]) -> None:
    async def look() -> None:
        vault = await scene.vault()
        assert await vault.numbers() == numbers
        for number in numbers:
            assert await scene.look(await vault.manifest(number)) == []

    asyncio.run(look())


def test_contents_stay_while_a_backup_is_unclear_and_go_with_it() -> None:
    """A damaged manifest that stays: other backups go, no content does, and it is named. Once it is
    to go by the rules it goes, and with it what only it can have needed."""
    scene = Scene()
    three(scene)
    flip(scene, manifest_name(2))
    contents = {name for name in scene.objects.objects if not name.startswith("manifests/")}
    done = pruned(scene, BackupRetention(2, None))
    assert (done.backups, done.objects, done.damaged) == ((), 0, ())
    assert len(done.unclear) == 1 and "manifests/0000000002 is damaged" in done.unclear[0]
    done = pruned(scene, BackupRetention(1, None))
    assert done.backups == (1, 2)
    assert len(done.damaged) == 1 and "manifests/0000000002 is damaged" in done.damaged[0]
    assert (done.unclear, done.is_whole) == ((), True)
    assert done.objects > 0
    assert not contents <= set(scene.objects.objects)
    whole(scene, [3])


def test_a_damaged_part_keeps_all_contents() -> None:
    """Which chunks it needs is not known: those of an earlier backup may be among them."""
    scene = Scene()
    three(scene)
    part = asyncio.run(_part(scene, 2))
    flip(scene, part)
    contents = {name for name in scene.objects.objects if not name.startswith("manifests/")}
    done = pruned(scene, BackupRetention(2, None))
    assert (done.backups, done.objects) == ((1,), 0)
    assert len(done.unclear) == 1 and f"{part} is damaged" in done.unclear[0]
    assert contents <= set(scene.objects.objects)
    whole_one = pruned(scene, BackupRetention(1, None))
    assert (whole_one.backups, whole_one.unclear) == ((2,), ())
    assert whole_one.objects > 0
    whole(scene, [3])


async def _part(scene: Scene, number: int) -> str:
    return (await (await scene.vault()).manifest(number)).basins[0].part


def test_a_damaged_backup_goes_when_it_is_asked_for_by_its_number() -> None:
    """Also the last one, which no rule takes away; a whole one is refused before anything goes."""
    scene = Scene()
    three(scene)
    flip(scene, manifest_name(3))
    before = dict(scene.objects.objects)
    with pytest.raises(BackupError, match="backup 2 in memory has no damaged manifest"):
        pruned(scene, BackupRetention(1, None, (2, 3)))
    assert scene.objects.objects == before
    done = pruned(scene, BackupRetention(None, None, (3,)))
    assert (done.backups, len(done.damaged), done.unclear) == ((3,), 1, ())
    whole(scene, [1, 2])


# -- what is said of it


def asked(place: Path, command: str, *rest: str) -> Result:
    none = str(place.parent / "no key")
    return CliRunner().invoke(app, [command, "--at", str(place), "--key-file", none, *rest])


def damaged_place(tmp_path: Path) -> Scene:
    """Three backups in a directory, the first of which has a damaged manifest."""
    place = tmp_path / "place"
    scene = Scene(sealed=False)
    scene.store = DirectoryStore(place)
    three(scene)
    file = place / manifest_name(1)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    return scene


def test_a_damaged_backup_is_listed_as_such_beside_the_others(tmp_path: Path) -> None:
    """One line, the others as ever, and status 1; 0 once it is gone."""
    damaged_place(tmp_path)
    place = tmp_path / "place"
    said = asked(place, "list")
    assert said.exit_code == 1
    lines = [line for line in said.stdout.splitlines() if not line.startswith("   ")]
    assert lines[0].startswith("DAMAGED  backup 1: manifests/0000000001 is damaged")
    assert [line[:3] for line in lines[1:]] == ["2  ", "3  "]
    assert "not every backup can be read" in said.stderr
    rows = [json.loads(line) for line in asked(place, "list", "-o", "json").stdout.splitlines()]
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert ["unreadable" in row for row in rows] == [True, False, False]
    gone = asked(tmp_path / "place", "prune", "--number", "1")
    assert gone.exit_code == 0
    assert "manifests/0000000001 is damaged" in gone.stdout
    assert "backups deleted: 1;" in gone.stdout
    assert asked(tmp_path / "place", "list").exit_code == 0


def test_a_prune_that_leaves_contents_for_a_damaged_backup_says_so(tmp_path: Path) -> None:
    """With status 1, and how it is ended."""
    damaged_place(tmp_path)
    said = asked(tmp_path / "place", "prune", "--keep", "3")
    assert said.exit_code == 1
    assert "DAMAGED  manifests/0000000001 is damaged" in said.stdout
    assert "no content was deleted" in said.stdout
    assert "a manifest goes with --number" in said.stderr
    neither = asked(tmp_path / "place", "prune")
    assert (neither.exit_code, neither.stdout) == (2, "")


def test_a_damaged_last_manifest_puts_no_scheduled_backup_off(tmp_path: Path) -> None:
    """When the next one is due goes by the last that can be read."""
    scene = damaged_place(tmp_path)
    place = tmp_path / "place"
    file = place / manifest_name(3)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    second = asyncio.run(_finished(scene, 2))
    assert asyncio.run(backup_commands.last_finished_ms(str(place), tmp_path / "no key")) == second
    (place / manifest_name(2)).unlink()
    assert asyncio.run(backup_commands.last_finished_ms(str(place), tmp_path / "no key")) is None


async def _finished(scene: Scene, number: int) -> int:
    return (await (await scene.vault()).manifest(number)).finished_at_ms


def test_what_killed_writers_have_left_goes_once_it_is_old(tmp_path: Path) -> None:
    """In any folder; what may be somebody's who writes now stays, and neither is an object."""
    scene = Scene()
    scene.store = store = DirectoryStore(tmp_path)
    scene.filled()
    scene.backup()
    old = [tmp_path / folder / ".tmp-0123456789abcdef" for folder in (".", "chunks", "parts")]
    young = tmp_path / "chunks" / ".tmp-fedcba9876543210"
    for file in (*old, young):
        file.write_bytes(bytes(1000))
    for file in old:
        os.utime(file, (1, 1))
    now_s = os.stat(young).st_mtime
    os.utime(young, (now_s, now_s - CLAIM_SECONDS_MAX + 600))
    assert all(".tmp-" not in each.name for each in asyncio.run(store.list("")))
    done = pruned(scene, BackupRetention(1, None))
    assert (done.objects, done.freed_bytes) == (3, 3000)
    assert [file.exists() for file in (*old, young)] == [False, False, False, True]


def test_what_a_backup_has_missed_is_said_wherever_it_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where backups are listed, where one is checked, and where one is restored."""
    place, none = tmp_path / "place", tmp_path / "no key"
    scene = Scene(sealed=False)
    scene.store = DirectoryStore(place)
    scene.filled()
    made = scene.backup()
    text = "not in backup 1, created or deleted while it was taken: gone-one, gone-two"
    missed = msgspec.structs.replace(made, missed=("gone-one", "gone-two"))
    said = []
    for manifest in (made, missed):
        asyncio.run(_put_again(scene, manifest))
        settings = NodeSettings(
            node_id=1,
            cluster_id="main",
            nodes={"1": "127.0.0.1:7000"},
            secret_file="not read",
            replication_factor=1,
            data_dir=str(tmp_path / f"node-{len(manifest.missed)}"),
        )
        for work in (
            backup_commands.show(str(place), none, Teller()),
            backup_commands.check(str(place), none, 1, Teller()),
            backup_commands.bring_back(settings, str(place), none, 1, Wishes(), Teller()),
        ):
            asyncio.run(work)
            said.append(text in capsys.readouterr().out)
    assert said == [False] * 3 + [True] * 3


def test_a_node_that_comes_to_a_cluster_is_not_restored(tmp_path: Path) -> None:
    """Its cluster gives it what it holds. Two nodes in `nodes`, as beside a join token, would also
    be fewer than the replicas of a basin."""
    settings = NodeSettings(
        node_id=4,
        cluster_id="main",
        nodes={"1": "127.0.0.1:7000", "4": "127.0.0.1:7001"},
        secret_file="not read",
        join_token_file=str(tmp_path / "token"),
        data_dir=str(tmp_path / "node"),
    )
    work = backup_commands.bring_back(
        settings, str(tmp_path / "place"), tmp_path / "no key", 1, Wishes(), Teller()
    )
    with pytest.raises(SettingsError, match="take join_token_file out"):
        asyncio.run(work)
    assert not list(tmp_path.iterdir())


async def _put_again(scene: Scene, manifest: Manifest) -> None:
    vault = await scene.vault()
    await vault.store.delete(manifest_name(1))
    await vault.write(manifest_name(1), encode(manifest))

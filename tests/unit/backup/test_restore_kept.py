"""What a restore keeps and what not, to the row and the millisecond; and what it says of it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from svc_cluster.backup.catalog_rows import placed_anew
from svc_cluster.backup.restore import RestoredNode, Wishes, identity, kept_and_not
from svc_cluster.backup.seed import begin, end
from svc_cluster.base.ids import CATALOG_GROUP, NodeId, ReplicaId, StreamId, TimestampMs
from svc_cluster.catalog.basin_record import basin_to_bytes
from svc_cluster.catalog.catalog_commands import OpenTicket
from svc_cluster.catalog.catalog_state import BASIN, CatalogState
from svc_cluster.catalog.group_change import BeginChange, GroupChange
from svc_cluster.catalog.join_tickets import TICKETS
from svc_cluster.catalog.token_commands import SetRootToken
from svc_cluster.catalog.token_table import TOKEN
from svc_cluster.model.join_token import HASH_BYTES
from svc_cluster.model.stream_config import StreamConfig
from svc_cluster.stream import keys, rows
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import CreateStream, DeleteStream
from svc_cluster.stream.rows import StreamState
from tests.unit.backup.memory_cluster import AT_MS, Basin, Rows
from tests.unit.backup.scene import Scene
from tests.unit.backup.test_create import group

OUTCOMES = {
    keys.IDEMPOTENCY_ROWS + b"token": b"what was answered",
    keys.IDEMPOTENCY_TIMES + bytes(8) + b"token": b"",
    keys.IDEMPOTENCY_COUNT_KEY: bytes(7) + b"\x01",
}
NOT_KEPT = "not kept: outcomes of requests with a token (such a request is a new one), usage"
USAGE_NOT_KEPT = "not kept: usage (counted anew, since records were trimmed while"


def with_outcomes(scene: Scene) -> Basin:
    basin = scene.filled()
    basin.rows.rows.update(OUTCOMES)
    scene.cluster.add("other-basin").rows.rows.update(OUTCOMES)
    return basin


def stream_of(found: Rows, name: str) -> StreamState:
    stream = BasinState(found).stream_by_name(name)
    assert stream is not None
    return stream


@pytest.mark.parametrize(
    ("wishes", "trimmed", "outcomes", "usage"),
    [
        (Wishes(), 0, True, True),
        (Wishes(), 3, True, False),
        (Wishes({"first-basin": "first-basin"}), 0, True, True),
        (Wishes({"first-basin": "first-basin"}), 3, True, False),
        (Wishes({"first-basin": "new-name"}), 0, False, False),
        (Wishes(positions={("first-basin", "one"): 9}), 0, False, False),
        (Wishes(positions={("other-basin", "s"): 9}), 0, True, True),
        (Wishes(until_ms=10_004), 0, False, False),
    ],
)
def test_outcomes_and_usage_are_kept_where_it_says_so(
    wishes: Wishes, trimmed: int, outcomes: bool, usage: bool
) -> None:
    """Outcomes of every basin that comes back as it was, also where records were trimmed while it
    was read; usage where none were. Of each basin it is said what is not kept, and of no other."""
    scene = Scene()
    basin = with_outcomes(scene)
    other = scene.cluster.basins[group(scene, "other-basin")]
    other.create("s")
    if trimmed:
        scene.cluster.before_records = partial(basin.trim, StreamId(1), trimmed)
    made = scene.backup()
    del scene.said[:]
    found = scene.restored(made, wishes)[0].groups[group(scene)].rows
    there = {key: value for key, value in found.items() if key in OUTCOMES}
    assert there == (OUTCOMES if outcomes else {})
    counted = {key for key in basin.rows.rows if key[0] >= keys.USAGE_REPORTERS_KIND}
    assert counted, "something was counted"
    assert {key for key in found if key[0] >= keys.USAGE_REPORTERS_KIND} == (
        counted if usage else set()
    )
    name = (wishes.basins or {}).get("first-basin", "first-basin")
    said = [line for line in scene.said if line.startswith(f"{name}: not kept")]
    expected = [] if usage else [f"{name}: {USAGE_NOT_KEPT if outcomes else NOT_KEPT}"]
    assert [line[: len(told)] for line, told in zip(said, expected, strict=True)] == expected


def test_the_closing_words_are_true_of_every_wish() -> None:
    """What holds for all of a restore; for what differs by basin they point to the lines above."""
    whole = kept_and_not(Wishes())
    assert whole[:4] == [
        "access tokens: kept",
        "outcomes of requests with a token: kept, but those of the basins that say otherwise above",
        "fencing tokens: kept",
        "streams that were being deleted: are deleted further",
    ]
    assert whole[-1] == (
        "retention goes on: records that are older by now than their stream's retention_policy "
        "allows, and streams for which delete_on_empty is over, are deleted as soon as nodes run"
    )
    single = kept_and_not(Wishes({"first-basin": "first-basin"}))
    assert single[:3] == [
        "access tokens: not kept: they are the account's",
        whole[1] + ", and the account's",
        "fencing tokens: kept",
    ]
    assert single[3:] == whole[3:]
    cut = kept_and_not(Wishes(until_ms=1))
    assert cut[2:4] == [
        "fencing tokens: kept, but cleared where a stream was cut",
        "streams that were being deleted: are deleted further; one of which that was asked for "
        "later is there",
    ]
    assert kept_and_not(Wishes(positions={("b", "s"): 1}))[2] == cut[2]


def test_what_is_of_the_very_millisecond_belongs_to_it() -> None:
    """A batch that arrived then, a stream that was created then, and one of which the deletion was
    asked for then: all of it has happened. A millisecond earlier nothing of it has."""
    scene = Scene()
    basin = scene.filled()
    basin.append(StreamId(1), b"then", count=2, at_ms=AT_MS + 1000)
    basin.does(CreateStream(StreamId(3), "three", StreamConfig(), TimestampMs(AT_MS + 1000)))
    basin.does(DeleteStream(StreamId(2), TimestampMs(AT_MS + 1000)))
    made = scene.backup()
    at, before = (
        scene.restored(made, Wishes(until_ms=AT_MS + moment))[0].groups[group(scene)]
        for moment in (1000, 999)
    )
    assert stream_of(at, "one") == basin.state.stream_by_name("one")
    assert stream_of(at, "two").deleted_at_ms == AT_MS + 1000
    assert stream_of(at, "three").created_at_ms == AT_MS + 1000
    assert stream_of(before, "one").tail_seq_num == 30
    assert stream_of(before, "two").deleted_at_ms is None
    assert BasinState(before).stream_by_name("three") is None


def test_a_stream_that_is_cut_has_the_fence_and_the_arrival_of_then() -> None:
    """The fence goes, since the record that set it may be cut; the last arrival is that of the last
    batch which is left. One that is not cut keeps both."""
    scene = Scene()
    basin = scene.filled()
    for stream_id in (StreamId(1), StreamId(2)):
        stream = basin.state.stream(stream_id)
        assert stream is not None
        fenced = msgspec.structs.replace(stream, fencing_token="writer-7")
        basin.rows.rows[keys.stream_key(stream_id)] = rows.encode_stream(fenced)
    made = scene.backup()
    wishes = Wishes(positions={("first-basin", "one"): 9})
    found = scene.restored(made, wishes)[0].groups[group(scene)]
    one, two = stream_of(found, "one"), stream_of(found, "two")
    assert (one.tail_seq_num, one.fencing_token, one.last_arrival_ms) == (9, "", 10_002)
    assert (two.tail_seq_num, two.fencing_token, two.last_arrival_ms) == (30, "writer-7", 10_009)
    wishes = Wishes(positions={("first-basin", "one"): 0})
    found = scene.restored(made, wishes)[0].groups[group(scene)]
    assert stream_of(found, "one").last_arrival_ms is None


def test_access_tokens_and_owners_come_with_the_account_and_tickets_never() -> None:
    """A single basin brings nobody's rights along. Who was let in to the old cluster is not let in
    to the new one."""
    scene = Scene()
    scene.filled()
    scene.cluster.raise_version()
    scene.cluster.decide(SetRootToken(b"h" * 32, b"c" * 16, only_if_absent=False))
    scene.cluster.decide(
        OpenTicket(NodeId(9), b"s" * HASH_BYTES, TimestampMs(AT_MS + 1), TimestampMs(AT_MS))
    )
    record = replace(scene.cluster.catalog.basins["first-basin"], owner=7)
    scene.cluster.catalog_rows.rows[BASIN + b"first-basin"] = basin_to_bytes(record)
    there = scene.cluster.catalog_rows.rows
    for kind in (TOKEN, TICKETS):
        assert any(key.startswith(kind) for key in there), kind
    made = scene.backup()
    for wishes, owner in ((Wishes(), 7), (Wishes({"first-basin": "first-basin"}), 0)):
        catalog = scene.restored(made, wishes)[0].groups[1]
        tokens = {key for key in catalog.rows if key.startswith(TOKEN)}
        assert tokens == ({key for key in there if key.startswith(TOKEN)} if owner else set())
        assert not any(key.startswith(TICKETS) for key in catalog.rows)
        assert CatalogState(catalog).basins["first-basin"].owner == owner


def test_a_basin_begins_without_the_old_clusters_members() -> None:
    """Neither the replicas that it had, nor their configuration, nor a change that was open."""
    scene = Scene()
    scene.filled()
    scene.cluster.raise_version()
    old = (NodeId(7), NodeId(8))
    change = GroupChange(5, (NodeId(8),), (ReplicaId(21),), "a move")
    record = replace(
        scene.cluster.catalog.basins["first-basin"],
        replicas=old,
        configuration=4,
        replica_ids=(ReplicaId(11), ReplicaId(12)),
        change=change,
    )
    scene.cluster.catalog_rows.rows[BASIN + b"first-basin"] = basin_to_bytes(record)
    made = scene.backup()
    found = CatalogState(scene.restored(made, nodes=3)[0].groups[1]).basins["first-basin"]
    nodes = (NodeId(1), NodeId(2), NodeId(3))
    assert sorted(found.replicas) == list(nodes)
    begins = replace(record, replicas=found.replicas, configuration=0, replica_ids=(), change=None)
    assert found == begins
    # a row without a configuration and a change has no room for the numbers of replicas
    assert placed_anew([record], nodes, 3) == [begins]


def test_who_voted_in_the_old_catalog_does_not_vote_in_the_new_one() -> None:
    """The restored nodes form a group of their own; and no number of a placement is given twice."""
    scene = Scene()
    scene.filled()
    scene.cluster.raise_version()
    old = tuple(map(NodeId, (1, 2, 3)))
    command = BeginChange(CATALOG_GROUP, 0, (NodeId(1),), "a move", old)
    scene.cluster.decide(command)
    before = scene.cluster.catalog
    assert before.own_group.row is not None, "the old cluster has the row"
    made = scene.backup()
    for wishes in (Wishes(), Wishes({"first-basin": "first-basin"})):
        found = CatalogState(scene.restored(made, wishes)[0].groups[1])
        assert found.own_group.row is None
        if wishes.basins is None:
            assert found.placements.next == before.placements.next


def test_nodes_that_were_restored_by_other_wishes_form_no_cluster() -> None:
    """The id by which they find each other is another one for each wish, and each cluster."""
    scene = Scene()
    scene.filled()
    made = scene.backup()
    place = RestoredNode(Path(), "c" * 32, NodeId(1), (NodeId(1), NodeId(2)), 2)
    wishes = [
        Wishes(),
        Wishes({"first-basin": "first-basin"}),
        Wishes({"first-basin": "new-name"}),
        Wishes(until_ms=1),
        Wishes(until_ms=2),
        Wishes(positions={("first-basin", "one"): 1}),
        Wishes(positions={("first-basin", "one"): 2}),
        Wishes(positions={("first-basin", "two"): 2}),
    ]
    ids = [identity(made, place, wish) for wish in wishes]
    places = [
        replace(place, cluster_id="d" * 32),
        replace(place, nodes=(NodeId(1), NodeId(2), NodeId(3))),
        replace(place, replication_factor=1),
    ]
    ids += [identity(made, each, Wishes()) for each in places]
    assert len(set(ids)) == len(wishes) + len(places)
    assert identity(made, replace(place, node_id=NodeId(2)), Wishes()) == ids[0]


def test_what_an_interrupted_restore_has_left_is_deleted(tmp_path: Path) -> None:
    """Files and directories; the mark that it is half restored stays."""
    os.close(begin(tmp_path, "backup 1"))
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "left").write_text("of an earlier attempt")
    (tmp_path / "file").write_text("too")
    there = {each.name for each in tmp_path.iterdir()} - {"wal", "file"}
    os.close(begin(tmp_path, "backup 1"))
    assert {each.name for each in tmp_path.iterdir()} == there
    assert "restoring" in there


class Syncs:
    """What is synced, in order, with what the directory holds then; the real ones are done."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, list[str]]] = []
        fsync = os.fsync

        def watched(descriptor: int) -> None:
            place = Path(f"/proc/self/fd/{descriptor}").readlink()
            there = sorted(each.name for each in directory.iterdir() if each.name != "LOCK")
            self.seen.append((str(place.relative_to(directory)), there))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", watched)


def test_a_directory_says_durably_that_it_is_half_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark and its name are on the disk before anything else is done, and it goes once all that
    it stood for is there."""
    syncs = Syncs(tmp_path, monkeypatch)
    os.close(begin(tmp_path, "backup 1"))
    assert syncs.seen[:2] == [("restoring", ["restoring"]), (".", ["restoring"])]
    for name in ("wal", "state"):
        (tmp_path / name).mkdir()
    del syncs.seen[:]
    end(tmp_path)
    half, whole = ["restoring", "state", "wal"], ["state", "wal"]
    assert syncs.seen == [("wal", half), ("state", half), (".", half), (".", whole)]

"""Create, ensure, reconfigure, create by itself, delete when empty: what the leader decides, and
what every replica makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.ids import LogIndex, StreamId, TimestampMs
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    NewStream,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)
from svc_cluster.stream import provision_rules
from svc_cluster.stream.commands import (
    BasinCommand,
    ConfigureBasin,
    ConfigureStream,
    CreateStream,
    DeleteEmptyStream,
)
from svc_cluster.stream.effects import RejectionReason
from svc_cluster.stream.sequencer import Sequencer
from tests.unit.stream.support import NOW, Leader, Replica, batch, reasons, trim

HASH = b"h" * 32
OTHER_HASH = b"o" * 32


def create(leader: Leader, name: str, creation_hash: bytes = b"") -> CreateStream | None:
    new = NewStream()
    return leader.sequencer.decide(
        lambda view: provision_rules.create_stream(view, name, new, creation_hash, NOW)
    )


def ensure(
    leader: Leader, name: str, config: PartialStreamConfig | None = None
) -> CreateStream | ConfigureStream | None:
    new = NewStream(config)
    decided = leader.sequencer.decide(
        lambda view: provision_rules.ensure_stream(view, name, new, NOW)
    )
    assert decided is None or isinstance(decided, CreateStream | ConfigureStream)
    return decided


def patch(leader: Leader, name: str, change: StreamPatch) -> ConfigureStream | None:
    return leader.sequencer.decide(
        lambda view: provision_rules.reconfigure_stream(view, name, change, "standard")
    )


def patch_basin(leader: Leader, change: BasinPatch) -> ConfigureBasin | None:
    return leader.sequencer.decide(lambda view: provision_rules.reconfigure_basin(view, change))


def auto_create(leader: Leader, name: str, *, on_read: bool) -> CreateStream | None:
    new = NewStream()
    return leader.sequencer.decide(
        lambda view: provision_rules.auto_create_stream(view, name, new, NOW, on_read=on_read)
    )


# -- creation and its repetition


def test_a_create_is_repeated_by_its_hash_alone() -> None:
    """No hash matches nothing, not even none; the first one stays, whatever is done meanwhile."""
    leader = Leader()
    leader.run(create(leader, "s", HASH))
    leader.run(create(leader, "bare"))
    assert create(leader, "s", HASH) is None
    for name, given in (("s", OTHER_HASH), ("s", b""), ("bare", b""), ("bare", HASH)):
        with pytest.raises(AlreadyExistsError):
            create(leader, name, given)
    leader.append("s", 3)
    leader.run(ensure(leader, "s", PartialStreamConfig("express")))
    leader.restart()
    leader.sequencer = Sequencer(leader.state)
    assert create(leader, "s", HASH) is None
    assert leader.stream("s").config.storage_class == "express"


def test_what_was_ensured_or_made_by_itself_is_not_repeated() -> None:
    """Only a create has a hash."""
    leader = Leader(BasinConfig(create_stream_on_append=True))
    leader.run(ensure(leader, "ensured"))
    leader.run(auto_create(leader, "made", on_read=False))
    for name in ("ensured", "made"):
        with pytest.raises(AlreadyExistsError):
            create(leader, name, HASH)


def test_deletion_is_told_before_repetition() -> None:
    """While the stream is being deleted, and no longer when its name is free again."""
    leader = Leader()
    leader.run(create(leader, "s", HASH))
    leader.run(leader.sequencer.delete_stream("s", NOW))
    with pytest.raises(StreamDeletionPendingError):
        create(leader, "s", HASH)
    leader.run(leader.sequencer.purge(StreamId(1)))
    leader.run(create(leader, "s", HASH))
    assert leader.stream("s").stream_id == 2


def test_a_repetition_finds_a_create_that_is_still_in_flight() -> None:
    """Two at the same time: one stream."""
    leader = Leader()
    first = create(leader, "s", HASH)
    assert first is not None
    assert create(leader, "s", HASH) is None
    assert reasons(leader.run(first)) == [None]


# -- configuration


def test_ensure_replaces_the_whole_configuration() -> None:
    """What is not said goes back to the basin's default of now, then to the system's."""
    leader = Leader(BasinConfig(PartialStreamConfig(retention=Retention(60))))
    made = ensure(leader, "s", PartialStreamConfig("express", None, TimestampingMode.ARRIVAL))
    assert isinstance(made, CreateStream)
    leader.run(made)
    assert leader.stream("s").config == StreamConfig(
        "express", Retention(60), TimestampingMode.ARRIVAL
    )
    leader.run(patch_basin(leader, BasinPatch(StreamPatch(retention=Retention(None)))))
    assert leader.stream("s").config.retention == Retention(60), "only new streams inherit"
    changed = ensure(leader, "s", PartialStreamConfig(timestamping_uncapped=True))
    assert isinstance(changed, ConfigureStream)
    leader.run(changed)
    wanted = StreamConfig(retention=Retention(None), timestamping_uncapped=True)
    assert leader.stream("s").config == wanted
    assert ensure(leader, "s", PartialStreamConfig(timestamping_uncapped=True)) is None


def test_changes_in_flight_add_up() -> None:
    """Each is made to what the ones before it come to, not to what is applied."""
    leader = Leader()
    leader.create("s")
    changes = [
        patch(leader, "s", StreamPatch(storage_class="express")),
        patch(leader, "s", StreamPatch(retention=Retention(5))),
        patch(leader, "s", StreamPatch(timestamping_uncapped=True)),
    ]
    assert patch(leader, "s", StreamPatch(retention=Retention(5))) is None
    basins = [
        patch_basin(leader, BasinPatch(StreamPatch(storage_class="express"))),
        patch_basin(leader, BasinPatch(create_stream_on_read=True)),
    ]
    leader.run(*changes, *basins)
    assert leader.stream("s").config == StreamConfig(
        "express", Retention(5), timestamping_uncapped=True
    )
    assert leader.state.basin is not None
    assert leader.state.basin.config == BasinConfig(
        PartialStreamConfig("express"), create_stream_on_read=True
    )


def test_a_change_that_was_lost_is_not_built_upon() -> None:
    """What another leader's log does not have counts for nothing."""
    leader = Leader()
    leader.create("s")
    assert patch(leader, "s", StreamPatch(storage_class="express")) is not None
    leader.sequencer.proposed(LogIndex(leader.state.applied_index + 1))
    leader.sequencer.reset()
    leader.run(patch(leader, "s", StreamPatch(retention=Retention(5))))
    assert leader.stream("s").config == StreamConfig(retention=Retention(5))


def test_a_new_configuration_holds_for_the_very_next_append() -> None:
    """Timestamping at once, also for appends behind it in the same entry; retention for what is
    appended later, and for nothing that is there."""
    leader = Leader(BasinConfig(PartialStreamConfig(retention=Retention(60))))
    leader.create("s")
    leader.append("s", batch(timestamps=[NOW + 500]))
    sequencer = leader.sequencer
    change = StreamPatch(timestamping_uncapped=True, retention=Retention(9), timestamping_mode=None)
    commands: list[BasinCommand | None] = [
        patch(leader, "s", change),
        sequencer.append("s", batch(timestamps=[NOW + 500]), None, None, NOW),
        patch(leader, "s", StreamPatch(timestamping_mode=TimestampingMode.ARRIVAL)),
        sequencer.append("s", batch(timestamps=[NOW + 900]), None, None, NOW),
    ]
    planned = leader.run(*commands)
    placed = [found.placement for found in planned.events[StreamId(1)].batches]
    assert [place.last_timestamp_ms for place in placed] == [NOW + 500, NOW + 500]
    assert [place.expires_at_ms for place in placed] == [NOW + 9_000, NOW + 9_000]
    assert placed[1].mode is TimestampingMode.ARRIVAL
    kept = leader.stream("s")
    assert kept.tail_seq_num == 3
    assert kept.last_timestamp_ms == NOW + 500


def test_nothing_of_a_stream_changes_but_its_configuration() -> None:
    """Records, tail, token and trim point stay, on a replica that restarts too."""
    leader = Leader()
    leader.create("s")
    leader.append("s", batch(3, commands=(trim(1, offset=2),)))
    before = leader.stream("s")
    leader.run(patch(leader, "s", StreamPatch(delete_on_empty_min_age_seconds=5)))
    leader.restart()
    after = leader.stream("s")
    assert after.config.delete_on_empty_min_age_seconds == 5
    assert (after.tail, after.trim_point, after.fencing_token) == (
        before.tail, before.trim_point, before.fencing_token,
    )  # fmt: skip


LAYERS: dict[str, tuple[Any, Any, Any]] = {
    "storage_class": ("express", "standard", "standard"),
    "retention": (Retention(1), Retention(None), Retention()),
    "timestamping_mode": (
        TimestampingMode.ARRIVAL,
        TimestampingMode.CLIENT_REQUIRE,
        TimestampingMode.CLIENT_PREFER,
    ),
    "timestamping_uncapped": (True, False, False),
    "delete_on_empty_min_age_seconds": (7, 0, 0),
}


@pytest.mark.parametrize("member", LAYERS)
@pytest.mark.parametrize(("own", "basin"), [*itertools.product([True, False], repeat=2)])
def test_each_member_is_inherited_by_itself(member: str, own: bool, basin: bool) -> None:
    """Its own value, else the basin's, else the system's, by create, ensure and auto-create; what
    is cleared later falls back in the same way."""
    mine, basins, systems = LAYERS[member]
    default = PartialStreamConfig(**{member: basins}) if basin else None
    wanted = PartialStreamConfig(**{member: mine}) if own else None
    expected = mine if own else basins if basin else systems
    leader = Leader(BasinConfig(default, create_stream_on_append=True))
    new = NewStream(wanted)
    decide = leader.sequencer.decide
    leader.run(
        decide(lambda view: provision_rules.create_stream(view, "created", new, b"", NOW)),
        ensure(leader, "ensured", wanted),
        decide(
            lambda view: provision_rules.auto_create_stream(view, "made", new, NOW, on_read=False)
        ),
    )
    for name in ("created", "ensured", "made"):
        assert getattr(leader.stream(name).config, member) == expected, name
        command = patch(leader, name, StreamPatch(**{member: None}))
        if command is not None:
            leader.run(command)
        fallback = basins if basin else systems
        assert getattr(leader.stream(name).config, member) == fallback, name


def test_the_cipher_is_the_basin_s_when_the_stream_is_created() -> None:
    """And stays, whatever the basin's becomes."""
    leader = Leader(BasinConfig(stream_cipher="aegis-256", create_stream_on_read=True))
    leader.create("a")
    leader.run(patch_basin(leader, BasinPatch(stream_cipher=None)))
    leader.run(auto_create(leader, "b", on_read=True))
    leader.run(patch_basin(leader, BasinPatch(stream_cipher="aes-256-gcm")))
    leader.run(ensure(leader, "c"), ensure(leader, "a", PartialStreamConfig("express")))
    ciphers = [leader.stream(name).cipher for name in "abc"]
    assert ciphers == ["aegis-256", None, "aes-256-gcm"]


# -- creation by itself


@pytest.mark.parametrize("on_read", [True, False])
def test_a_stream_is_made_only_where_the_basin_says_so(on_read: bool) -> None:
    """By a read or by an append, each with its own switch, as it is at that moment."""
    leader = Leader(BasinConfig(create_stream_on_append=on_read, create_stream_on_read=not on_read))
    with pytest.raises(StreamNotFoundError):
        auto_create(leader, "s", on_read=on_read)
    leader.run(
        patch_basin(leader, BasinPatch(create_stream_on_append=True, create_stream_on_read=True)),
        auto_create(leader, "s", on_read=on_read),
    )
    assert auto_create(leader, "s", on_read=on_read) is None
    assert leader.stream("s").tail_seq_num == 0


# -- states of deletion


def test_everything_is_refused_while_the_stream_is_being_deleted() -> None:
    """And finds no stream once it is purged."""
    leader = Leader(BasinConfig(create_stream_on_append=True))
    leader.create("s")
    leader.run(leader.sequencer.delete_stream("s", NOW))
    asks: list[Callable[[], object]] = [
        lambda: create(leader, "s", HASH),
        lambda: ensure(leader, "s"),
        lambda: patch(leader, "s", StreamPatch()),
        lambda: auto_create(leader, "s", on_read=False),
    ]
    for ask in asks:
        with pytest.raises(StreamDeletionPendingError):
            ask()
    assert not leader.sequencer._touched_at
    leader.run(leader.sequencer.purge(StreamId(1)))
    with pytest.raises(StreamNotFoundError):
        patch(leader, "s", StreamPatch())


def test_everything_is_refused_while_the_basin_is_being_deleted() -> None:
    """And before it is there."""
    leader = Leader()
    leader.create("s")
    empty = Sequencer(Replica().state)
    leader.run(leader.sequencer.seal(NOW))
    for decision in (
        lambda view: provision_rules.create_stream(view, "n", NewStream(), b"", NOW),
        lambda view: provision_rules.ensure_stream(view, "s", NewStream(), NOW),
        lambda view: provision_rules.auto_create_stream(view, "s", NewStream(), NOW, on_read=True),
        lambda view: provision_rules.reconfigure_stream(view, "s", StreamPatch(), "standard"),
        lambda view: provision_rules.ensure_basin(view, BasinConfig(), None),
        lambda view: provision_rules.reconfigure_basin(view, BasinPatch()),
    ):
        refusals: list[type[ServiceError]] = []
        for sequencer in (leader.sequencer, empty):
            with pytest.raises(ServiceError) as refusal:
                sequencer.decide(decision)
            refusals.append(refusal.type)
        assert refusals == [BasinDeletionPendingError, UnavailableError]


# -- deletion for being empty


def emptied(min_age_seconds: int = 60) -> Leader:
    """A stream whose only records were trimmed as they came, at NOW."""
    leader = Leader()
    leader.create("s", PartialStreamConfig(delete_on_empty_min_age_seconds=min_age_seconds))
    leader.append("s", batch(2, commands=(trim(9, offset=1),)))
    return leader


def test_an_empty_stream_is_deleted_at_its_age_and_not_before() -> None:
    """As by DELETE: then it is gone for appends, and its name is free after the purge."""
    leader = emptied()
    sequencer = leader.sequencer
    assert sequencer.delete_empty(StreamId(1), TimestampMs(NOW + 59_999)) is None
    leader.run(sequencer.delete_empty(StreamId(1), TimestampMs(NOW + 60_000)))
    assert leader.stream("s").deleted_at_ms == NOW + 60_000
    assert sequencer.delete_empty(StreamId(1), TimestampMs(NOW + 60_000)) is None
    with pytest.raises(StreamDeletionPendingError):
        sequencer.append("s", batch(), None, None, NOW)


def test_an_append_in_flight_keeps_an_empty_stream() -> None:
    """Whichever of the two is first wins, and the other knows of it."""
    leader = emptied()
    append = leader.sequencer.append("s", batch(), None, None, NOW)
    late = TimestampMs(NOW + 600_000)
    assert leader.sequencer.delete_empty(StreamId(1), late) is None
    leader.run(append)
    assert leader.sequencer.delete_empty(StreamId(1), late) is None, "there is a record now"


@pytest.mark.parametrize("switched_off", [True, False])
def test_a_stream_is_kept_by_its_configuration_and_its_records(switched_off: bool) -> None:
    """0 is never; and so is any record."""
    leader = emptied()
    if switched_off:
        leader.run(patch(leader, "s", StreamPatch(delete_on_empty_min_age_seconds=0)))
    else:
        leader.append("s")
    assert leader.sequencer.delete_empty(StreamId(1), TimestampMs(2**40)) is None
    assert leader.sequencer.delete_empty(StreamId(9), TimestampMs(2**40)) is None


# -- entries that no leader of ours would write


def test_apply_checks_again_what_a_leader_has_promised() -> None:
    """Rejected without effect, alike on every replica."""
    leader = emptied()
    config = StreamConfig("express")
    assert reasons(
        leader.apply(
            [
                DeleteEmptyStream(StreamId(1), TimestampMs(NOW)),
                DeleteEmptyStream(StreamId(7), TimestampMs(NOW)),
                ConfigureStream(StreamId(7), config),
            ]
        )
    ) == [
        RejectionReason.STREAM_NOT_EMPTY,
        RejectionReason.NO_SUCH_STREAM,
        RejectionReason.NO_SUCH_STREAM,
    ]
    leader.append("s")
    late = DeleteEmptyStream(StreamId(1), TimestampMs(2**40))
    assert reasons(leader.apply([late])) == [RejectionReason.STREAM_NOT_EMPTY]
    leader.run(leader.sequencer.delete_stream("s", NOW))
    assert (
        reasons(leader.apply([ConfigureStream(StreamId(1), config), late]))
        == [RejectionReason.STREAM_DELETING] * 2
    )
    assert reasons(Replica().apply([ConfigureBasin(BasinConfig())])) == [
        RejectionReason.NOT_BOOTSTRAPPED
    ]

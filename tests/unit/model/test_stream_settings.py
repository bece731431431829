"""One list of what can be set of a stream, and all that must agree with it."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from svc_cluster._pb.cluster.v1 import config_pb2, log_entry_pb2
from svc_cluster.catalog import basin_record
from svc_cluster.codec import config_pb
from svc_cluster.codec.config_json import StreamConfigJson, stream_config_to_json
from svc_cluster.codec.declarations_json import InitStreamConfigJson
from svc_cluster.gateway.openapi.schemas import COMPONENTS
from svc_cluster.model.reconfigure import StreamPatch
from svc_cluster.model.stream_config import (
    STREAM_SETTINGS,
    PartialStreamConfig,
    SettingKind,
    StreamConfig,
    as_partial,
    members_of,
    plain,
)
from svc_cluster.model.versions import MEMBERS_SINCE
from svc_cluster.stream import rows

NAMES = [setting.name for setting in STREAM_SETTINGS]
PLAIN = {setting.name for setting in STREAM_SETTINGS if setting.kind is not SettingKind.RETENTION}


def test_values_and_changes_have_these_members() -> None:
    """In this order, and no other; a change's members can be left alone."""
    for shape in (StreamConfig, PartialStreamConfig, StreamPatch):
        assert [member.name for member in fields(shape)] == NAMES, shape.__name__


def test_messages_have_these_members() -> None:
    """A setting that a message lacks would be lost between gateway and node, or in the log."""
    partial = config_pb2.PartialStreamConfig.DESCRIPTOR.fields_by_name
    assert set(partial) == set(NAMES)
    flat = set(log_entry_pb2.CreateStream.DESCRIPTOR.fields_by_name)
    assert PLAIN | {"retention_age_seconds"} <= flat
    others = {"stream_id", "name", "created_at_ms", "cipher", "creation_hash"}
    assert flat - others == PLAIN | {"retention_age_seconds"}


def test_rows_have_these_members() -> None:
    """A setting that a row lacks would be lost by a restart."""
    widest = (rows._WidestStreamRow, rows._WidestPartialConfigRow, basin_record._WidestRow)
    for row in widest:
        assert set(row.__struct_fields__) >= PLAIN, row.__name__
    assert (
        not set(rows._WidestPartialConfigRow.__struct_fields__)
        - PLAIN
        - {
            "has_retention",
            "retention_age_seconds",
        }
    )


def test_json_has_these_paths_and_no_others() -> None:
    """The types that JSON is decoded into, and the document of the interface, say the same."""
    assert paths_of(StreamConfigJson) == {setting.path for setting in STREAM_SETTINGS}
    documented = COMPONENTS["StreamConfig"]["properties"]
    assert set(documented) == {setting.path[0] for setting in STREAM_SETTINGS}
    late = {setting.path[0] for setting in STREAM_SETTINGS if setting.is_late}
    assert set(COMPONENTS["StreamConfig"]["required"]) == set(documented) - late


def test_settings_that_came_later_are_written_from_their_version_on() -> None:
    """Each message that carries one says so, and no other member of a configuration does."""
    late = {setting.name: setting.since for setting in STREAM_SETTINGS if setting.is_late}
    for message in ("PartialStreamConfig", "CreateStream"):
        said = {
            name.partition(".")[2]: since
            for name, since in MEMBERS_SINCE.items()
            if name.startswith(f"{message}.")
        }
        assert said == late, message


def test_what_came_later_and_says_nothing_is_written_as_before() -> None:
    """Messages and rows are those of a release that does not have it."""
    complete = config_pb2.PartialStreamConfig()
    config_pb.put_complete(complete, StreamConfig())
    assert not complete.HasField("shared_caching")
    assert config_pb.get_complete(complete) == StreamConfig()
    shared = StreamConfig(shared_caching=True)
    config_pb.put_complete(complete, shared)
    assert config_pb.get_complete(complete) == shared
    assert "caching" not in stream_config_to_json(StreamConfig())
    assert stream_config_to_json(shared)["caching"] == {"shared": True}


def test_init_files_have_these_paths_and_no_others() -> None:
    """A setting that they lack could not be declared. Durations say their unit there."""
    assert paths_of(InitStreamConfigJson) == {
        tuple(member.removesuffix("_secs") for member in setting.path)
        for setting in STREAM_SETTINGS
    }


def paths_of(shape: type[msgspec.Struct]) -> set[tuple[str, ...]]:
    """Where values stand in a configuration in JSON."""
    paths: set[tuple[str, ...]] = set()
    for member in msgspec.structs.fields(shape):
        inner = [
            kind
            for kind in getattr(member.type, "__args__", ())
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        ]
        if inner and member.encode_name != "retention_policy":
            paths |= {
                (member.encode_name, part.encode_name) for part in msgspec.structs.fields(inner[0])
            }
        else:
            paths.add((member.encode_name,))
    return paths


def test_plain_values_come_back() -> None:
    """What a row or a message carries becomes the same configuration again."""
    config = StreamConfig(storage_class="express", timestamping_uncapped=True)
    assert set(plain(config)) == PLAIN

    class Row:
        pass

    row = Row()
    for name, value in plain(config).items():
        setattr(row, name, value)
    assert StreamConfig(retention=config.retention, **members_of(row)) == config
    assert plain(as_partial(config)) == plain(config)
    assert set(plain(PartialStreamConfig()).values()) == {None}

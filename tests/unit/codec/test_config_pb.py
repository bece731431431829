"""Changes to configurations between nodes and gateways, and the hash of what was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from svc_cluster._pb.cluster.v1 import config_pb2 as pb
from svc_cluster.codec import config_pb
from svc_cluster.codec.creation_hash import basin_creation_hash, stream_creation_hash
from svc_cluster.model.reconfigure import UNSET, BasinPatch, StreamPatch
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, Retention

U64 = st.integers(0, 2**64 - 1)


def change_of(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.just(UNSET) | st.none() | values


STREAM_PATCHES = st.builds(
    StreamPatch,
    storage_class=change_of(st.sampled_from(["standard", "express"])),
    retention=change_of(st.builds(Retention, st.none() | U64)),
    timestamping_mode=change_of(st.sampled_from(TimestampingMode)),
    timestamping_uncapped=change_of(st.booleans()),
    delete_on_empty_min_age_seconds=change_of(U64),
)
BASIN_PATCHES = st.builds(
    BasinPatch,
    default_stream_config=change_of(STREAM_PATCHES),
    stream_cipher=change_of(st.sampled_from(["aegis-256", "aes-256-gcm"])),
    create_stream_on_append=st.none() | st.booleans(),
    create_stream_on_read=st.none() | st.booleans(),
)


@given(STREAM_PATCHES)
def test_a_change_to_a_stream_comes_through(patch: StreamPatch) -> None:
    """Left alone, cleared and set stay three things, also where the value is 0 or false."""
    message = pb.StreamPatch()
    config_pb.put_stream_patch(message, patch)
    received = pb.StreamPatch.FromString(message.SerializeToString())
    assert config_pb.get_stream_patch(received) == patch


@given(BASIN_PATCHES)
def test_a_change_to_a_basin_comes_through(patch: BasinPatch) -> None:
    """With the change to its default of streams, be it an empty one."""
    message = pb.BasinPatch()
    config_pb.put_basin_patch(message, patch)
    received = pb.BasinPatch.FromString(message.SerializeToString())
    assert config_pb.get_basin_patch(received) == patch


def test_a_creation_is_told_by_its_token_and_configuration() -> None:
    """Each different one has another hash; without a token there is none."""
    configs = [
        None,
        PartialStreamConfig("express"),
        PartialStreamConfig(retention=Retention(None)),
        PartialStreamConfig(retention=Retention(5)),
        PartialStreamConfig(timestamping_uncapped=False),
    ]
    streams = {stream_creation_hash(token, config) for token in ("a", "b") for config in configs}
    basins = {
        basin_creation_hash(token, BasinConfig(config, create_stream_on_read=switch))
        for token in ("a", "b")
        for config in configs
        for switch in (False, True)
    }
    places = {
        basin_creation_hash("a", BasinConfig(), location, factor)
        for location in (None, "l", "l2")
        for factor in (None, 1, 3, 5)
    }
    assert len(places) == 12 and len(places & basins) == 1
    assert len(streams) == 2 * len(configs)
    assert len(basins) == 4 * len(configs)
    assert {len(found) for found in streams | basins} == {32}
    assert stream_creation_hash("a", None) == stream_creation_hash("a", PartialStreamConfig())
    for token in (None, ""):
        assert stream_creation_hash(token, None) == b""
        assert basin_creation_hash(token, BasinConfig()) == b""

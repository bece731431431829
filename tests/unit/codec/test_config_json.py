"""Configurations in JSON: both ways, and changes to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import ErrorCode, MalformedError, ServiceError
from svc_cluster.codec.config_json import (
    BasinConfigJson,
    CreateBasinJson,
    StreamConfigJson,
    basin_config_from_json,
    basin_config_to_json,
    rfc3339,
    stream_config_from_json,
    stream_config_to_json,
)
from svc_cluster.codec.ensure_json import ensured_basin, ensured_stream
from svc_cluster.codec.json_body import decode_object
from svc_cluster.codec.reconfigure_json import (
    BasinPatchJson,
    StreamPatchJson,
    patch_basin,
    patch_partial,
    patch_stream,
)
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
    resolve,
)

U64 = st.integers(0, 2**64 - 1)
PARTIALS = st.builds(
    PartialStreamConfig,
    storage_class=st.sampled_from([None, "standard", "express"]),
    retention=st.none() | st.builds(Retention, st.none() | st.integers(1, 2**64 - 1)),
    timestamping_mode=st.none() | st.sampled_from(TimestampingMode),
    timestamping_uncapped=st.none() | st.booleans(),
    delete_on_empty_min_age_seconds=st.none() | U64,
)
BASINS = st.builds(
    BasinConfig,
    default_stream_config=st.none() | PARTIALS.filter(lambda p: p != PartialStreamConfig()),
    stream_cipher=st.sampled_from([None, "aegis-256", "aes-256-gcm"]),
    create_stream_on_append=st.booleans(),
    create_stream_on_read=st.booleans(),
)


def parsed(shape: Any, value: Any) -> Any:
    return decode_object(json.dumps(value).encode(), shape)


@given(BASINS)
def test_a_basin_s_configuration_comes_back_exactly(config: BasinConfig) -> None:
    """What is told can be given again and means the same, so that an ensure of it changes
    nothing."""
    for alias in (True, False):
        told = basin_config_to_json(config, alias=alias)
        assert ("storage_class" in told) is alias
        if not alias:
            assert basin_config_from_json(parsed(BasinConfigJson, told), alias=False) == config
    default = config.default_stream_config
    if default is not None and default.storage_class is not None:
        told = basin_config_to_json(config)
        assert basin_config_from_json(parsed(BasinConfigJson, told)) == config


@given(PARTIALS, st.none() | PARTIALS)
def test_a_stream_s_configuration_comes_back_exactly(
    own: PartialStreamConfig, default: PartialStreamConfig | None
) -> None:
    """All four members are there, and given again they are the same."""
    config = resolve(own, default)
    told = stream_config_to_json(config)
    assert all(value is not None for value in told.values())
    assert resolve(stream_config_from_json(parsed(StreamConfigJson, told)), None) == config


def test_null_is_absent() -> None:
    """On every level."""
    nothing = {
        "storage_class": None,
        "retention_policy": None,
        "timestamping": {"mode": None, "uncapped": None},
        "delete_on_empty": {"min_age_secs": None},
    }
    assert stream_config_from_json(parsed(StreamConfigJson, nothing)) == PartialStreamConfig()
    basin = {"default_stream_config": nothing, "stream_cipher": None, "storage_class": None}
    assert basin_config_from_json(parsed(BasinConfigJson, basin)) == BasinConfig()
    assert parsed(CreateBasinJson, {"basin": "b", "config": None, "location": None}).config is None


def test_the_alias_counts_where_it_is_known() -> None:
    """Elsewhere it is an unknown member."""
    wire = parsed(BasinConfigJson, {"storage_class": "express"})
    assert basin_config_from_json(wire).default_stream_config == PartialStreamConfig("express")
    assert basin_config_from_json(wire, alias=False).default_stream_config is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"retention_policy": {"age": 0}}, ErrorCode.INVALID),
        ({"retention_policy": {}}, ErrorCode.BAD_JSON),
        ({"retention_policy": {"age": None}}, ErrorCode.BAD_JSON),
        ({"retention_policy": {"age": 1, "infinite": {}}}, ErrorCode.BAD_JSON),
        ({"retention_policy": {"age": -1}}, ErrorCode.BAD_JSON),
        ({"retention_policy": {"age": 2**64}}, ErrorCode.BAD_JSON),
        ({"retention_policy": {"age": 1.5}}, ErrorCode.BAD_JSON),
        ({"retention_policy": {"infinite": 1}}, ErrorCode.BAD_JSON),
        ({"storage_class": "glacier"}, ErrorCode.BAD_JSON),
        ({"storage_class": 1}, ErrorCode.BAD_JSON),
        ({"timestamping": "arrival"}, ErrorCode.BAD_JSON),
        ({"timestamping": {"mode": "Arrival"}}, ErrorCode.BAD_JSON),
        ({"timestamping": {"uncapped": 1}}, ErrorCode.BAD_JSON),
        ({"delete_on_empty": {"min_age_secs": -1}}, ErrorCode.BAD_JSON),
        ({"delete_on_empty": []}, ErrorCode.BAD_JSON),
    ],
)
def test_types_and_meanings_are_told_apart(value: Any, expected: ErrorCode) -> None:
    """Of new configurations and of changes alike."""
    with pytest.raises(ServiceError) as caught:
        stream_config_from_json(parsed(StreamConfigJson, value))
    assert caught.value.code is expected
    with pytest.raises(ServiceError) as caught:
        patch_partial(PartialStreamConfig(), parsed(StreamPatchJson, value))
    assert caught.value.code is expected


def test_times_are_written_the_same_each_time() -> None:
    """UTC, milliseconds, also at both ends of what RFC 3339 can say."""
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_767_323_045_678) == "2026-01-02T03:04:05.678Z"
    assert rfc3339(2**63) == rfc3339(2**64 - 1) == "9999-12-31T23:59:59.999Z"


# -- changes


@given(PARTIALS, PARTIALS)
def test_a_change_to_every_member_is_the_new_value(
    stored: PartialStreamConfig, wanted: PartialStreamConfig
) -> None:
    """A configuration told in full, nulls included, replaces another in full."""
    told = basin_config_to_json(BasinConfig(default_stream_config=wanted), alias=False)
    patch = parsed(StreamPatchJson, told["default_stream_config"])
    assert patch_partial(stored, patch) == wanted


@given(PARTIALS, BASINS)
def test_an_empty_change_changes_nothing(stored: PartialStreamConfig, basin: BasinConfig) -> None:
    """On every level."""
    for empty in ({}, {"timestamping": {}, "delete_on_empty": {}}):
        assert patch_partial(stored, parsed(StreamPatchJson, empty)) == stored
        complete = resolve(stored, None)
        changed = patch_stream(complete, stored, parsed(StreamPatchJson, empty))
        assert changed == complete
    for empty in ({}, {"default_stream_config": {}}):
        assert patch_basin(basin, parsed(BasinPatchJson, empty)) == basin


def test_null_clears_each_member_by_itself() -> None:
    """And for a whole object all of its members."""
    stored = PartialStreamConfig("express", Retention(5), TimestampingMode.ARRIVAL, True, 9)
    for change, expected in (
        ({"storage_class": None}, (None, Retention(5), TimestampingMode.ARRIVAL, True, 9)),
        ({"retention_policy": None}, ("express", None, TimestampingMode.ARRIVAL, True, 9)),
        ({"timestamping": {"mode": None}}, ("express", Retention(5), None, True, 9)),
        (
            {"timestamping": {"uncapped": None}},
            ("express", Retention(5), TimestampingMode.ARRIVAL, None, 9),
        ),
        ({"timestamping": None}, ("express", Retention(5), None, None, 9)),
        (
            {"delete_on_empty": None},
            ("express", Retention(5), TimestampingMode.ARRIVAL, True, None),
        ),
        (
            {"delete_on_empty": {"min_age_secs": None}},
            ("express", Retention(5), TimestampingMode.ARRIVAL, True, None),
        ),
    ):
        changed = patch_partial(stored, parsed(StreamPatchJson, change))
        assert changed == PartialStreamConfig(*expected), change


def test_what_is_cleared_on_a_stream_falls_back() -> None:
    """To the basin's default of now, then to the system's."""
    stored = StreamConfig("express", Retention(5), TimestampingMode.ARRIVAL, True, 9)
    basin = PartialStreamConfig(retention=Retention(None), timestamping_uncapped=True)
    change = {
        "storage_class": None,
        "retention_policy": None,
        "timestamping": None,
        "delete_on_empty": {"min_age_secs": 3},
    }
    changed = patch_stream(stored, basin, parsed(StreamPatchJson, change))
    assert changed == StreamConfig(
        "standard", Retention(None), TimestampingMode.CLIENT_PREFER, True, 3
    )


def test_a_basin_is_changed_member_by_member() -> None:
    """Its defaults as a stream is, its cipher away with null, its booleans never by null."""
    stored = BasinConfig(PartialStreamConfig("express"), "aegis-256", True, True)

    def change(value: Any) -> BasinConfig:
        return patch_basin(stored, parsed(BasinPatchJson, value))

    assert change({"default_stream_config": None}).default_stream_config is None
    only = change({"default_stream_config": {"storage_class": None}})
    assert only.default_stream_config is None
    more = change({"default_stream_config": {"retention_policy": {"age": 7}}})
    assert more.default_stream_config == PartialStreamConfig("express", Retention(7))
    assert change({"stream_cipher": None}).stream_cipher is None
    assert change({"stream_cipher": "aes-256-gcm"}).stream_cipher == "aes-256-gcm"
    assert change({"create_stream_on_append": None, "create_stream_on_read": False}) == BasinConfig(
        PartialStreamConfig("express"), "aegis-256", True, False
    )


# -- ensure


@pytest.mark.parametrize("body", [b"", b" \r\n", b"null", b"{}", b'{"config":null}'])
def test_an_ensure_without_a_configuration_means_the_default(body: bytes) -> None:
    """Nothing, null, or nothing in it."""
    assert ensured_basin(body) == (BasinConfig(), None)
    assert ensured_stream(body) == PartialStreamConfig()


@given(PARTIALS)
def test_a_stream_is_ensured_by_its_configuration_bare_or_wrapped(
    config: PartialStreamConfig,
) -> None:
    """Both are in use."""
    told = basin_config_to_json(BasinConfig(default_stream_config=config), alias=False)
    bare = told["default_stream_config"]
    for value in (bare, {"config": bare}, {**dict.fromkeys(bare), "config": bare}):
        assert ensured_stream(json.dumps(value).encode()) == config


def test_a_basin_is_ensured_by_a_wrapped_configuration() -> None:
    """With its location; the alias as when it is created."""
    body = b'{"config":{"storage_class":"express","create_stream_on_read":true},"location":"x"}'
    default = PartialStreamConfig("express")
    assert ensured_basin(body) == (BasinConfig(default, create_stream_on_read=True), "x")
    assert ensured_basin(body, alias=False) == (BasinConfig(create_stream_on_read=True), "x")


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"0",
        b"null null",
        b'{"config":{},"config":{}}',
        b'{"config":{"storage_class":"express"},"storage_class":"standard"}',
        b'{"config":[]}',
    ],
)
def test_a_malformed_ensure_is_bad_json(body: bytes) -> None:
    """Also a configuration beside the other: which one was meant is not known."""
    with pytest.raises(MalformedError) as caught:
        ensured_stream(body)
    assert caught.value.code is ErrorCode.BAD_JSON

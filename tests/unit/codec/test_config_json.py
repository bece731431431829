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
from svc_cluster.codec.ensure_json import EnsuredBasin, ensured_basin, ensured_stream
from svc_cluster.codec.json_body import decode_object
from svc_cluster.codec.reconfigure_json import decode_basin_patch, decode_stream_patch
from svc_cluster.model.reconfigure import (
    BasinPatch,
    StreamPatch,
    ensure_basin,
    patch_basin,
    patch_partial,
    patch_stream,
    with_storage_class,
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


def stream_patch(value: Any) -> StreamPatch:
    return decode_stream_patch(json.dumps(value).encode())


def basin_patch(value: Any) -> BasinPatch:
    return decode_basin_patch(json.dumps(value).encode())


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
        ({"storage_class": "glacier"}, ErrorCode.INVALID),
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
        patch_partial(PartialStreamConfig(), stream_patch(value))
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
    patch = stream_patch(told["default_stream_config"])
    assert patch_partial(stored, patch) == wanted


@given(PARTIALS, BASINS)
def test_an_empty_change_changes_nothing(stored: PartialStreamConfig, basin: BasinConfig) -> None:
    """On every level."""
    changes: list[dict[str, object]] = [{}, {"timestamping": {}, "delete_on_empty": {}}]
    for empty in changes:
        assert patch_partial(stored, stream_patch(empty)) == stored
        complete = resolve(stored, None)
        changed = patch_stream(complete, stored, stream_patch(empty))
        assert changed == complete
    changes = [{}, {"default_stream_config": {}}]
    for empty in changes:
        assert patch_basin(basin, basin_patch(empty)) == basin


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
        changed = patch_partial(stored, stream_patch(change))
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
    changed = patch_stream(stored, basin, stream_patch(change))
    assert changed == StreamConfig(
        "standard", Retention(None), TimestampingMode.CLIENT_PREFER, True, 3
    )


def test_a_basin_is_changed_member_by_member() -> None:
    """Its defaults as a stream is, its cipher away with null, its booleans never by null."""
    stored = BasinConfig(PartialStreamConfig("express"), "aegis-256", True, True)

    def change(value: Any) -> BasinConfig:
        return patch_basin(stored, basin_patch(value))

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


def test_the_alias_changes_the_default_of_streams() -> None:
    """Unless that says something itself; where it is not known it is ignored."""
    stored = BasinConfig(PartialStreamConfig("standard", Retention(7)))
    for change, expected in (
        ({"storage_class": "express"}, PartialStreamConfig("express", Retention(7))),
        ({"storage_class": None}, PartialStreamConfig(None, Retention(7))),
        (
            {"storage_class": "express", "default_stream_config": None},
            PartialStreamConfig("express"),
        ),
        (
            {"storage_class": "express", "default_stream_config": {"storage_class": "standard"}},
            PartialStreamConfig("standard", Retention(7)),
        ),
    ):
        assert patch_basin(stored, basin_patch(change)).default_stream_config == expected, change
    ignored = decode_basin_patch(b'{"storage_class":"express"}', alias=False)
    assert patch_basin(stored, ignored) == stored


# -- ensure


@pytest.mark.parametrize("body", [b"", b" \r\n", b"null", b"{}", b'{"config":null}'])
def test_an_ensure_without_a_configuration_means_the_default(body: bytes) -> None:
    """Nothing, null, or nothing in it."""
    assert ensured_basin(body) == EnsuredBasin()
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
    """With its location, and the alias where it is known."""
    body = b'{"config":{"storage_class":"express","create_stream_on_read":true},"location":"x"}'
    config = BasinConfig(create_stream_on_read=True)
    assert ensured_basin(body) == EnsuredBasin(config, "x", "express")
    assert ensured_basin(body, alias=False) == EnsuredBasin(config, "x")


@given(BASINS, st.booleans())
def test_what_is_told_of_a_basin_ensures_nothing_new(config: BasinConfig, alias: bool) -> None:
    """In either dialect, with the storage class told beside a default that has none."""
    told = {"config": basin_config_to_json(config, alias=alias)}
    wanted = ensured_basin(json.dumps(told).encode(), alias=alias)
    assert ensure_basin(config, wanted.config, wanted.storage_class) == config


@given(BASINS, st.sampled_from(["standard", "express"]))
def test_the_alias_ensures_what_it_would_have_created(
    stored: BasinConfig, storage_class: str
) -> None:
    """Whatever the basin was before, streams get that class by default where it was asked for."""
    made = with_storage_class(BasinConfig(), storage_class)
    ensured = ensure_basin(stored, BasinConfig(), storage_class)
    for basin in (made, ensured):
        assert resolve(None, basin.default_stream_config).storage_class == storage_class
    assert ensure_basin(made, BasinConfig(), storage_class) == made


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

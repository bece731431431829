"""JSON bodies that nobody would send are understood or refused, never a fault."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.config_json import (
    BasinConfigJson,
    CreateBasinJson,
    CreateStreamJson,
    StreamConfigJson,
    basin_config_from_json,
    basin_config_to_json,
    stream_config_from_json,
    stream_config_to_json,
)
from svc_cluster.codec.json_body import decode_object, encode_object
from svc_cluster.codec.reconfigure_json import (
    BasinPatchJson,
    basin_patch,
    stream_patch,
)
from svc_cluster.model.reconfigure import patch_basin, patch_stream
from svc_cluster.model.stream_config import BasinConfig, StreamConfig, resolve
from tests.property.gateway.hostile import damaged, hostile

SHAPES: list[Any] = [
    CreateBasinJson,
    CreateStreamJson,
    BasinConfigJson,
    StreamConfigJson,
    BasinPatchJson,
]
WORDS = [
    *("basin", "stream", "config", "default_stream_config", "storage_class", "retention_policy"),
    *("age", "infinite", "timestamping", "mode", "uncapped", "delete_on_empty", "min_age_secs"),
    *("stream_cipher", "create_stream_on_append", "location", "standard", "arrival", "", "\x00"),
]
LEAVES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**30, 1e308, 0.5, -0.0),
    *(*WORDS, "\ud800", "é", "x" * 600),
]
VALID = json.dumps(
    {
        "basin": "basin-01",
        "stream": "é",
        "config": {
            "default_stream_config": {"retention_policy": {"age": 60}},
            "retention_policy": {"infinite": {}},
            "timestamping": {"mode": "arrival", "uncapped": True},
            "create_stream_on_append": True,
        },
    },
    ensure_ascii=False,
).encode()


def use(shape: Any, body: bytes) -> Any:
    """All that a handler does with a body. Raises ServiceError and nothing else."""
    wire = decode_object(body, shape)
    match wire:
        case CreateBasinJson(config=BasinConfigJson() as config) | (BasinConfigJson() as config):
            return basin_config_to_json(basin_config_from_json(config))
        case CreateStreamJson(config=StreamConfigJson() as config) | (StreamConfigJson() as config):
            changed = patch_stream(StreamConfig(), None, stream_patch(config))
            stream_config_to_json(changed)
            return stream_config_to_json(resolve(stream_config_from_json(config), None))
        case BasinPatchJson():
            return basin_config_to_json(patch_basin(BasinConfig(), basin_patch(wire)))
        case _:
            return None


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 4 or kind < 0.4:
        return rng.choice(LEAVES)
    if kind < 0.5:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(WORDS): value(rng, depth + 1) for _ in range(rng.randint(0, 5))}


def check(shape: Any, body: bytes) -> None:
    told = None
    refusal: MalformedError | InvalidError | None = None
    try:
        told = use(shape, body)
    except (MalformedError, InvalidError) as error:
        refusal = error
    if refusal is not None:
        assert refusal.code in (ErrorCode.BAD_JSON, ErrorCode.INVALID)
        assert refusal.message
    else:
        json.loads(body)  # what is understood is JSON to others too
        encode_object(told)


@hostile
def test_any_value_in_any_place_is_understood_or_refused(rng: random.Random) -> None:
    """Numbers out of range, wrong types, unknown members, lone surrogates."""
    body = json.dumps(value(rng), ensure_ascii=rng.random() < 0.5)
    check(rng.choice(SHAPES), body.encode("utf-8", "surrogatepass"))


@hostile
def test_any_damage_is_understood_or_refused(rng: random.Random) -> None:
    """Pieces cut out and others put in: NaN, depth, doubled members, bytes that are no UTF-8."""
    check(rng.choice(SHAPES), damaged(rng, VALID))


@hostile
def test_a_member_given_twice_is_refused(rng: random.Random) -> None:
    """On any level, known or not, also when its name is written in another way."""
    name = rng.choice(["basin", "config", "unknown", "age"])
    again = "".join(rng.choice([c, f"\\u{ord(c):04x}"]) for c in name)
    inner = f'{{"{name}":null,"{again}":null}}'
    for _ in range(rng.randint(0, 3)):
        inner = rng.choice(['{"unknown":%s}', "[1,%s]", '{"a":{},"b":%s}']) % inner
    body = f'{{"basin":"basin-01","other":{inner}}}'.encode()
    code = None
    try:
        decode_object(body, CreateBasinJson)
    except MalformedError as error:
        code = error.code
    assert code is ErrorCode.BAD_JSON


@hostile
def test_depth_is_refused_without_a_fault(rng: random.Random) -> None:
    """Also where only one end of it is there."""
    depth = rng.choice([10, 500, 1_000, 1_024, 5_000, 100_000])
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}"), ('[{"config":', "}]")])
    body = opening * depth + "1" + closing * rng.choice([depth, depth - 1, 0])
    whole = rng.choice([body, f'{{"basin":"basin-01","x":{body}}}', f'{{"config":{body}}}'])
    with contextlib.suppress(MalformedError):
        use(rng.choice(SHAPES), whole.encode())

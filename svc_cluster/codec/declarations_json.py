"""Init files in JSON: basins, streams and access tokens to be declared.

The members of basins and streams are those of the init files of S2's own server, durations as
people write them among them; `location` and `access_tokens` are ours. Nothing unknown is passed
over, and every refusal names the place in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from svc_cluster.base.errors import InvalidError, MalformedError
from svc_cluster.base.telling import quoted
from svc_cluster.codec.batch_rules import U64_MAX
from svc_cluster.codec.config_json import (
    TIMESTAMPING_MODES,
    Cipher,
    TimestampingWord,
    checked_storage_class,
)
from svc_cluster.codec.duration import seconds_of
from svc_cluster.codec.json_shape import Only, decode_typed, read_again
from svc_cluster.codec.location_json import checked_location
from svc_cluster.codec.token_json import IssueTokenJson, token_request
from svc_cluster.model import names
from svc_cluster.model.access_token import ROOT_TOKEN_ID, check_request
from svc_cluster.model.declarations import (
    Declarations,
    DeclaredBasin,
    DeclaredStream,
    DeclaredToken,
    SecretSource,
)
from svc_cluster.model.reconfigure import none_if_unset
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, Retention

INIT_FILE_BYTES_MAX: Final = 1024 * 1024
DECLARATIONS_MAX: Final = 10_000
"""Basins, streams and tokens of a file together."""

_Value = TypeVar("_Value")


class DeclarationError(Exception):
    """One sentence that names the place in the file."""


class InitTimestampingJson(msgspec.Struct):
    mode: TimestampingWord | None = None
    uncapped: bool | None = None


class InitDeleteOnEmptyJson(msgspec.Struct):
    min_age: str | None = None


class InitCachingJson(msgspec.Struct):
    shared: bool | None = None


class InitStreamConfigJson(msgspec.Struct):
    storage_class: str | None = None
    retention_policy: str | None = None
    timestamping: InitTimestampingJson | None = None
    delete_on_empty: InitDeleteOnEmptyJson | None = None
    caching: InitCachingJson | None = None


class InitStreamJson(msgspec.Struct):
    name: str
    config: InitStreamConfigJson | None = None


class InitBasinConfigJson(msgspec.Struct):
    default_stream_config: InitStreamConfigJson | None = None
    stream_cipher: Cipher | None = None
    create_stream_on_append: bool | None = None
    create_stream_on_read: bool | None = None


class InitBasinJson(msgspec.Struct):
    name: str
    config: InitBasinConfigJson | None = None
    location: str | None = None
    streams: list[InitStreamJson] = []


class InitTokenJson(IssueTokenJson):
    secret_file: str | None = None
    secret_env: str | None = None


class InitFileJson(msgspec.Struct):
    """`schema` is for editors, and means nothing."""

    basins: list[InitBasinJson] = []
    access_tokens: list[InitTokenJson] = []
    schema: str | None = msgspec.field(default=None, name="$schema")


_DECODER: Final = msgspec.json.Decoder(InitFileJson)


def decode_declarations(body: bytes) -> Declarations:
    """All that a file declares. Raises DeclarationError."""
    if len(body) > INIT_FILE_BYTES_MAX:
        raise DeclarationError(f"the file has {len(body)} bytes, at most {INIT_FILE_BYTES_MAX}")
    try:
        wire = decode_typed(_DECODER, body)
        read_again(body, Only(InitFileJson))
    except MalformedError as cause:
        raise DeclarationError(cause.message.replace("the body", "the file", 1)) from cause
    basins = tuple(_basin(f"basins[{n}]", each) for n, each in enumerate(wire.basins))
    tokens = tuple(_token(f"access_tokens[{n}]", each) for n, each in enumerate(wire.access_tokens))
    _refuse_twice((basin.path, "name", basin.name) for basin in basins)
    for basin in basins:
        _refuse_twice((stream.path, "name", stream.name) for stream in basin.streams)
    _refuse_twice((token.path, "id", token.request.token_id) for token in tokens)
    declared = Declarations(basins, tokens)
    if declared.count > DECLARATIONS_MAX:
        raise DeclarationError(
            f"the file declares {declared.count} basins, streams and tokens, at most "
            f"{DECLARATIONS_MAX}"
        )
    return declared


def _basin(path: str, wire: InitBasinJson) -> DeclaredBasin:
    if not names.is_basin_name(wire.name):
        raise _refusal(f"{path}.name", names.not_a_basin_name(wire.name))
    location = None
    if wire.location is not None:
        location = _at(f"{path}.location", checked_location, wire.location)
    return DeclaredBasin(
        path,
        wire.name,
        BasinConfig() if wire.config is None else _basin_config(f"{path}.config", wire.config),
        location,
        tuple(_stream(f"{path}.streams[{n}]", each) for n, each in enumerate(wire.streams)),
    )


def _basin_config(path: str, wire: InitBasinConfigJson) -> BasinConfig:
    default = None
    if wire.default_stream_config is not None:
        default = none_if_unset(
            _stream_config(f"{path}.default_stream_config", wire.default_stream_config)
        )
    return BasinConfig(
        default_stream_config=default,
        stream_cipher=wire.stream_cipher,
        create_stream_on_append=bool(wire.create_stream_on_append),
        create_stream_on_read=bool(wire.create_stream_on_read),
    )


def _stream(path: str, wire: InitStreamJson) -> DeclaredStream:
    if not names.is_stream_name(wire.name):
        raise _refusal(f"{path}.name", names.not_a_stream_name(wire.name))
    config = PartialStreamConfig()
    if wire.config is not None:
        config = _stream_config(f"{path}.config", wire.config)
    return DeclaredStream(path, wire.name, config)


def _stream_config(path: str, wire: InitStreamConfigJson) -> PartialStreamConfig:
    timestamping = wire.timestamping or InitTimestampingJson()
    delete_on_empty = wire.delete_on_empty or InitDeleteOnEmptyJson()
    word, retention, min_age = wire.storage_class, wire.retention_policy, delete_on_empty.min_age
    min_age_path = f"{path}.delete_on_empty.min_age"
    if word is not None:
        _at(f"{path}.storage_class", checked_storage_class, word)
    return PartialStreamConfig(
        storage_class=word,
        retention=None if retention is None else _retention(f"{path}.retention_policy", retention),
        timestamping_mode=None
        if timestamping.mode is None
        else TIMESTAMPING_MODES[timestamping.mode],
        timestamping_uncapped=timestamping.uncapped,
        delete_on_empty_min_age_seconds=None
        if min_age is None
        else _seconds(min_age_path, min_age),
        shared_caching=None if wire.caching is None else wire.caching.shared,
    )


def _retention(path: str, text: str) -> Retention:
    if text.lower() == "infinite":
        return Retention(age_seconds=None)
    seconds = _seconds(path, text)
    if seconds == 0:
        raise _refusal(path, "the age of a retention policy is above 0")
    return Retention(age_seconds=seconds)


def _seconds(path: str, text: str) -> int:
    try:
        seconds = seconds_of(text)
    except ValueError as cause:
        raise _refusal(path, f"{cause}, not {quoted(text)}") from cause
    if seconds > U64_MAX:
        raise _refusal(path, "a duration has at most 2^64 - 1 seconds")
    return seconds


def _token(path: str, wire: InitTokenJson) -> DeclaredToken:
    request = _at(path, token_request, wire)
    _at(path, check_request, request)
    if request.token_id == ROOT_TOKEN_ID:
        raise _refusal(f"{path}.id", "the root token is not declared, see root_token_file")
    if (wire.secret_file is None) == (wire.secret_env is None):
        given = "neither" if wire.secret_file is None else "both"
        raise _refusal(path, f"a token has one of secret_file and secret_env, this one has {given}")
    member = "secret_file" if wire.secret_env is None else "secret_env"
    source = SecretSource(f"{path}.{member}", wire.secret_file, wire.secret_env)
    return DeclaredToken(path, request, source)


def _refuse_twice(declared: Iterable[tuple[str, str, str]]) -> None:
    """Each has a path, the member that it is known by, and that member's value."""
    seen: dict[str, str] = {}
    for path, member, name in declared:
        first = seen.setdefault(name, path)
        if first != path:
            raise _refusal(f"{path}.{member}", f"{quoted(name)} is declared by {first} already")


_Argument = TypeVar("_Argument")


def _at(path: str, check: Callable[[_Argument], _Value], value: _Argument) -> _Value:
    try:
        return check(value)
    except (InvalidError, MalformedError) as cause:
        raise _refusal(path, cause.message) from cause


def _refusal(path: str, message: str) -> DeclarationError:
    return DeclarationError(f"{path}: {message}")

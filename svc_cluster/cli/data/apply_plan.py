"""What a file of declarations asks for and a cluster does not have yet: a plan, step by step.

What a declaration means, and what of it differs, is decided as for the init files of a gateway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from svc_cluster.cli.data.printing import flat
from svc_cluster.cli.data.standard_input import STANDARD_INPUT
from svc_cluster.client.client_errors import AnswerRefusedError, ClientError
from svc_cluster.client.service_client import ServiceClient, shaped
from svc_cluster.client.wire_records import stream_path
from svc_cluster.codec.config_json import (
    BasinConfigJson,
    StreamConfigJson,
    basin_config_from_json,
    basin_config_to_json,
    stream_config_from_json,
    stream_config_to_json,
)
from svc_cluster.codec.declarations_json import (
    INIT_FILE_BYTES_MAX,
    DeclarationError,
    decode_declarations,
)
from svc_cluster.codec.token_json import IssueTokenJson, token_request, token_to_json
from svc_cluster.model.access_token import AccessToken, TokenRequest
from svc_cluster.model.declarations import (
    Declarations,
    DeclaredBasin,
    DeclaredStream,
    DeclaredToken,
)
from svc_cluster.model.stream_config import S2_STORAGE_CLASS_DEFAULT, BasinConfig, resolve
from svc_cluster.settings_yaml import YamlError, read_plain_yaml


class Due(StrEnum):
    """What is to be done for a declaration."""

    CREATE = "create"
    UPDATE = "change"
    NOTHING = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Step:
    """One declaration, what is done for it and why."""

    change: Due
    noun: str
    name: str
    differences: tuple[str, ...] = ()
    method: str = "PUT"
    path: str = ""
    basin: str | None = None
    body: bytes = b""
    secret_file: Path | None = None
    """Where the secret of a token that is issued goes."""


class _LocationOf(msgspec.Struct):
    name: str
    location: str | None = None


def read_declarations(path: Path) -> Declarations:
    """Return what a YAML or JSON file declares, `-` for standard input. Raises ClientError, with
    the place in the file."""
    is_input = str(path) == "-"
    name = STANDARD_INPUT if is_input else str(path)
    try:
        with open(0 if is_input else path, "rb", closefd=not is_input) as file:
            text = file.read(INIT_FILE_BYTES_MAX + 1)
    except OSError as cause:
        raise ClientError(f"{name} cannot be read: {cause.strerror}") from cause
    return _declarations(text, name)


def _declarations(text: bytes, name: str) -> Declarations:
    if len(text) > INIT_FILE_BYTES_MAX:
        raise ClientError(f"{name} has more than {INIT_FILE_BYTES_MAX} bytes")
    try:
        content = read_plain_yaml(text) or {}
        return decode_declarations(msgspec.json.encode(content))
    except YamlError as cause:
        raise ClientError(f"{name} {cause}") from None
    except (DeclarationError, TypeError, RecursionError) as cause:
        raise ClientError(f"{name}: {cause}; docs/init-file.md has every member") from cause


async def plan(
    client: ServiceClient, declared: Declarations, directory: Path
) -> AsyncIterator[Step]:
    """Yield the steps in the order of the file. `directory`: where relative files of secrets are
    meant from. Raises ClientError."""
    for basin in declared.basins:
        found = await _basin_config(client, basin)
        yield _basin_step(basin, found)
        for stream in basin.streams:
            yield await _stream_step(client, basin, stream, there=found is not None)
    tokens = await _tokens(client) if declared.tokens else {}
    for token in declared.tokens:
        yield _token_step(token, tokens.get(token.request.token_id), directory)


async def _basin_config(
    client: ServiceClient, basin: DeclaredBasin
) -> tuple[BasinConfig, str | None] | None:
    try:
        answer = await client.call("GET", f"/v1/basins/{basin.name}")
    except AnswerRefusedError as refused:
        if refused.code == "basin_not_found":
            return None
        raise
    config = basin_config_from_json(shaped(answer.body, BasinConfigJson), alias=False)
    location = None
    if basin.location is not None:
        async for each in client.pages("basins", prefix=basin.name, limit=1):
            location = shaped(each, _LocationOf).location
    return config, location


def _basin_step(basin: DeclaredBasin, found: tuple[BasinConfig, str | None] | None) -> Step:
    wanted = basin_config_to_json(basin.config, alias=False)
    body = msgspec.json.encode({"config": wanted, "location": basin.location})
    step = Step(Due.CREATE, "basin", basin.name, path=f"/v1/basins/{basin.name}", body=body)
    if found is None:
        return step
    config, location = found
    if basin.location is not None and location != basin.location:
        told = f"location: {location} stays, {basin.location} was declared"
        return replace(step, change=Due.REFUSED, differences=(told,))
    return _compared(step, basin_config_to_json(config, alias=False), wanted)


async def _stream_step(
    client: ServiceClient, basin: DeclaredBasin, stream: DeclaredStream, *, there: bool
) -> Step:
    wanted = stream_config_to_json(
        resolve(
            stream.config,
            basin.config.default_stream_config,
            storage_class_default=S2_STORAGE_CLASS_DEFAULT,
        )
    )
    step = Step(
        Due.CREATE,
        "stream",
        f"{basin.name}/{stream.name}",
        path=stream_path(stream.name),
        basin=basin.name,
        body=msgspec.json.encode(wanted),
    )
    if not there:
        return step
    try:
        answer = await client.call("GET", step.path, basin=basin.name)
    except AnswerRefusedError as refused:
        if refused.code == "stream_not_found":
            return step
        raise
    found = stream_config_from_json(shaped(answer.body, StreamConfigJson))
    resolved = resolve(found, None, storage_class_default=S2_STORAGE_CLASS_DEFAULT)
    return _compared(step, stream_config_to_json(resolved), wanted)


def _compared(step: Step, found: dict[str, object], wanted: dict[str, object]) -> Step:
    before, after = dict(flat(found)), dict(flat(wanted))
    keys = sorted(before.keys() | after.keys())
    differences = tuple(
        f"{key}: {before.get(key, '-')} -> {after.get(key, '-')}"
        for key in keys
        if before.get(key, "-") != after.get(key, "-")
    )
    change = Due.NOTHING if found == wanted else Due.UPDATE
    return replace(step, change=change, differences=differences)


async def _tokens(client: ServiceClient) -> dict[str, TokenRequest]:
    listed = [each async for each in client.pages("access-tokens")]
    requests = [token_request(shaped(each, IssueTokenJson)) for each in listed]
    return {request.token_id: request for request in requests}


_NOBODY: Final = 0


def _token_step(token: DeclaredToken, there: TokenRequest | None, directory: Path) -> Step:
    request = token.request
    as_kept = AccessToken(
        _NOBODY,
        request.token_id,
        token.secret_hash,
        _NOBODY,
        request.scope,
        request.auto_prefix_streams,
        "",
        request.expires_at,
    )
    secret_file = None if token.source.file is None else directory / token.source.file
    step = Step(
        Due.CREATE,
        "token",
        request.token_id,
        method="POST",
        path="/v1/access-tokens",
        body=msgspec.json.encode(token_to_json(as_kept)),
        secret_file=secret_file,
    )
    if there is not None:
        kept = replace(
            as_kept,
            scope=there.scope,
            auto_prefix_streams=there.auto_prefix_streams,
            expires_at=there.expires_at,
        )
        differing = tuple(f"{each}: it stays as it is" for each in token.differences(kept))
        return replace(
            step, change=Due.REFUSED if differing else Due.NOTHING, differences=differing
        )
    if secret_file is None:
        told = "its secret is made by the cluster: name a secret_file for it, not a secret_env"
        return replace(step, change=Due.REFUSED, differences=(told,))
    if secret_file.exists():
        told = f"{secret_file} is there already: move it away, a new secret goes there"
        return replace(step, change=Due.REFUSED, differences=(told,))
    return step

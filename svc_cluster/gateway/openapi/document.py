"""The OpenAPI document, made of the table that the server itself runs by.

Paths and methods are the router's, statuses and codes those of `request/error_answers.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.openapi.examples import ANSWERS, BODIES, EVENTS, REFUSALS
from svc_cluster.gateway.openapi.media_schemas import PROTO_PATH
from svc_cluster.gateway.openapi.schemas import (
    BASIN_NAME,
    COMPONENTS,
    HEADERS,
    STREAM_NAME,
    TEXT,
    TOKEN_ID,
    ref,
    words,
)
from svc_cluster.gateway.openapi.vocabulary import (
    ANYWHERE,
    SCRIPT,
    STRICT,
    STYLE,
    TEXT_HTML,
    TEXT_PLAIN,
)
from svc_cluster.gateway.request.caching import NOT_MODIFIED
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.endpoint import Endpoint, Parameter
from svc_cluster.gateway.request.error_answers import (
    SEED_WORDS,
    SIDE_EFFECTS_HEADER,
    STATUS,
    WORTH_ANOTHER_TRY,
    status_of,
)
from svc_cluster.gateway.request.negotiation import EVENT_STREAM
from svc_cluster.gateway.request.router import Resource, split_path
from svc_cluster.http.message import JSON

_BODIES: Final = {
    frozenset({ErrorCode.APPEND_CONDITION_FAILED}): "AppendConditionFailed",
    frozenset({ErrorCode.RANGE_NOT_SATISFIABLE}): "RangeNotSatisfiable",
}
"""The refusals whose bodies are not those of all others."""

_PATH_SCHEMAS: Final = {
    "basin": BASIN_NAME,
    "stream": STREAM_NAME,
    "id": TOKEN_ID,
    "asset": TEXT,
}
_RETRY_HEADERS: Final = ("retry-after-ms", "retry-after")
_RETRIED: Final = (STATUS[ErrorCode.RATE_LIMITED], *WORTH_ANOTHER_TRY)
"""The statuses that may say when another try may do."""

_BASIN_HEADERS: Final = tuple(
    Parameter(name=name, where="header", schema=BASIN_NAME, text=text)
    for name, text in (
        ("svc-basin", "The basin, unless s2-basin or the host name (`{basin}.b.…`) names it."),
        ("s2-basin", "The basin, unless svc-basin or the host name names it."),
    )
)


_TAGS: Final = {
    "basins": "Basins and their configuration.",
    "streams": "Streams of a basin and their configuration.",
    "records": "Appending and reading.",
    "access-tokens": "Who may do what.",
    "read-tickets": "What a page may read that can send no header.",
    "locations": "Where basins are.",
    "metrics": "What was made use of.",
    "cluster": "The nodes, for who may do with all basins.",
    "activity": "What was done to the control plane.",
    "server": "Probes, the exposition and this document: for everybody.",
}
"""The groups of operations, by which generators cut their clients into modules."""


def _tag(endpoint: Endpoint) -> str:
    """The last word of its own path that names a group."""
    if endpoint.need is None:
        return "server"
    return next(word for word in reversed(split_path(endpoint.paths[0])) if word in _TAGS)


def build_document(resources: Iterable[Resource], version: str) -> dict[str, Any]:
    """The whole document, as JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    refusals = _Refusals()
    for resource in resources:
        paths[resource.template] = item = {}
        for method, endpoint in resource.methods.items():
            item[method.lower()] = {
                **_operation(resource, endpoint, refusals),
                "operationId": _identity(resource, endpoint),
            }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "svc-cluster",
            "version": version,
            "description": (
                "Durable, ordered streams of records. Two dialects of one interface are told apart "
                "by their headers; where their statuses differ, both are listed. GET answers HEAD "
                "too, and every path OPTIONS. Every answer has `x-request-id`: the request's, or "
                "a fresh one."
            ),
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The one that this document comes from."}],
        "externalDocs": {
            "description": "The messages of protobuf and of the frames of sessions.",
            "url": PROTO_PATH,
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "headers": HEADERS,
            "responses": refusals.described,
            "examples": {
                code.value: _refusal_example(code) for code in ErrorCode if code in refusals.codes
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        # a server may ask nobody for a token
        "security": [{}, {"token": []}],
    }


def _identity(resource: Resource, endpoint: Endpoint) -> str:
    if resource.template == endpoint.paths[0]:
        return endpoint.operation
    return f"{endpoint.operation}-at-" + re.sub(r"[^a-z]+", "-", resource.template).strip("-")


def _operation(resource: Resource, endpoint: Endpoint, refusals: _Refusals) -> dict[str, Any]:
    doc = endpoint.description
    item: dict[str, Any] = {"summary": doc.summary, "tags": [_tag(endpoint)]}
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", resource.template)]
    parameters += [_parameter(each) for each in doc.parameters]
    if resource.stream_slot is not None or split_path(resource.template)[-1] == "streams":
        parameters += [_parameter(each) for each in _BASIN_HEADERS]
    if endpoint.need is not None:
        parameters += [_parameter(each) for each in STRICT]
    if parameters:
        item["parameters"] = parameters
    if doc.body is not None:
        item["requestBody"] = {
            "required": not doc.body_is_optional,
            "content": _content(doc.body, BODIES[endpoint.operation]),
        }
    item["responses"] = _responses(resource, endpoint, refusals)
    return item


def _responses(resource: Resource, endpoint: Endpoint, refusals: _Refusals) -> dict[str, Any]:
    doc = endpoint.description
    is_write = endpoint.method != "GET"
    success: dict[str, Any] = {"description": "Done." if is_write else "Found."}
    if doc.answer:
        success["content"] = _content(doc.answer, ANSWERS[endpoint.operation])
    if doc.answer_headers:
        success["headers"] = {
            name: {"schema": words("created", "updated", "noop")} for name in doc.answer_headers
        }
    responses = {str(doc.status): success}
    if doc.further_status is not None:
        responses[str(doc.further_status)] = success
    if doc.may_be_unmodified:
        success["headers"] = {"etag": _ETAG, "cache-control": _CACHE_CONTROL}
        responses[str(NOT_MODIFIED)] = {
            "description": "The client has this answer: `if-none-match` has its tag.",
            "headers": {"etag": _ETAG, "cache-control": _CACHE_CONTROL},
        }
    codes = (*doc.errors, *(() if endpoint.need is None else ANYWHERE))
    dialects = (Dialect.SEED,) if resource.seed_path else tuple(Dialect)
    by_status = _by_status(codes, dialects)
    for status, seed_codes in _by_status(doc.seed_errors, (Dialect.SEED,)).items():
        by_status.setdefault(status, set()).update(seed_codes)
    for status, of_status in sorted(by_status.items()):
        responses[str(status)] = refusals.ref(status, of_status, is_write=is_write)
    for status in doc.plain_statuses:
        responses[str(status)] = {
            "description": "Not ready.",
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in _RETRY_HEADERS},
            "content": {TEXT_PLAIN: {"schema": TEXT, "example": "not ready"}},
        }
    return responses


_ETAG: Final = {"schema": TEXT, "description": "Of a range that is closed: a weak tag."}
_CACHE_CONTROL: Final = {"schema": TEXT, "description": "Whether the answer may be kept."}


def _by_status(
    codes: tuple[ErrorCode, ...], dialects: tuple[Dialect, ...]
) -> dict[int, set[ErrorCode]]:
    """The statuses of the dialects, and what has them."""
    found: dict[int, set[ErrorCode]] = {}
    for code in codes:
        for dialect in dialects:
            found.setdefault(status_of(code, dialect), set()).add(code)
    return found


class _Refusals:
    """The refusals of all operations, each described once, under a name of its own."""

    def __init__(self) -> None:
        self.described: dict[str, dict[str, Any]] = {}
        self.codes: set[ErrorCode] = set()
        self._names: dict[tuple[int, bool, frozenset[ErrorCode]], str] = {}

    def ref(self, status: int, codes: set[ErrorCode], *, is_write: bool) -> dict[str, Any]:
        """Named by the status and whether a write is refused; those of other codes have numbers."""
        key = (status, is_write, frozenset(codes))
        if key not in self._names:
            alike = sum(known[:2] == key[:2] for known in self._names)
            number = str(alike + 1) if alike else ""
            self._names[key] = f"Refused{status}{'Write' if is_write else 'Read'}{number}"
            self.described[self._names[key]] = _refusal(status, codes, is_write=is_write)
            self.codes |= codes
        return {"$ref": f"#/components/responses/{self._names[key]}"}


def _refusal(status: int, codes: set[ErrorCode], *, is_write: bool) -> dict[str, Any]:
    schema = ref(_BODIES.get(frozenset(codes), "Error"))
    words_of = ", ".join(f"`{code.value}`" for code in sorted(codes, key=lambda c: c.value))
    refusal: dict[str, Any] = {
        "description": f"Refused: {words_of}.",
        "content": {JSON: {"schema": schema, "examples": _refusal_examples(codes)}},
    }
    headers = [SIDE_EFFECTS_HEADER] if is_write else []
    if status == STATUS[ErrorCode.AUTHN]:
        headers += ["www-authenticate"]
    if status in _RETRIED:
        headers += _RETRY_HEADERS
    if headers:
        refusal["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    return refusal


def _refusal_examples(codes: set[ErrorCode]) -> dict[str, Any]:
    names = sorted(code.value for code in codes)
    return {name: {"$ref": f"#/components/examples/{name}"} for name in names}


def _refusal_example(code: ErrorCode) -> dict[str, Any]:
    body = {
        "error": SEED_WORDS.get(code, code.value),
        "code": code.value,
        "message": REFUSALS[code],
        "may_have_taken_effect": False,
    }
    if code is ErrorCode.RANGE_NOT_SATISFIABLE:
        return {"value": {"tail": {"seq_num": 2, "timestamp": 1_767_603_600_000}, **body}}
    if code is ErrorCode.APPEND_CONDITION_FAILED:
        return {"value": {"seq_num_mismatch": 2}}
    return {"value": body}


def _content(schemas: dict[str, Any], example: Any) -> dict[str, Any]:
    """Bodies by media type. Bytes cannot stand in a document in JSON: they have no example."""
    examples = dict.fromkeys((JSON, TEXT_PLAIN, TEXT_HTML, SCRIPT, STYLE), example)
    examples[EVENT_STREAM] = EVENTS
    return {
        media: {
            "schema": schema,
            **({"example": examples[media]} if media in examples else {}),
        }
        for media, schema in schemas.items()
    }


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_SCHEMAS[name]}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        **({"required": True} if parameter.is_required else {}),
        "description": parameter.text,
        "schema": parameter.schema,
    }

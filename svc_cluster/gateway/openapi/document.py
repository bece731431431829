"""The OpenAPI document, made of the tables that the server itself runs by.

Paths and methods are the router's, statuses and codes those of `http/errors.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.errors import SIDE_EFFECTS_HEADER, status_of
from svc_cluster.gateway.http.message import JSON
from svc_cluster.gateway.http.router import RESOURCES, Operation, Resource
from svc_cluster.gateway.openapi.operations import (
    ANYWHERE,
    OPERATIONS,
    TEXT_PLAIN,
    OperationDoc,
    Parameter,
)
from svc_cluster.gateway.openapi.schemas import (
    BASIN_NAME,
    COMPONENTS,
    RANGE_NOT_SATISFIABLE,
    STREAM_NAME,
    TEXT,
    TOKEN_ID,
    error_schema,
    ref,
    words,
)

_PATH_SCHEMAS: Final = {"basin": BASIN_NAME, "stream": STREAM_NAME, "id": TOKEN_ID}
_BASIN_HEADERS: Final = tuple(
    Parameter(name=name, where="header", schema=BASIN_NAME, text=text)
    for name, text in (
        ("svc-basin", "The basin, unless s2-basin or the host name (`{basin}.b.…`) names it."),
        ("s2-basin", "The basin, unless svc-basin or the host name names it."),
    )
)


def served() -> Iterator[tuple[Resource, str, Operation]]:
    """Every method of every path that is served, in the router's order."""
    for resource in RESOURCES:
        for method, operation in resource.methods.items():
            yield resource, method, operation


def build_document(version: str) -> dict[str, Any]:
    """The whole document, as JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    ids: set[str] = set()
    for resource, method, operation in served():
        item = _operation(resource, method, OPERATIONS[operation])
        identity = operation.value
        if identity in ids:  # the same operation at another path
            identity += "-at-" + re.sub(r"[^a-z]+", "-", resource.template).strip("-")
        ids.add(identity)
        item["operationId"] = identity
        paths.setdefault(resource.template, {})[method.lower()] = item
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "svc-cluster",
            "version": version,
            "description": (
                "Durable, ordered streams of records. Two dialects of one interface are told apart "
                "by their headers; where their statuses differ, both are listed. GET answers HEAD "
                "too, and every path OPTIONS."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        # a server may ask nobody for a token
        "security": [{}, {"token": []}],
    }


def _operation(resource: Resource, method: str, doc: OperationDoc) -> dict[str, Any]:
    item: dict[str, Any] = {"summary": doc.summary}
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", resource.template)]
    parameters += [_parameter(each) for each in doc.parameters]
    if resource.stream_slot is not None or resource.template == "/v1/streams":
        parameters += [_parameter(each) for each in _BASIN_HEADERS]
    if parameters:
        item["parameters"] = parameters
    if doc.body is not None:
        item["requestBody"] = {
            "required": not doc.body_is_optional,
            "content": _content(doc.body),
        }
    is_write = method not in ("GET", "HEAD")
    item["responses"] = _responses(doc, is_write=is_write)
    return item


def _responses(doc: OperationDoc, *, is_write: bool) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done." if is_write else "Found."}
    if doc.answer:
        success["content"] = _content(doc.answer)
    if doc.answer_headers:
        success["headers"] = {
            name: {"schema": words("created", "updated", "noop")} for name in doc.answer_headers
        }
    responses = {str(doc.status): success}
    if doc.further_status is not None:
        responses[str(doc.further_status)] = success
    codes = (*doc.errors, *(() if doc.is_public else ANYWHERE))
    for status, of_status in sorted(_by_status(codes).items()):
        responses[str(status)] = _refusal(status, of_status, is_write=is_write)
    for status in doc.plain_statuses:
        responses[str(status)] = {
            "description": "Not ready.",
            "content": {TEXT_PLAIN: {"schema": TEXT}},
        }
    return responses


def _by_status(codes: tuple[ErrorCode, ...]) -> dict[int, set[ErrorCode]]:
    """The statuses of either dialect, and what has them."""
    found: dict[int, set[ErrorCode]] = {}
    for code in codes:
        for dialect in Dialect:
            found.setdefault(status_of(code, dialect), set()).add(code)
    return found


def _refusal(status: int, codes: set[ErrorCode], *, is_write: bool) -> dict[str, Any]:
    if codes == {ErrorCode.APPEND_CONDITION_FAILED}:
        schema = ref("AppendConditionFailed")
    elif codes == {ErrorCode.RANGE_NOT_SATISFIABLE}:
        schema = RANGE_NOT_SATISFIABLE
    else:
        schema = error_schema(codes)
    words_of = ", ".join(f"`{code.value}`" for code in sorted(codes, key=lambda c: c.value))
    refusal: dict[str, Any] = {
        "description": f"Refused: {words_of}.",
        "content": {JSON: {"schema": schema}},
    }
    if is_write:
        refusal["headers"] = {SIDE_EFFECTS_HEADER: {"schema": words("none", "possible")}}
    return refusal


def _content(schemas: dict[str, Any]) -> dict[str, Any]:
    return {media: {"schema": schema} for media, schema in schemas.items()}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_SCHEMAS[name]}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.text,
        "schema": parameter.schema,
    }

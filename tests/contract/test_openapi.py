"""The OpenAPI document is what the router does, and what the server really answers.

`OPENAPI_EXAMPLES=100 python -m pytest tests/contract/test_openapi.py` sends a hundred generated
requests an operation, a third of them malformed; the suite sends fewer.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from svc_cluster.gateway.http.errors import SIDE_EFFECTS_HEADER
from svc_cluster.gateway.http.router import RESOURCES, find_resource, split_path
from svc_cluster.gateway.openapi.document import build_document
from tests.contract.client import Client
from tests.contract.conftest import Server

EXAMPLES: Final = int(os.environ.get("OPENAPI_EXAMPLES", "10"))
SEED: Final = 4

DOCUMENT: Final = build_document("0")
METHODS: Final = ("get", "put", "post", "patch", "delete")
DESCRIBED: Final = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]

# The codes of the contract's section 9, held here once more, and the statuses of both dialects.
CONTRACT: Final = {
    "access_token_not_found": {404},
    "authn": {401},
    "permission_denied": {403},
    "quota_exhausted": {403},
    "bad_frame": {400},
    "bad_header": {400},
    "bad_json": {400},
    "bad_path": {400},
    "bad_proto": {400},
    "bad_query": {400},
    "basin_deletion_pending": {409},
    "basin_not_found": {404},
    "invalid": {400, 422},
    "payload_too_large": {413},
    "request_timeout": {408},
    "resource_already_exists": {409},
    "stream_deletion_pending": {409},
    "stream_not_found": {404},
    "unsupported_media_type": {415},
    "append_condition_failed": {412},
    "range_not_satisfiable": {416},
}

for kind in ("application/protobuf", "application/x-protobuf", "svcs/proto", "s2s/proto"):
    schemathesis.serializer.alias(kind, "application/octet-stream")


# -- the document and the router


def test_the_served_document_is_the_generated_one(client: Client) -> None:
    """Public, JSON, OpenAPI 3.1; it says which server it describes."""
    answer = client.get("/openapi.json")
    assert answer.status == 200
    version = client.get("/version").json["version"]
    assert answer.json == json.loads(json.dumps(build_document(version)))
    assert answer.json["openapi"].startswith("3.1.")


def test_document_and_router_say_the_same() -> None:
    """Each method of each path is an operation, and nothing else is."""
    routed = {
        (resource.template, method.lower()) for resource in RESOURCES for method in resource.methods
    }
    assert set(DESCRIBED) == routed
    # The tuple of resources and the search for one are two things: walk every path.
    for resource in RESOURCES:
        sample = re.sub(r"{\w+}", "basin-01", resource.template)
        assert find_resource(split_path(sample)) is resource
    names = [DOCUMENT["paths"][path][method]["operationId"] for path, method in DESCRIBED]
    assert len(set(names)) == len(names)


def test_every_reference_in_the_document_resolves() -> None:
    """And every schema is used."""
    text = json.dumps(DOCUMENT)
    used = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert used == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.template)
def test_the_server_serves_what_the_document_says(client: Client, resource: Any) -> None:
    """Every method on every path: 405 with Allow where it is not described, and only there."""
    path = re.sub(r"{\w+}", "no-such-thing", resource.template)
    for method in METHODS:
        answer = client.request(method.upper(), path)
        if (resource.template, method) in DESCRIBED:
            assert answer.status not in (405, 501), (method, answer)
        else:
            assert (answer.status, answer.json["code"]) == (405, "method_not_allowed")
            allowed = {word.lower() for word in answer.headers["allow"].split(", ")}
            assert allowed - {"head", "options"} == {m.lower() for m in resource.methods}


# -- generated requests against the real server

_CHECKS: Final[list[Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_ACCEPTS: Final = ("*/*", "application/protobuf", "text/event-stream", "")
_SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def base_url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def known(base_url: str) -> dict[str, str]:
    """A basin, and a stream in it with records, of which generated requests make use."""
    with Client(base_url) as client:
        basin = "openapi-basin"
        client.post("/v1/basins", {"basin": basin})
        client.post("/v1/streams", {"stream": "s"}, {"svc-basin": basin})
        for number in range(3):
            assert client.append(basin, "s", f"record {number}").status == 200
    return {"basin": basin, "stream": "s"}


def _aim(case: Any, known: dict[str, str], family: str) -> None:
    """Point a generated request at what exists."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = known[name]
    case.headers.pop("svc-request-token", None)
    case.headers[f"{family}-basin"] = known["basin"]


def _bound(case: Any, accept: str) -> None:
    """No waiting for records that never come, and no stream of events without an end."""
    wait = str((case.query or {}).get("wait", ""))
    if wait.isdigit() or accept == "text/event-stream":
        case.query = {**(case.query or {}), "wait": 0}


def _call(case: Any, base_url: str, session: requests.Session, accept: str) -> Any:
    """Asked again while the cluster has no leader, which a loaded machine may bring about and
    which has nothing to do with the request."""
    while True:
        response = case.call(base_url=base_url, session=session, headers={"Accept": accept})
        if response.status_code != 503 or response.json().get("code") != "unavailable":
            return response


def _check_refusal(response: Any) -> None:
    """Every refusal is a code of the contract with its status, and says what became of a write."""
    if response.status_code < 400:
        return
    assert response.headers["content-type"] == ["application/json"]
    body = response.json()
    if response.status_code == 412 and "code" not in body:
        assert list(body) in (["seq_num_mismatch"], ["fencing_token_mismatch"])
        return
    assert response.status_code in CONTRACT[body["code"]], body
    assert isinstance(body["error"], str)
    assert body["message"]
    if response.request.method != "GET":
        effects = "possible" if body["may_have_taken_effect"] else "none"
        assert response.headers[SIDE_EFFECTS_HEADER] == [effects]


@pytest.mark.parametrize(("path", "method"), DESCRIBED)
def test_generated_requests_are_answered_as_described(
    base_url: str, known: dict[str, str], path: str, method: str
) -> None:
    """Well-formed and malformed requests, at names that exist and names that do not: no 5xx, no
    status, code, header, media type or body beside those of the document."""
    operation = _SCHEMA[path][method.upper()]
    destroys = method == "delete"

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.one_of(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        ),
        aimed=st.sampled_from([True, True, True, False]),
        families=st.sampled_from([("svc", "s2"), ("s2", "svc")]),
        accept=st.sampled_from(_ACCEPTS),
        number=st.integers(0, 2**32),
    )
    def ask(case: Any, aimed: bool, families: tuple[str, str], accept: str, number: int) -> None:
        family, other = families
        for name in ("basin", "format"):  # two of them would nearly always differ
            case.headers.pop(f"{other}-{name}", None)
        if aimed and not destroys:
            _aim(case, known, family)
        # Without it an operation that takes nothing would soon have no other request.
        case.headers["x-number"] = str(number)
        _bound(case, accept)
        response = _call(case, base_url, session, accept)
        case.validate_response(response, checks=_CHECKS)
        _check_refusal(response)

    with requests.Session() as session:
        ask()

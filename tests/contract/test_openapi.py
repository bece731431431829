"""The OpenAPI document is what the router does, and what the server really answers.

`OPENAPI_EXAMPLES=100 python -m pytest tests/contract/test_openapi.py` sends a hundred generated
requests an operation, a third of them malformed; the suite sends fewer.

Rules: contract 3.1, 3.2 and 4.10.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
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

from svc_cluster.gateway.endpoints.table import ENDPOINTS, ROUTER
from svc_cluster.gateway.openapi.document import build_document
from svc_cluster.gateway.request.error_answers import SIDE_EFFECTS_HEADER
from svc_cluster.gateway.request.router import split_path
from tests.contract.client import Client
from tests.contract.conftest import Server

OWN_SERVER = True

EXAMPLES: Final = int(os.environ.get("OPENAPI_EXAMPLES", "10"))
SEED: Final = 4

DOCUMENT: Final = build_document(ROUTER.resources, "0")
ROOT: Final = Path(__file__).parents[2]
DOCUMENT_BYTES_MAX: Final = 150_000

METHODS: Final = ("get", "put", "post", "patch", "delete")
DESCRIBED: Final = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]

# The codes of the contract's section 9, held here once more, and the statuses of both dialects.
CONTRACT: Final = {
    "not_found": {404},
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
    "not_implemented": {501},
}

for kind in ("application/protobuf", "application/x-protobuf", "svcs/proto", "s2s/proto"):
    schemathesis.serializer.alias(kind, "application/octet-stream")


# -- the document and the router


def test_the_served_document_is_the_generated_one(client: Client) -> None:
    """Public, JSON, OpenAPI 3.1; it says which server it describes."""
    answer = client.get("/openapi.json")
    assert answer.status == 200
    version = client.get("/version").json["version"]
    assert answer.json == json.loads(json.dumps(build_document(ROUTER.resources, version)))
    assert answer.json["openapi"].startswith("3.1.")


def test_document_and_router_say_the_same() -> None:
    """Each method of each path is an operation, and nothing else is."""
    rows = {(path, row.method.lower()) for row in ENDPOINTS for path in row.paths}
    assert len(rows) == sum(len(row.paths) for row in ENDPOINTS), "no row hides another"
    assert set(DESCRIBED) == rows
    # The resources and the search for one are two things: walk every path.
    for resource in ROUTER.resources:
        sample = re.sub(r"{\w+}", "basin-01", resource.template)
        assert ROUTER.find(split_path(sample)) is resource
    names = [DOCUMENT["paths"][path][method]["operationId"] for path, method in DESCRIBED]
    assert len(set(names)) == len(names)


def test_every_reference_in_the_document_resolves() -> None:
    """And everything that is there to be referred to is."""
    text = json.dumps(DOCUMENT)
    for kind in ("schemas", "headers", "responses", "examples"):
        used = set(re.findall(rf'"#/components/{kind}/([\w-]+)"', text))
        assert used == set(DOCUMENT["components"][kind])


def _refusals() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every refusal of every operation with its status, wherever it is described."""
    for path, method in DESCRIBED:
        for status, answer in DOCUMENT["paths"][path][method]["responses"].items():
            name = answer.get("$ref", "").removeprefix("#/components/responses/")
            described = DOCUMENT["components"]["responses"][name] if name else answer
            if described["description"].startswith("Refused: "):
                yield status, described


def test_the_body_of_an_error_is_described_once() -> None:
    """One schema has it, and every refusal refers to that one or to one of the two whose body is
    another; operations that refuse alike refer to one refusal."""
    text = json.dumps(DOCUMENT)
    assert text.count('"may_have_taken_effect": {') == 1
    bodies = [answer["content"]["application/json"]["schema"] for _, answer in _refusals()]
    assert len(bodies) > 288
    own = {"Error", "AppendConditionFailed", "RangeNotSatisfiable"}
    assert {json.dumps(body) for body in bodies} == {
        json.dumps({"$ref": f"#/components/schemas/{name}"}) for name in own
    }
    shared = [json.dumps(one) for one in DOCUMENT["components"]["responses"].values()]
    assert [text.count(one) for one in shared] == [1] * len(shared)
    assert len(shared) < 60
    assert len(text) < DOCUMENT_BYTES_MAX


def test_generators_are_told_what_they_ask_for(client: Client) -> None:
    """The licence, the server that it comes from, the groups, and where the messages are defined:
    that file is served as it stands in the repository, to everybody."""
    document = client.get("/openapi.json").json
    licence = document["info"]["license"]["identifier"]
    assert licence == "Apache-2.0"
    assert licence in (ROOT / "pyproject.toml").read_text()
    assert [server["url"] for server in document["servers"]] == ["/"]
    tags = [tag["name"] for tag in document["tags"]]
    operations = [each for item in document["paths"].values() for each in item.values()]
    assert {tag for each in operations for tag in each["tags"]} == set(tags)
    links = set(re.findall(r'"url": "(/[^"]+)"', json.dumps(document)))
    assert links == {"/proto/s2/v1/s2.proto"}
    answer = client.get("/proto/s2/v1/s2.proto")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    defined = (ROOT / "proto/s2/v1/s2.proto").read_bytes()
    assert answer.body == defined
    named = set(re.findall(r"s2\.v1\.(\w+)", json.dumps(document)))
    assert named == {"AppendInput", "AppendAck", "ReadBatch"}
    assert all(f"message {name} {{".encode() in defined for name in named)


def test_sessions_and_events_are_described() -> None:
    """What is sent and what is answered, by media type, with the flags and the events there are."""
    schemas = DOCUMENT["components"]["schemas"]
    records = DOCUMENT["paths"]["/v1/streams/{stream}/records"]
    bodies = {
        "AppendInput": records["post"]["requestBody"]["content"],
        "AppendAck": records["post"]["responses"]["200"]["content"],
        "ReadBatch": records["get"]["responses"]["200"]["content"],
    }
    for message, content in bodies.items():
        for kind in ("svcs/proto", "s2s/proto"):
            frames = schemas[content[kind]["schema"]["$ref"].rpartition("/")[2]]
            for word in (f"s2.v1.{message}", "0x80", "0x60", "0x10", "3 bytes"):
                assert word in frames["description"]
        one = schemas[content["application/protobuf"]["schema"]["$ref"].rpartition("/")[2]]
        assert f"s2.v1.{message}" in one["description"]
    reference = bodies["ReadBatch"]["text/event-stream"]["schema"]["$ref"]
    events = schemas[reference.rpartition("/")[2]]
    for word in ("`batch`", "`ping`", "`error`", "`[DONE]`", "`last-event-id`", "ReadPing"):
        assert word in events["description"]
    assert set(events["x-events"]) == {"batch", "ping", "error"}


def test_every_401_says_what_it_asks_for() -> None:
    """And nothing else does."""
    asking = {
        status for status, each in _refusals() if "www-authenticate" in each.get("headers", ())
    }
    assert asking == {"401"}


def test_refusals_that_may_be_tried_again_say_when() -> None:
    """Those of limits and of what is not there at the moment, and no others."""
    told = {"retry-after-ms", "retry-after"}
    found: dict[str, set[bool]] = {}
    for status, answer in _refusals():
        headers = set(answer.get("headers", ()))
        assert headers.isdisjoint(told) or told <= headers
        found.setdefault(status, set()).add(told <= headers)
    assert {status for status, says in found.items() if says == {True}} == {"429", "502", "503"}
    assert {status for status, says in found.items() if True in says} == {"429", "502", "503"}
    for name in told:
        assert DOCUMENT["components"]["headers"][name]["schema"]["type"] == "integer"


def test_what_must_be_given_is_marked(client: Client) -> None:
    """A request without a required parameter is refused, and the refusal goes when it is given."""
    required = {
        (path, parameter["name"])
        for path, method in DESCRIBED
        for parameter in DOCUMENT["paths"][path][method].get("parameters", ())
        if parameter.get("required") and parameter["in"] == "query"
    }
    of_usage = [path for path in DOCUMENT["paths"] if path.startswith("/v1/metrics")]
    assert required == {(path, name) for path in of_usage for name in ("set", "start", "end")}
    given = {"set": "storage", "start": "1", "end": "2"}
    for path, missing in sorted(required):
        url = re.sub(r"{\w+}", "basin-01", path)
        sets = {**given, "set": "active-basins"} if url == "/v1/metrics" else given
        for left_out, expected in ((missing, 400), (None, 200)):
            query = "&".join(f"{name}={value}" for name, value in sets.items() if name != left_out)
            answer = client.get(f"{url}?{query}")
            assert answer.status == expected, (url, query, answer)


@pytest.mark.parametrize("resource", ROUTER.resources, ids=lambda resource: resource.template)
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


@pytest.mark.parametrize(("path", "method"), DESCRIBED)
def test_no_status_is_described_of_a_dialect_that_the_operation_does_not_speak(
    path: str, method: str
) -> None:
    """422 is S2's: a path of the seed's shape never has it, nor a list, of which the S2 dialect
    takes any two bounds (contract 1.5 and 2.10)."""
    operation = DOCUMENT["paths"][path][method]
    is_list = operation["operationId"].startswith("list-")
    is_seed = path.startswith("/v1/basins/{basin}/streams/")
    if is_list or is_seed:
        assert "422" not in operation["responses"]


# -- generated requests against the real server

_CHECKS: Final[list[Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def _checks(status: int) -> list[Any]:
    """Every check; 501 is the answer to a word of S2's that means nothing here, where the
    operation's description says so."""
    return [check for check in _CHECKS if status != 501 or check is not not_a_server_error]


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
    return {"basin": basin, "stream": "s", "asset": "main.js"}


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


def _described(path: str, method: str, status: int) -> str:
    """What the document says of this answer of the operation."""
    answer = DOCUMENT["paths"][path][method]["responses"][str(status)]
    name = answer.get("$ref", "").removeprefix("#/components/responses/")
    text: str = (DOCUMENT["components"]["responses"][name] if name else answer)["description"]
    return text


def _check_refusal(response: Any, described: str) -> None:
    """Every refusal is a code of the contract with its status, which the operation's description
    names, and says what became of a write."""
    if response.status_code < 400:
        return
    assert response.headers["content-type"] == ["application/json"]
    body = response.json()
    if response.status_code == 412 and "code" not in body:
        assert list(body) in (["seq_num_mismatch"], ["fencing_token_mismatch"])
        return
    assert response.status_code in CONTRACT[body["code"]], body
    assert f"`{body['code']}`" in described, (body, described)
    assert isinstance(body["error"], str)
    assert body["message"]
    if response.request.method != "GET":
        effects = "possible" if body["may_have_taken_effect"] else "none"
        assert response.headers[SIDE_EFFECTS_HEADER] == [effects]


@pytest.mark.parametrize(("path", "method"), DESCRIBED)
def test_generated_requests_are_answered_as_described(
    base_url: str, known: dict[str, str], path: str, method: str
) -> None:
    """Well-formed and malformed requests, at names that exist and names that do not: no 5xx
    but 501, no status, code, header, media type or body beside those of the document."""
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
        case.validate_response(response, checks=_checks(response.status_code))
        _check_refusal(response, _described(path, method, response.status_code))

    with requests.Session() as session:
        ask()

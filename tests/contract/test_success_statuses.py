"""Every status of a success that the document lists of an operation, made to occur.

An operation that tells by its status what it did (200: it was there, 201: it is new) has an
exchange for each. Refusals: test_statuses.py. Rule: contract 3.11.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.contract.access import ROOT_SECRET, Account, bearer
from tests.contract.client import Answer
from tests.contract.test_statuses import DOCUMENT, Operation, ask

EVERY: Final = [
    Operation(method.upper(), path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]


def successes(operation: Operation) -> list[int]:
    """What the document lists of it."""
    return sorted(int(one) for one in operation.described["responses"] if int(one) < 400)


LISTED: Final = [(each, status) for each in EVERY for status in successes(each)]
MIME: Final = "content-type"


@dataclass
class Place:
    """A basin of its own for each exchange, with a stream and a record in it."""

    account: Account
    number: int

    @property
    def basin(self) -> str:
        return f"success-{self.number:04d}"

    @property
    def token(self) -> str:
        return f"success-token-{self.number}"

    def has(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        """This is so before the exchange."""
        answer = self.account.ask(method, path, body, **headers)
        assert answer.status in (200, 201), answer

    def furnish(self) -> None:
        self.has("POST", "/v1/basins", {"basin": self.basin})
        self.has("POST", "/v1/streams", {"stream": "s"}, svc_basin=self.basin)
        self.has("POST", "/v1/streams/s/records", {"records": [{}]}, svc_basin=self.basin)

    def issue(self) -> None:
        self.has("POST", "/v1/access-tokens", {"id": self.token, "scope": {"ops": ["read"]}})


@dataclass(frozen=True)
class Exchange:
    """What is asked where the place is furnished. `names`, `body`: the request's own, by the place;
    `first`: this comes before it."""

    names: Callable[[Place], dict[str, str]] = lambda place: {}
    body: Callable[[Place], Any] = lambda place: None
    query: str = ""
    first: Callable[[Place], None] = lambda place: None
    knows: bool = False
    """It is asked by who has the answer already, and names that by its tag."""


_PLAIN: Final = Exchange()
_NEW_BASIN: Final = Exchange(names=lambda place: {"basin": f"{place.basin}-new"})
_NEW_STREAM: Final = Exchange(names=lambda place: {"stream": "new"})
_TOKEN: Final = Exchange(names=lambda place: {"id": place.token}, first=Place.issue)

OWN: Final[dict[tuple[str, int], Exchange]] = {
    ("create-basin", 201): Exchange(body=lambda place: {"basin": f"{place.basin}-new"}),
    ("ensure-basin", 201): _NEW_BASIN,
    ("ensure-basin", 200): _PLAIN,
    ("create-stream", 201): Exchange(body=lambda place: {"stream": "new"}),
    ("ensure-stream", 201): _NEW_STREAM,
    ("ensure-stream", 200): _PLAIN,
    ("issue-access-token", 201): Exchange(
        body=lambda place: {"id": place.token, "scope": {"ops": ["read"]}}
    ),
    ("revoke-access-token", 204): _TOKEN,
    ("issue-read-ticket", 201): Exchange(
        body=lambda place: {"basin": place.basin, "streams": {"exact": "s"}}
    ),
    ("console-asset", 200): Exchange(names=lambda place: {"asset": "main.js"}),
    ("set-default-location", 200): Exchange(body=lambda place: "local"),
    ("read", 200): Exchange(query="seq_num=0"),
    ("read", 304): Exchange(query="seq_num=0&count=1", knows=True),
    ("append", 200): Exchange(body=lambda place: {"records": [{}]}),
}
"""Those whose request is not the document's example, sent to a basin and stream that are there."""

PROVISION: Final = {200: "updated", 201: "created"}
"""What `ensure` says beside its status: the example is another configuration."""


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.mark.parametrize(
    ("operation", "status"),
    LISTED,
    ids=[f"{each.described['operationId']}-{status}" for each, status in LISTED],
)
def test_the_status_occurs(
    guarded: Account, numbers: Iterator[int], operation: Operation, status: int
) -> None:
    """With content of a type that the document lists of it, or none where it lists none."""
    place = Place(guarded, next(numbers))
    place.furnish()
    answer = exchange(place, operation, OWN.get((operation.name, status), _PLAIN))
    assert answer.status == status, (operation, answer)
    described = operation.described["responses"][str(status)]
    if "content" in described:
        assert answer.headers[MIME].partition(";")[0] in described["content"]
    else:
        assert answer.body == b""
    if operation.name.startswith("ensure-"):
        assert answer.headers["svc-provision-result"] == PROVISION[status]


def exchange(place: Place, operation: Operation, wanted: Exchange) -> Answer:
    """The operation's request, as `wanted` has it."""
    wanted.first(place)
    names = {"basin": place.basin, **wanted.names(place)}
    own = _Named(operation.method, operation.path, operation.described, names)
    told = {} if operation.is_free else bearer(ROOT_SECRET)

    def asked(**more: str) -> Answer:
        body = wanted.body(place)
        return ask(place.account.client, own, body, wanted.query, **told, **more)

    return asked(if_none_match=asked().headers["etag"]) if wanted.knows else asked()


@dataclass(frozen=True)
class _Named(Operation):
    """An operation on what has these names."""

    names: dict[str, str]

    def url(self, query: str = "", **names: str) -> str:
        return super().url(query, **{**self.names, **names})

    def headers(self, basin: str = "") -> dict[str, str]:
        return super().headers(self.names["basin"])


def test_what_has_an_exchange_of_its_own_is_listed() -> None:
    """Each of them is of a status that is listed, and each status of an operation that has two of
    them is there: an operation without one is told of by its name."""
    listed = {(each.name, status) for each, status in LISTED}
    assert set(OWN) <= listed
    two = {each.name for each in EVERY if len(successes(each)) > 1}
    assert two == {"ensure-basin", "ensure-stream", "read"}
    assert {key for key in listed if key[0] in two} <= set(OWN)

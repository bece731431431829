"""The product has what the product uses: what only tests want stands with the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.tidy.product_names import PACKAGE, faults_of, unused_names

ROOT = Path(__file__).resolve().parents[2]

CALLED_BY_OTHERS: Final = {
    "svc_cluster/http/http1_exchange.py:Exchange.remote": "aiohttp reads it",
    "svc_cluster/raft/core.py:_NoSnapshots.cancelTransmisstion": "pysyncobj calls it",
    "svc_cluster/raft/core.py:_NoSnapshots.checkSerializing": "pysyncobj calls it",
    "svc_cluster/raft/core.py:_NoSnapshots.getTransmissionData": "pysyncobj calls it",
    "svc_cluster/testing/container.py:SvcClusterContainer.get_endpoint": "for others' tests",
}
"""Names that the product has for somebody else, and for whom. The list only shrinks."""

AHEAD: Final[dict[str, str]] = {}
"""Decisions that stand before what performs them, so that a release reads what the next one writes.
The list only shrinks."""


def test_what_the_product_has_the_product_uses() -> None:
    """Every name of it is used in it, but for the few that others call."""
    sources = [
        (path.relative_to(ROOT).as_posix(), path.read_text())
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
        if "_pb" not in path.parts
    ]
    assert faults_of(unused_names(sources), CALLED_BY_OTHERS | AHEAD) == []
    assert len(CALLED_BY_OTHERS) <= 5
    assert not AHEAD


USER: Final = """
from svc_cluster.a import Kept, helper
from svc_cluster import b
import typer
def main(): helper(); b.reached(); Kept(1).told
main(Protocol)
@app.command("x")
def registered(): ...
class Protocol(typer.Protocol):
    def called_by_others(self): ...
"""


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("def forgotten(): ...", ["svc_cluster/a.py:forgotten"]),
        ("def again(): return again()", ["svc_cluster/a.py:again"]),
        ("UNUSED: Final = 1", ["svc_cluster/a.py:UNUSED"]),
        ("UNUSED = 1\nfrom x import UNUSED as y\ny", ["svc_cluster/a.py:UNUSED"]),
        ("class Lost:\n  def m(self): return self.m()", ["a.py:Lost", "a.py:Lost.m"]),
        ("def reached(): ...", ["svc_cluster/a.py:reached"]),  # the other module's is used
        ("class Kept:\n  @property\n  def size(self): ...", ["svc_cluster/a.py:Kept.size"]),
        ('def said():\n  """Does what `said` does."""', ["svc_cluster/a.py:said"]),
        ("X = 1\nprint(X)", []),
        ("def _part(): ...\ngetattr(m, '_part')", []),
        ("def told(): ...\ndef f(x: 'told'): ...\nf()", []),
        ("class Row:\n  field: int\nRow(field=1)", []),
    ],
)
def test_a_name_that_only_tests_use_is_found(planted: str, found: list[str]) -> None:
    """Of a function, a constant, a class, a method and a property; said in its own body or in a
    docstring, or called like one that is used elsewhere. What is used in whatever way is not."""
    kept = "class Kept:\n  def told(self): ...\ndef helper(): ...\n"
    sources = [
        ("svc_cluster/a.py", kept + planted),
        ("svc_cluster/b.py", "def reached(): ..."),
        ("svc_cluster/c.py", USER),
    ]
    assert unused_names(sources) == [
        place if place.startswith(PACKAGE) else f"{PACKAGE}/{place}" for place in found
    ]


def test_the_list_of_exceptions_only_shrinks() -> None:
    """What is used again, or gone, goes from it as well."""
    assert faults_of(["a.py:f"], {}) == ["a.py:f: the product does not use it"]
    assert faults_of(["a.py:f"], {"a.py:f": "why"}) == []
    assert faults_of([], {"a.py:f": "why"}) == ["a.py:f: take it from the list"]

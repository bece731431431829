"""The audit of locks never passes in silence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.release.audit import (
    CANARY,
    AwayError,
    Judgement,
    Source,
    asked_of_file,
    asked_online,
    audit,
    judged,
    kept_database,
    without_doubles,
)
from tests.release.build import ROOT
from tests.release.parts import Pin, pins

TODAY = date(2026, 3, 1)
SAFE, PLANTED = Pin("aiohttp", "3.14.5", ()), Pin("pyyaml", "5.3", ())


def source(judgement: Judgement | str) -> Source:
    """One that names the canary and then says this, or is away for this reason."""

    def ask(wanted: object) -> Judgement:
        if isinstance(judgement, str):
            raise AwayError(judgement)
        return Judgement({CANARY: ["CVE-1"]}, []) if wanted == [CANARY] else judgement

    return ask


CLEAN = Judgement({}, [])
MUTE: Source = lambda _: CLEAN  # noqa: E731


@pytest.mark.parametrize(
    ("sources", "status", "told"),
    [
        ({"now": (source(CLEAN), None)}, 0, "no advisory for any"),
        ({"now": (source(Judgement({PLANTED: ["CVE-2"]}, [])), None)}, 1, "VULNERABLE pyyaml 5.3"),
        ({"now": (source("no network"), None)}, 3, "now: not to be had (no network)"),
        ({}, 3, "this is not a pass"),
        ({"mute": (MUTE, None)}, 3, "mute: not to be had (it names no advisory of jinja2"),
        ({"now": (source(Judgement({}, [SAFE])), None)}, 3, "judged 1 of 2 pins"),
        ({"old": (source(CLEAN), date(2026, 1, 1))}, 3, "of 2026-01-01, 59 days old"),
        ({"new": (source(CLEAN), date(2026, 2, 1))}, 0, "of 2026-02-01, 28 days old"),
        (
            {
                "old": (source(Judgement({PLANTED: ["CVE-3"]}, [])), date(2021, 7, 17)),
                "now": (source("away"), None),
            },
            1,
            "CVE-3",
        ),
    ],
)
def test_an_audit_never_passes_in_silence(
    sources: dict[str, tuple[Source, date | None]], status: int, told: str
) -> None:
    """What is found, what could not be had, what is too old, what a source does not know."""
    said: list[str] = []
    assert audit([SAFE, PLANTED], sources, TODAY, said.append) == status
    assert told in "\n".join(said)


def test_a_planted_pin_is_found_in_a_kept_database(tmp_path: Path) -> None:
    """By its versions, as the database has them; a later version is not named."""
    rows = {"pyyaml": [{"id": "pyup.io-1", "cve": "CVE-2020-1747", "specs": ["<5.3.1"]}]}
    database = tmp_path / "insecure_full.json"
    database.write_text(json.dumps(rows))
    later = Pin("pyyaml", "6.0.3", ())
    judgement = asked_of_file(database)([SAFE, PLANTED, later])
    assert judgement == Judgement({PLANTED: ["CVE-2020-1747"]}, [])
    assert kept_database(tmp_path) is None
    with pytest.raises(AwayError, match="insecure_full"):
        asked_of_file(tmp_path / "none" / "insecure_full.json")([SAFE])


def test_an_answer_that_is_none_is_no_judgement() -> None:
    """Of pip-audit: nothing, an error, a pin that it has skipped."""
    with pytest.raises(AwayError, match="Name or service"):
        judged([SAFE], "", "Traceback\nConnectionError: Name or service not known")
    skipped = {"dependencies": [{"name": "aiohttp", "skip_reason": "not found"}]}
    assert judged([SAFE], json.dumps(skipped)) == Judgement({}, [SAFE])
    answer = {"dependencies": [{"name": "pyyaml", "version": "5.3", "vulns": [{"id": "CVE-4"}]}]}
    assert judged([PLANTED], json.dumps(answer)) == Judgement({PLANTED: ["CVE-4"]}, [])


def test_the_locks_are_asked_for_in_groups_without_doubles() -> None:
    """All of them together have some, of different environments; every pin is in one group."""
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    wanted = sorted({Pin(*pin[:2], ()) for lock in locks for pin in pins(lock.read_text())})
    groups = without_doubles(wanted)
    assert len(groups) > 1
    assert sorted(pin for group in groups for pin in group) == wanted
    for group in groups:
        assert len({pin.name for pin in group}) == len(group)


class Advisories(BaseHTTPRequestHandler):
    """Answers as OSV does: of the older of two versions it knows an advisory."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        advisory = {"id": "CVE-5", "summary": "x", "affected": []}
        is_old = (asked["package"]["name"], asked["version"]) == ("pyyaml", "5.3")
        body = json.dumps({"vulns": [advisory]} if is_old else {}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        """It says nothing."""


@pytest.fixture
def osv(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A service of advisories on loopback, which pip-audit asks."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"http://127.0.0.1:{server.server_port}/")
        yield
        server.shutdown()


@pytest.mark.usefixtures("osv")
def test_two_versions_of_one_name_are_judged_each_by_its_own() -> None:
    """By pip-audit itself, which would refuse them in one file, and in any order."""
    both = [PLANTED, Pin("pyyaml", "6.0.3", ()), SAFE]
    for wanted in (both, both[::-1]):
        assert asked_online("osv")(wanted) == Judgement({PLANTED: ["CVE-5"]}, [])


def test_a_service_that_is_away_has_judged_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there: that is said, and no pin passes for a good one."""
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", "http://127.0.0.1:1/")
    with pytest.raises(AwayError, match="Connection"):
        asked_online("osv")([SAFE])

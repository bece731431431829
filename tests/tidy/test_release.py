"""Releases come out twice alike, and the audit of locks never passes in silence."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import threading
import tomllib
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

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
from tests.release.build import (
    CHART,
    ROOT,
    ReleaseError,
    build,
    can_compile,
    check_committed,
    copy_tracked,
    differences,
    packed,
    release,
    sums,
)
from tests.release.parts import Pin, bill_of_parts, pins

TIME = 1_700_000_000
TODAY = date(2026, 3, 1)
SAFE, PLANTED = Pin("aiohttp", "3.14.5", ()), Pin("pyyaml", "5.3", ())


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Everything but the native core, whose compiler takes its time, at two places."""
    folder = tmp_path_factory.mktemp("release")
    places = folder / "first", folder / "a second one"
    for place in places:
        build(ROOT, place, native=False, time=TIME)
    return places


def test_a_release_comes_out_twice_alike(twice: tuple[Path, Path]) -> None:
    """Wheel, source distribution, chart and list of parts, byte by byte."""
    first, second = twice
    assert differences(first, second) == []
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {path.name for path in first.iterdir()} == {
        f"svc_cluster-{version}-py3-none-any.whl",
        f"svc_cluster-{version}.tar.gz",
        f"svc-cluster-{version}.tgz",
        f"svc-cluster-{version}.cdx.json",
    }
    assert sums(first) == sums(second) and sums(first).count("\n") == 4


def test_what_differs_is_named(twice: tuple[Path, Path], tmp_path: Path) -> None:
    """A byte, a time in an archive, a file that only one of them has."""
    first, _ = twice
    other = tmp_path / "other"
    other.mkdir()
    for path in first.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    wheel = next(other.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"x")
    chart = next(other.glob("*.tgz"))
    packed(ROOT / CHART, CHART.name, chart, TIME + 1)
    (other / "more").touch()
    assert differences(first, other) == sorted([wheel.name, chart.name, "more"])


def committed(tree: Path) -> None:
    """Make a folder a repository with one commit."""
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(tree), *command], check=True)


def test_what_is_not_committed_is_refused_by_name(tmp_path: Path) -> None:
    """A changed file, and one that was added; what git does not know takes no part anyhow."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "setup.py").touch()
    committed(tree)
    (tree / "untracked").touch()
    check_committed(tree)
    (tree / "setup.py").write_text("changed\n")
    (tree / "added").touch()
    subprocess.run(["git", "-C", str(tree), "add", "added"], check=True)
    with pytest.raises(ReleaseError, match=r"2 changes are not committed \(added, setup.py\)"):
        release(tree, tmp_path / "out", twice=False, native=False, image=None)
    assert not (tmp_path / "out").exists()


def test_a_part_that_cannot_be_built_is_named(tmp_path: Path) -> None:
    """A tree that no wheel can be made of ends with the reason, and leaves nothing behind."""
    tree = tmp_path / "tree"
    copy_tracked(ROOT, tree)
    (tree / "setup.py").write_text("raise SystemExit('planted')\n")
    committed(tree)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(TIME))
        with pytest.raises(ReleaseError, match="planted"):
            release(tree, tmp_path / "out", twice=False, native=False, image=None)
    assert not (tmp_path / "out").exists()


def test_the_parts_have_what_they_need(twice: tuple[Path, Path]) -> None:
    """The console's files, the licence, sources and headers of the core, the chart's own shape."""
    first, _ = twice
    wheel = set(ZipFile(next(first.glob("*.whl"))).namelist())
    assert {"svc_cluster/__main__.py", "svc_cluster/gateway/console/static/main.js"} <= wheel
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    assert not any(name.endswith(".so") for name in wheel)
    with tarfile.open(next(first.glob("*.tar.gz"))) as tar:
        source = {name.partition("/")[2] for name in tar.getnames()}
    assert {"pyproject.toml", "setup.py", "README.md", "svc_cluster/_native/core.h"} <= source
    with tarfile.open(next(first.glob("*.tgz"))) as tar:
        chart = tar.getmembers()
    assert {"svc-cluster/Chart.yaml", "svc-cluster/values.yaml"} <= {each.name for each in chart}
    assert {each.mtime for each in chart} == {TIME}
    assert {(each.uid, each.gid, each.uname) for each in chart} == {(0, 0, "")}


@pytest.mark.skipif(not can_compile(), reason="no compiler with Python's headers")
def test_the_source_distribution_has_the_native_core(
    twice: tuple[Path, Path], tmp_path: Path
) -> None:
    """A wheel with the core can be built from it, by whoever has a compiler."""
    first, _ = twice
    with tarfile.open(next(first.glob("*.tar.gz"))) as tar:
        tar.extractall(tmp_path, filter="data")
    tree = next(tmp_path.glob("svc_cluster-*"))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wheel = ZipFile(next(tmp_path.glob("*-abi3-*.whl")))
    assert "svc_cluster/_native/_core.abi3.so" in wheel.namelist()


def test_the_list_of_parts_has_every_pin(twice: tuple[Path, Path]) -> None:
    """With its hashes, under package URLs; it is what the schema of CycloneDX wants."""
    text = next(twice[0].glob("*.cdx.json")).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = {part["purl"]: part for part in json.loads(text)["components"]}
    wanted = pins((ROOT / "requirements/run.lock").read_text())
    assert len(wanted) > 20
    for pin in wanted:
        part = found[f"pkg:pypi/{pin.name}@{pin.version}"]
        assert {each["content"] for each in part["hashes"]} == set(pin.hashes)
    assert json.loads(text)["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")


def test_a_pin_without_a_hash_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.write_text("aiohttp==3.14.5\n    # via x\n")
    with pytest.raises(ValueError, match="aiohttp has no hash"):
        bill_of_parts("1", [lock], TIME)


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

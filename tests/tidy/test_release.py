"""Releases come out twice alike, with all that their parts need."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
from datetime import date
from pathlib import Path
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.release.build import (
    CHART,
    ROOT,
    ReleaseError,
    build,
    can_compile,
    copy_tracked,
    differences,
    packed,
    release,
    sums,
)
from tests.release.parts import Pin, bill_of_parts, pins
from tests.unit.release.test_differences import committed

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

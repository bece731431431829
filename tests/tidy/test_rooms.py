"""The rules of imports hold, and each of them is seen to fail on a breach planted in a copy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions, version
from pathlib import Path, PurePath

import pytest

from tests.tidy.room_map import arrows, arrows_back
from tests.tidy.rooms import breaches, foreign_imports

ROOT = Path(__file__).resolve().parents[2]


def a_copy(folder: Path) -> Path:
    """The product's tree and its settings, to be broken."""
    shutil.copytree(
        ROOT / "svc_cluster", folder / "svc_cluster", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def plant(root: Path, name: str, line: str) -> None:
    """Add a line to a module, which is made where it is not there."""
    path = root / "svc_cluster" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as module:
        module.write(f"\n{line}\n")


def test_every_import_is_in_a_room_that_may_have_it() -> None:
    """No library out of its rooms, no row that nobody needs, no package without a layer."""
    assert breaches(ROOT) == []


PLANTED = [
    ("gateway/records/sealer.py", "import aiohttp", "aiohttp may be imported in http only"),
    ("gateway/request/dialect.py", "import h2.config", "h2 may be imported in http only"),
    ("link/frame.py", "import hyperframe.frame", "hyperframe may be imported in http only"),
    ("link/session.py", "import rocksdict", "in storage/rocks_store.py only"),
    ("storage/disk.py", "from rocksdict import Rdict", "in storage/rocks_store.py only"),
    ("raft/leader.py", "from pysyncobj import SyncObj", "in raft/core.py only"),
    ("link/calls.py", "def f():\n    import grpc", "grpc may be imported in _pb"),
    ("replica/node.py", "from grpc import aio", "grpc may be imported in _pb"),
    ("stream/apply.py", "import asyncio", "asyncio may be imported in"),
    ("raft/engine.py", "import time", "time may be imported in base/clock.py"),
    ("gateway/openapi/schemas.py", "import random", "random may be imported in"),
    ("codec/varint.py", "import google.protobuf, requests", "requests has no row"),
    ("stream/scan.py", "x = __import__('rocksdict')", "importlib may be imported in"),
    ("newcomer/__init__.py", "", "svc_cluster/newcomer/__init__.py: stands in no layer"),
    ("newcomer.py", "", "svc_cluster/newcomer.py: stands in no layer"),
    ("cli/newcomer/part.py", "", "svc_cluster/cli/newcomer/part.py: stands in no layer"),
]


@pytest.mark.parametrize(("name", "line", "refusal"), PLANTED)
def test_a_planted_import_is_refused(tmp_path: Path, name: str, line: str, refusal: str) -> None:
    """One line more, one refusal more: it names the file, the library and where it may be."""
    copy = a_copy(tmp_path)
    plant(copy, name, line)
    (said,) = breaches(copy)
    assert said.startswith(f"svc_cluster/{name}:")
    assert refusal in said


def test_a_row_that_nobody_needs_is_refused(tmp_path: Path) -> None:
    """The table does not keep doors open: a room that has stopped importing loses its entry."""
    copy = a_copy(tmp_path)
    settings = copy / "pyproject.toml"
    settings.write_text(settings.read_text().replace('h2 = ["http"]', 'h2 = ["http", "link"]'))
    assert breaches(copy) == ["[tool.rooms]: nobody in link imports h2 any more"]


def test_the_contracts_of_layers_fail_on_planted_arrows(tmp_path: Path) -> None:
    """import-linter, as `make check` runs it, over a copy with an arrow against each of its
    contracts and a room of the gateway without a place: it names them all."""
    copy = a_copy(tmp_path)
    plant(copy, "base/ids.py", "import svc_cluster.model.names")
    plant(copy, "stream/apply.py", "import threading")
    plant(copy, "gateway/request/dialect.py", "import svc_cluster.gateway.records.sealer")
    plant(copy, "gateway/newcomer/__init__.py", "")
    command = [sys.executable, "-c", "import importlinter.cli as c; c.lint_imports_command()"]
    outcome = subprocess.run(
        [*command, "--no-cache"], cwd=copy, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 1, outcome.stderr
    for said in (
        "layers BROKEN",
        "deciding layers do no input or output BROKEN",
        "rooms of the gateway BROKEN",
        "svc_cluster.base is not allowed to import svc_cluster.model",
        "svc_cluster.stream is not allowed to import threading",
        "newcomer",
    ):
        assert said in outcome.stdout, outcome.stdout


def undeclared_and_idle(root: Path) -> tuple[set[str], set[str]]:
    """Libraries that the product imports and does not declare, and declared ones that nothing
    imports. What `svc_cluster.testing` and traces import is declared by extras of their own."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    owners = packages_distributions()
    undeclared: set[str] = set()
    idle: set[str] = set()
    for declared, extra in (
        (project["dependencies"], ""),
        (project["optional-dependencies"]["testing"], "testing"),
        (project["optional-dependencies"]["otel"], "otel"),
    ):
        named = {_plain(re.split(r"[<>=!~ ]", each)[0]) for each in declared}
        used = {
            _plain(owner)
            for each in foreign_imports(root)
            if _extra(each.path, each.module) == extra
            for owner in _distributions(each.module, owners)
        }
        undeclared |= used - named
        idle |= named - used
    return undeclared, idle


def _extra(path: PurePath, module: str) -> str:
    """Which extra declares what is imported there; empty: everybody has it."""
    if path.parts[0] == "testing":
        return "testing"
    return "otel" if module.split(".")[0] == "opentelemetry" else ""


def _distributions(module: str, owners: Mapping[str, list[str]]) -> list[str]:
    """Who brings a module, by the name in the registry. `google` and `opentelemetry` belong to
    several."""
    top = module.split(".")[0]
    if top in sys.stdlib_module_names:
        return []
    if top == "opentelemetry":
        return ["opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"]
    return ["protobuf"] if module.startswith("google.protobuf") else sorted({*owners[top]})


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_imported_library_is_declared() -> None:
    """Nothing comes in by way of another's dependencies, and nothing is installed for nobody."""
    assert undeclared_and_idle(ROOT) == (set(), set())


def test_a_library_that_is_not_declared_is_found(tmp_path: Path) -> None:
    """Both ways: a declaration that is missing, and an import that has gone."""
    copy = a_copy(tmp_path)
    settings = copy / "pyproject.toml"
    text = settings.read_text()
    settings.write_text(re.sub(r'  "hyperframe[^"]*",\n', "", text))
    (copy / "svc_cluster/base/checksum.py").write_text("")
    assert undeclared_and_idle(copy) == ({"hyperframe"}, {"crc32c"})


def test_the_library_whose_private_names_are_used_has_one_version() -> None:
    """aiohttp, in pyproject and in both locks, and it is the one that is installed."""
    named = "aiohttp==" + version("aiohttp")
    assert f'"{named}",' in (ROOT / "pyproject.toml").read_text()
    for lock in ("run.lock", "dev.lock"):
        assert f"{named} \\\n" in (ROOT / "requirements" / lock).read_text()


def test_no_two_rooms_of_the_gateway_lean_on_each_other(tmp_path: Path) -> None:
    """An import back is found, wherever in the circle it was planted."""
    assert arrows_back(arrows(ROOT)) == []
    root = a_copy(tmp_path)
    assert arrows_back(arrows(root)) == []
    plant(root, "gateway/request/host_names.py", "import svc_cluster.gateway.api.context")
    found = arrows_back(arrows(root))
    assert ("request", "api") in found and ("api", "request") in found
    assert all("app" not in pair for pair in found), "nobody leans on what stands above all"

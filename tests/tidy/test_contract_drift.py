"""The comparison with S2's crates finds what has changed, and says when it compared nothing."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.contract_drift import CRATES, KEPT, checked, main

ROOT = Path(__file__).resolve().parents[2]
PROTO = """
message Batch {
  repeated Row rows = 1; // in order
  oneof kind { string word = 2; uint64 number = 3; }
}
enum Color { RED = 0; }
"""
TYPES = """
pub struct Place {
    /// Its name.
    pub name: String,
    #[serde(default)]
    pub is_near: Option<bool>,
}
pub enum Word {
    First,
}
static HEADER: HeaderName = HeaderName::from_static("s2-word");
"""
PATHS = """
pub mod things {
    pub mod parts {
        pub const LIST: &str = "/things/{thing}/parts";
    }
}
"""
HANDLER = """
#[cfg_attr(feature = "utoipa", utoipa::path(
    get,
    path = super::paths::things::parts::LIST,
    params(ListRequest),
    responses(
        (status = 200, body = Vec<Place>),
        (status = StatusCode::NOT_FOUND, body = Error),
    ),
))]
"""
FILES: dict[str, dict[str, str]] = {
    "s2-api": {"specs/s2.proto": PROTO, "src/v1/place.rs": TYPES},
    "s2-lite": {"src/handlers/v1/paths.rs": PATHS, "src/handlers/v1/parts.rs": HANDLER},
}


def publish(
    directory: Path, name: str, version: str = "0.1.0", changes: Mapping[str, str] | None = None
) -> None:
    """Write an archive of the form that the registry has, changed in the files that are named."""
    files = {"CHANGELOG.md": "## [0.1.0]\n- Begun\n"} | FILES.get(name, {}) | dict(changes or {})
    with tarfile.open(directory / f"{name}-{version}.crate", "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with each crate, which has been looked at."""
    for name in CRATES:
        publish(tmp_path, name)
    assert run(tmp_path, "--write") == 0
    return tmp_path


def run(source: Path, *options: str) -> int:
    return main(["--source", str(source), "--kept", str(source / "kept.json"), *options])


def test_what_was_looked_at_is_no_difference(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 0, and each crate is named with its version."""
    assert run(source) == 0
    told = capsys.readouterr().out
    assert all(f"{name} 0.1.0: as looked at" in told for name in CRATES)


@pytest.mark.parametrize(
    ("name", "path", "before", "after", "says"),
    [
        ("s2-api", "specs/s2.proto", "word = 2", "word = 4", "message Batch: word: was string = 2"),
        ("s2-api", "specs/s2.proto", "RED = 0;", "RED = 0; BLUE = 1;", "enum Color: BLUE: is new"),
        ("s2-api", "src/v1/place.rs", "pub name: String,", "", "struct Place: name: is gone"),
        (
            "s2-api",
            "src/v1/place.rs",
            "#[serde(default)]",
            "",
            "struct Place: is_near: was #[s",
        ),
        ("s2-api", "src/v1/place.rs", "First,", "First,\n    Other,", "enum Word: Other: is new"),
        ("s2-api", "src/v1/place.rs", "s2-word", "s2-words", "headers: s2-words: is new"),
        (
            "s2-lite",
            "src/handlers/v1/paths.rs",
            "/parts",
            "/bits",
            "GET /things/{thing}/bits: ",
        ),
        (
            "s2-lite",
            "src/handlers/v1/parts.rs",
            "200",
            "204",
            "parts: status 204: is new: V",
        ),
        ("s2-lite", "src/handlers/v1/parts.rs", "NOT_FOUND", "GONE", "status NOT_FOUND: is gone"),
        ("s2-lite", "src/handlers/v1/parts.rs", "ListRequest", "L", "parameters: was ListRequest"),
        ("s2-sdk", "CHANGELOG.md", "Begun", "Begun again", "0.1.0: the archive is another one"),
    ],
)
def test_a_planted_difference_is_named(
    source: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    path: str,
    before: str,
    after: str,
    says: str,
) -> None:
    """Status 1, whatever part of the interface it is in, also under the same version."""
    files = {"CHANGELOG.md": "## [0.1.0]\n- Begun\n"} | FILES.get(name, {})
    assert before in files[path]
    publish(source, name, changes={path: files[path].replace(before, after)})
    assert run(source) == 1
    assert says in capsys.readouterr().out


def test_a_newer_version_is_a_difference_with_its_lines_of_the_changelog(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions are compared as numbers, and old lines are not told again."""
    text = "## [0.10.0]\n- Ten\n## [0.9.0]\n### Fixes\n- Nine\n## [0.1.0]\n- Begun\n"
    publish(source, "s2-sdk", "0.9.0")
    publish(source, "s2-sdk", "0.10.0", {"CHANGELOG.md": text})
    assert run(source) == 1
    assert capsys.readouterr().out.splitlines() == [
        "s2-sdk: 0.10.0 is out, 0.1.0 was looked at",
        "s2-sdk changelog 0.10.0: Ten",
        "s2-sdk changelog 0.9.0: Nine",
    ]


WHY = ("is no crate", "has no s2-sdk", "a format of another release")


def test_nothing_compared_is_told_from_no_difference(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crate that is not there, an archive that is none, and a kept file of another format: status
    2 and a sentence."""
    (source / "s2-sdk-0.1.0.crate").write_bytes(b"no archive")
    assert run(source) == 2
    (source / "s2-sdk-0.1.0.crate").unlink()
    assert run(source) == 2
    publish(source, "s2-sdk")
    (source / "kept.json").write_text('{"format": 0}')
    assert run(source) == 2
    told = capsys.readouterr().err.splitlines()
    assert all(line.startswith("nothing was compared: ") for line in told)
    assert [line.count(word) for word, line in zip(WHY, told, strict=True)] == [1, 1, 1], told


def drift_without_network(tmp_path: Path, path: str) -> subprocess.CompletedProcess[str]:
    """The command as it is run by hand, with `path` to find programs by, and nothing in cargo's
    cache."""
    environment = {"PATH": path, "HOME": str(Path.home()), "CARGO_HOME": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-m", "tests.acceptance.contract_drift"],
        cwd=ROOT,
        env=environment | {"CARGO_NET_OFFLINE": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_cargo_it_says_so(tmp_path: Path) -> None:
    """Status 2: nobody takes it for no difference."""
    ended = drift_without_network(tmp_path, str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no cargo here" in ended.stderr


def test_without_a_network_it_says_so(tmp_path: Path) -> None:
    """The same where cargo may not fetch anything."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("needs cargo")
    places = os.environ["PATH"]
    real = subprocess.run(
        [cargo, "--version"], env=os.environ | {"CARGO_HOME": str(tmp_path)}, check=False
    )
    if real.returncode != 0:
        pytest.skip("cargo runs with its own home alone here")
    ended = drift_without_network(tmp_path, places)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is there a network?" in ended.stderr


def test_the_page_tells_of_the_versions_that_were_looked_at() -> None:
    """Each crate of docs/compatibility.md's table stands in the version that was kept."""
    page = (ROOT / "docs" / "compatibility.md").read_text()
    for name, row in checked(KEPT).items():
        assert re.search(rf"`{name}` {re.escape(row['version'])}\b", page), name

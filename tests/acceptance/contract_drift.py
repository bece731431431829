"""Compare S2's newest published crates with what this project was last checked against.

`python -m tests.acceptance.contract_drift [--source DIRECTORY] [--write]`. The status is 0 when
nothing differs, 1 when something does, which is named, and 2 when the crates cannot be had. Without
`--source` cargo fetches them. `--write` keeps what is there now, for who has looked at it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.acceptance.contract_facts import Crate, CrateError, Facts

CRATES: Final = ("s2-api", "s2-common", "s2-lite", "s2-resource-spec", "s2-sdk")
KEPT: Final = Path(__file__).with_name("contract_checked.json")
FORMAT_VERSION: Final = 1
FETCH_SECONDS: Final = 300
NOT_THERE: Final = 2


class NotThereError(Exception):
    """The crates, or what they are compared with, cannot be had; one sentence."""


def given_crates(directory: Path) -> list[Crate]:
    """Read the newest `<name>-<version>.crate` of each crate in a directory. Raises
    NotThereError."""
    return [_opened(name, _newest(directory, name)) for name in CRATES]


def _newest(directory: Path, name: str) -> Path:
    paths = [path for path in directory.glob(f"{name}-*.crate") if _version(name, path)]
    if not paths:
        raise NotThereError(f"{directory} has no {name}-<version>.crate")
    return max(paths, key=lambda path: _version(name, path) or [])


def _version(name: str, path: Path) -> list[int] | None:
    """None for another crate whose name begins so."""
    text = path.name.removeprefix(f"{name}-").removesuffix(".crate")
    return [int(part) for part in text.split(".")] if re.fullmatch(r"\d+(\.\d+)*", text) else None


def fetched_crates() -> list[Crate]:
    """Let cargo fetch the newest release of each crate. Raises NotThereError."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NotThereError("there is no cargo here, which fetches crates: install Rust's tools")
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    with tempfile.TemporaryDirectory() as empty:
        versions = {name: _fetch(cargo, name, empty) for name in CRATES}
    out = []
    for name, version in versions.items():
        found = sorted((home / "registry" / "cache").glob(f"*/{name}-{version}.crate"))
        if not found:
            raise NotThereError(f"cargo has not left {name} {version} in {home}")
        out.append(_opened(name, found[0]))
    return out


def _fetch(cargo: str, name: str, directory: str) -> str:
    """The newest version, which is in cargo's cache then. Outside of any project cargo goes by no
    lock file."""
    wanted = name
    for _ in range(2):
        told = _cargo_info(cargo, wanted, directory)
        version = re.search(r"^version: (\S+)(?: \(latest ([^ )]+))?", told, re.MULTILINE)
        if version is None:
            break
        if version[2] is None:
            return version[1]
        wanted = f"{name}@{version[2]}"
    raise NotThereError(f"cargo does not say which version of {name} is the newest")


def _cargo_info(cargo: str, wanted: str, directory: str) -> str:
    try:
        ended = subprocess.run(
            [cargo, "info", "--color", "never", wanted],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as cause:
        raise NotThereError(f"cargo has not fetched {wanted} in {FETCH_SECONDS} s") from cause
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        raise NotThereError(
            f"cargo cannot fetch {wanted}, is there a network? It says: {' '.join(lines)[:300]}"
        )
    return ended.stdout


def _opened(name: str, path: Path) -> Crate:
    try:
        return Crate.open(name, path)
    except (CrateError, OSError) as cause:
        raise NotThereError(str(cause)) from cause


def checked(path: Path) -> dict[str, dict[str, Any]]:
    """Read what was kept, by crate: version, digest, facts. Raises NotThereError."""
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError) as cause:
        raise NotThereError(f"{path} cannot be read ({cause}): write it with --write") from cause
    if kept.get("format") != FORMAT_VERSION:
        raise NotThereError(f"{path} has a format of another release: write it with --write")
    crates: dict[str, dict[str, Any]] = kept["crates"]
    return crates


def keep(crates: list[Crate], path: Path) -> None:
    """Write what is there now."""
    rows = {
        crate.name: {"version": crate.version, "digest": crate.digest, "facts": crate.facts()}
        for crate in crates
    }
    kept = {"format": FORMAT_VERSION, "crates": rows}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def drift(crates: list[Crate], kept: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each difference; none where nothing has changed."""
    lines: list[str] = []
    for crate in crates:
        row = kept.get(crate.name)
        if row is None:
            lines.append(f"{crate.name} {crate.version}: was never looked at")
            continue
        if row["version"] != crate.version:
            lines.append(f"{crate.name}: {crate.version} is out, {row['version']} was looked at")
            lines += [f"{crate.name} changelog {line}" for line in crate.news(row["version"])]
        elif row["digest"] != crate.digest:
            lines.append(f"{crate.name} {crate.version}: the archive is another one than it was")
        lines += [f"{crate.name} {line}" for line in differences(row["facts"], crate.facts())]
    return lines


def differences(before: Facts, now: Facts) -> list[str]:
    """Return a line for each thing, and each part of one, that is new, gone or other."""
    lines: list[str] = []
    for thing in sorted(before.keys() | now.keys()):
        if thing not in now:
            lines.append(f"{thing}: is gone")
            continue
        if thing not in before:
            lines.append(f"{thing}: is new")
        old, new = before.get(thing, {}), now[thing]
        for part in sorted(old.keys() | new.keys()):
            if part not in new:
                lines.append(f"{thing}: {part}: is gone")
            elif part not in old:
                lines.append(f"{thing}: {part}: is new: {new[part]}")
            elif old[part] != new[part]:
                lines.append(f"{thing}: {part}: was {old[part]}, is {new[part]}")
    return lines


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="S2's newest crates against those looked at last")
    parser.add_argument("--source", type=Path, help="a directory of .crate files; else cargo")
    parser.add_argument("--kept", type=Path, default=KEPT, help="what was looked at last")
    parser.add_argument("--write", action="store_true", help="keep what is there now")
    chosen = parser.parse_args(arguments)
    try:
        crates = fetched_crates() if chosen.source is None else given_crates(chosen.source)
        if chosen.write:
            keep(crates, chosen.kept)
        lines = drift(crates, checked(chosen.kept))
    except NotThereError as cause:
        print(f"nothing was compared: {cause}", file=sys.stderr)
        return NOT_THERE
    print("\n".join(lines or [f"{crate.name} {crate.version}: as looked at" for crate in crates]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

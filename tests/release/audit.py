"""The locks, held against the advisories that can be had: `make audit`, or

`python -m tests.release.audit [--source pypi|osv|kept]… [LOCK…]`. Every source is first asked for
one pin that has a known advisory. A source that does not name it is not to be had, whatever it
answers, and is asked for nothing more: no silence passes for a good answer. *kept* is the database
that PyPI's package `safety-db` brings along, for machines without a network; how old it is is told.
It may not be used commercially (CC BY-NC-SA 4.0), so that `make audit KEPT=yes` alone installs it,
into build/advisories; it is asked where it is there.

Status 0: a source of today has judged every pin, and none has an advisory; 1: some have, by name;
3: none has, but no source of today could be had, or it did not know some of the pins; 2: usage.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.release.parts import Pin, pins

ROOT: Final = Path(__file__).resolve().parents[2]
CANARY: Final = Pin("jinja2", "2.10", ())
"""Of 2018, with advisories of 2019 (CVE-2019-10906) and later."""

KEPT: Final = ROOT / "build" / "advisories"
CURRENT_DAYS: Final = 30
SECONDS: Final = 300
FOUND, NOT_JUDGED = 1, 3


class AwayError(Exception):
    """A source cannot be had; the text says how that showed."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a source says of some pins: the advisories of each, and those it does not know."""

    advisories: dict[Pin, list[str]]
    unknown: list[Pin]


Source = Callable[[Sequence[Pin]], Judgement]


def asked_online(service: str) -> Source:
    """Return a source that pip-audit asks over the network."""

    def ask(wanted: Sequence[Pin]) -> Judgement:
        judgements = [ask_once(group) for group in without_doubles(wanted)]
        return Judgement(
            {pin: ids for each in judgements for pin, ids in each.advisories.items()},
            [pin for each in judgements for pin in each.unknown],
        )

    def ask_once(wanted: Sequence[Pin]) -> Judgement:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(f"{pin.name}=={pin.version}\n" for pin in wanted))
            file.flush()
            command = [sys.executable, "-m", "pip_audit", "-r", file.name, "-s", service]
            command += ["--no-deps", "--disable-pip", "--progress-spinner", "off", "-f", "json"]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=SECONDS
                )
            except subprocess.TimeoutExpired as late:
                raise AwayError(f"no answer within {SECONDS} s") from late
        return judged(wanted, done.stdout, done.stderr)

    return ask


def without_doubles(wanted: Sequence[Pin]) -> list[list[Pin]]:
    """Return the pins in groups, none of which has two versions of one name: pip-audit refuses a
    file with those, and locks of several environments may well have them."""
    groups: list[dict[str, Pin]] = []
    for pin in wanted:
        group = next((each for each in groups if pin.name not in each), None)
        if group is None:
            groups.append(group := {})
        group[pin.name] = pin
    return [list(group.values()) for group in groups]


def judged(wanted: Sequence[Pin], said: str, errors: str = "") -> Judgement:
    """Read what pip-audit says. Raises AwayError where that is no judgement."""
    try:
        # what it skips has no version
        rows = {
            (row["name"], Version(row["version"])): row
            for row in json.loads(said)["dependencies"]
            if "vulns" in row
        }
    except (ValueError, KeyError, TypeError) as cause:
        raise AwayError((errors.strip().splitlines() or ["no answer"])[-1][:200]) from cause
    keys = {pin: (pin.name, Version(pin.version)) for pin in wanted}
    known = {pin: rows[key] for pin, key in keys.items() if key in rows}
    advisories = {
        pin: [vulnerability["id"] for vulnerability in row["vulns"]]
        for pin, row in known.items()
        if row["vulns"]
    }
    return Judgement(advisories, [pin for pin in wanted if pin not in known])


def asked_of_file(database: Path) -> Source:
    """Return a source that a file is, in the form of safety-db: it knows what it does not list."""

    def ask(wanted: Sequence[Pin]) -> Judgement:
        try:
            rows: dict[str, Any] = json.loads(database.read_text())
        except (OSError, ValueError) as cause:
            raise AwayError(f"{database}: {cause}") from cause
        advisories: dict[Pin, list[str]] = {}
        for pin in wanted:
            for row in rows.get(pin.name, []):
                if any(SpecifierSet(spec).contains(pin.version, True) for spec in row["specs"]):
                    advisories.setdefault(pin, []).append(row.get("cve") or row["id"])
        return Judgement(advisories, [])

    return ask


def checked(ask: Source, wanted: Sequence[Pin]) -> Judgement:
    """Ask for the canary first. Raises AwayError where it is not named."""
    if not ask([CANARY]).advisories:
        raise AwayError(f"it names no advisory of {CANARY.name} {CANARY.version}, which has some")
    return ask(wanted)


def kept_database(place: Path = KEPT) -> tuple[Path, date] | None:
    """Return the database that a package has brought along, and the day it is of."""
    for found in importlib.metadata.distributions(name="safety-db", path=[str(place)]):
        year, month, day = map(int, found.version.split(".")[:3])
        return place / "safety_db" / "insecure_full.json", date(year, month, day)
    return None


def audit(
    wanted: Sequence[Pin],
    sources: dict[str, tuple[Source, date | None]],
    today: date,
    say: Callable[[str], object],
) -> int:
    """Ask each source, say what came of it, and return the exit status."""
    found: dict[Pin, set[str]] = {}
    left = set(wanted)
    for name, (ask, day) in sources.items():
        try:
            judgement = checked(ask, wanted)
        except AwayError as away:
            say(f"{name}: not to be had ({away})")
            continue
        is_current = day is None or (today - day).days <= CURRENT_DAYS
        age = "of today" if day is None else f"of {day}, {(today - day).days} days old"
        say(f"{name}: {age}; judged {len(wanted) - len(judgement.unknown)} of {len(wanted)} pins")
        for pin, advisories in judgement.advisories.items():
            found.setdefault(pin, set()).update(advisories)
        if is_current:
            left &= set(judgement.unknown)
    for pin, named in sorted(found.items()):
        say(f"VULNERABLE {pin.name} {pin.version}: {', '.join(sorted(named))}")
    if found:
        return FOUND
    if left:
        say(
            f"no advisory, but no source of today judged {len(left)} of {len(wanted)} pins: "
            "this is not a pass"
        )
        return NOT_JUDGED
    say(f"no advisory for any of {len(wanted)} pins")
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.release.audit")
    parser.add_argument("--source", action="append", choices=["pypi", "osv", "kept"])
    parser.add_argument("locks", nargs="*", type=Path)
    given = parser.parse_args()
    locks = given.locks or sorted((ROOT / "requirements").glob("*.lock"))
    wanted = sorted({Pin(*pin[:2], ()) for lock in locks for pin in pins(lock.read_text())})
    sources: dict[str, tuple[Source, date | None]] = {}
    for name in given.source or ["pypi", "osv", "kept"]:
        if name != "kept":
            sources[name] = asked_online(name), None
        elif (kept := kept_database()) is not None:
            sources[name] = asked_of_file(kept[0]), kept[1]
        else:
            print("kept: not asked (make audit KEPT=yes installs it; not for commercial use)")
    print(f"{len(wanted)} pins of {', '.join(lock.name for lock in locks)}")
    sys.exit(audit(wanted, sources, datetime.now(UTC).date(), print))


if __name__ == "__main__":
    main()

"""One page of metrics out of those of several processes that are one server together.

Counters, histograms and summaries are added, and gauges as well, unless their sum says nothing:
`GAUGES` and `ENDINGS` name those. Pages are read by their TYPE lines, version 0.0.4 of the text
format as this project's own processes write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from prometheus_client import utils


class Joint(Enum):
    """What the values of several processes come to."""

    SUM = "sum"
    GREATEST = "greatest"
    LEAST = "least"
    EACH = "each"
    """None of these says anything: each process's own is shown, with the label `process`."""


GAUGES: Final[Mapping[str, Joint]] = {
    "process_start_time_seconds": Joint.EACH,
    "svc_backup_last_success_timestamp_seconds": Joint.GREATEST,
    "svc_clock_away_seconds": Joint.GREATEST,
    "svc_cluster_active_version": Joint.GREATEST,
    "svc_cluster_upgrade_outstanding": Joint.GREATEST,
    "svc_scrub_age_seconds": Joint.GREATEST,
    "svc_storage_capacity_bytes": Joint.GREATEST,
    "svc_storage_free_bytes": Joint.LEAST,
    "svc_storage_read_only": Joint.GREATEST,
    "svc_tls_cert_expiry_timestamp_seconds": Joint.LEAST,
}
"""Gauges that are not added."""
ENDINGS: Final[Mapping[str, Joint]] = {"_info": Joint.GREATEST, "_ratio": Joint.GREATEST}
"""The same by the end of their names."""
KINDS: Final = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
LASTING: Final = frozenset({"counter", "histogram", "summary"})
"""What a process that is gone has counted still counts; what its gauges showed does not."""


class PageError(ValueError):
    """A page is not one that a process of this project writes."""


@dataclass(slots=True)
class _Family:
    kind: str = "untyped"
    joint: Joint = Joint.SUM
    head: list[str] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)


def merged(pages: Mapping[int, bytes], past: Iterable[bytes] = ()) -> bytes:
    """Return the page of all processes, given each one's by its number. Of the `past` pages, of
    processes that are gone or do not answer, what lasts is added. Families come in the order of
    the first page that has them. Raises PageError."""
    families: dict[str, _Family] = {}
    for number, page in pages.items():
        _add(families, page, number)
    for page in past:
        _add(families, page, None)
    out: list[str] = []
    for family in families.values():
        if len(family.head) < 2:
            continue  # a gauge of a process that is gone: its TYPE was left out
        out += family.head
        out += [f"{key} {_text(value)}" for key, value in family.values.items()]
    return "".join(f"{line}\n" for line in out).encode()


def joint_of(name: str, kind: str) -> Joint:
    """Return what the values of a family come to."""
    if kind != "gauge":
        return Joint.SUM
    if name in GAUGES:
        return GAUGES[name]
    return next((rule for ending, rule in ENDINGS.items() if name.endswith(ending)), Joint.SUM)


def _add(families: dict[str, _Family], page: bytes, number: int | None) -> None:
    """What has no `number` is past."""
    family: _Family | None = None
    try:
        text = page.decode()
    except UnicodeDecodeError as cause:
        raise PageError("a page is no text in UTF-8") from cause
    # not splitlines: a label's value may have other separators of lines in it
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# "):
            family = _headed(families, line, is_past=number is None)
        elif line:
            if family is None:
                raise PageError(f"a sample stands before any head: {line[:80]!r}")
            if number is not None or family.kind in LASTING:
                _take(family, line, number)


def _headed(families: dict[str, _Family], line: str, *, is_past: bool) -> _Family:
    """The family whose head has this line. HELP comes before TYPE."""
    words = line.split(" ", 3)
    if len(words) < 3 or words[1] not in ("HELP", "TYPE"):
        raise PageError(f"neither HELP nor TYPE: {line[:80]!r}")
    family = families.setdefault(words[2], _Family())
    if words[1] == "TYPE":
        kind = words[3] if len(words) == 4 else ""
        if kind not in KINDS:
            raise PageError(f"no kind of metric: {line[:80]!r}")
        family.kind, family.joint = kind, joint_of(words[2], kind)
        if len(family.head) == 1 and (not is_past or kind in LASTING):
            family.head.append(line)
    elif not family.head:
        family.head.append(line)
    return family


def _take(family: _Family, line: str, number: int | None) -> None:
    key, _, text = line.rpartition(" ")
    try:
        value = float(text)
    except ValueError as cause:
        raise PageError(f"not a number at the end: {line[-80:]!r}") from cause
    if not key:
        raise PageError(f"no name: {line[:80]!r}")
    if family.joint is Joint.EACH:
        family.values[_labelled(key, number)] = value
        return
    before = family.values.get(key)
    if before is None:
        family.values[key] = value
    elif family.joint is Joint.SUM:
        family.values[key] = before + value
    else:
        choose = max if family.joint is Joint.GREATEST else min
        family.values[key] = choose(before, value)


def _labelled(key: str, number: int | None) -> str:
    """A sample's name and labels with one label more."""
    label = f'process="{number}"'
    if key.endswith("}"):
        return f"{key[:-1]},{label}}}"
    return f"{key}{{{label}}}"


def _text(value: float) -> str:
    text: str = utils.floatToGoString(value)  # type: ignore[no-untyped-call]
    return text

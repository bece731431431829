"""The scorecard's lines of space, retries, usage, hostile clients, parsers, verdicts, load held at
once and the soak."""

from __future__ import annotations

import ast
from typing import Any, Final

from tests.prove.bounds import quantile, rate
from tests.prove.covered import ROOT
from tests.prove.line import Card, Rows

HOSTILE_SCALE_MIN: Final = 3
SCENES: Final = ROOT / "tests" / "hostile"
FUZZ_INPUTS_MIN: Final = 200_000
SOAK_HOURS_MIN: Final = 2.0
SOAK_APPENDS_MIN: Final = 10_000
SOAK_READS_MIN: Final = 1_000
SOAK_FAULTS: Final = (
    *("kill node", "kill leader", "stop leader", "freeze node", "freeze leader"),
    "kill gateway",
)
HELD_APPENDS_MIN: Final = 1_000
HISTORIES_MIN: Final = 500
PLANTED_MIN: Final = 50
HELD_P99_TIMES_MAX: Final = 3.0
RESTARTS_MIN: Final = 100
HAND_OVER_P99_MS_MAX: Final = 300


def make_late_lines(card: Card, current: Rows) -> None:
    _restarts(card, current["restarts"])
    _space(card, current["space"])
    _ambiguous(card, current["ambiguous"])
    _usage(card, current["usage"])
    _hostile(card, current["hostile"])
    _fuzz(card, current["fuzz"])
    _verdicts(card, current["verdicts"])
    _held(card, current["held"])
    _soak(card, current["soak"])


def _restarts(card: Card, rows: list[dict[str, Any]]) -> None:
    """All runs together."""
    gaps = [gap for row in rows for gap in row["gaps_ms"]]
    failed = sum(int(row["failed"]) for row in rows)
    lost = sum(int(row["lost"]) + int(row["doubled"]) for row in rows)
    figure = "0 restarts"
    if gaps:
        figure = (
            f"p50 {quantile(gaps, 0.5)} ms, p99 {quantile(gaps, 0.99)} ms, max {max(gaps)} ms over "
            f"{len(gaps)}, {sum(int(row['gateways']) for row in rows)} gateways; {failed} of "
            f"{sum(int(row['appends']) for row in rows):,} failed, {lost} lost or doubled"
        )
        whole = [gap for row in rows for gap in row.get("until_whole_ms", ())]
        if whole:
            figure += f"; until the node was whole p99 {quantile(whole, 0.99)}, max {max(whole)} ms"
    card.add(
        "planned restarts of the leader's node and of the gateway: hand-over gap that clients see, "
        "appends that failed with retries",
        f"p99 <= {HAND_OVER_P99_MS_MAX} ms over {RESTARTS_MIN}, 0 failed",
        figure,
        reached=len(gaps) >= RESTARTS_MIN
        and quantile(gaps, 0.99) <= HAND_OVER_P99_MS_MAX
        and not (failed or lost),
        bound=rate(min(failed, len(gaps)), len(gaps)),
    )


def _space(card: Card, rows: list[dict[str, Any]]) -> None:
    """The largest run, and of those the last. None that failed is outdone by another."""
    figure, reached = "not run", False
    failed = [row["failed"] for row in rows if "failed" in row]
    whole = [row for row in rows if "failed" not in row]
    if whole:
        row = max(reversed(whole), key=lambda each: int(each["trimmed_mib"]))
        sizes = row["after_mib"]
        most = 1.3 * row["live_mib"] + row["floor_mib"]
        figure = (
            f"{row['trimmed_mib']:,} MiB on {row['nodes']} nodes: {max(row['before_mib']):,} MiB "
            f"of a directory became {max(sizes)} with {row['live_mib']} of them live, "
            f"{row['seconds']} s after the last were due to go"
        )
        reached = row["trimmed_mib"] >= 2048 and max(sizes) <= most and row["seconds"] <= 120
    card.failures += [f"space: {text}" for text in failed]
    card.add(
        "space: 90 % of a stream trimmed, others expired and deleted; each data directory",
        "2,048 MiB, within 1.3 times of live bytes and a floor in 120 s",
        figure,
        reached=reached and not failed,
    )


def _ambiguous(card: Card, rows: list[dict[str, Any]]) -> None:
    """All runs together."""
    outcomes = sum(int(row["ambiguous"]) for row in rows)
    doubled = sum(int(row["duplicates"]) for row in rows)
    lost = sum(int(row["lost"]) + int(row["unresolved"]) for row in rows)
    violations = [violation for row in rows for violation in row["violations"]]
    card.add(
        "writes of unknown outcome, retried under their request token through kill -9",
        "2,000, 0 doubled, 0 lost",
        f"{outcomes:,}, {doubled} doubled, {lost} lost",
        reached=outcomes >= 2000 and not (doubled or lost or violations),
        bound=rate(min(doubled + lost, outcomes), outcomes),
    )
    card.failures += [f"ambiguous: {violation}" for violation in violations]


def _usage(card: Card, rows: list[dict[str, Any]]) -> None:
    """All runs together."""
    kills = sum(int(row["leader_kills"]) for row in rows)
    retries = sum(int(row["retries_of_answered"]) for row in rows)
    records = sum(int(row["records"]) for row in rows)
    off = sum(abs(row["counted_records"] - row["records"]) for row in rows)
    wrong = [text for row in rows for text in row["wrong"]]
    card.add(
        "usage: what the buckets say is appended against the records there are",
        "50 leaders killed, 1,000 appends repeated, no record off",
        f"{kills} killed, {retries:,} repeated, {off:.0f} of {records:,} records off",
        reached=kills >= 50 and retries >= 1000 and not off and not wrong,
    )
    card.failures += [f"usage: {text}" for text in wrong]


def _hostile(card: Card, rows: list[dict[str, Any]]) -> None:
    """Every scene there is, at the full scale; one that was ever out of bounds on these files
    is."""
    full = [row for row in rows if row["scale"] >= HOSTILE_SCALE_MIN]
    bad = sorted({row["scene"] for row in full if not row["passed"]})
    ran = {row["scene"] for row in full}
    missing = sorted(scene_names() - {scene.partition("[")[0] for scene in ran})
    figure = f"{len(ran)} scenes, {len(bad)} out of bounds"
    for name in ("node", "gateway"):
        if sizes := [row[f"{name}_mib"] for row in full if f"{name}_mib" in row]:
            figure += f", {name} at most {max(sizes)} MiB"
    if missing:
        figure += f"; not run: {', '.join(missing)}"
    card.add(
        "hostile clients and peers, a frozen node, at three times the suite's size",
        "every scene, 0 out of bounds",
        figure,
        reached=bool(ran) and not bad and not missing,
    )
    card.failures += [f"hostile: {name}" for name in bad]


def scene_names() -> set[str]:
    """The scenes that measure what a process of a cluster takes, by the names of their tests."""
    found = set()
    for path in SCENES.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                takes = {argument.arg for argument in node.args.args}
                if node.name.startswith("test_") and takes & {"measured", "scene"}:
                    found.add(node.name.removeprefix("test_"))
    return found


def _fuzz(card: Card, rows: list[dict[str, Any]]) -> None:
    """Of each parser all inputs together; the poorest parser decides."""
    inputs: dict[str, int] = {}
    faults: list[str] = []
    for row in rows:
        inputs[row["target"]] = inputs.get(row["target"], 0) + int(row["inputs"])
        faults += [f"{row['target']}: {fault}" for fault in row["faults"]]
    wanted = sorted({name for row in rows for name in row["targets"]})
    least = min((inputs.get(name, 0) for name in wanted), default=0)
    total = sum(inputs.values())
    card.add(
        "spoilt inputs for each parser: crashes, hangs, 5xx",
        f"{FUZZ_INPUTS_MIN:,} for each, 0 faults",
        f"{least:,} for each of {len(wanted)}, {total:,} in all, {len(faults)} faults",
        reached=bool(wanted) and least >= FUZZ_INPUTS_MIN and not faults,
        bound=rate(len(faults), total),
    )
    card.failures += [f"fuzz: {fault}" for fault in faults]


def _verdicts(card: Card, rows: list[dict[str, Any]]) -> None:
    """All runs together; seeds that were judged again count once."""
    last = {tuple(row["seeds"]): row for row in rows}
    histories = sum(int(row["histories"]) for row in last.values())
    planted = sum(int(row["planted"]) for row in last.values())
    open_ = sum(int(row["undecided"]) for row in rows)
    apart = [text for row in rows for text in row["disagreements"]]
    card.add(
        "histories judged by the checker and by a search of its own: disagreements",
        f"{HISTORIES_MIN}, {PLANTED_MIN} of them with a planted violation, 0",
        f"{histories}, {planted} planted, {len(apart)} disagreements, {open_} undecided",
        reached=histories >= HISTORIES_MIN and planted >= PLANTED_MIN and not (apart or open_),
        bound=rate(len(apart), histories),
    )
    card.failures += [f"verdicts: {text}" for text in apart]


def _held(card: Card, rows: list[dict[str, Any]]) -> None:
    """The largest run, and of those the last. None that failed is outdone by another."""
    figure, reached = "not run", False
    faults = [fault for row in rows for fault in row["faults"]]
    whole = [row for row in rows if row.get("p99_alone_ms")]
    if whole:
        row = max(reversed(whole), key=lambda each: float(each["scale"]))
        times = row["p99_ms"] / row["p99_alone_ms"]
        figure = (
            f"{row['connections']:,} connections, {row['followers']:,} followers, "
            f"{row['streams']:,} streams, {row['basins']:,} basins, {row['tokens']:,} tokens: "
            f"p99 of {row.get('appends', 0):,} {row['p99_ms']} ms against {row['p99_alone_ms']} of "
            f"{row.get('appends_alone', 0):,}, node at most {row['node_mib']} MiB, gateway "
            f"{row['gateway_mib']}"
        )
        # the first runs did not say of how many
        enough = min(row.get("appends", 0), row.get("appends_alone", 0)) >= HELD_APPENDS_MIN
        reached = row["scale"] >= 1 and times <= HELD_P99_TIMES_MAX and enough and not faults
    card.failures += [f"held: {fault}" for fault in faults]
    card.add(
        "held at once, and the p99 of appends beside it against without",
        "5,000 connections, 2,000 followers, 100,000 streams, 1,000 basins, 20,000 tokens; 3 times",
        figure,
        reached=reached,
    )


def _soak(card: Card, rows: list[dict[str, Any]]) -> None:
    """The longest run, and of those the last. None that failed is outdone by another."""
    figure, reached = "not run", False
    faults = [fault for row in rows for fault in row["faults"]]
    lost = sum(int(row["lost"]) for row in rows)
    if rows:
        row = max(reversed(rows), key=lambda each: float(each["hours"]))
        figure = (
            f"{row['hours']:.2f} h, {row['appends']:,} appends, p99.9 {row['p999_ms']} ms, longest "
            f"stall {row['stall_ms'] / 1000:.2f} s, {sum(row['injected'].values())} faults of "
            f"{len(row['injected'])} kinds, {lost} lost, {len(faults)} faults of ours"
        )
        enough = row["appends"] >= SOAK_APPENDS_MIN and row["injected"].keys() >= {*SOAK_FAULTS}
        read = min(row.get("reads", 0), row.get("followed_records", 0)) >= SOAK_READS_MIN
        reached = row["hours"] >= SOAK_HOURS_MIN and enough and read and not lost and not faults
    card.failures += [f"soak: {fault}" for fault in faults]
    card.add(
        "soak: mixed load and faults in one piece; memory, descriptors, threads, disk flat",
        f"{SOAK_HOURS_MIN:.0f} h, 0 lost, nothing that grows",
        figure,
        reached=reached,
    )

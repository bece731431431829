"""The comparison with peers: what is kept of it, what is left to do, and its tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc_cluster.lab.load.scenarios import SCENARIOS
from tests.comparison.__main__ import APPENDS, STREAMS, plan, side_run
from tests.comparison.aims import AIMS, Aim, aims_table, found, is_met
from tests.comparison.peers import OURS, PEERS, Peer, Processes
from tests.comparison.records import (
    BEGIN,
    END,
    Conditions,
    OneRun,
    Records,
    load,
    ratios,
    save,
    tables,
    trouble_of,
    written,
)

ALIKE = Conditions("abc", "a machine", 1.0, 0.5, 1.0)


def _run(side: str, number: int, rate: float, **more: Any) -> OneRun:
    row = {"part": "append", "requests_per_s": rate, "p50_ms": 1000 / rate}
    row |= {"received_mib_per_s": 0.0, "metered_mib_per_s": rate / 1000} | more
    return OneRun("unary-1", side, number, [row])


def test_what_is_kept_is_gone_on_from(tmp_path: Path) -> None:
    """A run with figures is not made again, one that failed is; what was measured under other
    conditions is of no use."""
    path = tmp_path / "deeper" / "compare.json"
    records = Records(ALIKE)
    records.add(_run(OURS, 0, 10.0))
    records.add(OneRun("unary-1", "etcd", 0, trouble="it did not start"))
    save(path, records)
    kept = load(path, ALIKE)
    assert kept == records
    assert kept.has("unary-1", OURS, 0)
    assert not kept.has("unary-1", OURS, 1)
    assert not kept.has("unary-1", "etcd", 0)
    kept.add(_run("etcd", 0, 5.0))
    assert kept.has("unary-1", "etcd", 0)
    assert len(kept.runs) == 2
    other = msgspec.structs.replace(ALIKE, commit="abd")
    assert load(path, other) == Records(other)


async def _ends_at_once(processes: Processes, _: str) -> Any:
    command = ["/bin/sh", "-c", "echo its log in {dir}; exit 1"]
    processes.start("peer", command)
    return await processes.until(_never)


async def _never() -> None:
    return None


def test_what_is_kept_of_trouble_names_no_folder_and_has_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files are committed; all of it is told to who runs it."""
    peer = Peer("x", "", lambda: "", "", _ends_at_once, "")
    options = argparse.Namespace(warm_up=0.0)
    one = side_run(SCENARIOS["unary-1"], peer, tmp_path / "side", 0, options)
    assert one.trouble == "a process ended"
    assert f"its log in {tmp_path}" in capsys.readouterr().err
    missing = FileNotFoundError(2, "No such file", f"{tmp_path}/bin/s2")
    assert trouble_of(missing) == "[Errno 2] No such file: 's2'"
    asked = TimeoutError(f"http://127.0.0.1:80/health: none in {tmp_path}")
    assert trouble_of(asked) == f"http://127.0.0.1:80/health: none in {tmp_path.name}"
    assert trouble_of(TimeoutError()) == "TimeoutError()"


def test_ratios_are_of_the_same_round() -> None:
    """A round in which the machine was slow was slow for both; one that only one side has says
    nothing."""
    own = [_run(OURS, 0, 10.0), _run(OURS, 1, 100.0), _run(OURS, 2, 7.0)]
    its = [_run("etcd", 1, 50.0), _run("etcd", 0, 5.0)]
    assert ratios(own, its, 0, "requests_per_s") == [2.0, 2.0]


def test_tables_have_medians_spread_marks_and_what_was_missing() -> None:
    """The document has them between its marks, and the rest of it as it was."""
    records = Records(ALIKE, {"syncs_per_s": 900.0, "p50_ms": 0.1, "p99_ms": 0.2})
    records.missing = {"s2 lite": "cargo"}
    for number, rate in enumerate((10.0, 30.0, 20.0)):
        records.add(_run(OURS, number, rate))
        records.add(_run("etcd", number, 40.0, generator_bound=True))
    records.add(OneRun("unary-1", "NATS", 0, trouble="it did not start"))
    text = tables(records, OURS, {"etcd": "synced"})
    assert "Not to be had: s2 lite (cargo)." in text
    assert "900 synced 4 KiB writes a second" in text
    assert "| svc-cluster | append | 3 | 20 (10 to 30) |" in text
    assert "| etcd (synced) | append (!) | 3 | 40 |" in text
    assert "| 0.5 (0.25 to 0.75) |" in text
    assert "- NATS, round 1: it did not start" in text
    document = written(f"before {BEGIN} old {END} after", text)
    assert document == f"before {text} after"
    with pytest.raises(ValueError, match="has no"):
        written("nothing", text)


def test_each_scenario_is_compared_with_those_that_can_take_part() -> None:
    """Ours first, then every peer; reads and sessions only where the interface is the same."""
    turns = plan([*APPENDS, *STREAMS], list(PEERS))
    assert {scenario.name for scenario, _ in turns} == {*APPENDS, *STREAMS} <= set(SCENARIOS)
    for name in STREAMS:
        sides = [peer.name if peer else OURS for scenario, peer in turns if scenario.name == name]
        assert sides == [OURS, "s2 lite"]
    firsts = [peer for scenario, peer in turns if scenario.name == "unary-1"]
    assert firsts == [None, *PEERS]
    assert plan(["session"], [peer for peer in PEERS if not peer.has_streams]) == []


def test_an_aim_is_met_by_the_rounds_that_both_sides_have() -> None:
    """The median of the ratios; the bound itself is within; a run without figures is none."""
    records = Records(ALIKE)
    twice = Aim("unary-1", "rate", "requests_per_s", "at least", 2.0, "etcd")
    assert found(records, twice, OURS) is None
    for number, rate in enumerate((10.0, 30.0, 20.0)):
        records.add(_run(OURS, number, rate))
        records.add(_run("etcd", number, 10.0))
    records.add(OneRun("unary-1", "etcd", 3, trouble="it did not start"))
    assert found(records, twice, OURS) == 2.0
    assert is_met(twice, 2.0) and not is_met(twice, 1.99)
    soon = Aim("unary-1", "p50", "p50_ms", "at most", 50.0)
    assert found(records, soon, OURS) == 50.0
    assert is_met(soon, 50.0) and not is_met(soon, 50.1)
    itself = Aim("unary-1", "rate", "requests_per_s", "at least", 1.0, "/unary-1")
    assert found(records, itself, OURS) == 1.0
    never = Aim("unary-256", "rate", "requests_per_s", "at least", 1.0, "/unary-1")
    late = Aim("unary-1", "p50", "p50_ms", "at most", 49.0)
    assert aims_table(records, OURS, [twice, late, never])[2:] == [
        "| unary-1 | rate | at least 2 x etcd | 2 | met |",
        "| unary-1 | p50 | at most 49 | 50 | **not met** |",
        "| unary-256 | rate | at least 1 x unary-1 |  | not measured |",
    ]


def test_each_aim_is_of_something_that_is_compared() -> None:
    """Its scenario, the part of it and the side: a slip there would read as not measured."""
    sides = {peer.name: peer for peer in PEERS}
    for aim in AIMS:
        parts = [part for phase in SCENARIOS[aim.scenario].phases for part in phase]
        assert aim.scenario in (*APPENDS, *STREAMS) and aim.part < len(parts), aim
        if aim.against is None:
            continue
        if aim.against.startswith("/"):
            assert aim.against[1:] in APPENDS, aim
        else:
            assert aim.scenario in APPENDS or sides[aim.against].has_streams, aim

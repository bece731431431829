"""Options of `svc-cluster bench` that cannot work are refused before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.cli.main import app
from svc_cluster.lab.load.scenarios import SCENARIOS

NOBODY = ["--url", "http://127.0.0.1:1", "--seconds", "0.1"]


@pytest.mark.parametrize("scenario", ["unary-1", "session", "read-json"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch", "1000", "--size", "1048568"], "metered bytes"),
        (["--batch", "2", "--size", "524281"], "metered bytes"),
        (["--cluster-dir", "nowhere"], "--cluster-dir nowhere"),
        (["--token-file", "nowhere"], "--token-file nowhere"),
        (["unary-2"], "no scenario 'unary-2'"),
        (["unary-64-slow-disk"], "leave out --url"),
        (["follow", "--size", "4"], "no room for a stamp"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(
    scenario: str,
    options: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """More than an append may hold would take gigabytes to build; a directory that is none would
    only be missed at the end. One sentence, status 2."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        app(["bench", "run", scenario, *NOBODY, *options], standalone_mode=False)
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert words in lines[0]


def test_every_scenario_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is listed, fits the limits of an append, and reads what it has filled."""
    app(["bench", "list"], standalone_mode=False)
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(SCENARIOS)
    for scenario in SCENARIOS.values():
        assert scenario.trouble is None
        for part in (part for phase in scenario.phases for part in phase):
            if part.kind in ("read", "read_one"):
                assert part.size == scenario.fill_size, scenario.name
                assert scenario.fill_mib > 0, scenario.name

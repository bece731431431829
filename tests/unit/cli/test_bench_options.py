"""Options of `svc-cluster bench` that cannot work are refused before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.cli.main import app

NOBODY = ["--url", "http://127.0.0.1:1", "--duration", "0.1"]


@pytest.mark.parametrize("operation", ["append", "read", "session"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch", "1000", "--size", "1048568"], "metered bytes"),
        (["--batch", "2", "--size", "524281"], "metered bytes"),
        (["--cluster-dir", "nowhere"], "--cluster-dir nowhere"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(
    operation: str,
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
        app(["bench", operation, *NOBODY, *options], standalone_mode=False)
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert words in lines[0]

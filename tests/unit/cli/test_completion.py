"""What shells complete comes from the parser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from svc_cluster.cli.completion import Completion, ShellName
from svc_cluster.cli.main import app


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("str",), ["stream"]),
        (("stream", "app"), ["append"]),
        (("stream", "append", "--for"), ["--format"]),
        (("stream", "append", "--format", ""), ["text", "json", "json-base64"]),
        (("stream", "append", "first-basin/s", "-o", "j"), ["json"]),
        (("admin", "ca", ""), ["init", "issue", "--help"]),
        (("token", "issue", "--allow", "stream:"), ["stream:read", "stream:write"]),
        (("completion", "b"), ["bash"]),
        (("stream", "append", "x", "--token-file", "sec"), ["secret"]),
    ],
)
def test_bash_completes_verbs_options_values_and_files(
    tmp_path: Path, words: tuple[str, ...], found: list[str]
) -> None:
    """Asked as bash asks, with the cursor behind the last word."""
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    (tmp_path / "script").write_text(Completion(app).script(ShellName.BASH))
    (tmp_path / "secret").write_text("")
    ask = 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _svc_cluster; '
    done = subprocess.run(
        ["bash", "-c", ask + 'printf "%s\\n" "${COMPREPLY[@]}"', "bash", "svc-cluster", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == (found, "")


def test_zsh_and_fish_are_told_of_every_verb() -> None:
    """The same places and words; shells that are here find no fault in the script."""
    completion = Completion(app)
    for shell in (ShellName.ZSH, ShellName.FISH):
        script = completion.script(shell)
        for word in ("append", "follow", "json-base64", "svc-cluster", "match-seq-num"):
            assert word in script
        if shutil.which(shell.value) is not None:
            subprocess.run([shell.value, "-n"], input=script, text=True, check=True, timeout=60)

"""Every command that prints data prints it as JSON where `-o json` asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from svc_cluster.cli.main import app
from svc_cluster.cli.output_form import OutputForm, Teller

WITHOUT = {
    "completion": "prints what a shell reads",
    "config schema": "prints JSON, whatever is asked for",
    "demo": "shows people what a cluster does",
    "gateway": "runs for as long as the machine does",
    "local": "runs until Ctrl-C",
    "node": "runs for as long as the machine does",
}
"""Commands without the option, each with its reason."""


class _Parameter(Protocol):
    opts: list[str]


class _Command(Protocol):
    params: list[_Parameter]


def commands(node: object, place: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the tree by its words, with its options."""
    inner: dict[str, object] = getattr(node, "commands", {})
    for name, child in inner.items():
        yield from commands(child, f"{place} {name}".strip())
    if not inner:
        yield place, [each for one in cast(_Command, node).params for each in one.opts]


def test_every_command_has_the_option_or_a_reason() -> None:
    """The whole tree; a reason that is not needed any more is taken out."""
    without = {
        place
        for place, options in commands(get_command(app))
        if not {"--output", "-o"} <= set(options)
    }
    assert without == set(WITHOUT)


def test_the_older_option_stays_where_it_was() -> None:
    """Programs are written for `--json`."""
    with_older = {place for place, options in commands(get_command(app)) if "--json" in options}
    asked = {"configuration", "drain", "leaders", "members", "status"}
    asked |= {"member list", "member replace"}
    assert with_older == {f"admin {each}" for each in asked} | {"bench list", "bench run"}


def test_what_is_told_on_the_way_is_no_part_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes to standard error; for people both are the output."""
    for form, expected in (
        (OutputForm.JSON, ('{"a":1}\n', "on the way\n")),
        (OutputForm.TABLE, ("on the way\nfirst\nsecond\n", "")),
    ):
        teller = Teller(form)
        teller.note("on the way")
        teller.end({"a": 1}, ["first", "second"])
        assert tuple(capsys.readouterr()) == expected


def printed(*arguments: str, status: int = 0) -> object:
    """What a command prints, which is one line of JSON."""
    ran = CliRunner().invoke(app, [*arguments, "-o", "json"], prog_name="svc-cluster")
    assert ran.exit_code == status, ran.output
    assert ran.stdout.count("\n") == 1
    return json.loads(ran.stdout)


def test_commands_without_a_cluster_print_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they make, with the names of the files."""
    monkeypatch.chdir(tmp_path)
    assert printed("admin", "ca", "init") == {"certificate": "ca/ca.pem", "key": "ca/ca.key"}
    assert printed("admin", "ca", "issue", "--node", "1", "--days", "2") == {
        "certificate": "certificate/tls.crt",
        "names": ["node-1.svc-cluster.internal"],
        "days": 2,
    }
    made = printed("admin", "bootstrap", "--out", "all", "--nodes", "1")
    assert isinstance(made, dict)
    assert (made["directory"], "cluster.secret" in str(made["made"])) == ("all", True)
    again = printed("admin", "bootstrap", "--out", "all", "--nodes", "1")
    assert again == {"directory": "all", "made": []}
    (tmp_path / "data" / "wal").mkdir(parents=True)
    for asked in (("new-token",), ("root-token", "data")):
        token = printed("admin", *asked)
        assert isinstance(token, dict)
        assert list(token) == ["access_token"]
    key = printed("backup", "key", "--key-file", "backup.key")
    assert isinstance(key, dict)
    assert (key["file"], list(key)) == ("backup.key", ["file", "key_id"])


def test_an_audit_log_is_told_as_json(tmp_path: Path) -> None:
    """A line that is none is a finding: the status is that of the text."""
    (tmp_path / "audit.log").write_text('{"a":1}\nno line\n{"a":2}\n')
    told = printed("admin", "audit", "verify", str(tmp_path / "audit.log"), status=1)
    text = CliRunner().invoke(app, ["admin", "audit", "verify", str(tmp_path / "audit.log")])
    assert isinstance(told, dict)
    assert (told["unchained"], told["chained"], told["hash"]) == (2, 0, None)
    assert [*told["notes"], *told["findings"]] == text.stdout.splitlines()[:-1]


def test_settings_are_told_as_json(tmp_path: Path) -> None:
    """Each with its value, secrets masked; and whether a process can be started with them."""
    (tmp_path / "secret").write_text("of-the-cluster-0123456789-0123456789\n")
    (tmp_path / "gateway.yaml").write_text(
        f"cluster_id: one\nsecret_file: {tmp_path}/secret\nnodes: {{'1': '127.0.0.1:7001'}}\n"
        "port: 8081\n"
    )
    asked = ("gateway", "--config", str(tmp_path / "gateway.yaml"))
    shown = printed("config", "print", *asked)
    assert isinstance(shown, dict)
    assert (shown["port"], shown["secret_file"]) == (8081, "[masked]")
    assert printed("config", "check", *asked) == {
        "process": "gateway",
        "config": str(tmp_path / "gateway.yaml"),
        "state": "fit",
    }


def test_profiles_and_scenarios_are_told_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bench list` by either word."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    named = {"profile": "one"}
    url = ("--url", "http://127.0.0.1:1")
    default = named | {"state": "set", "default": True}
    assert printed("profile", "set", "one", *url) == default
    assert printed("profile", "use", "one") == default
    assert printed("profile", "remove", "one") == named | {"state": "removed"}
    older = CliRunner().invoke(app, ["bench", "list", "--json"]).stdout
    assert printed("bench", "list") == json.loads(older)


def test_no_secret_is_told_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    """In either form: a sentence may repeat the address that a person gave."""
    for form in OutputForm:
        Teller(form).note("s3://KEY:SECRET@bucket cannot be reached")
        said = capsys.readouterr()
        assert "SECRET" not in said.out + said.err
        assert "@bucket cannot be reached" in said.out + said.err

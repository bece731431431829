"""A key that stands twice in YAML is refused, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.cli.data.apply_plan import read_declarations
from svc_cluster.client.client_errors import ClientError
from svc_cluster.settings import GatewaySettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import load
from svc_cluster.settings_yaml import KEY_CHARACTERS_MAX, YamlError, read_plain_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 1", "'a' twice, in the lines 1 and 3"),
        ("x:\n  y:\n    - {a: 1, b: 2,\n       a: 3}", "'a' twice, in the lines 3 and 4"),
        ("a: 1\n'a': 2", "'a' twice, in the lines 1 and 2"),
        ("1: a\n'1': b", "'1' twice, in the lines 1 and 2"),
        ("1: a\n0x1: b", "'0x1' twice, in the lines 1 and 2"),
        ("yes: a\ntrue: b", "'true' twice, in the lines 1 and 2"),
        ("<<: {a: 1}\n<<: {b: 1}", "'<<' twice, in the lines 1 and 2"),
        ("x: &a {p: 1, p: 2}\ny: {<<: *a}", "'p' twice, in the lines 1 and 1"),
        (f"{'k' * 100}: 1\n{'k' * 100}: 2", f"'{'k' * KEY_CHARACTERS_MAX}...' twice"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_both_lines(text: str, told: str) -> None:
    """At any depth, however it is written; the last one would have won in silence."""
    with pytest.raises(YamlError, match=r"^has the key ") as refused:
        read_yaml(text)
    assert told in str(refused.value)


def test_what_a_merge_brings_may_be_overridden() -> None:
    """That is what merges are for; and a mapping that was merged may be merged again."""
    text = "x: &a {p: 1}\ny: &b {<<: *a, p: 2}\nz: {<<: *b, p: 3}"
    assert read_yaml(text) == {"x": {"p": 1}, "y": {"p": 2}, "z": {"p": 3}}
    assert read_yaml("a: {b: 1}\nc: {b: 1}\n1: x\n2: x") == {
        "a": {"b": 1},
        "c": {"b": 1},
        1: "x",
        2: "x",
    }


def test_settings_are_refused_for_a_doubled_key(tmp_path: Path) -> None:
    """In a file, where it would have turned authentication off, and in a variable."""
    path = tmp_path / "gateway.yaml"
    text = "cluster_id: c\nnodes: {'1': '127.0.0.1:1'}\nsecret_file: /s\nauthentication: true\n"
    path.write_text(text)
    assert load(GatewaySettings, path, {}).authentication is True
    path.write_text(text + "authentication: false\n")
    with pytest.raises(SettingsError) as refused:
        load(GatewaySettings, path, {})
    assert str(refused.value) == (
        f"the file {path} has the key 'authentication' twice, in the lines 4 and 5: leave one of "
        "them out"
    )
    path.write_text(text)
    with pytest.raises(SettingsError, match="variable SVC_CLUSTER_NODES has the key '1' twice"):
        load(GatewaySettings, path, {"SVC_CLUSTER_NODES": "{'1': a, '1': b}"})


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.json"])
def test_declarations_are_refused_for_a_doubled_key(tmp_path: Path, name: str) -> None:
    """In YAML as in JSON, for which `apply` has the same reader: no basin is dropped."""
    path = tmp_path / name
    path.write_text(
        '{"basins": [{"name": "first-basin"}],\n "basins": [{"name": "second-basin"}]}\n'
    )
    with pytest.raises(ClientError) as refused:
        read_declarations(path)
    assert str(refused.value) == (
        f"{path} has the key 'basins' twice, in the lines 1 and 2: leave one of them out"
    )


def test_a_file_from_anywhere_has_no_aliases_and_moments_are_text() -> None:
    """As opposed to a file of settings, which its owner has written."""
    assert read_yaml("a: &x [1]\nb: *x") == {"a": [1], "b": [1]}
    with pytest.raises(YamlError, match=r"^is not YAML: aliases are not taken here$"):
        read_plain_yaml(b"a: &x [1]\nb: *x")
    assert read_plain_yaml(b"a: 2026-01-01") == {"a": "2026-01-01"}

"""Configuration: where values come from, and what is refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from svc_cluster.settings import GatewaySettings, NodeSettings, SettingsError, load, read_secret

NODE = {
    "cluster_id": "c",
    "node_id": 1,
    "data_dir": "/nowhere",
    "nodes": {"1": "127.0.0.1:1", "2": "127.0.0.1:2", "3": "127.0.0.1:3"},
    "secret_file": "/nowhere/secret",
}


def written(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(NODE | changes))
    return path


def test_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    """The order of sources."""
    path = written(tmp_path, flush_seconds=2.5)
    settings = load(NodeSettings, path, {"SVC_CLUSTER_LOG_LEVEL": "debug", "OTHER": "x"})
    assert (settings.flush_seconds, settings.log_level) == (2.5, "debug")
    assert settings.replication_factor == 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"colour": "red"}, "colour"),
        ({"node_id": "one"}, "node_id"),
        ({"node_id": 4}, "not among nodes"),
        ({"replication_factor": 2}, "use 1, 3 or 5"),
        ({"replication_factor": 5}, "with 3 nodes"),
        ({"nodes": {"1": "10.0.0.1:1", "2": "x:1", "3": "x:2"}}, "TLS"),
        ({"nodes": {"1": "0.0.0.0:1", "2": "127.0.0.1:1", "3": "127.0.0.1:2"}}, "TLS"),
        ({"admin_address": "192.168.0.1:9090"}, "TLS"),
        ({"admin_address": "127.0.0.1"}, "host:port"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    """Unknown keys, wrong types, contradictions, and listening beyond loopback without TLS."""
    with pytest.raises(SettingsError, match=says):
        load(NodeSettings, written(tmp_path, **changes), {})


def test_a_file_that_cannot_be_read_or_parsed_is_refused(tmp_path: Path) -> None:
    """Missing, not YAML, not a mapping."""
    with pytest.raises(SettingsError, match="cannot be read"):
        load(GatewaySettings, tmp_path / "missing.yaml", {})
    path = tmp_path / "gateway.yaml"
    path.write_text("a: [")
    with pytest.raises(SettingsError, match="not YAML"):
        load(GatewaySettings, path, {})
    path.write_text("just text")
    with pytest.raises(SettingsError, match="keys and values"):
        load(GatewaySettings, path, {})


def test_a_secret_must_be_there_and_long_enough(tmp_path: Path) -> None:
    """32 bytes at least, surrounding blanks not counted."""
    path = tmp_path / "secret"
    with pytest.raises(SettingsError, match="cannot be read"):
        read_secret(str(path))
    path.write_text("short\n")
    with pytest.raises(SettingsError, match="5 bytes"):
        read_secret(str(path))
    path.write_text("s" * 32 + "\n")
    assert read_secret(str(path)) == b"s" * 32

"""Configuration: where values come from, and what is refused with a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from svc_cluster.cli.processes.node_config import locations, node_config
from svc_cluster.model.location import Location
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_checks import read_secret
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_sources import check_variables, load, with_environment

ROOT = Path(__file__).resolve().parents[2]
NODE = {
    "cluster_id": "c",
    "node_id": 1,
    "data_dir": "/nowhere",
    "nodes": {"1": "127.0.0.1:1", "2": "127.0.0.1:2", "3": "127.0.0.1:3"},
    "secret_file": "/nowhere/secret",
}


def written(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(NODE | changes, sort_keys=False))
    return path


def test_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    """The order of sources."""
    path = written(tmp_path, flush_seconds=2.5)
    settings = load(NodeSettings, path, {"SVC_CLUSTER_LOG_LEVEL": "debug", "OTHER": "x"})
    assert (settings.flush_seconds, settings.log_level) == (2.5, "debug")
    assert settings.replication_factor == 3


def test_basins_rest_unless_the_settings_say_that_none_does(tmp_path: Path) -> None:
    """The default reaches the replicas, and so does the word against it."""
    usual = node_config(load(NodeSettings, written(tmp_path), {}))
    assert usual.host.rest_seconds == 5.0
    none = node_config(load(NodeSettings, written(tmp_path), {"SVC_CLUSTER_REST_SECONDS": "0"}))
    assert none.host.rest_seconds == 0.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"colour": "red"}, "colour"),
        ({"node_id": "one"}, "node_id"),
        ({"node_id": 4}, "not among nodes"),
        ({"replication_factor": 2}, "use 1, 3 or 5"),
        ({"replication_factor": 5}, "with 3 nodes"),
        ({"nodes": {"1": "10.0.0.1:1", "2": "x:1", "3": "x:2"}}, "peer_tls_ca, or use 127"),
        ({"nodes": {"1": "0.0.0.0:1", "2": "127.0.0.1:1", "3": "127.0.0.1:2"}}, "loopback"),
        ({"listen_address": "0.0.0.0:7000"}, "listen_address has the address"),
        ({"listen_address": "[::]:7000"}, "not on loopback"),
        ({"listen_address": "7000"}, "host:port"),
        ({"peer_tls_cert": "/a"}, "peer_tls_cert is set alone"),
        ({"peer_tls_cert": "/a", "peer_tls_ca": "/b"}, "together"),
        ({"admin_address": "127.0.0.1"}, "host:port"),
        ({"admin_rpc_address": "9095"}, "admin_rpc_address has the address"),
        ({"admin_rpc_address": "0.0.0.0:9095"}, "admin_rpc_address has the address '0.0.0.0:9095'"),
        ({"health_rpc_address": "9096"}, "health_rpc_address has the address"),
        ({"locations": {}}, "locations has 0 names: list 1 to 1000"),
        ({"locations": ["eu-1"]}, "locations"),
        ({"locations": {"eu 1": False}}, "locations has 'eu 1'"),
        ({"locations": {"eu-1": "private"}}, "locations"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    """Unknown keys, wrong types, contradictions, and listening beyond loopback without TLS."""
    with pytest.raises(SettingsError, match=says):
        load(NodeSettings, written(tmp_path, **changes), {})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"port": 70_000}, "port is 70000: use 1 to 65535"),
        ({"tls_cert": "/a"}, "tls_cert and tls_key belong together"),
        ({"tls_key": "/a"}, "tls_cert and tls_key belong together"),
        ({"tls_client_ca": "/ca", "authentication": True}, "under TLS alone"),
        (
            {"tls_cert": "/a", "tls_key": "/b", "tls_client_ca": "/ca", "authentication": False},
            "set authentication to true",
        ),
        (
            {"tls_cert": "/a", "tls_key": "/b", "tls_client_certificate": "required"},
            "required without tls_client_ca",
        ),
        ({"tls_client_certificate": "maybe"}, "use optional or required"),
        ({"body_mib_in_flight": 15}, "body_mib_in_flight is 15: use 16 to 1048576"),
        ({"body_mib_in_flight": "much"}, "body_mib_in_flight"),
        ({"cors": "perhaps"}, "cors"),
        ({"compression": 1}, "compression"),
        ({"basin_host_suffixes": "b.example.com"}, "basin_host_suffixes"),
        ({"basin_host_suffixes": [""]}, "basin_host_suffixes has '': write a host name"),
        ({"basin_host_suffixes": [".b.example.com"]}, "without scheme, port, or a dot"),
        ({"basin_host_suffixes": ["b.example.com:80"]}, "without scheme, port, or a dot"),
        ({"basin_host_suffixes": ["http://b.example.com"]}, "without scheme, port, or a dot"),
        ({"basin_host_suffixes": ["b." * 126 + "bb"]}, "write a host name"),
        ({"basin_host_suffixes": ["b.example"] * 17}, "has 17 names: list at most 16"),
        ({"public_hosts": "svc.example"}, "public_hosts"),
        ({"public_hosts": ["svc.example:80"]}, "public_hosts has 'svc.example:80': write a host"),
        ({"public_hosts": ["*.example"]}, "public_hosts has '*.example': write a host name alone"),
        ({"public_hosts": ["a"] * 65}, "public_hosts has 65 names: list at most 64"),
    ],
)
def test_a_wrong_value_of_a_gateway_is_refused_with_its_key(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    """One sentence names the key and what it may be; the limits themselves are accepted."""
    with pytest.raises(SettingsError, match=re.escape(says)) as refused:
        load(GatewaySettings, gateway_file(tmp_path, **changes), {})
    assert "\n" not in str(refused.value)


def test_locations_keep_their_order(tmp_path: Path) -> None:
    """The first is the default, from the file as from the environment; without any, `local`."""
    named = {"us:2": False, "eu-1": False, "a.b": True}
    settings = load(NodeSettings, written(tmp_path, locations=named), {})
    assert locations(settings) == (Location("us:2"), Location("eu-1"), Location("a.b", True))
    text = "{us-2: false, eu-1: true}"
    settings = load(NodeSettings, written(tmp_path), {"SVC_CLUSTER_LOCATIONS": text})
    assert locations(settings) == (Location("us-2"), Location("eu-1", True))
    assert locations(load(NodeSettings, written(tmp_path), {})) == (Location("local"),)


def test_with_tls_a_node_may_be_anywhere(tmp_path: Path) -> None:
    """Names and foreign addresses are fine once the processes show certificates; the address to
    listen on is its own matter."""
    tls = {f"peer_tls_{kind}": f"/{kind}" for kind in ("cert", "key", "ca")}
    nodes = {"1": "svc-0:7000", "2": "[fd00::2]:7000", "3": "10.0.0.3:7000"}
    path = written(tmp_path, nodes=nodes, listen_address="0.0.0.0:7000", **tls)
    assert load(NodeSettings, path, {}).rpc_address == "0.0.0.0:7000"
    assert load(NodeSettings, written(tmp_path, nodes=nodes, **tls), {}).rpc_address == "svc-0:7000"
    path = written(tmp_path, admin_rpc_address="0.0.0.0:9095", **tls)
    assert load(NodeSettings, path, {}).admin_rpc_address == "0.0.0.0:9095"
    # health in clear is for whoever asks, as /readyz is
    path = written(tmp_path, health_rpc_address="0.0.0.0:9096")
    assert load(NodeSettings, path, {}).health_rpc_address == "0.0.0.0:9096"


def test_a_gateway_takes_what_is_at_the_limits(tmp_path: Path) -> None:
    """16 names of which one is as long as a host name gets, no name at all, and 16 MiB."""
    longest = "b." * 126 + "b"
    path = gateway_file(
        tmp_path, basin_host_suffixes=[longest, *["b.Example"] * 15], body_mib_in_flight=16
    )
    settings = load(GatewaySettings, path, {"SVC_CLUSTER_CORS": "false"})
    assert settings.basin_host_suffixes is not None
    assert (settings.cors, settings.compression, len(longest)) == (False, True, 253)
    assert load(GatewaySettings, gateway_file(tmp_path), {}).basin_host_suffixes is None
    empty = gateway_file(tmp_path, basin_host_suffixes=[])
    assert load(GatewaySettings, empty, {}).basin_host_suffixes == []


def test_the_environment_overrides_settings_without_a_file(tmp_path: Path) -> None:
    """A cluster in one process has no file: the same names work, with the same refusals."""
    settings = load(GatewaySettings, gateway_file(tmp_path), {})
    environment = {"SVC_CLUSTER_BASIN_HOST_SUFFIXES": "[streams.example]", "OTHER": "1"}
    assert with_environment(settings, environment).basin_host_suffixes == ["streams.example"]
    assert with_environment(settings, {}) == settings
    with pytest.raises(SettingsError, match=r"SVC_CLUSTER_COMPRESSION: .*compression"):
        with_environment(settings, {"SVC_CLUSTER_COMPRESSION": "well"})


def gateway_file(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "gateway.yaml"
    base = {key: NODE[key] for key in ("cluster_id", "nodes", "secret_file")}
    path.write_text(yaml.safe_dump(base | changes))
    return path


def test_a_file_that_cannot_be_read_or_parsed_is_refused(tmp_path: Path) -> None:
    """Missing, not YAML, not a mapping."""
    with pytest.raises(SettingsError, match="cannot be read"):
        load(GatewaySettings, tmp_path / "missing.yaml", {})
    path = tmp_path / "gateway.yaml"
    path.write_text("a: [")
    with pytest.raises(SettingsError, match="not YAML"):
        load(GatewaySettings, path, {})
    for surprising in ("a: 2021-13-45", "[" * 3000, "a: !!float ''", "a: 0x_", "a: !!timestamp x"):
        path.write_text(surprising)
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


def test_a_variable_that_is_no_setting_is_refused(tmp_path: Path) -> None:
    """One that is misspelt would be without effect otherwise; those of the other kind of process,
    and of what starts processes, may be there."""
    path = written(tmp_path)
    with pytest.raises(SettingsError, match=r"SVC_CLUSTER_LOGLEVEL .* SVC_CLUSTER_LOG_LEVEL\?"):
        load(NodeSettings, path, {"SVC_CLUSTER_LOGLEVEL": "debug"})
    others = {"SVC_CLUSTER_PORT": "8080", "SVC_CLUSTER_REVISION": "abc", "SVC_CLUSTER_ID": "x"}
    assert load(NodeSettings, path, others) == load(NodeSettings, path, {})
    with pytest.raises(SettingsError, match="enableServiceLinks"):
        load(NodeSettings, path, {"SVC_CLUSTER_SERVICE_HOST": "10.0.0.1"})


def test_the_variables_of_commands_stop_no_process() -> None:
    """Whatever the code reads behind the prefix is a key, or known to be another's: who exports it
    for one command starts nodes in the same shell."""
    written = set()
    for path in (ROOT / "svc_cluster").rglob("*.py"):
        written |= set(re.findall(r"\bSVC_CLUSTER_([A-Z][A-Z_]*[A-Z])\b", path.read_text()))
    assert {"ENCRYPTION_KEY_FILE", "BACKUP_KEY_FILE", "NODE_ID"} <= written
    check_variables({f"SVC_CLUSTER_{name}": "x" for name in written})

"""What a new reading of the settings changes in a running process: pure."""

from __future__ import annotations

import pytest

from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_reload import RELOADABLE, SettingChange, reading
from svc_cluster.settings_sources import keys_of
from tests.tidy.test_configuration import PAGE

NODES = {"1": "127.0.0.1:7001"}


def node(**changes: object) -> NodeSettings:
    values: dict[str, object] = {"cluster_id": "c", "node_id": 1, "data_dir": "d", "nodes": NODES}
    values |= {"secret_file": "s", "replication_factor": 1, **changes}
    return NodeSettings(**values)  # type: ignore[arg-type]


def gateway(**changes: object) -> GatewaySettings:
    values: dict[str, object] = {"cluster_id": "c", "nodes": NODES, "secret_file": "s", **changes}
    return GatewaySettings(**values)  # type: ignore[arg-type]


def test_what_can_be_reloaded_is_taken_and_the_rest_waits() -> None:
    """Of three keys that differ two are in effect, with what they were. The third is named, and
    keeps its old value."""
    now = gateway(port=8080, log_level="info")
    fresh = gateway(port=9090, log_level="debug", account_requests_per_second=5.0)
    found = reading(now, fresh)
    assert found.changes == (
        SettingChange("account_requests_per_second", None, 5.0),
        SettingChange("log_level", "info", "debug"),
    )
    assert found.waiting == ("port",)
    assert found.settings == gateway(port=8080, log_level="debug", account_requests_per_second=5.0)


def test_nothing_new_is_no_change() -> None:
    """The same settings change nothing."""
    found = reading(node(), node())
    assert (found.changes, found.waiting, found.settings) == ((), (), node())


def test_old_and_new_settings_that_do_not_go_together_are_refused() -> None:
    """What is reloaded is checked together with what is not."""
    now = node(streams_max=10, streams_per_basin_max=5)
    with pytest.raises(SettingsError, match="streams_max is 4 and streams_per_basin_max is 5"):
        reading(now, node(streams_max=4, streams_per_basin_max=5))


@pytest.mark.parametrize(
    ("heading", "kind"), [("Node", NodeSettings), ("Gateway", GatewaySettings)]
)
def test_the_page_marks_what_can_be_reloaded(
    heading: str, kind: type[NodeSettings | GatewaySettings]
) -> None:
    """The mark stands in the rows of those keys and in no other row."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = {line.split("`")[1]: line for line in section.splitlines() if line.startswith("| `")}
    assert set(rows) == set(keys_of(kind))
    marked = {key for key, row in rows.items() if row.endswith(" *Reloadable.* |")}
    assert marked == RELOADABLE[kind]

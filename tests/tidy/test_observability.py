"""The alerts and the dashboard ask for what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from svc_cluster.base.metrics import Metrics
from tests.tidy.metric_names import declared, fed
from tests.tidy.observability import ALERTS, DASHBOARDS, ROOT, alerts, asked_for, panels


def of_basins() -> set[str]:
    """Those with a basin's name; `tests/integration/test_basin_metrics.py` has them fed."""
    metrics = Metrics()
    return {
        name
        for line in metrics.expose().decode().splitlines()
        if line.startswith("# TYPE") and (name := line.split()[2]).startswith("svc_basin_")
    }


def test_what_is_asked_for_is_declared_and_counted() -> None:
    """A misspelt name is found, and so is a metric that is declared and never fed."""
    standard = {
        line.split()[2]
        for line in Metrics(process=True).expose().decode().splitlines()
        if line.startswith("# TYPE")
    }
    asked = asked_for()
    assert asked <= standard, asked - standard
    ours = {name for name in asked if name.startswith(("svc_", "s2_"))} - of_basins()
    assert ours <= fed(), ours - fed()


def test_alerts_say_how_bad_it_is_and_what_to_do() -> None:
    """Every alert has its name in our form, one severity, a summary and a description."""
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    for rule in alerts():
        assert re.fullmatch(r"Svc([A-Z][a-z]+)+", rule["alert"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}


UIDS = {
    "svc-cluster": "svc-cluster",
    "svc-basin": "svc-cluster-basin",
    "svc-gateway": "svc-cluster-gateway",
    "svc-storage": "svc-cluster-storage",
}


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.stem)
def test_a_dashboard_is_one_that_grafana_provisions(board: Path) -> None:
    """A stable uid, panels with ids and places of their own, and no fixed data source, instance or
    pause between samples."""
    dashboard = json.loads(board.read_text())
    assert dashboard["uid"] == UIDS[board.stem]
    assert dashboard["schemaVersion"] >= 37
    variables = {entry["name"] for entry in dashboard["templating"]["list"]}
    more = {"basin"} if board.stem == "svc-basin" else set()
    assert variables == {"DS_PROMETHEUS", "instance"} | more
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    assert len(set(places)) == len(places)
    for panel in panels(board):
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${DS_PROMETHEUS}"
            assert '$instance"' in target["expr"]
            assert not re.search(r"rate\([^[]*\[\d+[sm]", target["expr"]), "a fixed window"


def test_the_copies_for_the_chart_are_the_same() -> None:
    """Helm packs only what is below the chart."""
    for path in (ALERTS, *DASHBOARDS):
        copy = ROOT / "helm" / "svc-cluster" / "files" / path.name
        assert copy.read_bytes() == path.read_bytes(), f"cp {path} {copy}"


def test_the_composition_mounts_the_rules_that_prometheus_reads() -> None:
    """What prometheus.yml names is where docker-compose.yml puts it, and every scraped name is a
    service there."""
    settings = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text())
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    mounts = [str(volume).split(":")[1] for volume in services["prometheus"]["volumes"]]
    assert {*settings["rule_files"]} <= {*mounts}
    for job in settings["scrape_configs"]:
        for group in job.get("static_configs", ()):
            assert {target.split(":")[0] for target in group["targets"]} <= services.keys()
        for group in job.get("dns_sd_configs", ()):
            assert {*group["names"]} <= services.keys()
    assert {job["job_name"] for job in settings["scrape_configs"]} == {"svc-node", "svc-gateway"}


def test_every_metric_that_is_declared_is_fed() -> None:
    """A panel of a metric that nothing writes says that all is well."""
    missing = set(declared().values()) - fed()
    assert not missing, missing


def test_each_alert_has_a_runbook_whose_words_are_true() -> None:
    """The page is there and says what to look at and what to do; what it names in `snake_case`, be
    it a metric, a setting or a line of the log, is in the product; no page is of no alert."""
    product = "\n".join(path.read_text() for path in (ROOT / "svc_cluster").rglob("*.py"))
    metrics = Metrics(process=True).expose().decode()
    folder = ROOT / "docs" / "operations" / "runbooks"
    pages = {path.stem: path.read_text() for path in folder.glob("Svc*.md")}
    assert pages.keys() == {rule["alert"] for rule in alerts()}
    for rule in alerts():
        where = rule["annotations"]["runbook_url"]
        assert where == f"docs/operations/runbooks/{rule['alert']}.md"
        text = pages[rule["alert"]]
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Look at", "Do"]
        for name in re.findall(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b", text):
            known = re.sub(r"_(total|bucket)$", "", name)
            assert known in metrics or f'"{name}"' in product or f"{name}:" in product, name


def test_each_alert_is_played_quiet_and_firing() -> None:
    """An alert that no series makes fire may be one that cannot."""
    played = yaml.safe_load((ROOT / "tests" / "e2e" / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in played for case in test["alert_rule_test"]]
    quiet = {case["alertname"] for case in cases if not case["exp_alerts"]}
    firing = {case["alertname"] for case in cases if case["exp_alerts"]}
    names = {rule["alert"] for rule in alerts()}
    assert quiet == names
    assert firing == names


def test_each_panel_says_with_a_figure_what_is_good() -> None:
    """A line on a screen means nothing to somebody who sees it for the first time."""
    without = [
        panel["title"]
        for panel in panels()
        if not re.search(r"\bGood: .*\d", panel.get("description", ""))
    ]
    assert without == []

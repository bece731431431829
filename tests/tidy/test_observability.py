"""The alerts and the dashboard ask for what is there."""

from __future__ import annotations

import json
import re

import yaml

from svc_cluster.base.metrics import Metrics
from tests.tidy.observability import ALERTS, DASHBOARD, ROOT, alerts, asked_for, panels


def declared() -> dict[str, str]:
    """Attribute of `Metrics` to the name on the wire, of what is ours."""
    text = (ROOT / "svc_cluster" / "base" / "metrics.py").read_text()
    found = re.findall(r"self\.(\w+) = (?:self\._\w+|histogram)\(\s*\"(\w+)\"", text)
    assert len(found) > 40
    return dict(found)


def fed() -> set[str]:
    """Names of metrics that something outside of their declaration touches."""
    sources = "\n".join(
        path.read_text()
        for path in (ROOT / "svc_cluster").rglob("*.py")
        if path != ROOT / "svc_cluster" / "base" / "metrics.py"
    )
    return {
        name
        for attribute, name in declared().items()
        if re.search(rf"(metrics|declared)\.{attribute}\b", sources)
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
    ours = {name for name in asked if name.startswith(("svc_", "s2_"))}
    assert ours <= fed(), ours - fed()


def test_alerts_say_how_bad_it_is_and_what_to_do() -> None:
    """Every alert has its name in our form, one severity, a summary and a description."""
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    for rule in alerts():
        assert re.fullmatch(r"Svc([A-Z][a-z]+)+", rule["alert"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_dashboard_is_one_that_grafana_provisions() -> None:
    """A stable uid, panels with ids and places of their own, and no fixed data source, instance or
    pause between samples."""
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "svc-cluster"
    assert dashboard["schemaVersion"] >= 37
    variables = {entry["name"] for entry in dashboard["templating"]["list"]}
    assert variables == {"DS_PROMETHEUS", "instance"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    assert len(set(places)) == len(places)
    for panel in panels():
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${DS_PROMETHEUS}"
            assert '$instance"' in target["expr"]
            assert not re.search(r"rate\([^[]*\[\d", target["expr"]), "a fixed window"


def test_the_copies_for_the_chart_are_the_same() -> None:
    """Helm packs only what is below the chart."""
    for path in (ALERTS, DASHBOARD):
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

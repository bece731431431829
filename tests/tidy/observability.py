"""What the files for Prometheus and Grafana ask for, taken apart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
ALERTS: Final = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARDS: Final = tuple(
    ROOT / "deploy" / "grafana" / "provisioning" / "dashboards" / f"{name}.json"
    for name in ("svc-cluster", "svc-basin", "svc-gateway", "svc-storage")
)
_NAME: Final = re.compile(r"\b(?:svc|s2|process|python)_[a-z0-9_]+")
_SERIES_OF_A_HISTOGRAM: Final = re.compile(r"_(bucket|sum|count)$")


def alerts() -> list[dict[str, Any]]:
    """The rules, each with `alert`, `expr` and so on."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels(*boards: Path) -> list[dict[str, Any]]:
    """Those that show something, without the rows, of these dashboards, or of all."""
    found = [json.loads(board.read_text())["panels"] for board in boards or DASHBOARDS]
    return [panel for each in found for panel in each if panel["type"] != "row"]


def expressions() -> dict[str, str]:
    """Of every alert and every line of every panel, by where it stands."""
    out = {rule["alert"]: rule["expr"] for rule in alerts()}
    for board in DASHBOARDS:
        for panel in panels(board):
            for target in panel["targets"]:
                out[f"{board.stem}: {panel['title']} {target['refId']}"] = target["expr"]
    return out


def metric_names(expression: str) -> set[str]:
    """The metrics, under the names that they are declared by."""
    outside = re.sub(r'"[^"]*"', '""', expression)
    return {_SERIES_OF_A_HISTOGRAM.sub("", name) for name in _NAME.findall(outside)}


def asked_for() -> set[str]:
    return {name for text in expressions().values() for name in metric_names(text)}

"""The profile `observability`: it starts with the images that are built here, and Prometheus has an
answer to all that the shipped files ask it."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest

from svc_cluster.base.clock import SystemClock
from tests.containers.compose import GATEWAYS, NODES, Compose
from tests.tidy.observability import alerts, expressions

SCRAPED_S = 120.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True, scope="module")
def observed(cluster: Compose) -> None:
    """What was stopped and started before may have been the service alone."""
    cluster.run("--profile", "observability", "up", "--detach", "--no-build")
    asyncio.run(cluster.wait_healthy("prometheus"))


def ask(cluster: Compose, path: str, **query: str) -> Any:
    """The data of an answer of Prometheus's API. Raises ValueError for one that is none."""
    url = f"http://127.0.0.1:{cluster.prometheus_port}/api/v1/{path}?"
    try:
        with urllib.request.urlopen(url + urllib.parse.urlencode(query), timeout=20) as answer:
            said = json.load(answer)
    except urllib.error.HTTPError as refusal:
        raise ValueError(refusal.read().decode()) from refusal
    if said["status"] != "success":
        raise ValueError(said)
    return said["data"]


def test_every_target_is_scraped(cluster: Compose) -> None:
    """Nodes and gateways by their names, none beside them, each of them up."""
    wanted = {*(f"{node}:9090" for node in NODES), *(f"{each}:8080" for each in GATEWAYS)}
    clock = SystemClock()
    end = clock.monotonic() + SCRAPED_S
    seen: dict[str, str] = {}
    while clock.monotonic() < end and set(seen.values()) != {"up"}:
        found = ask(cluster, "targets")["activeTargets"]
        seen = {target["labels"]["instance"]: target["health"] for target in found}
        asyncio.run(asyncio.sleep(0.5))
    assert seen == dict.fromkeys(wanted, "up")


def test_every_rule_is_loaded_and_evaluated(cluster: Compose) -> None:
    """All of alerts.yml, each without a fault."""
    clock = SystemClock()
    end = clock.monotonic() + SCRAPED_S
    seen: dict[str, str] = {}
    while clock.monotonic() < end and set(seen.values()) != {"ok"}:
        groups = ask(cluster, "rules")["groups"]
        seen = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
        asyncio.run(asyncio.sleep(0.5))
    assert seen == {rule["alert"]: "ok" for rule in alerts()}


def test_every_expression_has_an_answer(cluster: Compose) -> None:
    """Of every alert and every line of every panel: Prometheus takes it."""
    for where, expression in expressions().items():
        text = expression.replace("$__rate_interval", "1m").replace("$__range", "1h")
        try:
            ask(cluster, "query", query=text)
        except ValueError as refusal:
            raise AssertionError(f"{where}: {text}: {refusal}") from refusal

"""Nodes that come to a release and leave it: join tokens by an init container, a list of nodes that
holds for good, and a job before the upgrade which refuses while a leaving node holds anything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Values = dict[str, Any]
Documents = list[dict[str, Any]]
Render = Callable[[Path, Values], Documents]
Validate = Callable[[Documents, str], Iterator[str]]

GROWN: Values = {"replica": {"replicaCount": 5, "initialCount": 3}}
RUNS: Values = {"replicas": 5, "initial": 3}
"""A release that has grown, as `svc.running` tells of it."""
HEADLESS = "demo-svc-cluster-headless.storage.svc.cluster.local"
MEMBERS = {"node", "members"}
"""Components that ask for administration: init containers, and the job."""


def faults(chart: Path, render: Render, validate: Validate) -> Iterator[str]:
    """All of it, without a cluster and with one that is planted."""
    for fault in _grown(chart, render, validate):
        yield f"joins: {fault}"
    with tempfile.TemporaryDirectory() as place:
        running = Path(place) / "svc-cluster"
        shutil.copytree(chart, running)
        _plant(running / "templates" / "_growth.tpl", RUNS)
        for fault in _running(running, render, validate):
            yield f"joins: {fault}"
    for values, says in REFUSED:
        yield from _refused(chart, render, values, says)


REFUSED: list[tuple[Values, str]] = [
    ({"replica": {"replicaCount": 3, "initialCount": 5}}, "5 nodes began the cluster, which stay"),
    (
        {"replicationFactor": 5, "replica": {"replicaCount": 5, "initialCount": 3}},
        "replicationFactor is 5 and 3 nodes began the cluster",
    ),
    (
        {**GROWN, "tls": {"peer": {"existingSecret": "peer"}}},
        "without replica.existingAdministratorSecret",
    ),
]
REFUSED_RUNNING: list[tuple[Values, str]] = [
    (
        {"replicationFactor": 1, "replica": {"replicaCount": 2}},
        "replica.replicaCount is 2 and 3 nodes began the cluster, which stay",
    ),
    (
        {"replica": {"replicaCount": 5, "initialCount": 4}},
        "replica.initialCount is 4 and 3 nodes began the cluster",
    ),
]


def _plant(path: Path, running: Values) -> None:
    """In place of what the API server would say."""
    text = path.read_text()
    planted = re.sub(
        r'(define "svc\.running" -\}\}\n).*?(\n\{\{- end -\}\}\n\n)',
        lambda found: f"{found[1]}{json.dumps(running)}{found[2]}",
        text,
        count=1,
        flags=re.DOTALL,
    )
    assert planted != text, "svc.running stands elsewhere"
    path.write_text(planted)


def _refused(chart: Path, render: Render, values: Values, says: str) -> Iterator[str]:
    try:
        render(chart, values)
    except Exception as refusal:
        if says not in str(refusal):
            yield f"joins: refused, but not by {says!r}: {refusal}"
    else:
        yield f"joins: not refused: {values}"


def _named(documents: Documents) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def _grown(chart: Path, render: Render, validate: Validate) -> Iterator[str]:
    policy = {"networkPolicy": {"enabled": True}}
    documents = render(chart, GROWN | policy)
    yield from validate(documents, "grown")
    objects = _named(documents)
    node = objects["StatefulSet", "demo-svc-cluster-node"]
    if node["spec"]["replicas"] != 5:
        yield f"there are {node['spec']['replicas']} pods"
    if node["metadata"]["annotations"]["svc-cluster/initial-nodes"] != "3":
        yield "the StatefulSet does not say how many began"
    spec = node["spec"]["template"]["spec"]
    (join,) = spec["initContainers"]
    (container,) = spec["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    if "administrator-tls" in mounted:
        yield "a node has the administrator's certificate"
    for pod, expected in ((2, [3, None]), (3, [4, "/data/join-token"])):
        told = _node_runs(container, f"demo-svc-cluster-node-{pod}")
        own = json.loads(told["SVC_CLUSTER_NODES"]).get("4")
        wanted = f"demo-svc-cluster-node-3.{HEADLESS}:7000" if pod == 3 else None
        found = [int(told["SVC_CLUSTER_NODE_ID"]), told.get("SVC_CLUSTER_JOIN_TOKEN_FILE")]
        if found != expected or own != wanted:
            yield f"pod {pod} runs as {found} and is at {own}"
    if _runs(join, "demo-svc-cluster-node-2"):
        yield "a token is made for one of the first"
    made = _runs(join, "demo-svc-cluster-node-4")
    if made[:6] != ["-m", "svc_cluster", "admin", "member", "add", "5"]:
        yield f"for the fifth {made} is run"
    yield from _reaches(objects["NetworkPolicy", "demo-svc-cluster-node"]["spec"])


def _reaches(policy: dict[str, Any]) -> Iterator[str]:
    """Whoever makes tokens and removes nodes gets to administration."""
    (rule,) = [each for each in policy["ingress"] if {"port": "admin"} in each["ports"]]
    found = {
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in rule["from"]
    }
    if found != MEMBERS:
        yield f"{found} reach administration"
    ports = {port["port"] for each in policy["egress"] for port in each["ports"]}
    if ports != {7000, 9095, 53}:
        yield f"nodes go to {ports}"


def _running(chart: Path, render: Render, validate: Validate) -> Iterator[str]:
    objects = _named(render(chart, {"replica": {"replicaCount": 5}}))
    node = objects["StatefulSet", "demo-svc-cluster-node"]
    if "initContainers" not in node["spec"]["template"]["spec"]:
        yield "an upgrade forgets how many began"
    if ("Job", "demo-svc-cluster-leave") in objects:
        yield "nobody leaves, and there is a job"
    documents = render(chart, {"replica": {"replicaCount": 3}})
    yield from validate(documents, "shrunk")
    job = _named(documents)["Job", "demo-svc-cluster-leave"]
    if job["metadata"]["annotations"]["helm.sh/hook"] != "pre-upgrade":
        yield "the job does not come first"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    asked = _runs(container, "")
    if asked[-3:] != ["remove", "5", "4"] or asked.count("remove") != 1:
        yield f"the job runs {asked}"
    for values, says in REFUSED_RUNNING:
        yield from _refused(chart, render, values, says)


def _runs(container: dict[str, Any], pod: str, status: int = 0) -> list[str]:
    """The arguments of all that a container's shell runs as `python3`, which ends with a status."""
    return _played(container, pod, f'printf "%s\\n" "$@"; exit {status}').splitlines()


def _node_runs(container: dict[str, Any], pod: str) -> dict[str, str]:
    """The environment in which a node is run."""
    lines = _played(container, pod, "env").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def _played(container: dict[str, Any], pod: str, instead: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "python3"
        program.write_text(f"#!/bin/sh\n{instead}\n")
        program.chmod(0o755)
        environment = {each["name"]: each.get("value", pod) for each in container["env"]}
        command = [*container["command"], *container["args"]]
        done = subprocess.run(
            command,
            env={**environment, "PATH": f"{place}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout

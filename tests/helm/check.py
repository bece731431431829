"""The chart under Helm's own engine: a matrix of values is rendered and linted, what comes out is
checked against the schemas of the lowest and the highest supported Kubernetes, and values that
cannot work are refused with the sentence that says why. Run by `make helm-check`, in an environment
of its own: the engine is a large binary that nothing else needs."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-not-found]
import yaml
from helm_python import Chart, lint  # type: ignore[import-not-found]
from jsonschema import Draft202012Validator

from tests.helm import backups, growth, joins, peer_certificates, renamed, upgrade
from tests.tidy.observability import DASHBOARDS

BEFORE = Path(__file__).resolve().parent / "before"
CHART = Path(__file__).resolve().parents[2] / "helm" / "svc-cluster"
REFUSAL_CHARACTERS = 240
"""Of what Helm says of values that it refuses, this much is printed."""
KUBERNETES = ("1.25", "1.37")
FOREIGN = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parent / "schemas").glob("*.yaml"))
}
"""Kinds of cert-manager and of the Prometheus operator, with schemas of our own writing."""
ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "alerts.yml"
Values = dict[str, Any]
Objects = dict[tuple[str, str], dict[str, Any]]

PEER_ISSUER = {"certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "Issuer"}}}
DECLARED = {
    "basins": [{"name": "orders-eu", "streams": [{"name": "events"}]}],
    "access_tokens": [
        {"id": "billing", "secret_file": "billing.token", "scope": {"basins": {"prefix": ""}}}
    ],
}
CASES: dict[str, Values] = {
    "default": {},
    "one node": {"replicationFactor": 1, "replica": {"replicaCount": 1}},
    "five nodes": {"replicationFactor": 5, "replica": {"replicaCount": 5}},
    "more nodes than replicas": {"replica": {"replicaCount": 7}},
    "own secrets": {
        "auth": {"existingSecret": "mine"},
        "tls": {"peer": {"existingSecret": "peer"}},
    },
    "cert-manager": {"tls": {"peer": PEER_ISSUER, "public": {"enabled": True, **PEER_ISSUER}}},
    "public tls": {"tls": {"public": {"enabled": True, "existingSecret": "web"}}},
    "ingress": {
        "gateway": {"ingress": {"enabled": True, "className": "nginx", "hosts": ["svc.example"]}}
    },
    "monitoring": {
        "metrics": {
            "serviceMonitor": {
                "enabled": True,
                "labels": {"release": "p"},
                "tlsConfig": {"insecureSkipVerify": True},
            },
            "prometheusRule": {
                "enabled": True,
                "additionalLabels": {"release": "p"},
                "rules": [{"alert": "Own", "expr": "up == 0", "labels": {"severity": "none"}}],
            },
            "dashboards": {"enabled": True},
        },
        "tls": {"public": {"enabled": True, "existingSecret": "web"}},
    },
    "no persistence": {"replica": {"persistence": {"enabled": False}}},
    "autoscaling": {"gateway": {"autoscaling": {"enabled": True}}},
    "network policy": {"networkPolicy": {"enabled": True}},
    "probes by gRPC": {
        "replica": {"grpcProbes": True},
        "networkPolicy": {
            "enabled": True,
            "administrators": [{"podSelector": {"matchLabels": {"role": "operator"}}}],
        },
    },
    "soft placement": {
        "replica": {"podAntiAffinityPreset": "soft", "topologySpreadConstraints": []}
    },
    "labels and settings": {
        "commonLabels": {"team": "storage"},
        "commonAnnotations": {"note": "n"},
        "replica": {"settings": {"flush_seconds": 2.5}, "nodeSelector": {"disk": "nvme"}},
        "gateway": {"settings": {"basin_host_suffixes": ["b.example"]}},
    },
    "presets": {
        "replica": {"resourcesPreset": "large"},
        "gateway": {"resourcesPreset": "medium", "settings": {"memory_mib": 700}},
    },
    "own resources": {
        "replica": {"resources": {"requests": {"cpu": "3"}}},
        "gateway": {"resourcesPreset": "none"},
    },
    "more of everything": {
        "replica": {
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": True}],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
        },
        "gateway": {
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        },
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "own"},
                "data": {"a": "b"},
            }
        ],
    },
    "gateway api": {
        "gateway": {
            "httpRoute": {
                "enabled": True,
                "parentRefs": [{"name": "edge", "sectionName": "https"}],
                "hostnames": ["svc.example"],
            }
        }
    },
    "policy with clients": {
        "networkPolicy": {
            "enabled": True,
            "clients": [{"namespaceSelector": {"matchLabels": {"team": "apps"}}}],
            "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}],
        }
    },
    "init declarations": {"init": {"declarations": DECLARED, "existingSecret": "tokens"}},
    "client certificates": {
        "tls": {
            "public": {
                "enabled": True,
                "existingSecret": "web",
                "clientCa": {"existingConfigMap": "clients", "required": True},
            }
        }
    },
    "backups": {
        "backup": {
            "enabled": True,
            "place": "s3://kept/here",
            "existingKeySecret": "backup-key",
            "credentialsSecret": "bucket",
            "olderThan": "30d",
        },
        "networkPolicy": {"enabled": True},
    },
    "no authentication": {"auth": {"enabled": False}},
    "no authentication, more names": {
        "auth": {"enabled": False},
        "gateway": {"settings": {"public_hosts": ["svc.example", "localhost"]}},
    },
}
REFUSED: dict[str, tuple[Values, str]] = {
    "an even factor": ({"replicationFactor": 2}, "replicationFactor"),
    "another even factor": (
        {"replicationFactor": 4, "replica": {"replicaCount": 5}},
        "replicationFactor",
    ),
    "no factor": ({"replicationFactor": 0}, "replicationFactor"),
    "less grace than the hook may take": (
        {"replica": {"terminationGracePeriodSeconds": 10}},
        "terminationGracePeriodSeconds",
    ),
    "fewer nodes than replicas": ({"replica": {"replicaCount": 2}}, "replicaCount"),
    "fewer than five": (
        {"replicationFactor": 5, "replica": {"replicaCount": 4}},
        "replicaCount",
    ),
    "no node": ({"replicationFactor": 1, "replica": {"replicaCount": 0}}, "replicaCount"),
    "an unknown key": ({"replicas": 3}, "replicas"),
    "the tag latest": ({"image": {"tag": "latest"}}, "tag"),
    "a size without a unit": ({"replica": {"persistence": {"size": "20"}}}, "size"),
    "a gateways' certificate without the nodes'": (
        {"tls": {"peer": {"existingGatewaySecret": "x"}}},
        "tls.peer.existingGatewaySecret is set without tls.peer.existingSecret",
    ),
    "two sources of peer certificates": (
        {"tls": {"peer": {"existingSecret": "x", **PEER_ISSUER}}},
        "choose one",
    ),
    "an issuer without a name": (
        {"tls": {"peer": {"certManager": {"enabled": True}}}},
        "name the issuer",
    ),
    "public tls without a certificate": (
        {"tls": {"public": {"enabled": True}}},
        "set tls.public.existingSecret or tls.public.certManager.enabled",
    ),
    "a public certificate without tls": (
        {"tls": {"public": {"existingSecret": "x"}}},
        "set tls.public.enabled",
    ),
    "declared tokens without their secrets": (
        {"init": {"declarations": DECLARED}},
        "name the Secret that has their secrets",
    ),
    "a secret in the values": (
        {"init": {"declarations": {"access_tokens": [{"id": "a", "scope": {}, "secret": "x"}]}}},
        "secret",
    ),
    "two sources of declarations": (
        {"init": {"declarations": {"basins": []}, "existingConfigMap": "x"}},
        "init.declarations and init.existingConfigMap are both set",
    ),
    "secrets of nothing that is declared": (
        {"init": {"existingSecret": "x"}},
        "nothing is declared",
    ),
    "required certificates without a CA": (
        {
            "tls": {
                "public": {"enabled": True, "existingSecret": "x", "clientCa": {"required": True}}
            }
        },
        "name the ConfigMap of the clients' CAs",
    ),
    "client certificates without tls": (
        {"tls": {"public": {"clientCa": {"existingConfigMap": "x"}}}},
        "clients show certificates under TLS alone",
    ),
    "client certificates without tokens": (
        {
            "auth": {"enabled": False},
            "tls": {
                "public": {
                    "enabled": True,
                    "existingSecret": "x",
                    "clientCa": {"existingConfigMap": "x"},
                }
            },
        },
        "certificates stand for access tokens",
    ),
    "backups without a key": (
        {"backup": {"enabled": True, "existingClaim": "kept"}},
        "svc-cluster backup key",
    ),
    "backups without a place": (
        {"backup": {"enabled": True, "existingKeySecret": "k"}},
        "set backup.place",
    ),
    "backups in two places": (
        {
            "backup": {
                "enabled": True,
                "existingKeySecret": "k",
                "place": "s3://kept",
                "existingClaim": "kept",
            }
        },
        "backup.place and backup.existingClaim are both set",
    ),
    "backups without an administrator": (
        {
            "backup": {"enabled": True, "existingKeySecret": "k", "place": "s3://kept"},
            "tls": {"peer": {"existingSecret": "peer"}},
        },
        "backup.existingAdministratorSecret",
    ),
    "backups in a place of no kind": (
        {"backup": {"enabled": True, "existingKeySecret": "k", "place": "/mnt"}},
        "place",
    ),
    "gateways are not asked by gRPC": ({"gateway": {"grpcProbes": True}}, "grpcProbes"),
    "administrators without a list": (
        {"networkPolicy": {"administrators": {"podSelector": {}}}},
        "administrators",
    ),
    "autoscaling without a request": (
        {"gateway": {"autoscaling": {"enabled": True}, "resourcesPreset": "none"}},
        "request no processor time",
    ),
    "autoscaling by a request of memory alone": (
        {
            "gateway": {
                "autoscaling": {"enabled": True},
                "resources": {"requests": {"memory": "1Gi"}},
            }
        },
        "request no processor time",
    ),
    "a route without a gateway": ({"gateway": {"httpRoute": {"enabled": True}}}, "parentRefs"),
    "a mount without a volume": (
        {"replica": {"extraVolumeMounts": [{"name": "x", "mountPath": "/x"}]}},
        "replica.extraVolumes",
    ),
    "an unknown preset": ({"replica": {"resourcesPreset": "huge"}}, "resourcesPreset"),
    "an ingress without hosts": ({"gateway": {"ingress": {"enabled": True}}}, "list at least one"),
}


def merged(base: Values, over: Values) -> Values:
    """As Helm merges values: maps member by member."""
    out = copy.deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        else:
            out[key] = value
    return out


def render(chart: Any, values: Values, *, upgrade: bool = False) -> list[dict[str, Any]]:
    rendered = chart.render(values, name="demo", namespace="storage", is_upgrade=upgrade)
    manifests = [text for path, text in rendered.items() if path.endswith(".yaml")]
    documents = [document for text in manifests for document in yaml.safe_load_all(text)]
    return [document for document in documents if document is not None]


def by_name(documents: list[dict[str, Any]]) -> Objects:
    return {(d["kind"], d["metadata"]["name"]): d for d in documents}


def validate(documents: list[dict[str, Any]], where: str) -> Iterator[str]:
    """What the schemas of Kubernetes say, and for kinds of others our own."""
    for document in documents:
        if document["kind"] in FOREIGN:
            for fault in Draft202012Validator(FOREIGN[document["kind"]]).iter_errors(document):
                name = document["metadata"]["name"]
                yield f"{where}: {document['kind']} {name}, {fault.json_path}: {fault.message}"
            continue
        for version in KUBERNETES:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as fault:
                name = document["metadata"]["name"]
                yield f"{where}: {document['kind']} {name}, Kubernetes {version}: {fault}"


def containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["spec"]["template"]["spec"]["containers"]
    return found


def environment(document: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in containers(document)[0]["env"]}


SERVICE = ("", ".svc", ".svc.cluster.local")


def public_hosts(gateway: dict[str, Any]) -> list[str]:
    found: list[str] = json.loads(environment(gateway)["SVC_CLUSTER_PUBLIC_HOSTS"])
    return found


def has_ingress(values: Values) -> bool:
    return bool(values["gateway"]["ingress"]["enabled"])


def hook(document: dict[str, Any]) -> list[str]:
    """The command that runs before a pod is stopped."""
    lifecycle = containers(document)[0].get("lifecycle", {})
    found: list[str] = lifecycle.get("preStop", {}).get("exec", {}).get("command", [])
    return found


def questions(document: dict[str, Any]) -> list[str]:
    """What the probes ask for: at start, for liveness, for readiness."""
    out = []
    for kind in ("startup", "liveness", "readiness"):
        probe = containers(document)[0][f"{kind}Probe"]
        out.append(probe["grpc"]["service"] if "grpc" in probe else probe["httpGet"]["path"])
    return out


def reaches_administration(objects: Objects) -> list[dict[str, Any]] | None:
    """Peers that the policy lets through to it; None: nobody, or there is no policy."""
    policy = objects.get(("NetworkPolicy", "demo-svc-cluster-node"), {"spec": {"ingress": []}})
    for rule in policy["spec"]["ingress"]:
        if {"port": "admin"} in rule["ports"]:
            found: list[dict[str, Any]] = rule["from"]
            return found
    return None


def egress(objects: Objects, role: str) -> list[Any]:
    """The ports that a role's pods may go to, of the rules that the chart makes."""
    rules = objects["NetworkPolicy", f"demo-svc-cluster-{role}"]["spec"]["egress"]
    return [(port["port"], port["protocol"]) for rule in rules for port in rule.get("ports", [])]


def asks_and_limits(document: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Processor time asked for, memory allowed, and memory_mib."""
    found = containers(document)[0].get("resources", {})
    cpu = found.get("requests", {}).get("cpu")
    limit = found.get("limits", {}).get("memory")
    return cpu, limit, environment(document).get("SVC_CLUSTER_MEMORY_MIB")


def declared(objects: Objects) -> Any:
    """What the gateways are told to declare; None: nothing."""
    made = objects.get(("ConfigMap", "demo-svc-cluster-init"))
    return None if made is None else json.loads(made["data"]["init.json"])


def projected(document: dict[str, Any], path: str) -> list[tuple[str, list[str]]]:
    """The objects that a container has together at a path, and the keys of each; none: all."""
    mounts = {m["mountPath"]: m["name"] for m in containers(document)[0]["volumeMounts"]}
    volumes = document["spec"]["template"]["spec"]["volumes"]
    found = [volume["projected"] for volume in volumes if volume["name"] == mounts.get(path)]
    sources = [one for whole in found for each in whole["sources"] for one in each.values()]
    return [(s["name"], [item["path"] for item in s.get("items", ())]) for s in sources]


def mounted(document: dict[str, Any], path: str) -> tuple[str, str] | None:
    """The ConfigMap and the key of it that a container has at a path."""
    directory, _, name = path.rpartition("/")
    mounts = {m["mountPath"]: m["name"] for m in containers(document)[0]["volumeMounts"]}
    for volume in document["spec"]["template"]["spec"]["volumes"]:
        if volume["name"] == mounts.get(directory) and "configMap" in volume:
            source = volume["configMap"]
            keys = {item["path"]: item["key"] for item in source.get("items", [])}
            return source["name"], keys.get(name, name)
    return None


def additions(name: str, objects: Objects) -> Iterator[str]:
    """What single cases are about."""
    node = objects["StatefulSet", "demo-svc-cluster-node"]
    gateway = objects["Deployment", "demo-svc-cluster-gateway"]
    ports = [(7000, "TCP"), (53, "UDP"), (53, "TCP")]
    expected: dict[str, list[tuple[Any, Any]]] = {
        "default": [
            (asks_and_limits(node), ("250m", "1Gi", None)),
            (asks_and_limits(gateway), ("250m", "1Gi", None)),
        ],
        "presets": [
            (asks_and_limits(node), ("2", "6Gi", "5120")),
            (asks_and_limits(gateway), ("1", "2Gi", "700")),
        ],
        "own resources": [
            (asks_and_limits(node), ("3", None, None)),
            (asks_and_limits(gateway), (None, None, None)),
        ],
        "more of everything": [
            (containers(node)[0]["volumeMounts"][-1]["mountPath"], "/ca"),
            (containers(gateway)[0]["volumeMounts"][-1]["mountPath"], "/more"),
            (environment(node).get("TZ"), "UTC"),
            (("ConfigMap", "own") in objects, True),
        ],
        "init declarations": [
            (environment(gateway).get("SVC_CLUSTER_INIT_FILE"), "/init/init.json"),
            (environment(node).get("SVC_CLUSTER_INIT_FILE"), None),
            (declared(objects), DECLARED),
            (
                projected(gateway, "/init"),
                [("demo-svc-cluster-init", ["init.json"]), ("tokens", [])],
            ),
        ],
        "client certificates": [
            (environment(gateway).get("SVC_CLUSTER_TLS_CLIENT_CA"), "/clients/ca.crt"),
            (environment(gateway).get("SVC_CLUSTER_TLS_CLIENT_CERTIFICATE"), "required"),
            (mounted(gateway, "/clients/ca.crt"), ("clients", "ca.crt")),
        ],
    }
    if name.startswith("policy"):
        policy = objects["NetworkPolicy", "demo-svc-cluster-gateway"]["spec"]["ingress"]
        expected[name] = [
            (egress(objects, "node"), ports),
            (egress(objects, "gateway"), ports),
            (policy[0]["ports"], [{"port": "http"}]),
            ([list(peer) for peer in policy[0]["from"]], [["namespaceSelector"]]),
        ]
    if name == "gateway api":
        (backend,) = objects["HTTPRoute", "demo-svc-cluster"]["spec"]["rules"][0]["backendRefs"]
        expected[name] = [(backend, {"name": "demo-svc-cluster", "port": 80})]
    for found, wanted in expected.get(name, []):
        if found != wanted:
            yield f"{name}: {found} is not {wanted}"


def mounted_keys(documents: list[dict[str, Any]]) -> set[str]:
    """Entries of the peer secret that a pod gets; all of them where a volume names none."""
    out: set[str] = set()
    for document in documents:
        for volume in document["spec"]["template"]["spec"]["volumes"]:
            if volume["name"] == "peer-tls":
                items = volume["secret"].get("items", [{"key": "ca.key"}])
                out |= {item["key"] for item in items}
    return out


def monitoring(objects: Objects) -> Iterator[str]:
    """The alerts are those of deploy/prometheus, for the jobs that the monitors make."""
    rules = objects["PrometheusRule", "demo-svc-cluster"]["spec"]["groups"]
    own = yaml.safe_load(ALERTS.read_text())["groups"]
    if rules[: len(own)] != own or [group["name"] for group in rules[len(own) :]] != [
        "demo-svc-cluster-own"
    ]:
        yield "monitoring: the rules are not those of deploy/prometheus and the values"
    jobs = {
        relabeling["replacement"]
        for (kind, _), monitor in objects.items()
        if kind == "ServiceMonitor"
        for endpoint in monitor["spec"]["endpoints"]
        for relabeling in endpoint["relabelings"]
    }
    if jobs != {"svc-node", "svc-gateway"}:
        yield f"monitoring: the jobs are {jobs}"
    boards = objects["ConfigMap", "demo-svc-cluster-dashboard"]["data"]
    if boards.keys() != {board.name for board in DASHBOARDS}:
        yield f"monitoring: the dashboards are {sorted(boards)}"
    for board in DASHBOARDS:
        if json.loads(boards[board.name]) != json.loads(board.read_text()):
            yield f"monitoring: the dashboard {board.name} is not the one of deploy/grafana"


def broken(documents: list[dict[str, Any]]) -> Iterator[str]:
    """That the schemas of our own writing find a slip in each kind."""
    for document in documents:
        if document["kind"] in FOREIGN:
            slip = copy.deepcopy(document)
            slip["spec"]["selektor"] = {}
            if not list(validate([slip], "")):
                yield f"the schema of {document['kind']} takes an unknown key"


def is_root_token(text: str) -> bool:
    """Mark, 256 bits and checksum, as svc_cluster/model/access_secret.py reads them."""
    found = re.fullmatch(r"svct_([A-Za-z0-9_-]{43})([0-9a-f]{8})", text)
    return found is not None and hashlib.sha256(found[1].encode()).hexdigest()[:8] == found[2]


def facts(name: str, objects: Objects, values: Values) -> Iterator[str]:
    """What an operator relies on, in every case of the matrix."""
    node = objects["StatefulSet", "demo-svc-cluster-node"]
    gateway = objects["Deployment", "demo-svc-cluster-gateway"]
    headless = objects["Service", "demo-svc-cluster-headless"]
    count = values["replica"]["replicaCount"]
    addresses = json.loads(environment(node)["SVC_CLUSTER_NODES"])
    host = "demo-svc-cluster-node-0.demo-svc-cluster-headless.storage.svc.cluster.local:7000"
    checks = {
        "as many addresses as nodes": len(addresses) == count and addresses["1"] == host,
        "nodes and gateways know the same": environment(gateway)["SVC_CLUSTER_NODES"]
        == environment(node)["SVC_CLUSTER_NODES"],
        "peers are found before they are ready": headless["spec"]["publishNotReadyAddresses"]
        and headless["spec"]["clusterIP"] == "None",
        "the StatefulSet stands on the headless Service": node["spec"]["serviceName"]
        == "demo-svc-cluster-headless",
        "one pod of a role goes at a time": {
            name: budget["spec"]["maxUnavailable"]
            for (kind, name), budget in objects.items()
            if kind == "PodDisruptionBudget"
        }
        == {"demo-svc-cluster-node": 1, "demo-svc-cluster-gateway": 1},
        "a node hands over before it is stopped": (
            "svc_cluster.handover" in hook(node) or values["replicationFactor"] == 1
        ),
        "a gateway answers while it is taken out": "sleep" in hook(gateway),
        "there is time for the hook": node["spec"]["template"]["spec"][
            "terminationGracePeriodSeconds"
        ]
        >= 20,
        "nobody but the chart has the CA's key": not mounted_keys([node, gateway]) & {"ca.key"}
        and {name for (kind, name), o in objects.items() if "ca.key" in o.get("data", {})}
        <= {"demo-svc-cluster-peer-ca"}
        and "peer-ca" not in json.dumps([node, gateway]),
        "liveness knows no quorum, readiness does": questions(node)
        == (
            ["liveness", "liveness", "readiness"]
            if values["replica"]["grpcProbes"]
            else ["/livez", "/livez", "/readyz"]
        ),
        "health in clear only where it is asked for": (
            "SVC_CLUSTER_HEALTH_RPC_ADDRESS" in environment(node)
        )
        == values["replica"]["grpcProbes"],
        "nobody but who is named reaches administration": reaches_administration(objects)
        == ((values["networkPolicy"]["administrators"] + backups.pods(objects)) or None),
        "an administrator's certificate is made and mounted nowhere": (
            ("Secret", "demo-svc-cluster-administrator-tls") in objects
            or ("Certificate", "demo-svc-cluster-administrator") in objects
        )
        == (not values["tls"]["peer"]["existingSecret"])
        and "administrator" not in json.dumps([node, gateway]),
        "data is kept": ("volumeClaimTemplates" in node["spec"])
        == values["replica"]["persistence"]["enabled"],
        "every process is confined": all(
            c["securityContext"]["readOnlyRootFilesystem"]
            and c["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            for c in containers(node) + containers(gateway)
        ),
        "authentication as asked": environment(gateway)["SVC_CLUSTER_AUTHENTICATION"]
        == str(values["auth"]["enabled"]).lower(),
        "gateways answer for their own names": public_hosts(gateway)[:4]
        == [f"demo-svc-cluster{rest}" for rest in ("", *(f".storage{x}" for x in SERVICE))]
        and set(public_hosts(gateway)[4:])
        == {
            *(values["gateway"]["ingress"]["hosts"] if has_ingress(values) else ()),
            *values["gateway"]["httpRoute"]["hostnames"],
            *values["gateway"]["settings"].get("public_hosts", ()),
        },
        "gateways do not get the root token": "root-token"
        not in json.dumps(gateway["spec"]["template"]["spec"]["volumes"]),
    }
    is_own = not values["tls"]["peer"]["existingSecret"]
    yield from peer_certificates.mounts(name, node, gateway, is_own)
    made = objects.get(("Secret", "demo-svc-cluster-auth"))
    checks["the root token is one that nodes take"] = made is None or is_root_token(
        base64.b64decode(made["data"]["root-token"]).decode()
    )
    for each in (node, gateway):
        selector = each["spec"]["selector"]["matchLabels"]
        labels = each["spec"]["template"]["metadata"]["labels"]
        checks[f"{each['kind']} selects its pods"] = selector.items() <= labels.items()
        checks[f"{each['kind']} has a selector without version"] = set(selector) == {
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/component",
        }
    for what, holds in checks.items():
        if not holds:
            yield f"{name}: {what}: does not hold"


def refused(render_values: Callable[[], Any], name: str, says: str) -> Iterator[str]:
    try:
        render_values()
    except Exception as refusal:
        if says not in str(refusal):
            yield f"{name}: refused, but not by {says!r}: {refusal}"
    else:
        yield f"{name}: not refused"


def main() -> int:
    chart = Chart.load(str(CHART))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    before = Chart.load(str(BEFORE))
    faults: list[str] = []
    compared = 0
    apart: dict[str, str] = {}
    for name, values in CASES.items():
        fresh, documents = (render(chart, values, upgrade=upgrade) for upgrade in (False, True))
        faults += [*validate(fresh, name), *validate(documents, name)]
        faults += facts(name, by_name(documents), merged(defaults, values))
        faults += peer_certificates.faults(
            name, by_name(documents), merged(defaults, values)["replica"]["replicaCount"]
        )
        if name == "monitoring":
            faults += monitoring(by_name(documents))
        faults += additions(name, by_name(documents))
        faults += backups.faults(name, by_name(documents), merged(defaults, values))
        faults += broken(documents)
        try:
            older = by_name(render(before, values))
        except Exception as refusal:  # values that the version before does not have
            apart[name] = " ".join(str(refusal).split())
            continue
        compared += 1
        faults += upgrade.faults(name, older, by_name(documents))
        if name == "default":
            faults += upgrade.planted(older)
    for name, (values, says) in REFUSED.items():
        faults += refused(partial(render, chart, values), name, says)
    faults += growth.faults(lambda values: by_name(render(chart, values, upgrade=True)))
    faults += joins.faults(
        CHART, lambda path, given: render(Chart.load(str(path)), given), validate
    )
    faults += renamed.faults(CHART, BEFORE, partial(render, chart))
    report = lint(str(CHART), strict=True)
    print(f"lint: {report}")
    faults += upgrade.apart(set(apart))
    for name, why in apart.items():
        print(f"not under the version before: {name}: {why[:REFUSAL_CHARACTERS]}")
    for fault in faults:
        print(fault)
    print(
        f"{len(CASES)} sets of values, {compared} of them under the version before too "
        f"({len(apart)} are named above), "
        f"{len(REFUSED)} refusals, {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

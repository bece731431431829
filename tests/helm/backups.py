"""What the chart makes for backups, held against what the command takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

EXIT_NOT_CLEARED = 3
"""What the command ends with where to repeat it mends nothing (`backup_app.EXIT_NOT_CLEARED`; the
chart is checked without the product)."""

Objects = dict[tuple[str, str], dict[str, Any]]

NAME = ("CronJob", "demo-svc-cluster-backup")
LABELS = {
    "app.kubernetes.io/name": "svc-cluster",
    "app.kubernetes.io/instance": "demo",
    "app.kubernetes.io/component": "backup",
}


def pods(objects: Objects) -> list[dict[str, Any]]:
    """The peers that a policy lets through for backups; none where none are taken."""
    has_policy = ("NetworkPolicy", "demo-svc-cluster-node") in objects
    taken = NAME in objects and has_policy
    return [{"podSelector": {"matchLabels": LABELS}}] if taken else []


def faults(name: str, objects: Objects, values: dict[str, Any]) -> Iterator[str]:
    """The job is there where it is asked for; it asks every node, with an administrator's
    certificate and a key that are mounted nowhere else, and is confined as the other pods are."""
    wanted = values["backup"]
    if (NAME in objects) != wanted["enabled"]:
        yield f"{name}: a job for backups is there, or not, against what was asked for"
    if not wanted["enabled"]:
        return
    job = objects[NAME]["spec"]
    pod = job["jobTemplate"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    headless = "demo-svc-cluster-headless.storage.svc.cluster.local:9095"
    addresses = [
        f"{node + 1}=demo-svc-cluster-node-{node}.{headless}"
        for node in range(values["replica"]["replicaCount"])
    ]
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    secrets = {each["secret"]["secretName"] for each in volumes.values() if "secret" in each}
    others = [
        objects["StatefulSet", "demo-svc-cluster-node"],
        objects["Deployment", "demo-svc-cluster-gateway"],
    ]
    checks = {
        "its schedule": job["schedule"] == wanted["schedule"],
        "one at a time": job["concurrencyPolicy"] == "Forbid",
        "what it runs": container["args"]
        == ["backup", "create", "--keep", "7", "--older-than", "30d"],
        "every node": env["SVC_CLUSTER_BACKUP_ADDRESSES"].split() == addresses,
        "what is not repeated": job["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
        == [
            {
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": container["name"],
                    "operator": "In",
                    "values": [EXIT_NOT_CLEARED],
                },
                "onPodConditions": [],
            }
        ],
        "its place": env["SVC_CLUSTER_BACKUP_PLACE"] == wanted["place"],
        "the credentials": container["envFrom"] == [{"secretRef": {"name": "bucket"}}],
        "key and certificate": secrets == {"backup-key", "demo-svc-cluster-administrator-tls"},
        "nobody else has them": "backup-key" not in str(others)
        and "administrator" not in str(others),
        "it is confined": container["securityContext"]["readOnlyRootFilesystem"]
        and pod["spec"]["automountServiceAccountToken"] is False,
        "its labels": LABELS.items() <= pod["metadata"]["labels"].items(),
    }
    for what, holds in checks.items():
        if not holds:
            yield f"{name}: backups: {what}: does not hold"

"""What an upgrade from the version before changes: no field that Kubernetes does not let change,
and no certificate that pods of before still mount.

`tests/helm/before` holds that version's chart without its dashboards and alerts. At a release it is
replaced by the chart that was released.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Objects = dict[tuple[str, str], dict[str, Any]]

CHANGEABLE = {
    "StatefulSet": {
        *("replicas", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"),
        *("ordinals", "persistentVolumeClaimRetentionPolicy"),
    },
}
"""Of these kinds everything else in `spec` holds for good."""
FIXED: dict[str, list[tuple[str, ...]]] = {
    "Deployment": [("spec", "selector")],
    "Service": [("spec", "clusterIP")],
    "Secret": [("type",)],
}
"""Of these kinds what is listed does, as long as the object is there."""


NEW = {
    *("presets", "own resources", "more of everything", "gateway api", "policy with clients"),
    *("client certificates", "init declarations", "backups"),
}
"""Of `check.CASES` those that the version before refuses. At a release it is empty again."""


def apart(names: set[str]) -> Iterator[str]:
    """Nothing is left out of the comparison that is not known for it, and the other way around."""
    for name in sorted(names - NEW):
        yield f"{name}: upgrade: the version before refuses these values, and NEW does not say so"
    for name in sorted(NEW - names):
        yield f"{name}: upgrade: stands in NEW, and the version before takes these values"


def faults(name: str, before: Objects, after: Objects) -> Iterator[str]:
    """Objects are by kind and name. One that holds data and is gone, or has another name now, is a
    fault too."""
    for (kind, called), old in before.items():
        new = after.get((kind, called))
        if new is None:
            if kind in CHANGEABLE:
                yield f"{name}: upgrade: {kind} {called} is gone, and what it holds with it"
            continue
        for path in _fixed(kind, old, new):
            if _at(old, path) != _at(new, path):
                yield f"{name}: upgrade: {kind} {called}: {'.'.join(path)} cannot be changed"

    after_names = _certificates(after)
    for secret, names in _certificates(before).items():
        if names != after_names.get(secret, names):
            yield f"{name}: upgrade: pods of before read {secret} again, now with other names"


def _certificates(objects: Objects) -> dict[str, str]:
    """By the Secret in which they are: what tells the names of a certificate from others."""
    found = {}
    for (kind, called), written in objects.items():
        if kind == "Certificate":
            found[written["spec"]["secretName"]] = repr(written["spec"]["dnsNames"])
        elif kind == "Secret":
            names = (written["metadata"].get("annotations") or {}).get("svc-cluster/names")
            if names is not None:
                found[called] = str(names)
    return found


def _fixed(kind: str, old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, ...]]:
    if kind in CHANGEABLE:
        keys = {*old["spec"], *new["spec"]} - CHANGEABLE[kind]
        return [("spec", key) for key in sorted(keys)]
    return FIXED.get(kind, [])


def _at(document: dict[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def planted(before: Objects) -> Iterator[str]:
    """That a change of each of these fields is found: a renamed volume, a selector, a name."""
    slips: list[tuple[str, tuple[str, str], tuple[str, ...], Any]] = [
        ("a claim's size", ("StatefulSet", "node"), ("spec", "volumeClaimTemplates"), []),
        ("a StatefulSet's Service", ("StatefulSet", "node"), ("spec", "serviceName"), "other"),
        ("a Deployment's selector", ("Deployment", "gateway"), ("spec", "selector"), {}),
        ("a headless Service", ("Service", "headless"), ("spec", "clusterIP"), "10.0.0.9"),
    ]
    for what, (kind, suffix), path, value in slips:
        after = copy.deepcopy(before)
        (found,) = (o for (k, n), o in after.items() if k == kind and n.endswith(suffix))
        found[path[0]][path[1]] = value
        if not list(faults("", before, after)):
            yield f"upgrade: a change of {what} is not found"
    after = copy.deepcopy(before)
    (found,) = (o for (k, n), o in after.items() if k == "Secret" and n.endswith("-peer-tls"))
    found["metadata"]["annotations"]["svc-cluster/names"] = "others"
    if not list(faults("", before, after)):
        yield "upgrade: other names in a mounted certificate are not found"
    kept = {key: o for key, o in before.items() if key[0] != "StatefulSet"}
    if not list(faults("", before, kept)):
        yield "upgrade: a StatefulSet that is gone is not found"

"""More space for data, as docs/operations/containers.md says it: the commands are taken from the
page, and what they rely on from what the chart renders with the new size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.helm import upgrade

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations" / "containers.md"
Values = dict[str, Any]
Objects = dict[tuple[str, str], dict[str, Any]]


def faults(render: Callable[[Values], Objects]) -> Iterator[str]:
    """The claims' names and size, the StatefulSet's name, and that nothing else of it that
    Kubernetes does not let change does: its pods are taken over by the one that follows."""
    said = commands(PAGE.read_text())
    if said is None:
        yield "growth: the page has no commands for more space"
        return
    claims, claim_size, statefulset, chart_size = said
    before = render({})
    after = render({"replica": {"persistence": {"size": chart_size}}})
    name = ("StatefulSet", statefulset)
    if name not in after:
        yield f"growth: there is no StatefulSet {statefulset}"
        return
    found = after[name]["spec"]
    (template,) = found["volumeClaimTemplates"]
    asked = template["spec"]["resources"]["requests"]["storage"]
    if not claim_size == chart_size == asked:
        yield f"growth: claims get {claim_size}, the chart {chart_size}, and renders {asked}"
    made = [f"{template['metadata']['name']}-{statefulset}-{n}" for n in range(found["replicas"])]
    if claims != made:
        yield f"growth: the page grows {claims}, and there are {made}"
    told = list(upgrade.faults("growth", before, after))
    refused = f"growth: upgrade: StatefulSet {statefulset}: spec.volumeClaimTemplates"
    if told != [f"{refused} cannot be changed"]:
        yield f"growth: not the claims alone change for good: {told}"
    labels = before[name]["spec"]["template"]["metadata"]["labels"]
    if not found["selector"]["matchLabels"].items() <= labels.items():
        yield "growth: the StatefulSet that follows does not take the pods over"
    claim = {"spec": {**template["spec"], "resources": None}}
    (old,) = before[name]["spec"]["volumeClaimTemplates"]
    if claim != {"spec": {**old["spec"], "resources": None}}:
        yield "growth: more than the claims' size changes"


def commands(page: str) -> tuple[list[str], str, str, str] | None:
    """The claims that are grown and to what, the StatefulSet that goes, and the chart's size."""
    patched = re.search(
        r"for i in ([\d ]+); do kubectl patch pvc (\S+)\$i .*?\"storage\":\"(\w+)\"", page
    )
    deleted = re.search(r"kubectl delete statefulset (\S+) --cascade=orphan", page)
    upgraded = re.search(r"helm upgrade .* --set replica\.persistence\.size=(\w+)", page)
    if patched is None or deleted is None or upgraded is None:
        return None
    numbers, prefix, size = patched.groups()
    return [f"{prefix}{n}" for n in numbers.split()], size, deleted[1], upgraded[1]

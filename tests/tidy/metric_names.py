"""The metrics that the product declares, read from where it does."""

from __future__ import annotations

import re
from typing import Final

from tests.tidy.observability import ROOT

__all__ = ["DECLARATIONS", "ROOT", "declared", "fed"]

DECLARATIONS: Final = sorted((ROOT / "svc_cluster" / "base").glob("*metrics.py"))
"""Where the metrics of a process are declared."""


def declared() -> dict[str, str]:
    """Attribute of `Metrics` to the name on the wire, of what is ours."""
    text = "\n".join(path.read_text() for path in DECLARATIONS)
    found = re.findall(r"self\.(\w+) = (?:self\._\w+|histogram)\(\s*\"(\w+)\"", text)
    assert len(found) > 40
    return dict(found)


def fed() -> set[str]:
    """Names of metrics that something outside of their declaration touches."""
    sources = "\n".join(
        path.read_text()
        for path in (ROOT / "svc_cluster").rglob("*.py")
        if path not in DECLARATIONS
    )
    return {
        name
        for attribute, name in declared().items()
        if re.search(rf"(metrics|declared)\.{attribute}\b", sources)
    }

"""docs/configuration.md is what the settings are."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from svc_cluster.settings import GatewaySettings, NodeSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def documented(heading: str) -> dict[str, str]:
    """The default of each key of the table below a heading, as it is written there."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\S+) \| \S", section, re.MULTILINE)
    assert len(rows) == section.count("\n|") - 2, "every row has key, type, default and meaning"
    return dict(rows)


@pytest.mark.parametrize(
    ("heading", "kind"), [("Node", NodeSettings), ("Gateway", GatewaySettings)]
)
def test_every_key_is_documented_with_its_default_and_no_other_is(
    heading: str, kind: type[msgspec.Struct]
) -> None:
    """A key without a row, a row without a key and a default that has moved on are found."""
    actual = {
        field.name: "required" if field.required else f"`{written(field.default)}`"
        for field in msgspec.structs.fields(kind)
    }
    assert documented(heading) == actual


def written(value: object) -> str:
    return yaml.safe_dump(value).removesuffix("...\n").strip()

"""The JSON Schema says of every key what `check` says, so that a file that it takes can be used."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_schema import CHOICES, RANGES, meanings, schema
from svc_cluster.settings_sources import keys_of

KINDS: tuple[type[NodeSettings | GatewaySettings], ...] = (NodeSettings, GatewaySettings)
BASE: dict[str, Any] = {
    "cluster_id": "c",
    "nodes": {"1": "127.0.0.1:1", "2": "127.0.0.1:2", "3": "127.0.0.1:3"},
    "secret_file": "/secret",
}
OWN: dict[str, dict[str, Any]] = {
    "NodeSettings": {"node_id": 1, "data_dir": "/data"},
    "GatewaySettings": {},
}


def raw(kind: type[NodeSettings | GatewaySettings], **changes: Any) -> dict[str, Any]:
    return BASE | OWN[kind.__name__] | changes


def refusal(kind: type[NodeSettings | GatewaySettings], key: str, value: float) -> bool:
    """Whether `check` refuses the value for its range."""
    try:
        msgspec.convert(raw(kind, **{key: value}), kind).check()
    except SettingsError as cause:
        return re.match(rf"{key} is [-+.e\d]+: use ", str(cause)) is not None
    return False


TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def fits(rule: dict[str, Any], value: Any) -> bool:
    """As much of JSON Schema as these schemas use; an unknown word would be found by the test."""
    assert rule.keys() <= {
        *("$schema", "title", "description", "default", "anyOf", "enum", "minimum", "maximum"),
        *("type", "properties", "required", "additionalProperties", "items"),
    }
    if "anyOf" in rule:
        return any(fits(branch, value) for branch in rule["anyOf"])
    if isinstance(value, bool) != (rule["type"] == "boolean"):
        return False
    if not isinstance(value, TYPES[rule["type"]]) or value not in rule.get("enum", [value]):
        return False
    if isinstance(value, dict):
        known, others = rule.get("properties", {}), rule["additionalProperties"]
        return all(key in value for key in rule.get("required", ())) and all(
            fits(known[key], item)
            if key in known
            else isinstance(others, dict) and fits(others, item)
            for key, item in value.items()
        )
    if isinstance(value, list):
        return all(fits(rule["items"], item) for item in value)
    return bool(
        "minimum" not in rule
        or not isinstance(value, int | float)
        or rule["minimum"] <= value <= rule["maximum"]
    )


def takes(kind: type[NodeSettings | GatewaySettings], **changes: Any) -> bool:
    return fits(schema(kind), raw(kind, **changes))


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_are_those_of_the_checks(kind: type[NodeSettings | GatewaySettings]) -> None:
    """At both ends of every range schema and check agree, and every bounded number has a range."""
    bounded = set()
    for key in keys_of(kind):
        values = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"][key]
        branches = values.get("anyOf", [values])
        if not any(branch.get("type") in ("integer", "number") for branch in branches):
            continue
        if key in CHOICES:
            assert not takes(kind, **{key: 2})
            assert refusal(kind, key, 2)
            continue
        if refusal(kind, key, -1) or refusal(kind, key, 10**18):
            bounded.add(key)
            least, most = RANGES[key]
            for value, good in ((least, True), (most, True), (least - 1, False), (most + 1, False)):
                assert takes(kind, **{key: value}) is good, (key, value)
                assert refusal(kind, key, value) is not good, (key, value)
    assert bounded == {key for key in keys_of(kind) if key in RANGES}


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_schema_refuses(kind: type[NodeSettings | GatewaySettings]) -> None:
    """Unknown keys, missing ones, values of another type; not what is right."""
    assert takes(kind)
    assert not takes(kind, colour="red")
    assert not takes(kind, nodes=["127.0.0.1:1"])
    assert not takes(kind, log_format="xml")
    assert not fits(schema(kind), {"cluster_id": "c"})


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_says_what_it_means(kind: type[NodeSettings | GatewaySettings]) -> None:
    """There is a text for each key and for nothing else, and editors see it without its links."""
    assert sorted(meanings(kind)) == sorted(keys_of(kind))
    rules = schema(kind)["properties"]
    assert all(len(rule["description"]) > 5 for rule in rules.values())
    assert not [key for key, rule in rules.items() if "](" in rule["description"]]
    assert "join token" in schema(NodeSettings)["properties"]["join_token_file"]["description"]

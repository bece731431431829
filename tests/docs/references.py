"""References for readers, made from the code: `python -m tests.docs.references` writes them.

A page keeps its own words; what stands between `<!-- made from the code -->` and
`<!-- end -->` is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from prometheus_client import Metric

from svc_cluster.base import errors
from svc_cluster.base.errors import ErrorCode, ServiceError
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.error_answers import SEED_WORDS, status_of
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_reload import RELOADABLE
from svc_cluster.settings_schema import meanings, schema

ROOT: Final = Path(__file__).resolve().parents[2]
BEGIN: Final = "<!-- made from the code -->\n"
END: Final = "<!-- end -->\n"

_FIX: Final = "correct the request; the message says what is wrong"
_LOOK: Final = "look up the name; it may be deleted or not made yet"
_WAIT: Final = "wait for `retry-after-ms` and ask again"

TO_DO: Final[dict[ErrorCode, str]] = {
    ErrorCode.ACCESS_TOKEN_NOT_FOUND: "nothing: it was revoked, or never was",
    ErrorCode.AUTHN: "show another access token; on a write that was under way when the token "
    "ended, see *possible* above",
    ErrorCode.BAD_FRAME: _FIX,
    ErrorCode.BAD_HEADER: _FIX,
    ErrorCode.BAD_JSON: _FIX,
    ErrorCode.BAD_PATH: _FIX,
    ErrorCode.BAD_PROTO: _FIX,
    ErrorCode.BAD_QUERY: _FIX,
    ErrorCode.BASIN_DELETION_PENDING: "wait until it is deleted (404), or take another name",
    ErrorCode.BASIN_NOT_FOUND: _LOOK,
    ErrorCode.DECRYPTION_FAILED: "send the key that the record was written under",
    ErrorCode.HOT_SERVER: _WAIT,
    ErrorCode.INVALID: _FIX,
    ErrorCode.METHOD_NOT_ALLOWED: "use a method that `allow` names",
    ErrorCode.NOT_FOUND: "correct the path",
    ErrorCode.NOT_IMPLEMENTED: "do without",
    ErrorCode.OTHER: "see *possible* above, and report the `x-request-id`",
    ErrorCode.PAYLOAD_TOO_LARGE: "send less at once",
    ErrorCode.TARGET_TOO_LONG: "shorten the path or query",
    ErrorCode.HEADERS_TOO_LARGE: "send fewer or shorter headers",
    ErrorCode.PERMISSION_DENIED: "ask for a token with the operation and names that the message "
    "names",
    ErrorCode.QUOTA_EXHAUSTED: "delete what is not needed, or have the quota raised",
    ErrorCode.RATE_LIMITED: _WAIT,
    ErrorCode.REQUEST_TIMEOUT: "of a write see *possible* above; repeat a read",
    ErrorCode.RESOURCE_ALREADY_EXISTS: "use it, or take another name; PUT makes or changes",
    ErrorCode.SERVER_DRAINING: "connect anew: another gateway serves",
    ErrorCode.STORAGE: "see *possible* above, and look at the node",
    ErrorCode.STREAM_DELETION_PENDING: "wait until it is deleted (404), or take another name",
    ErrorCode.STREAM_NOT_FOUND: _LOOK,
    ErrorCode.TRANSACTION_CONFLICT: "ask again",
    ErrorCode.UNAVAILABLE: _WAIT,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: "send gzip, zstd or nothing",
    ErrorCode.APPEND_CONDITION_FAILED: "read what stands there; another writer came first, or "
    "an earlier attempt of yours did",
    ErrorCode.RANGE_NOT_SATISFIABLE: "begin at the `tail` that is told, or read with `clamp=true`",
}


_BEFORE_ANYTHING: Final = frozenset(
    {
        *(ErrorCode.BAD_FRAME, ErrorCode.BAD_HEADER, ErrorCode.BAD_JSON, ErrorCode.BAD_PATH),
        *(ErrorCode.BAD_PROTO, ErrorCode.BAD_QUERY, ErrorCode.METHOD_NOT_ALLOWED),
        *(ErrorCode.NOT_FOUND, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.TARGET_TOO_LONG),
        *(ErrorCode.HEADERS_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
    }
)


def error_table() -> str:
    """Return a row for each code, with what its refusals say of effects."""
    assert TO_DO.keys() == set(ErrorCode), "every code says what to do"
    rows = ["| `code` | `error` | status | did it happen | what to do |", "|---|---|---|---|---|"]
    for code in sorted(ErrorCode, key=lambda each: (status_of(each, Dialect.S2), each.value)):
        status = str(status_of(code, Dialect.S2))
        if status_of(code, Dialect.SEED) != status_of(code, Dialect.S2):
            status += f" (S2), {status_of(code, Dialect.SEED)}"
        seed = SEED_WORDS.get(code, code.value)
        rows.append(f"| `{code.value}` | `{seed}` | {status} | {effect(code)} | {TO_DO[code]} |")
    return "\n".join(rows) + "\n"


def effect(code: ErrorCode) -> str:
    """Return what the refusals with a code say of effects, by their classes. Those that the HTTP
    server makes by itself, before anything is done, have theirs elsewhere."""
    if code in _BEFORE_ANYTHING:
        return "no"
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ServiceError) and kind is not ServiceError
    ]
    said = {kind.may_have_taken_effect for kind in kinds if kind.code is code}
    if code is ErrorCode.AUTHN or said != {
        False
    }:  # a class that says it of each by itself, or none
        return "as `svc-side-effects` says"
    return "no"


def metric_table() -> str:
    """Return a row for each metric that nodes and gateways give, in alphabetical order."""
    found = {name_of(each): each for each in Metrics(process=True).registry.collect()}
    rows = ["| metric | kind | what it says |", "|---|---|---|"]
    rows += [
        f"| `{name}` | {each.type} | {each.documentation.replace('|', '/')} |"
        for name, each in sorted(found.items())
    ]
    return "\n".join(rows) + "\n"


def name_of(metric: Metric) -> str:
    """Return the name on the wire: that of a counter ends in `_total`."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def written(page: str, made: str) -> str:
    """Return a page with its made part replaced. Raises ValueError where there is none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{made}\n{end}{behind}"


def settings_tables() -> str:
    """Return a row for each setting of a node, and of a gateway, in the order of the classes."""
    return "\n".join(
        f"## {heading}\n\n{settings_table(kind)}"
        for heading, kind in (("Node", NodeSettings), ("Gateway", GatewaySettings))
    )


def settings_table(kind: type[NodeSettings | GatewaySettings]) -> str:
    """Return a row for each setting: its type with the range, its default, and what it means."""
    rules = schema(kind)["properties"]
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(kind):
        default = "required" if field.required else f"`{yaml_of(field.default)}`"
        said = meanings(kind)[field.name]
        if field.name in RELOADABLE[kind]:
            said += ". *Reloadable.*" if said[-1] not in ".:" else " *Reloadable.*"
        rows.append(f"| `{field.name}` | {type_of(rules[field.name])} | {default} | {said} |")
    return "\n".join(rows) + "\n"


def yaml_of(value: object) -> str:
    """Return a value as a file has it."""
    return yaml.safe_dump(value).removesuffix("...\n").strip()


def type_of(rule: Mapping[str, Any]) -> str:
    """Return the words for what a JSON Schema takes."""
    if "enum" in rule:
        return ", ".join(f"`{choice}`" for choice in rule["enum"])
    if "anyOf" in rule:
        return " or ".join(type_of(branch) for branch in rule["anyOf"])
    words = _TYPES[rule["type"]]
    if "minimum" in rule:
        return f"{words}, {rule['minimum']:.15g} to {rule['maximum']:.15g}"
    return words


_TYPES: Final = {
    "array": "list of texts",
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "null": "`null`",
    "number": "number",
    "object": "map",
    "string": "text",
}


PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/configuration.md": settings_tables,
    "docs/errors.md": error_table,
    "docs/metrics.md": metric_table,
}


def main() -> None:
    for page, made in PAGES.items():
        path = ROOT / page
        path.write_text(written(path.read_text(), made()))


if __name__ == "__main__":
    main()

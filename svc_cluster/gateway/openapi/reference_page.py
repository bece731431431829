"""The OpenAPI document as one page of HTML for people: no script, and nothing from elsewhere.

What folds is `<details>`; the style is allowed by its digest, everything else is refused by the
page's policy, so that a browser runs nothing that a name or a text might smuggle in.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from svc_cluster.gateway.request.endpoint import Schema

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:0 auto;padding:1rem}
code,pre{font:14px/1.4 ui-monospace,monospace}
pre{overflow:auto;padding:.6rem;border:1px solid #8886;border-radius:4px}
details{border-bottom:1px solid #8884;padding:.35rem 0}
summary{cursor:pointer}
details>div{padding:.2rem 0 .6rem 1.1rem}
b.method{display:inline-block;min-width:4.2rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-top:1px solid #8883}
nav a{margin-right:1rem}
"""
_STYLE_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

PAGE_HEADERS: Final = (
    ("content-type", "text/html; charset=utf-8"),
    (
        "content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)
"""What the page is served with."""

_REFERENCE: Final = re.compile(r"&quot;#/components/schemas/(\w+)&quot;")


def render_page(document: dict[str, Any]) -> bytes:
    """The whole page, in UTF-8."""
    return "".join(_pieces(document)).encode()


def _pieces(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    )
    yield f"<p>{_text(info['description'])}</p>\n"
    proto = document["externalDocs"]
    yield (
        f'<p><a href="/openapi.json">openapi.json</a> · <a href="{escape(proto["url"])}">'
        f"{escape(proto['url'].rpartition('/')[2])}</a> · {escape(info['license']['name'])}</p>\n"
    )
    tags = document["tags"]
    links = "".join(
        f'<a href="#group-{escape(tag["name"])}">{escape(tag["name"])}</a>' for tag in tags
    )
    yield f'<nav>{links}<a href="#schemas">schemas</a></nav>\n'
    for tag in tags:
        name = escape(tag["name"])
        yield f'<h2 id="group-{name}">{name}</h2>\n<p>{_text(tag["description"])}</p>\n'
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(document, path, method, operation)
    yield '<h2 id="schemas">schemas</h2>\n'
    for name, schema in document["components"]["schemas"].items():
        yield _folded(f"<code>{escape(name)}</code>", f"schema-{name}", _json(schema))
    yield "</body></html>\n"


def _operation(
    document: dict[str, Any], path: str, method: str, operation: dict[str, Any]
) -> Iterator[str]:
    inside = [f"<p><code>{escape(operation['operationId'])}</code></p>"]
    if "parameters" in operation:
        inside.append(_parameters(operation["parameters"]))
    if "requestBody" in operation:
        need = "" if operation["requestBody"]["required"] else ", which may be left out"
        inside.append(f"<h4>Body{need}</h4>" + _content(operation["requestBody"]["content"]))
    inside += [_answer(document, *each) for each in operation["responses"].items()]
    head = (
        f'<b class="method">{method.upper()}</b><code>{escape(path)}</code> '
        f"{escape(operation['summary'])}"
    )
    yield _folded(head, operation["operationId"], "".join(inside))


def _parameters(parameters: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}"
        f"{', required' if each.get('required') else ''}</td><td>{_kind(each['schema'])}</td>"
        f"<td>{_text(each.get('description', ''))}</td></tr>"
        for each in parameters
    )
    return f"<table><tr><th>Parameter</th><th>In</th><th>Kind</th><th></th></tr>{rows}</table>"


def _kind(schema: Schema) -> str:
    words = schema.get("enum")
    if words is not None:
        return ", ".join(f"<code>{escape(word)}</code>" for word in words)
    return escape(schema["type"])


def _answer(document: dict[str, Any], status: str, answer: dict[str, Any]) -> str:
    is_shared = "$ref" in answer
    if is_shared:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    headers = "".join(f" <code>{escape(name)}</code>" for name in answer.get("headers", ()))
    told = f"<h4>{escape(status)}</h4><p>{_text(answer['description'])}"
    told += f" Headers:{headers}</p>" if headers else "</p>"
    # a refusal's body is the same everywhere; its codes stand in the description
    return told + ("" if is_shared else _content(answer.get("content", {})))


def _content(content: dict[str, Any]) -> str:
    told = ""
    for media, body in content.items():
        target = body["schema"].get("$ref", "").rpartition("/")[2]
        link = f' <a href="#schema-{escape(target)}">{escape(target)}</a>' if target else ""
        told += f"<p><code>{escape(media)}</code>{link}</p>"
        if "example" in body:
            example = body["example"]
            told += f"<pre>{escape(example)}</pre>" if isinstance(example, str) else _json(example)
    return told


def _folded(head: str, identity: str, inside: str) -> str:
    """What a link to the identity unfolds, which is why it stands inside."""
    return (
        f'<details><summary>{head}</summary><div id="{escape(identity)}">{inside}</div></details>\n'
    )


def _json(value: Any) -> str:
    """With links from one schema to another."""
    text = escape(json.dumps(value, indent=1, ensure_ascii=False))
    return "<pre>" + _REFERENCE.sub(r'<a href="#schema-\1">\1</a>', text) + "</pre>"


def _text(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))

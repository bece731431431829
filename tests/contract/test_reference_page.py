"""The page at `/docs`: whole, small, without a script, and with nothing from elsewhere.

Rule: contract 4.11.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from html.parser import HTMLParser
from typing import Final

import pytest

from svc_cluster.gateway.openapi.reference_page import render_page
from tests.contract.access import Account
from tests.contract.client import Answer, Client

PAGE_BYTES_MAX: Final = 256 * 1024
_EMPTY: Final = {"meta", "br", "hr", "link", "img", "input"}
_LOADED: Final = {"src", "srcset", "action", "formaction", "style", "data", "poster", "background"}
"""Attributes that make a browser ask for something, or apply a style of their own."""


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.style = ""
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in _EMPTY:
            self._open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.links.add(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            self.style += data
        else:
            self.text += data


def policy(answer: Answer) -> dict[str, str]:
    parts = answer.headers["content-security-policy"].split("; ")
    return {name: value for name, _, value in (part.partition(" ") for part in parts)}


def test_the_page_is_closed_to_all_that_is_not_its_own(client: Client) -> None:
    """Nothing may load but the one style, which has the digest that the policy names; no script,
    no handler, no frame, no form; and the page is small."""
    answer = client.get("/docs")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert len(answer.body) < PAGE_BYTES_MAX
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = Page(answer.body.decode())
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy(answer) == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert page.tags.isdisjoint({"script", "iframe", "object", "embed", "form", "link", "img"})
    assert page.attributes.isdisjoint(_LOADED)
    assert not any(name.startswith("on") for name in page.attributes)
    assert "url(" not in page.style and "@import" not in page.style


def test_every_link_of_the_page_is_local_and_leads_somewhere(client: Client) -> None:
    """To a place on the page, or to what the server answers with 200."""
    page = Page(client.get("/docs").body.decode())
    assert len(page.ids) == len(set(page.ids))
    places = {link for link in page.links if link.startswith("#")}
    assert {link[1:] for link in places} <= set(page.ids)
    others = page.links - places
    assert others == {"/openapi.json", "/proto/s2/v1/s2.proto"}
    for link in others:
        assert client.get(link).status == 200


def test_the_page_shows_the_whole_document(client: Client) -> None:
    """Each operation with its path, parameters and statuses, and each schema."""
    text = client.get("/docs").body.decode()
    page = Page(text)
    document = client.get("/openapi.json").json
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["operationId"] in page.ids
            place = text.index(f'id="{operation["operationId"]}"')
            head = text[text.rindex("<details>", 0, place) : place]
            assert method.upper() in head and path in head and escape(operation["summary"]) in head
            shown = text[place : text.index("</details>", place)]
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in shown
            for status in operation["responses"]:
                assert f"<h4>{status}</h4>" in shown
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= set(page.ids)


@pytest.mark.parametrize("words", ["<script>alert(1)</script>", '"><img src=x onerror=x>', "`<b>`"])
def test_what_the_document_says_is_text(client: Client, words: str) -> None:
    """Wherever it stands: the page has no tag beside its own."""
    document = client.get("/openapi.json").json
    own = Page(render_page(document).decode())
    told = document["paths"]["/v1/basins"]["post"]
    told["summary"] = words
    told["parameters"][0] |= {"name": words, "description": words}
    told["requestBody"]["content"]["application/json"]["example"] = {"basin": words}
    document["info"] |= {"title": words, "description": words}
    document["components"]["schemas"]["Error"]["description"] = words
    page = Page(render_page(document).decode())
    assert page.tags == own.tags and page.attributes == own.attributes
    assert page.text.count(words.replace("`", "")) >= 5


def test_the_page_needs_no_token(guarded: Account) -> None:
    """As the document that it shows, and compressed for whoever takes that."""
    plain = guarded.ask("GET", "/docs", None, None)
    assert (plain.status, re.match(b"<!doctype html>", plain.body) is not None) == (200, True)
    packed = guarded.client.get("/docs", {"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 4

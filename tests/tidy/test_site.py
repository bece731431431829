"""The pages as a site: it builds, nothing in it is of another host, and every link has an end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.site import faults, hosts_in_scripts
from tests.docs.site_hooks import for_site

NAMED_IN_COMMENTS = {
    *("getbootstrap.com", "github.com", "lunrjs.com", "popper.js.org", "tartarus.org"),
    *("developer.mozilla.org", "www.cambiaresearch.com", "www.w3.org"),
}
"""Where the theme's scripts come from, and names of markup's own: nobody is asked there."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "site"
    command = [str(Path(sys.prefix) / "bin/mkdocs"), "build", "--quiet", "--site-dir", str(place)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return place


def test_the_site_has_every_page(site: Path) -> None:
    """One for each file of docs/, and the search's words."""
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").as_posix()
        wanted = place.removesuffix("README.md") + "index.html"
        if not place.endswith("README.md"):
            wanted = place.removesuffix(".md") + ".html"
        assert (site / wanted).is_file(), wanted
    assert (site / "search/search_index.json").is_file()


def test_the_site_is_whole_and_asks_nobody_else(site: Path) -> None:
    """Every script, style, font and picture is its own; links within it have an end."""
    assert list(faults(site)) == []
    assert hosts_in_scripts(site) <= NAMED_IN_COMMENTS


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "p.html loads https://cdn.example"),
        ('<img src="//cdn.example/x.png">', "p.html loads //cdn.example/x.png"),
        ('<p style="background: url(https://cdn.example/x)">', "p.html loads background"),
        ('<a href="q.html">', "p.html leads to q.html, which is not there"),
        ('<a href="#none">', "p.html leads to #none, which has no such heading"),
        ('<h1 id="one"><a href="p.html#one"></a><a href="https://other.example/"></a>', None),
    ],
)
def test_a_fault_of_a_site_is_found(tmp_path: Path, page: str, fault: str | None) -> None:
    """What it loads from elsewhere, in markup and styles; a link without an end."""
    (tmp_path / "p.html").write_text(page)
    found = list(faults(tmp_path))
    assert len(found) == (fault is not None)
    assert fault is None or found[0].startswith(fault)


def test_faults_in_styles_and_scripts_are_found(tmp_path: Path) -> None:
    (tmp_path / "s.css").write_text("@import 'https://cdn.example/s.css';\n@font-face{src:url(f)}")
    (tmp_path / "s.js").write_text("fetch('https://cdn.example/x')")
    assert list(faults(tmp_path)) == ["s.css loads https://cdn.example/s.css"]
    assert hosts_in_scripts(tmp_path) == {"cdn.example"}


def test_a_page_is_made_ready_for_the_site() -> None:
    """Marks go, words behind a language too; links that leave docs/ become places."""
    text = (
        "<!-- not run: why -->\n```sh example endless\n[a](../x)\n```\nSee:\n- [b](../README.md)\n"
    )
    assert for_site(text, "page.md") == "```sh\n[a](../x)\n```\nSee:\n\n- b (`README.md`)\n"
    assert for_site("[c](security.md#tokens)", "page.md") == "[c](security.md#tokens)"
    assert for_site("[d](adr)", "page.md") == "d (`docs/adr`)"

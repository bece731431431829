"""What the pages under docs/ show is what happens: their examples, run as they stand there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.docs.blocks import ROOT, blocks_of, pages
from tests.e2e.pasted import check, needs_curl, run

EXAMPLES = {
    str(page): found
    for page in pages()
    if page.parts[0] == "docs"
    and (found := [b for b in blocks_of(page, (ROOT / page).read_text()) if b.is_example])
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """One for all pages: each has basins of its own."""
    needs_curl()
    opened = OwnCluster(tmp_path_factory.mktemp("pages") / "cluster")
    opened.start()
    try:
        asyncio.run(opened.wait_ready(60.0))
        yield opened
    finally:
        opened.end()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", sorted(EXAMPLES))
def test_the_examples_of_a_page_do_what_it_shows(page: str, cluster: OwnCluster) -> None:
    """Every block in its order, compared with the output shown below it."""
    for example in EXAMPLES[page]:
        check(example, run(example, cluster))


def test_there_are_pages_with_examples() -> None:
    """None has lost its marks: these run in shell, Python and JavaScript."""
    assert {"docs/errors.md", "docs/quick-starts.md"} <= EXAMPLES.keys()
    quick = {block.info[0] for block in EXAMPLES["docs/quick-starts.md"]}
    assert quick >= {"sh", "python", "js"}

"""The product's docstrings begin with a whole sentence that fits a line of a reader's screen."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SENTENCE_CHARACTERS_MAX = 120
FRAGMENTS = frozenset({"Of", "As", "Or", "That", "Whoever"})
"""Words that begin half a sentence, whose other half is a name somewhere above it."""

END = re.compile(r'[.!?:](?=\s+[A-Z`_0-9"(]|$)')
"""Where a sentence ends; a colon counts where what follows could stand by itself."""

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, on one line; its first paragraph if none ends."""
    paragraph = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    end = END.search(paragraph)
    return paragraph if end is None else paragraph[: end.end()]


def faults_of(sentence: str, *, whole: bool) -> Iterator[str]:
    """Yield what is wrong with a first sentence; `whole`: it is no attribute's, so it needs all."""
    words = sentence.split()
    if words and words[0].rstrip(",:") in FRAGMENTS:
        yield f"begins with {words[0]}: give it a subject and a verb"
    if whole and not sentence.endswith("."):
        yield "does not end with a full stop"
    if whole and len(sentence) > SENTENCE_CHARACTERS_MAX:
        yield f"has {len(sentence)} characters, at most {SENTENCE_CHARACTERS_MAX}: make it two"


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and the text of each docstring, and whether it needs a whole sentence: an
    attribute's, which stands behind its assignment, may be a fragment with a noun."""
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text, True
        for _, block in ast.iter_fields(node):
            if isinstance(block, list):
                yield from _behind_assignments(block)


def _behind_assignments(block: list[ast.AST]) -> Iterator[tuple[int, str, bool]]:
    for before, behind in pairwise(block):
        if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(behind, ast.Expr):
            value = behind.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield behind.lineno, value.value, False


def faults(root: Path) -> list[str]:
    """Return every fault of the product's docstrings below `root`, in order of files and lines."""
    found = []
    for path in sorted((root / "svc_cluster").rglob("*.py")):
        if "_pb" not in path.parts:
            place = path.relative_to(root).as_posix()
            for line, text, whole in sorted(docstrings(ast.parse(path.read_text()))):
                sentence = first_sentence(text)
                found += [f"{place}:{line} {fault}" for fault in faults_of(sentence, whole=whole)]
    return found


def planted(folder: Path, source: str) -> list[str]:
    """Return the faults of a product that has one file, without the file's name."""
    module = folder / "svc_cluster" / "model" / "planted.py"
    module.parent.mkdir(parents=True)
    module.write_text(source)
    return [fault.removeprefix("svc_cluster/model/planted.py:") for fault in faults(folder)]


def test_docstrings_begin_with_a_whole_sentence() -> None:
    """A subject and a verb, a full stop, at most 120 characters; no exception is kept."""
    assert faults(ROOT) == []


@pytest.mark.parametrize("word", sorted(FRAGMENTS))
@pytest.mark.parametrize(
    ("line", "source"),
    [
        (1, '"""{} x, of a module."""\n'),
        (2, 'class A:\n    """{} x, of a class."""\n'),
        (2, 'def f():\n    """{} x, of a function."""\n'),
        (3, 'class A:\n    async def f(self):\n        """{} x, of a method."""\n'),
        (2, 'A = 1\n"""{} x, of a constant."""\n'),
        (3, 'class A:\n    a: int\n    """{} x, of a field."""\n'),
        (6, 'def f():\n    if 1:\n        pass\n    else:\n        a = 1\n        """{} x."""\n'),
    ],
)
def test_half_a_sentence_is_found_wherever_it_stands(
    tmp_path: Path, word: str, line: int, source: str
) -> None:
    """Each word, at modules, classes, functions, methods, constants, fields and attributes."""
    assert planted(tmp_path, source.format(word)) == [
        f"{line} begins with {word}: give it a subject and a verb"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Returns the size",
        "The two kinds are these: `a` and `b`.",
        "Is this whole?",
        "The kinds:\n\n    - a\n    ",
    ],
)
def test_an_end_that_is_no_full_stop_is_found(tmp_path: Path, text: str) -> None:
    """No end, a colon before what could stand by itself, another mark, a colon before a list."""
    assert planted(tmp_path, f'def f():\n    """{text}"""\n') == ["2 does not end with a full stop"]


def test_a_sentence_beyond_the_bound_is_found(tmp_path: Path) -> None:
    """At the bound and one beyond, over two lines, of which the break counts as one blank."""
    words = "It has\n    "
    at_bound = words + "x" * (SENTENCE_CHARACTERS_MAX - len("It has .")) + "."
    source = f'def f():\n    """{at_bound} More.\n    """\n'
    assert planted(tmp_path / "at", source) == []
    assert planted(tmp_path / "over", source.replace("x.", "xx.")) == [
        "2 has 121 characters, at most 120: make it two"
    ]


def test_what_is_whole_passes(tmp_path: Path) -> None:
    """An attribute's noun without a verb or an end, words that only begin like the forbidden ones,
    a colon within a sentence, a file without any docstring, and what is generated."""
    source = '''"""Offers are kept here: each has a price. As many as there are."""

SECONDS = 1
"""Seconds between two tries"""

KINDS = 2
"""The kinds: `a` and `b`"""


def f():
    """Assigns it. Of no use otherwise"""


def g():
    return "Of a text that is no docstring"
'''
    generated = tmp_path / "svc_cluster" / "_pb" / "made.py"
    generated.parent.mkdir(parents=True)
    generated.write_text('"""Of a generator"""\n')
    assert planted(tmp_path, source) == []

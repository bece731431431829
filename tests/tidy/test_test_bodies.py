"""What a test defines, it runs: a coroutine function that nobody calls proves nothing."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def unused(source: str) -> list[str]:
    """The coroutine functions that stand in a function's body and are not named again in it."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        found += [
            f"{function.name} does not run {inner.name}"
            for inner in function.body
            if isinstance(inner, ast.AsyncFunctionDef)
            and not inner.decorator_list
            and inner.name not in names
        ]
    return found


def test_a_coroutine_that_nobody_runs_is_found() -> None:
    body = "def test() -> None:\n    async def main() -> None:\n        assert False\n"
    assert unused(body) == ["test does not run main"]
    assert unused(body + "\n    run(main)\n") == []


def test_every_test_runs_what_it_defines() -> None:
    """One that lost its last line passes for ever."""
    assert {
        str(path.relative_to(TESTS)): found
        for path in TESTS.rglob("*.py")
        if (found := unused(path.read_text()))
    } == {}

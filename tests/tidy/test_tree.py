"""The form of the tree: what a reviewer would otherwise have to look for by hand."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "svc_cluster").rglob("*.py")
    if "__pycache__" not in path.parts
)
SOURCES = [
    *MODULES,
    *sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")),
]
DOCUMENTS = sorted(
    path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_can_be_imported_first() -> None:
    """Each module is imported in a child of a fresh interpreter, so that no import works only
    because another module came before it (a circle), and warnings are errors."""
    program = """
import os, sys
failed = []
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        failed.append(name)
sys.exit("cannot be imported first: " + ", ".join(failed) if failed else 0)
"""
    names = [module_name(path) for path in MODULES if path.name != "__main__.py"]
    command = [sys.executable, "-W", "error", "-c", program, *names]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_nothing_imports_pickle() -> None:
    """Neither pickle nor what is built on it is named in any import of the tree."""
    banned = {"pickle", "cPickle", "_pickle", "shelve", "marshal", "dill", "cloudpickle"}
    found: list[str] = []
    for path in SOURCES:
        for node in ast.walk(ast.parse((ROOT / path).read_bytes())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [f"{path}:{node.lineno}" for name in names if name.split(".")[0] in banned]
    assert not found


def test_files_and_functions_stay_small() -> None:
    """A file of the product has at most 600 lines, a function at most 80: cut along the nouns."""
    found: list[str] = []
    for path in MODULES:
        if path.parts[1] == "_pb":
            continue
        text = (ROOT / path).read_text()
        if text.count("\n") > 600:
            found.append(f"{path}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno > 80:
                    found.append(f"{path}:{node.lineno} {node.name}")
    assert not found


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_generated_code_is_current() -> None:
    """`make proto` would change nothing."""
    if not (ROOT / ".venv/bin/python").exists():
        pytest.skip("no .venv: the generator is part of the development environment")
    command = ["bash", ".ci/proto", "--check"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_make_targets_named_in_documents_exist() -> None:
    """Every `make verb` that a document tells a reader to type is in the Makefile."""
    verbs = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        named = set(re.findall(r"(?:`|^\s*)make ([a-z0-9-]+)", text, re.MULTILINE))
        assert named <= verbs, f"{document} names {sorted(named - verbs)}"
    assert {"setup", "run", "test", "demo", "check", "fmt", "sim", "bench", "clean"} <= verbs


def test_links_in_documents_resolve() -> None:
    """Every relative link of every document leads to a file, and to a heading where it says so."""
    broken: list[str] = []
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, fragment = target.partition("#")
            path = (ROOT / document).parent / name if name else ROOT / document
            wants_heading = bool(fragment) and path.suffix == ".md"
            if not path.exists() or (wants_heading and fragment not in anchors(path.read_text())):
                broken.append(f"{document} -> {target}")
    assert not broken


def anchors(markdown: str) -> set[str]:
    """The fragments under which a rendered document's headings can be reached."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {
        re.sub(r"[^a-z0-9 _-]", "", heading.lower()).strip().replace(" ", "-")
        for heading in headings
    }


def test_links_to_files_named_in_the_readme_layout_exist() -> None:
    """The README's picture of the folders is true."""
    readme = (ROOT / "README.md").read_text()
    for folder in re.findall(r"^\| `([a-z_./]+/)` \|", readme, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_the_license_is_the_apache_license() -> None:
    """The whole text is there, from its title to the end of its appendix."""
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert text.count("\n") == 202
    assert text.rstrip().endswith("limitations under the License.")


def starts_of_tasks(source: str) -> list[int]:
    """Lines that start a task by the loop's own means, whatever the loop is called there. The
    tasks of an `asyncio.TaskGroup` are waited for by its block: a name that one is bound to in a
    `with` is free to start them."""
    tree = ast.parse(source)
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and ast.unparse(item.context_expr).endswith("TaskGroup()")
    }
    lines = []
    for node in ast.walk(tree):
        name, owner = "", ""
        if isinstance(node, ast.Attribute):
            name, owner = node.attr, ast.unparse(node.value)
        elif isinstance(node, ast.ImportFrom):
            name = next((each.name for each in node.names if each.name in STARTERS), "")
        if name in STARTERS and owner not in groups:
            lines.append(node.lineno)
    return lines


STARTERS = ("create_task", "ensure_future", "run_coroutine_threadsafe")


def test_tasks_are_started_by_their_owner_only() -> None:
    """A task that nobody holds ends silently, and its work with it: all are started in
    base/tasks.py, wherever else the call would hide."""
    found = {
        str(path): lines
        for path in MODULES
        if str(path) != "svc_cluster/base/tasks.py"
        and (lines := starts_of_tasks((ROOT / path).read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(f())",
        "asyncio.get_running_loop().create_task(f())",
        "self._loop.create_task(f())",
        "start = loop.create_task",
        "from asyncio import ensure_future",
        "asyncio.ensure_future(f())",
    ],
)
def test_a_task_started_elsewhere_is_found(source: str) -> None:
    assert starts_of_tasks(source) == [1]
    group = "async with asyncio.TaskGroup() as group:\n    group.create_task(f())"
    assert starts_of_tasks(f"async def g():\n  {source}")
    assert starts_of_tasks("async def g():\n  " + group.replace("\n", "\n  ")) == []

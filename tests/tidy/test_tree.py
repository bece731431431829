"""The form of the tree: what a reviewer would otherwise have to look for by hand."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.circles import circle

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
    path.relative_to(ROOT)
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*.md"),
    ]
)


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_can_be_imported_first() -> None:
    """No import works only because another module of ours came before it: no modules import each
    other in a circle, and each can be imported, in a fresh interpreter in which warnings are
    errors."""
    names = [module_name(path) for path in MODULES]
    texts = {name: (ROOT / path).read_text() for name, path in zip(names, MODULES, strict=True)}
    assert circle(texts) == []
    program = "import sys\nfor name in sys.argv[1:]:\n    __import__(name)"
    imported = [name for name in names if not name.endswith("__main__")]
    command = [sys.executable, "-W", "error", "-c", program, *imported]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize(
    ("source", "is_circle"),
    [
        ("import p.a", True),
        ("from p.a import f", True),
        ("from p import a", True),
        ("if 1:\n    pass\nelse:\n    from p.a import f", True),
        ("try:\n    pass\nexcept OSError:\n    from p.a import f", True),
        ("class C:\n    from p.a import f", True),
        ("def g():\n    from p.a import f", False),
        ("if TYPE_CHECKING:\n    from p.a import f", False),
        ("from p.c import f", False),
        ("from q import a", False),
    ],
)
def test_a_circle_is_found(source: str, is_circle: bool) -> None:
    """Over two and over three modules, wherever an import stands that runs with its module."""
    whole = {"p": "", "p.c": "from p import d", "p.d": ""}
    two = {**whole, "p.a": "from p.b import g", "p.b": source}
    three = {**whole, "p.a": "import p.m", "p.m": "from p.b import g", "p.b": source}
    assert [bool(circle(two)), bool(circle(three))] == [is_circle, is_circle]


def test_a_package_may_import_what_is_in_it() -> None:
    """As long as that asks for nothing of the package itself."""
    inside = {"p.q.a": "from p.q.b import f", "p.q.b": "", "p": ""}
    assert circle({**inside, "p.q": "from p.q.a import f"}) == []
    assert circle({**inside, "p.q": "from p.q.a import f", "p.q.b": "from p.q import f"}) != []
    assert circle({**inside, "p.q": "import p.c", "p.c": "from p.q.b import f"}) != []


def test_nothing_imports_pickle() -> None:
    """Neither pickle nor what is built on it is named in any import of the tree."""
    banned = {"pickle", "cPickle", "_pickle", "shelve", "marshal", "dill", "cloudpickle"}
    found: list[str] = []
    for path in SOURCES:
        source = (ROOT / path).read_text()
        if not any(name in source for name in banned):
            continue  # most are not worth the time it takes to parse them
        for node in ast.walk(ast.parse(source)):
            names: list[str] = []
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""]
            found += [f"{path}:{node.lineno}" for name in names if name.split(".")[0] in banned]
    assert not found


FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
LONGER = {
    "svc_cluster/cli/local/command.py": (450, "one class: what is started, watched and ended"),
    "svc_cluster/gateway/cluster/replica_client.py": (500, "one method a request of the link"),
    "svc_cluster/http/http2_connection.py": (500, "to be cut: what is received and what is sent"),
    "svc_cluster/raft/engine.py": (500, "the port to the library's one class"),
    "svc_cluster/replica/group_replica.py": (500, "one class: what goes in and what comes out"),
    "svc_cluster/replica/host.py": (500, "to be cut: what is opened, closed and taken away"),
    "svc_cluster/cli/processes/gateway_process.py:start_gateway": (80, "a list of what is built"),
    "svc_cluster/gateway/app.py:__init__": (80, "a list of what is built"),
}
"""Who is longer, at most how long, and why. The list only shrinks: a bound is at most 50 lines (10
of a function) above what is there, and goes when it is not needed."""


def lengths(source: str, path: str) -> dict[str, tuple[int, int]]:
    """The lines of a file and of each of its functions, with the most that each may have."""
    found = {path: (source.count("\n"), FILE_LINES_MAX)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            place = f"{path}:{node.name}"
            found[place] = max(found.get(place, (0, 0)), (lines, FUNCTION_LINES_MAX))
    return found


def faults_of_length(
    found: dict[str, tuple[int, int]], longer: dict[str, tuple[int, str]]
) -> list[str]:
    """What is too long, and exceptions that are gone, not needed or wider than they need be."""
    faults = [f"{place} is not there any more" for place in longer if place not in found]
    for place, (lines, usual) in found.items():
        most = longer[place][0] if place in longer else usual
        step = 10 if usual == FUNCTION_LINES_MAX else 50
        if lines > most:
            faults.append(f"{place} has {lines} lines, at most {most}: cut it along its nouns")
        elif place in longer and lines <= usual:
            faults.append(f"{place} has {lines} lines and needs no exception")
        elif place in longer and lines < most - step:
            faults.append(f"{place} has {lines} lines: lower its bound")
    return faults


def test_files_and_functions_stay_small() -> None:
    """A file of the product has at most 400 lines, a function at most 70: cut along the nouns."""
    found: dict[str, tuple[int, int]] = {}
    for path in MODULES:
        if path.parts[1] != "_pb":
            found |= lengths((ROOT / path).read_text(), str(path))
    assert faults_of_length(found, LONGER) == []


def test_what_is_too_long_is_found_and_exceptions_only_shrink() -> None:
    """At each bound and one beyond; an exception that is not needed, too wide or of nobody."""
    body = "def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)
    assert faults_of_length(lengths(body, "a.py"), {}) == []
    found = lengths(body + "    x = 1\n", "a.py")
    assert faults_of_length(found, {}) == [
        "a.py:f has 71 lines, at most 70: cut it along its nouns"
    ]
    assert faults_of_length(found, {"a.py:f": (80, "why")}) == []
    assert faults_of_length(found, {"a.py:f": (82, "why")}) == [
        "a.py:f has 71 lines: lower its bound"
    ]
    for lines, most, told in (
        (400, 0, []),
        (401, 0, ["a.py has 401 lines, at most 400: cut it along its nouns"]),
        (401, 450, []),
        (451, 450, ["a.py has 451 lines, at most 450: cut it along its nouns"]),
        (400, 450, ["a.py has 400 lines and needs no exception"]),
        (450, 500, []),
        (449, 500, ["a.py has 449 lines: lower its bound"]),
    ):
        longer = {"a.py": (most, "why")} if most else {}
        assert faults_of_length(lengths("x = 1\n" * lines, "a.py"), longer) == told
    assert faults_of_length({}, {"gone.py": (450, "why")}) == ["gone.py is not there any more"]


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


def test_no_verb_is_announced_twice() -> None:
    """Two lines on one verb come to contradict each other."""
    unreleased = (ROOT / "CHANGELOG.md").read_text().split("\n## [")[1]
    verbs = re.findall(r"^- `make ([a-z-]+)`", unreleased, re.MULTILINE)
    assert sorted(verbs) == sorted(set(verbs))


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
    if not any(name in source for name in (*STARTERS, "Task(")):
        return []
    tree = ast.parse(source)
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and ast.unparse(item.context_expr).endswith("TaskGroup()")
    }
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt) and _starts_task(node, groups)
    )


def _starts_task(node: ast.expr | ast.stmt, groups: set[str]) -> bool:
    match node:
        case ast.Attribute(attr=name, value=owner):
            return name in STARTERS and ast.unparse(owner) not in groups
        case ast.ImportFrom(names=names):
            return any(each.name in STARTERS for each in names)
        case ast.Constant(value=str(text)):  # getattr(loop, "create_task")
            return text in STARTERS
        case ast.Call(func=func):  # a task made by its class
            return ast.unparse(func) in ("Task", "asyncio.Task")
        case _:
            return False


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
        "from asyncio import sleep, create_task as go",
        "asyncio.run_coroutine_threadsafe(f(), loop)",
        "getattr(loop, 'create_task')(f())",
        "asyncio.Task(f(), loop=loop)",
        "lambda: loop.create_task(f())",
    ],
)
def test_a_task_started_elsewhere_is_found(source: str) -> None:
    """Each of the ways is seen, at the top of a module and inside a coroutine; a group's is not."""
    assert starts_of_tasks(source) == [1]
    group = "async with asyncio.TaskGroup() as group:\n    group.create_task(f())"
    assert starts_of_tasks(f"async def g():\n  {source}")
    assert starts_of_tasks("async def g():\n  " + group.replace("\n", "\n  ")) == []


ANY_MAX = {"svc_cluster": 273, "svc_cluster/replica": 10}
"""How often a type may be left open in a folder, and below it. The numbers only shrink: one is at
most 5 above what is there."""

TYPED = (
    *("append", "basin", "catalog", "group_replica", "group_services", "keeper", "kept_entries"),
    *("machine", "proposer", "service", "waiting_proposals"),
)
"""Files of `replica` on the way of a write: nothing is left open there."""


def uses_of_any(source: str) -> int:
    """How often a type is left open, in annotations and in names for types."""
    if "Any" not in source:
        return 0
    return sum(
        isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in ("Any", "typing.Any")
        for node in ast.walk(ast.parse(source))
    )


def faults_of_any(uses: dict[str, int], most: dict[str, int]) -> list[str]:
    """Folders with more open types than they may have, and bounds that can be lowered."""
    faults: list[str] = []
    for folder, bound in most.items():
        inside = {path: count for path, count in uses.items() if path.startswith(f"{folder}/")}
        count = sum(inside.values())
        if count > bound:
            faults.append(f"{folder}: {count} times Any, at most {bound}: {inside}")
        elif count < bound - 5:
            faults.append(f"{folder}: {count} times Any: lower its bound")
    return faults


def test_types_are_said() -> None:
    """What a request, a command, a plan and an outcome are is said from queue to answer: `Any` is
    left to what JSON, probes and libraries without types carry."""
    uses = {
        str(path): count
        for path in MODULES
        if path.parts[1] != "_pb" and (count := uses_of_any((ROOT / path).read_text()))
    }
    assert faults_of_any(uses, ANY_MAX) == []
    typed = {f"svc_cluster/replica/{name}.py" for name in TYPED}
    assert typed <= {str(path) for path in MODULES}
    assert not uses.keys() & typed


def test_an_open_type_is_found_and_the_bounds_only_shrink() -> None:
    """By either name, in an annotation or a name for a type, one more and one less."""
    assert uses_of_any("def f(x: Any) -> dict[str, Any]: ...") == 2
    assert uses_of_any("import typing\nRows = list[typing.Any]") == 1
    assert uses_of_any("Anything = 1  # Any") == 0
    most = {"a": 8, "a/b": 6}
    assert faults_of_any({"a/x.py": 2, "a/b/y.py": 6, "ab/z.py": 9}, most) == []
    assert faults_of_any({"a/x.py": 1, "a/b/y.py": 7}, most) == [
        "a/b: 7 times Any, at most 6: {'a/b/y.py': 7}"
    ]
    assert faults_of_any({"a/x.py": 2, "a/b/y.py": 1}, most) == []
    assert faults_of_any({"a/x.py": 3}, most) == ["a/b: 0 times Any: lower its bound"]

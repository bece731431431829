"""The list of the tests that take long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import long_tests
from tests.reliability import ROOT

TIMES = {"a.py::test_one": 100.0, "a.py::test_two": 40.0, "b.py::test_three": 40.0, "b.py::x": 1.0}


def test_the_fewest_are_long_that_leave_the_others_time_enough() -> None:
    """The slowest first, and of equal ones the first by name."""
    assert long_tests.chosen(TIMES, 200) == {}
    assert long_tests.chosen(TIMES, 81) == {"a.py::test_one": 100.0}
    assert long_tests.chosen(TIMES, 80) == {"a.py::test_one": 100.0, "a.py::test_two": 40.0}


def test_what_is_written_is_what_is_listed(tmp_path: Path) -> None:
    """By name, so that a change of times moves no line."""
    many = {f"a.py::test_{number}": 100.0 for number in range(20)}
    path = tmp_path / "list.txt"
    long_tests.write(many, path)
    assert long_tests.listed(path) == {f"a.py::test_{n}": 100.0 for n in (0, 1, 10, 11, 12)}
    names = [line.partition(" ")[2] for line in path.read_text().splitlines() if line[0] != "#"]
    assert names == sorted(names)


def test_every_test_of_the_list_is_there() -> None:
    """Whoever renames one, or takes it away, changes the list too. Without any, `make test-long`
    would fail for want of tests."""
    assert long_tests.listed()
    for name in long_tests.listed():
        path, _, test = name.partition("::")
        text = (ROOT / path).read_text()
        assert re.search(rf"^\s*(async )?def {test.rpartition('::')[2]}\(", text, re.MULTILINE), (
            name
        )


def test_all_parameters_of_a_long_test_are_long(request: pytest.FixtureRequest) -> None:
    """The list has functions."""
    assert long_tests.function_of("a.py::test_one[b-1[2]]") == "a.py::test_one"
    assert all("[" not in name for name in long_tests.listed())
    assert request.node.get_closest_marker(long_tests.MARKER) is None

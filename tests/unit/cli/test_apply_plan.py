"""Files of declarations as `svc-cluster apply` reads them, and numbers as it plots them."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc_cluster.cli.data.apply_plan import read_declarations
from svc_cluster.cli.data.plot import columns, plot
from svc_cluster.client.client_errors import ClientError


def declared(path: Path, text: str) -> list[str]:
    path.write_text(text)
    found = read_declarations(path)
    return [basin.name for basin in found.basins] + [t.request.token_id for t in found.tokens]


def test_yaml_and_json_are_read_with_moments_as_text(tmp_path: Path) -> None:
    """A moment is one of the interface, not of YAML."""
    yaml = """
basins:
  - name: first-basin
    streams: [{name: a}]
access_tokens:
  - {id: t, secret_file: s, expires_at: 2030-01-01T00:00:00Z, scope: {ops: [append]}}
"""
    assert declared(tmp_path / "x", yaml) == ["first-basin", "t"]
    assert declared(tmp_path / "x", '{"basins":[{"name":"first-basin"}]}') == ["first-basin"]
    assert declared(tmp_path / "x", "") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("basins: [{name: BAD}]", r"basins\[0\]\.name"),
        ("basins: [{nam: first-basin}]", r"basins\[0\]"),
        ("basins: [", "is not YAML"),
        ("a: &x [1]\nb: *x", "aliases are not taken"),
        ("- 1", "x: "),
        ("basins: !!python/object/apply:os.system [id]", "is not YAML"),
        ("[" * 5000 + "]" * 5000, "x is not YAML: RecursionError"),
        ("{1: 2}", "x: "),
        ("#" * (1 << 20) + "# more", "has more than"),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, told: str
) -> None:
    """By its place; nothing is executed, and nothing stands for more than it is."""
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(ClientError, match=told) as refused:
        read_declarations(path)
    assert "\n" not in str(refused.value)


def test_numbers_become_columns_of_blocks() -> None:
    """The largest fills its column, the smallest is seen, nothing is blank; what does not fit is
    added up, or the largest of neighbours."""
    assert plot([0, 1, 50, 100], 1) == [" ▁▄█"]
    assert plot([0, 1, 50, 100], 2) == ["   █", " ▁██"]
    assert plot([0, 0], 2) == ["", ""]
    assert columns([1, 2, 3, 4, 5], 2, adds_up=True) == [6, 9]
    assert columns([1, 2, 3, 4, 5], 2, adds_up=False) == [3, 5]
    assert columns([1, 2], 80, adds_up=True) == [1, 2]

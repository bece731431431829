"""A stream's key is not repeated where it was given in the place of its file."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from svc_cluster.cli.data.stream_key_file import KEY_FILE_VARIABLE, stream_key
from svc_cluster.client.client_errors import ClientError

KEY = base64.b64encode(bytes(range(1, 33))).decode()


@pytest.mark.parametrize("by_option", [True, False])
def test_a_key_is_not_taken_for_the_name_of_its_file(by_option: bool) -> None:
    """Neither by the option nor by the variable."""
    with pytest.raises(ClientError) as refused:
        stream_key(Path(KEY) if by_option else None, {KEY_FILE_VARIABLE: KEY})
    assert str(refused.value).startswith("the key file looks like the secret itself")
    assert KEY not in str(refused.value) and refused.value.__cause__ is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"notes\.key cannot be read: No such file"):
        stream_key(tmp_path / "notes.key", {})

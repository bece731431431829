"""An object of a backup with a text that is not UTF-8 is damaged, and is told as such."""

from __future__ import annotations

import msgspec
import pytest

from svc_cluster.backup.backup_errors import DamagedError
from svc_cluster.backup.backup_manifest import FORMAT_VERSION, Manifest, compressed, decode


def test_text_that_is_no_text_is_damage() -> None:
    """Found by fuzzing: the decoder has another exception for it than for all else."""
    whole = msgspec.msgpack.encode({"format": FORMAT_VERSION, "vault_id": "text"})
    spoilt = whole.replace(b"text", b"te\xff\xff")
    with pytest.raises(DamagedError, match="the object is damaged"):
        decode("the object", compressed(spoilt), Manifest)

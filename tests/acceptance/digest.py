"""What a table of results is about: the bytes of a folder, whatever its history."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GATEWAY: Final = ROOT / "svc_cluster" / "gateway"


def digest(folder: Path) -> str:
    """16 hexadecimal digits over the names and bytes of every file below the folder that belongs
    to the program. The same in every checkout."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(folder).as_posix().encode()
            content = hashlib.sha256(path.read_bytes()).digest()
            total.update(len(name).to_bytes(4, "big") + name + content)
    return total.hexdigest()[:16]

"""docs/reliability/mutants.jsonl: of each mutant the last time it was caught."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.json_lines import read_rows, replace_rows
from tests.mutants.catalogue import Mutant
from tests.mutants.runner import Catch
from tests.reliability import commit


class Ledger:
    """One line a mutant. A digest that is not today's says that it must run again. The commit that
    is written is that of when the ledger was made: before the run, whose copies are of then."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._commit = commit()
        self._rows: dict[str, dict[str, Any]] = {row["name"]: row for row in read_rows(path)}

    def knows(self, mutant: Mutant) -> bool:
        """Whether it was caught as it is now, in the files of now."""
        row = self._rows.get(mutant.name)
        return row is not None and row["digest"] == mutant.digest(self._root)

    def write(self, everything: Sequence[Mutant], caught: Iterable[Catch]) -> None:
        """Renew the lines of `caught`; those of mutants that are no more go."""
        stamp = {"commit": self._commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        for catch in caught:
            mutant = catch.mutant
            self._rows[mutant.name] = stamp | {
                "name": mutant.name,
                "area": mutant.area,
                "rule": mutant.rule,
                "guard": list(mutant.guard),
                "caught_by": catch.by,
                "seconds": round(catch.seconds, 1),
                "digest": catch.digest,
            }
        replace_rows(
            self._path,
            (self._rows[mutant.name] for mutant in everything if mutant.name in self._rows),
        )
